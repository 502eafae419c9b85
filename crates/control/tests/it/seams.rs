//! Where forks and follow-ups meet setups, sweeps, sums, and lines that move on.

use control::api::{Fork, Gate, Setup, StartMission};

use crate::world::{MODEL, World, git};

fn fork(world: &World, run: &str, at: Option<u64>) -> control::api::Started {
    let wanted = Fork { at, vendor: world.vendor(), ..Fork::default() };
    world.block(world.control().run_fork(run, wanted)).unwrap()
}

fn file(world: &World, run: &str, name: &str) -> String {
    std::fs::read_to_string(world.workspace(run).join(name)).unwrap_or_default()
}

fn paths(gate: &Gate) -> Vec<&str> {
    gate.files.iter().map(|file| file.path.as_str()).collect()
}

/// The files that a fork began with.
fn began_with(world: &World, run: &str) -> String {
    let events = world.block(world.control().run_events(run, 0, 1)).unwrap();
    let snapshot = events[0].fact["forked"]["snapshot"].as_str().unwrap().to_owned();
    git(world.tree().git_dir(), &["ls-tree", "-r", "--name-only", &snapshot])
}

fn setup() -> Option<Setup> {
    let command = "mkdir node_modules && echo dependency > node_modules/dep; echo noise > NOISE".into();
    Some(Setup { command, from: "regie.toml:1".into(), sees: Vec::new(), variables: String::new() })
}

/// Answers the gate of a setup and waits for the next one.
fn approve(world: &World, run: &str) -> Gate {
    let asked = world.gate(run);
    assert!(asked.title.contains("Set this project up"), "{}", asked.title);
    world.answer(&asked, "approve").unwrap();
    let next = world.until(run, |run| run.gates.first().is_some_and(|open| *open != asked.gate));
    world.block(world.control().gate_fetch(&next.gates[0])).unwrap()
}

/// Writes a lock file, and a note in the mission that follows.
const LOCKS: &str = r#"
[[scenario]]
name = "next"
heard = "Write a second note"
[[scenario.turn]]
text = "Never asked for."
[[scenario.turn]]
text = "Never asked for."
[[scenario.turn]]
[[scenario.turn.call]]
name = "shell"
input = { command = "cat package-lock.json node_modules/dep > SECOND" }
[[scenario.turn]]
text = "There are two notes."

[[scenario]]
name = "locks"
[[scenario.turn]]
[[scenario.turn.call]]
name = "shell"
input = { command = "echo '{}' > package-lock.json; cat node_modules/dep" }
[[scenario.turn]]
text = "It is locked."
"#;

fn locks(world: &World) -> StartMission {
    world.write("package.json", "{}\n");
    world.commit("A package");
    StartMission { done: vec!["true".into()], setup: setup(), ..world.mission() }
}

#[test]
fn a_fork_has_what_the_setup_made_and_says_when_it_is_gone() {
    let world = World::with(LOCKS);
    let parent = world.start(locks(&world)).unwrap().run;
    approve(&world, &parent);
    let kept = fork(&world, &parent, None);
    assert!(kept.environment.is_some() && kept.warnings.is_empty(), "{kept:?}");
    let gate = world.gate(&kept.run);
    assert_eq!(file(&world, &kept.run, "node_modules/dep"), "dependency\n");
    assert_eq!(paths(&gate), ["package-lock.json"], "it is no part of the proposal");
    let layout = world.layout();
    for cache in std::fs::read_dir(layout.home.join("cache")).unwrap() {
        std::fs::remove_dir_all(cache.unwrap().path().join("environments")).unwrap();
    }
    let bare = fork(&world, &parent, None);
    assert!(bare.environment.is_none(), "{bare:?}");
    assert!(bare.warnings.iter().any(|warning| warning.contains("is not kept")), "{bare:?}");
    assert_eq!(paths(&world.gate(&bare.run)), ["package-lock.json"]);
    assert_eq!(file(&world, &bare.run, "node_modules/dep"), "");
    // A fork of the fork that has it has it from nowhere else.
    let again = fork(&world, &kept.run, None);
    assert!(again.warnings.iter().any(|warning| warning.contains("is not kept")), "{again:?}");
}

