//! Machines that lack a part of the jail, one part after the other: no mission, one line that says what is missing
//! and how to mend it, and a doctor that shows it; or, where the owner asked for that, a mission whose every view
//! says that no jail held it.

use crate::world::{Said, World, finish};

/// What is lacking, the check of the doctor that fails, and what its mend speaks of.
const PARTS: [(&str, &str, &str); 7] = [
    ("user-namespaces", "jail.rehearsal", "user namespaces"),
    ("mounts", "jail.rehearsal", "container"),
    ("proc", "jail.rehearsal", "whole /proc"),
    ("landlock", "jail.landlock", "lsm="),
    ("landlock-abi=1", "jail.landlock", "Linux 5.19"),
    ("seccomp", "jail.seccomp", "CONFIG_SECCOMP_FILTER"),
    ("pidfd", "jail.rehearsal", "Linux 5.19"),
];

const SCENARIO: &str = r#"
[[turn]]
[[turn.call]]
name = "shell"
json = "{\"command\": \"echo made > made; echo it ran\"}"

[[turn]]
[[turn.call]]
name = "read"
json = "{\"path\": \"made\"}"

[[turn]]
text = "Done."
"#;

fn lacking(world: &World, what: &str, args: &[&str]) -> Said {
    let mut command = world.regie(args);
    command.env("REGIE_JAIL_LACKS", what);
    finish(command)
}

#[test]
fn without_a_part_of_the_jail_no_mission_begins() {
    for (what, id, mending) in PARTS {
        let world = World::new(SCENARIO);
        let said = lacking(&world, what, &["run", "Make it", "--done", "true", "--yes"]);
        assert_eq!(said.code, Some(1), "{what}: {said:?}");
        let errors: Vec<&str> = said.err.lines().filter(|line| line.contains("error:")).collect();
        assert_eq!(errors.len(), 1, "{what}: {said:?}");
        assert!(errors[0].contains("this machine cannot jail steps: "), "{what}: {said:?}");
        assert!(said.err.contains("regie doctor"), "{what}: {said:?}");
        assert!(world.asked().is_empty() && !world.project().join("made").exists());

        let found = lacking(&world, what, &["doctor", "--json"]);
        assert_eq!(found.code, Some(1), "{what}");
        let found = found.json();
        let checks = found["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["id"] == id).unwrap();
        assert_eq!(check["status"], "fail", "{what}: {check}");
        let mend = check["mend"].as_str().unwrap();
        // On a machine that restricts namespaces in earnest the mend is that one.
        assert!(mend.contains(mending) || what == "user-namespaces", "{what}: {mend}");
        let proof = checks.iter().find(|check| check["id"] == "jail.proof").unwrap();
        assert_eq!(proof["status"], "fail", "{what}");

        let said = lacking(
            &world,
            what,
            &["sandbox", "run", "--cwd", "/tmp", "--read", "/usr", "--", "echo", "ran"],
        );
        assert_eq!((said.code, said.out.as_str()), (Some(125), ""), "{what}: {said:?}");
        assert!(said.err.contains("nothing was started"), "{what}: {said:?}");
    }
}

#[test]
fn what_no_jail_held_says_so_wherever_it_is_shown() {
    for what in ["user-namespaces", "landlock", "seccomp"] {
        let world = World::new(SCENARIO);
        let asked = ["run", "Make it", "--done", "true", "--yes", "--allow-unjailed"];
        let said = lacking(&world, what, &asked);
        assert_eq!(said.code, Some(0), "{what}: {said:?}");
        assert!(said.err.contains("NOT jailed"), "{what}: {said:?}");
        // In the live view, of each step: command, file tool, criterion.
        assert!(said.err.matches(" no jail · ").count() >= 3, "{what}: {said:?}");
        let events = world.events("last");
        let jails: Vec<_> = events
            .iter()
            .filter(|event| event["fact"]["fact"] == "step_completed" && event["content"]["jail"].is_object())
            .collect();
        assert!(jails.len() >= 3, "command, file tool and criterion: {what}");
        for event in jails {
            assert_eq!(event["content"]["jail"]["state"], "degraded", "{what}: {event}");
            let text = event["content"]["text"].as_str().unwrap();
            assert!(text.starts_with("[warning: this step ran without a jail"), "{what}: {text}");
            assert!(event["line"]["title"].as_str().unwrap().contains("no jail"), "{what}: {event}");
        }
        let shown = world.ask(&["show", "last"]).flat();
        assert!(shown.contains("jail did NOT hold ") && shown.contains("no jail: "), "{what}: {shown}");
        assert!(world.ask(&["log", "last"]).out.contains("jail=degraded"), "{what}");
    }
    let world = World::new(SCENARIO);
    assert_eq!(world.ask(&["run", "Make it", "--done", "true", "--yes", "--allow-unjailed"]).code, Some(0));
    let shown = world.ask(&["show", "last"]).flat();
    assert!(shown.contains("jail held ") && !shown.contains("NOT"), "{shown}");
}
