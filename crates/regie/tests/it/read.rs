//! What can be read of a mission afterwards, and what a package brings along.

use crate::world::{MEND, World};

fn mended() -> World {
    let world = World::new(MEND);
    let said = world.ask(&["run", "Make the check pass", "--done", "sh check.sh", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    world
}

#[test]
fn costs_are_told_by_run_mission_day_and_model() {
    let world = mended();
    let run = world.ask(&["show", "last", "--json"]).json()["run"].clone();
    for by in ["run", "mission", "day", "model"] {
        let costs = world.ask(&["costs", "--by", by, "--json"]).json();
        assert_eq!(costs["by"], by);
        assert_eq!(costs["rows"].as_array().unwrap().len(), 1);
        assert_eq!(costs["total"]["nanodollars"], run["spent"]["nanodollars"], "{costs}");
        assert_eq!(costs["total"]["tokens"], run["spent"]["tokens"], "{costs}");
    }
    let shown = world.ask(&["costs"]);
    assert!(shown.out.starts_with("RUN "), "{}", shown.out);
    assert!(shown.out.contains("Make the check pass") && shown.out.contains("total"), "{}", shown.out);
    assert_eq!(world.ask(&["costs", "--by", "colour"]).code, Some(2));
}

#[test]
fn words_are_found_with_run_step_and_kind() {
    let world = mended();
    let found = world.ask(&["search", "change", "the sign"]);
    assert_eq!(found.code, Some(0), "{found:?}");
    let line = found.out.lines().next().unwrap();
    assert!(line.contains("answer") && line.contains("step ") && line.contains("change the sign"), "{line}");
    let hits = world.ask(&["search", "wrong", "--json"]).json();
    assert_eq!(hits[0]["kind"], "output");
    assert_eq!(hits[0]["excerpt"][0]["is_match"], true, "{hits}");
    let nothing = world.ask(&["search", "kwyjibo & %/?#\" OR"]);
    assert_eq!((nothing.code, nothing.err.as_str()), (Some(1), "nothing was found\n"), "{nothing:?}");
    std::fs::remove_file(world.home().join("index.db")).unwrap();
    assert_eq!(world.ask(&["serve", "--stop"]).code, Some(0));
    assert_eq!(world.ask(&["search", "change", "the sign"]).out, found.out);
}

#[test]
fn an_artifact_is_printed_as_it_is() {
    let world = mended();
    let events = world.events("last");
    let patch = events.iter().find_map(|event| event["content"]["patch"].as_str()).unwrap();
    let whole = world.ask(&["cat", patch]);
    assert!(whole.out.starts_with("diff --git a/sum.sh b/sum.sh\n"), "{whole:?}");
    assert_eq!(world.ask(&["cat", &patch[..12]]).out, whole.out);
    let none = world.ask(&["cat", "0123456789"]);
    assert_eq!((none.code, none.out.as_str()), (Some(1), ""), "{none:?}");
    assert!(none.err.contains("there is no artifact `0123456789…`"), "{none:?}");
}

#[test]
fn completions_and_man_pages_need_no_home() {
    let world = World::empty();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let said = world.ask(&["completions", shell]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.contains("regie") && said.out.contains("was-done"), "{shell}");
    }
    let dir = world.scratch().join("a/man");
    let said = world.ask(&["man", dir.to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for page in ["regie.1", "regie-run.1", "regie-gate-approve.1", "regie-say.1"] {
        let text = std::fs::read_to_string(dir.join(page)).unwrap();
        assert!(text.contains(".TH") && text.contains("regie"), "{page}");
    }
    std::fs::write(world.scratch().join("file"), "").unwrap();
    let said = world.ask(&["man", world.scratch().join("file").to_str().unwrap()]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(!world.home().exists());
}