#[test]
fn the_setup_of_a_follow_up_goes_by_the_files_that_it_goes_on_from_and_keeps_them() {
    let world = World::with(LOCKS);
    let parent = world.start(locks(&world)).unwrap();
    let gate = approve(&world, &parent.run);
    world.answer(&gate, "refuse").unwrap();
    world.ended(&parent.run);
    let follow = |answer: &str| {
        let mission = StartMission {
            goal: "Write a second note".into(),
            follow: Some(parent.run.clone()),
            setup: setup(),
            done: vec!["test -e SECOND".into()],
            ..world.mission()
        };
        let run = world.start(mission).unwrap();
        let (first, second) = (parent.environment.as_ref().unwrap(), run.environment.as_ref().unwrap());
        assert_ne!(first.hash, second.hash, "there is a lock file now");
        if second.kept {
            return (run.run.clone(), world.gate(&run.run));
        }
        let asked = world.gate(&run.run);
        assert!(asked.title.contains("Set this project up"), "{}", asked.title);
        world.answer(&asked, answer).unwrap();
        let next = world.until(&run.run, |run| run.gates.first().is_some_and(|open| *open != asked.gate));
        (run.run, world.block(world.control().gate_fetch(&next.gates[0])).unwrap())
    };
    for (answer, second) in
        [("refuse", "{}\n"), ("approve", "{}\ndependency\n"), ("never", "{}\ndependency\n")]
    {
        let (run, gate) = follow(answer);
        assert_eq!(paths(&gate), ["SECOND", "package-lock.json"], "{answer}");
        assert_eq!(file(&world, &run, "SECOND"), second, "{answer}");
    }
}

#[test]
fn a_fork_at_a_point_before_the_line_came_in_has_none_of_it() {
    let world = World::new();
    let (note, other) = world.asked(world.note());
    let begun = world.daemon().bare.lines().len();
    world.daemon().bare.hold();
    let parent = world.start(world.mission()).unwrap().run;
    world.block(world.daemon().bare.started(begun + 1));
    world.answer(&other, "approve").unwrap();
    world.ended(&note);
    world.daemon().bare.release();
    let gate = world.gate(&parent);
    assert_eq!((file(&world, &parent, "NOTE").as_str(), paths(&gate)), ("noted\n", vec!["sum.sh"]));
    // Step 3 is the agent's last answer; the checkpoint after it has followed the line.
    let before = fork(&world, &parent, Some(3));
    assert!(!began_with(&world, &before.run).contains("NOTE"));
    assert_eq!(paths(&world.gate(&before.run)), ["sum.sh"]);
    let after = fork(&world, &parent, Some(4));
    assert!(began_with(&world, &after.run).contains("NOTE"));
    assert_ne!(after.base, before.base, "what others have merged is none of its changes");
    let gate = world.gate(&after.run);
    assert_eq!(paths(&gate), ["sum.sh"]);
    let own = git(
        world.tree().git_dir(),
        &["diff", "--name-only", &after.base, gate.request["head"].as_str().unwrap()],
    );
    assert_eq!(own, "sum.sh");
}

#[test]
fn a_conflict_that_was_told_is_resolved_once_in_a_fork_too() {
    let resolve = "printf 'echo \"$(($1+$2))\"\\n' > sum.sh";
    let world = World::with(&format!(
        "{MODEL}\n[[scenario.turn]]\n[[scenario.turn.call]]\nname = \"shell\"\ninput = {{ command = {resolve:?} }}\n\
         [[scenario.turn]]\ntext = \"Both are in.\"\n"
    ));
    let (parent, gate) = world.asked(world.mission());
    world.write("sum.sh", "echo \"$(($1-$2))\"\n");
    world.commit("The owner quotes it");
    let (other, second) = world.asked(world.note());
    world.answer(&second, "approve").unwrap();
    world.ended(&other);
    world.answer(&gate, "approve").unwrap();
    let asked = world.until(&parent, |run| run.gates.first().is_some_and(|open| *open != gate.gate));
    assert_eq!(asked.status, "waiting");
    let events = world.block(world.control().run_events(&parent, 0, 1000)).unwrap();
    let told = events.iter().find(|event| event.content["conflicts"][0] == "sum.sh").unwrap();
    let requests = world.model_requests().len();
    let run = fork(&world, &parent, told.fact["step"].as_u64());
    let gate = world.gate(&run.run);
    assert_eq!(world.model_requests().len() - requests, 2, "it is not asked to resolve it again");
    assert_eq!(paths(&gate), ["sum.sh"]);
    world.answer(&gate, "approve").unwrap();
    let (end, reason) = world.ended(&run.run);
    assert_eq!(end, "done", "{reason}");
    assert_eq!(world.git(&["show", "HEAD:sum.sh"]), "echo \"$(($1+$2))\"");
}

