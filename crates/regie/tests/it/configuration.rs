//! `regie.toml`, `config.toml`, the environment and options: who is heard, and what is refused.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::world::{MEND, Said, World, finish};

/// A mission that runs to its merge, held to what the files say.
const RUN: [&str; 3] = ["run", "Make the check pass", "--yes"];

fn project_file(world: &World, text: &str) {
    std::fs::write(world.project().join("regie.toml"), text).unwrap();
}

fn owners_file(world: &World, text: &str) {
    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::set_permissions(world.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(world.home().join("config.toml"), text).unwrap();
}

/// What holds for a key, and where it comes from.
#[track_caller]
fn explained(said: &Said, key: &str) -> (Value, Value) {
    assert_eq!(said.code, Some(0), "{said:?}");
    let document = said.json();
    let keys = document["keys"].as_array().unwrap();
    let found = keys.iter().find(|found| found["key"] == key).unwrap_or_else(|| panic!("no {key}"));
    (found["value"].clone(), found["from"].clone())
}

/// The caps on record of the last run.
fn caps(world: &World) -> Value {
    world.events("last")[0]["fact"]["caps"].clone()
}

#[test]
fn criteria_come_from_the_project_and_the_header_says_so() {
    let world = World::new(MEND);
    project_file(&world, "[mission]\ndone = [\"sh check.sh\"]\n");
    let said = world.ask(&RUN);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("sh check.sh exits with 0 · regie.toml:2"), "{}", said.err);
    let started = &world.events("last")[0]["content"];
    assert_eq!(started["done"][0]["command"], "sh check.sh", "{started}");
    world.is_whole();
}

#[test]
fn a_criterion_of_the_project_keeps_a_mission_from_being_done() {
    let world = World::new(MEND);
    project_file(&world, "[mission]\ndone = [\"false\"]\nmax_turns = 8\n");
    let said = world.ask(&RUN);
    assert!(said.code.is_some_and(|code| code != 0), "{said:?}");
    assert!(!said.out.contains("✓ done"), "{}", said.out);
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 - $2))\n");
}

#[test]
fn an_option_takes_the_place_of_the_criteria_in_the_file() {
    let world = World::new(MEND);
    project_file(&world, "[mission]\ndone = [\"false\"]\n");
    let said = world.ask(&[&RUN[..], &["--done", "sh check.sh"]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("sh check.sh exits with 0 · --done"), "{}", said.err);
}

#[test]
fn without_criteria_the_header_and_the_gate_say_so() {
    // Twice it is asked for a definition of done, and gives none.
    let still = "\n[[turn]]\ntext = \"It is right.\"\n".repeat(2);
    let world = World::new(&format!("{MEND}{still}"));
    let said = world.ask(&["run", "Make the check pass"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("the agent proposes it"), "{}", said.err);
    assert!(said.err.contains("nothing was checked"), "{}", said.err);
}

#[test]
fn a_repository_lowers_caps_and_never_raises_them() {
    let world = World::new(MEND);
    owners_file(&world, "[mission]\nmax_turns = 50\n");
    project_file(
        &world,
        "[mission]\ndone = [\"sh check.sh\"]\nmax_dollars = 1.75\nmax_turns = 51\nmax_tokens = 4_000_000\n",
    );
    let said = world.ask(&RUN);
    assert_eq!(said.code, Some(0), "{said:?}");
    let greedy = "warning: regie.toml:4 asks for 51 of `mission.max_turns`; a repository can only lower it, so 50 holds";
    assert!(said.err.contains(greedy), "{}", said.err);
    let held = caps(&world);
    assert_eq!((&held["nanodollars"], &held["turns"]), (&1_750_000_000_u64.into(), &50.into()), "{held}");
    assert_eq!((&held["tokens"], &held["millis"]), (&4_000_000.into(), &7_200_000.into()), "{held}");
}

#[test]
fn options_beat_the_environment_and_the_environment_beats_files() {
    let world = World::new(MEND);
    owners_file(&world, "[mission]\nmax_turns = 50\n");
    project_file(&world, "[mission]\ndone = [\"sh check.sh\"]\nmax_turns = 40\nmax_dollars = 0.25\n");
    let mut command = world.regie(&[&RUN[..], &["--max-turns", "70"]].concat());
    command.env("REGIE_MAX_TURNS", "60").env("REGIE_MAX_DOLLARS", "3");
    let said = finish(command);
    assert_eq!(said.code, Some(0), "{said:?}");
    let held = caps(&world);
    assert_eq!((&held["turns"], &held["nanodollars"]), (&70.into(), &3_000_000_000_u64.into()), "{held}");

    let mut command = world.regie(&["config", "explain", "--json"]);
    command.env("REGIE_MAX_TURNS", "60");
    let said = finish(command);
    let (value, from) = explained(&said, "mission.max_turns");
    assert_eq!((value, from["name"].as_str()), (60.into(), Some("REGIE_MAX_TURNS")));
    let (value, from) = explained(&said, "mission.max_dollars");
    assert_eq!((value, &from["kind"], &from["line"]), (250_000_000.into(), &"project".into(), &4.into()));
    let (value, from) = explained(&said, "day.max_dollars");
    assert_eq!((value, from["kind"].as_str()), (10_000_000_000_u64.into(), Some("built_in")));
    let shown = world.ask(&["config", "explain"]);
    assert!(shown.flat().contains("mission.max_turns 40 regie.toml:3"), "{}", shown.out);
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_one() {
    let world = World::new(MEND);
    project_file(&world, "# A comment\n[mission]\nmax_dolars = 1\n");
    let place = world.project().canonicalize().unwrap().join("regie.toml");
    for args in [&RUN[..], &["config", "explain"]] {
        let said = world.ask(args);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
        assert_eq!(
            said.err,
            format!(
                "error: {}:3: there is no key `mission.max_dolars`\n\
                 hint: did you mean `mission.max_dollars`? `regie config explain` lists all keys\n",
                place.display()
            )
        );
    }
    assert!(!world.home().exists(), "nothing has begun");
}

#[test]
fn a_repository_cannot_set_what_is_the_owners() {
    let world = World::new(MEND);
    project_file(&world, "[day]\nmax_dollars = 1000\n");
    let said = world.ask(&RUN);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("regie.toml:2: `day.max_dollars` does not belong here"), "{}", said.err);
    project_file(&world, "[mission]\nmodel = \"mystery-9\"\n");
    let said = world.ask(&RUN);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("regie.toml:2: the price of the model `mystery-9` is unknown"), "{}", said.err);
}

#[test]
fn the_cap_of_the_day_is_the_owners_and_counts_at_once() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&["runs"]).code, Some(0), "a daemon runs before the file is written");
    owners_file(&world, "[day]\nmax_dollars = 0\n");
    let said = world.ask(&[&RUN[..], &["--model", "claude-haiku-5-5"]].concat());
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(said.err.contains("dollars per day") || said.out.contains("dollars per day"), "{said:?}");
    assert!(said.err.contains("regie config explain"), "{}", said.err);
    assert!(world.asked().is_empty(), "nothing was spent");
}

#[test]
fn no_daemon_starts_under_a_cap_that_nobody_set() {
    let world = World::new(MEND);
    owners_file(&world, "[day]\nmax_dolars = 1\n");
    let said = world.ask(&["runs"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("config.toml:2: there is no key `day.max_dolars`"), "{}", said.err);
}
