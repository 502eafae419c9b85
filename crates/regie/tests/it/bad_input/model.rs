//! A model that refuses, stops too early, or says that it has finished when it has not.

use crate::world::{MEND, World};

use super::{mended, start, told};

#[test]
fn a_refusal_ends_the_run_as_blocked() {
    let world = World::new("[[turn]]\ntext = \"I will not do that.\"\nstop = \"refusal\"\n");
    let said = world.ask(&super::with(&["--yes"]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("✗ blocked"), "{said:?}");
    assert!(said.flat().contains("refuses to go on") && said.flat().contains("other words"), "{said:?}");
    world.is_whole();
}

#[test]
fn an_answer_cut_at_the_output_limit_is_gone_on_with() {
    let world = World::new(&format!(
        "[[turn]]\ntext = \"I look at\"\nstop = \"max_tokens\"\n{}",
        MEND.replacen("name = \"mend\"", "", 1)
    ));
    mended(&world);
    assert!(told(&world.asked()[1]).contains("cut at the output limit"), "{}", world.asked()[1]);
}

#[test]
fn answers_that_are_always_cut_end_as_blocked() {
    let world = World::new(&"[[turn]]\ntext = \"And\"\nstop = \"max_tokens\"\n".repeat(9));
    let run = start(&world, &["--yes"]);
    let ended = world.ended(&run);
    assert_eq!(ended.end, "blocked", "{ended:?}");
    assert!(ended.reason.contains("incomplete 4 times in a row"), "{ended:?}");
    assert_eq!(world.asked().len(), 4);
    world.is_whole();
}

#[test]
fn a_call_cut_at_the_output_limit_is_not_made() {
    let cut = "[[turn]]\nstop = \"max_tokens\"\n[[turn.call]]\nname = \"write\"\njson = '{\"path\": \"half\", \"content\": \"ha'\n";
    let world = World::new(&format!("{cut}{}", MEND.replacen("name = \"mend\"", "", 1)));
    mended(&world);
    let results = super::results(&world.asked()[1]);
    assert!(matches!(results.as_slice(), [(true, _)]), "{results:?}");
    assert!(!world.project().join("half").exists());
}

#[test]
fn a_verdict_that_fails_sends_the_model_back_with_its_output() {
    let early = "[[turn]]\ntext = \"It is done.\"\n";
    let world = World::new(&format!("{early}{}", MEND.replacen("name = \"mend\"", "", 1)));
    mended(&world);
    let told = told(&world.asked()[1]);
    for part in ["Not done yet", "`sh check.sh`: exit code 1", "wrong"] {
        assert!(told.contains(part), "no `{part}`: {told}");
    }
}

#[test]
fn a_verdict_that_never_passes_ends_the_run() {
    let world = World::new(&"[[turn]]\ntext = \"It is done.\"\n".repeat(9));
    let before = world.git(&["rev-parse", "main"]).stdout;
    let said = world.ask(&super::with(&["--yes"]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("✗ blocked"), "{said:?}");
    assert!(said.flat().contains("`sh check.sh` (exit code 1)"), "{said:?}");
    let asked = world.asked();
    assert_eq!(asked.len(), 4);
    assert!(told(&asked[3]).contains("make a new plan"), "{}", told(&asked[3]));
    assert_eq!(world.git(&["rev-parse", "main"]).stdout, before);
    world.is_whole();
}

#[test]
fn a_model_that_writes_its_calls_as_text_is_told_once_and_then_blocked() {
    let as_text = "[[turn]]\ntext = '<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"touch ran\"}}</tool_call>'\n";
    let world = World::new(&as_text.repeat(3));
    let run = start(&world, &["--yes"]);
    let ended = world.ended(&run);
    assert_eq!(ended.end, "blocked", "{ended:?}");
    assert!(
        ended.reason.contains("--tool-call-parser") && ended.reason.contains("a model that can"),
        "{ended:?}"
    );
    let asked = world.asked();
    assert_eq!(asked.len(), 2);
    assert!(told(&asked[1]).contains("holds a call of `shell` as text"), "{}", told(&asked[1]));
    assert!(!world.workspace(&run).join("ran").exists());
    world.is_whole();
}

#[test]
fn a_reason_to_stop_that_nobody_knows_is_shown_and_ends_the_turn() {
    let novel = MEND.rsplit_once("[[turn]]").unwrap();
    let world = World::new(&format!("{}[[turn]]\nstop = \"novel\"{}", novel.0, novel.1));
    mended(&world);
    let shown = world.ask(&["show", "last"]);
    assert!(shown.flat().contains("a reason that Regie does not know: `novel`"), "{shown:?}");
}