/// Takes away all that may go of what is over.
fn sweep(world: &World) {
    let order = control::keep::view::Sweep {
        dry_run: false,
        older_than: 0,
        caches: u64::MAX,
        branches: None,
        bin: None,
    };
    let swept = world.block(world.control().sweep(order)).unwrap();
    assert!(swept.items.iter().any(|item| item.what == "workspace" && item.goes), "{swept:?}");
}

#[test]
fn what_was_swept_can_be_forked_followed_shown_and_taken_back() {
    let world = World::new();
    let (merged, gate) = world.asked(world.mission());
    world.answer(&gate, "approve").unwrap();
    world.ended(&merged);
    let (cut, gate) = world.asked(StartMission { done: vec!["true".into()], ..world.note() });
    let diff = world.block(world.control().run_diff(&cut)).unwrap();
    world.answer(&gate, "refuse").unwrap();
    world.ended(&cut);
    sweep(&world);
    assert!(!world.workspace(&cut).exists() && !world.workspace(&merged).exists());

    assert_eq!(world.block(world.control().run_diff(&cut)).unwrap().files, diff.files);
    for at in [None, Some(1), Some(2)] {
        let run = fork(&world, &cut, at).run;
        assert_eq!(paths(&world.gate(&run)), ["NOTE"], "{at:?}");
    }
    let follow = StartMission { follow: Some(cut.clone()), done: vec!["true".into()], ..world.note() };
    let run = world.start(follow).unwrap().run;
    assert_eq!(paths(&world.gate(&run)), ["NOTE"]);
    world.block(world.control().run_undo(&merged)).unwrap();
    assert_eq!(world.git(&["show", "HEAD:sum.sh"]), "echo $(($1 - $2))");
}

#[test]
fn the_sum_of_a_mission_includes_its_forks() {
    let world = World::new();
    let (parent, _) = world.asked(world.mission());
    let run = fork(&world, &parent, Some(1)).run;
    world.gate(&run);
    let costs = |by| world.block(world.control().costs(by)).unwrap();
    let (missions, runs) = (costs(control::api::By::Mission), costs(control::api::By::Run));
    assert_eq!((missions.rows.len(), runs.rows.len()), (1, 2));
    assert_eq!(missions.rows[0].tokens, runs.rows.iter().map(|row| row.tokens).sum::<u64>());
    assert!(runs.rows.iter().all(|row| row.tokens > 0), "{runs:?}");
}

#[test]
fn what_the_owner_is_told_of_holds_no_word_of_the_agent() {
    let turn = "[[scenario.turn]]\n[[scenario.turn.call]]\nname = \"shell\"\n\
                input = { command = \"true leaked\" }\n";
    let world = World::with(&format!("[[scenario]]\nname = \"loops\"\n{}", turn.repeat(9)));
    let run = world.start(StartMission { setup: setup(), ..world.mission() }).unwrap().run;
    let asked = world.gate(&run);
    world.answer(&asked, "refuse").unwrap();
    let rests = world.until(&run, |run| run.status == "parked");
    assert_eq!(rests.code.as_deref(), Some("run.stalled"));
    assert!(rests.reason.unwrap().contains("leaked"), "the run itself says what it repeats");
    let told = world.block(world.control().notifications_after(0, 1_000)).unwrap().notifications;
    let told: Vec<_> = told.into_iter().map(|(_, one)| one).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0].title, "Set this project up, with the network of this machine?");
    assert_eq!(
        (told[1].event.as_str(), told[1].title.as_str()),
        ("parked", "The run rests: the agent repeats itself")
    );
    assert!(told[1].body.contains("regie say") && told[1].body.contains("regie resume"), "{told:?}");
    assert!(told.iter().all(|one| !format!("{one:?}").contains("leaked")), "{told:?}");
}

/// Defines done by a command that leaves something behind each time, then mends the sum.
const DEFINES: &str = r#"
[[scenario]]
name = "defines"
[[scenario.turn]]
[[scenario.turn.call]]
name = "define_done"
input = { criteria = [{ command = "echo x >> LEFT; echo broken > right.sh; sh check.sh", why = "the sums" }, { command = "sh check.sh", why = "again" }] }
[[scenario.turn]]
[[scenario.turn.call]]
name = "shell"
input = { command = "cat LEFT; cp right.sh sum.sh" }
[[scenario.turn]]
text = "It adds now."
"#;

#[test]
fn what_a_trial_leaves_is_gone_before_the_work_also_in_a_fork_and_after_a_crash() {
    let mut world = World::with(DEFINES);
    world.daemon().bare.hold();
    let parent = world.start(StartMission { done: Vec::new(), ..world.mission() }).unwrap().run;
    world.block(world.daemon().bare.started(1));
    assert_eq!(file(&world, &parent, "right.sh"), "broken\n");
    world.restart();
    let resume = control::api::Resume { vendor: world.vendor(), record: None };
    if world.until(&parent, |run| run.status != "active").status == "parked" {
        world.block(world.control().run_resume(&parent, resume)).unwrap();
    }
    let check = |gate: &Gate| {
        assert_eq!(paths(gate), ["sum.sh"]);
        let told = gate.checks.join(" ");
        assert_eq!(told.matches("failed before").count(), 2, "{told}");
    };
    let gate = world.gate(&parent);
    check(&gate);
    // Steps: 1 the model, 2 and 3 the trial.
    for at in [1, 2, 3] {
        let run = fork(&world, &parent, Some(at)).run;
        let gate = world.gate(&run);
        check(&gate);
        assert_eq!(file(&world, &run, "sum.sh"), "echo $(($1 + $2))\n");
    }
    assert!(world.block(world.control().audit_verify()).unwrap().intact);
}

#[test]
fn a_fork_has_what_the_owner_brings_along_and_the_conversation_s_repetitions_begin_anew() {
    let turn = "[[scenario.turn]]\n[[scenario.turn.call]]\nname = \"shell\"\n\
                input = { command = \"test -f .env\" }\n";
    let world = World::with(&format!("[[scenario]]\nname = \"loops\"\n{}", turn.repeat(12)));
    world.write(".gitignore", ".env\n");
    world.write(".worktreeinclude", ".env\n");
    world.commit("Rules");
    world.write(".env", "KEY=1\n");
    let parent = world.start(world.mission()).unwrap().run;
    assert_eq!(world.until(&parent, |run| run.status == "parked").code.as_deref(), Some("run.stalled"));
    let calls = |run: &str| world.facts(run).iter().filter(|fact| **fact == "step_completed").count();
    let of_parent = calls(&parent);
    let run = fork(&world, &parent, None);
    assert_eq!(file(&world, &run.run, ".env"), "KEY=1\n");
    assert_eq!(world.until(&run.run, |run| run.status == "parked").code.as_deref(), Some("run.stalled"));
    assert_eq!(calls(&run.run), of_parent, "it is told first, and as late");
}

#[test]
fn a_crash_in_a_criterion_keeps_what_came_in_before_it() {
    let mut world = World::new();
    let (note, other) = world.asked(world.note());
    let begun = world.daemon().bare.lines().len();
    world.daemon().bare.hold();
    let run = world.start(world.mission()).unwrap().run;
    world.block(world.daemon().bare.started(begun + 1));
    world.answer(&other, "approve").unwrap();
    world.ended(&note);
    world.daemon().bare.release();
    world.daemon().bare.hold();
    world.block(world.daemon().bare.started(begun + 2));
    assert_eq!(file(&world, &run, "NOTE"), "noted\n", "the criterion runs on the line as it is");
    world.restart();
    let gate = world.gate(&run);
    let events = world.block(world.control().run_events(&run, 0, 1_000)).unwrap();
    assert!(events.iter().any(|event| event.fact["fact"] == "workspace_restored"));
    assert_eq!((file(&world, &run, "NOTE").as_str(), paths(&gate)), ("noted\n", vec!["sum.sh"]));
}
