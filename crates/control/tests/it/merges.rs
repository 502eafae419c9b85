//! Merges and deliveries: exactly what was shown, and only what was merged.

use std::sync::{Arc, mpsc};

use bytes::Bytes;
use control::api::StartMission;
use domain::{Digest, Effect, Outcome, StepKind, StepNo};
use engine::host::{DeliverRequest, Delivered, HostFailure};
use kernel::Input;
use kernel::port::{Executor as _, Finished, Inbox, Work};
use store::Treeish as _;

use crate::world::{World, git};

struct Post(mpsc::Sender<Input>);

impl Inbox for Post {
    fn send(&self, input: Input) {
        let _ = self.0.send(input);
    }
}

/// Has the host deliver a commit, as a step of the run would.
fn deliver(world: &World, run: &str, commit: &str) -> Finished {
    let run = run.parse().unwrap();
    let request = DeliverRequest { commit: commit.into(), line: "main".into() };
    let work = Work {
        run,
        step: StepNo(99),
        attempt: 1,
        key: Work::key_of(run, StepNo(99)),
        fence: 1,
        kind: StepKind::ToolCall,
        effect: Effect::IdempotentWrite,
        tool: engine::host::DELIVER.into(),
        request: Bytes::from(serde_json::to_vec(&request).unwrap()),
        timeout: 60_000,
    };
    let (sender, answers) = mpsc::channel();
    let executor = world.host_executor();
    world.block(async {
        executor.start(work, Arc::new(Post(sender)));
        let answer = tokio::task::spawn_blocking(move || answers.recv().unwrap()).await.unwrap();
        match answer {
            Input::Finished(_, _, finished) => finished,
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn only_what_is_on_regies_line_is_delivered() {
    let world = World::new();
    let before = world.git(&["rev-parse", "HEAD"]);
    let (run, gate) = world.asked(world.mission());
    let proposed = gate.request["head"].as_str().unwrap();
    for commit in [proposed, &"d".repeat(40)] {
        let refused = deliver(&world, &run, commit);
        assert_eq!(refused.outcome, Outcome::Failed);
        let failure: HostFailure = serde_json::from_slice(&refused.payload.0).unwrap();
        assert!(matches!(failure.code.as_str(), "store.not_merged" | "store.failed"), "{failure:?}");
    }
    assert_eq!(world.git(&["rev-parse", "HEAD"]), before);
    world.answer(&gate, "approve").unwrap();
    world.ended(&run);
    let line = world.tree().line_head("main").unwrap().unwrap();
    assert_eq!(world.git(&["rev-parse", "HEAD"]), line.hex());
    let again: Delivered = serde_json::from_slice(&deliver(&world, &run, line.hex()).payload.0).unwrap();
    assert_eq!(again, Delivered::AlreadyThere);
}

#[test]
fn what_was_shown_is_merged_even_when_the_branch_has_moved() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    let shown = gate.request["head"].as_str().unwrap().to_owned();
    // Something else comes to the branch while the owner looks.
    let tree = world.tree();
    let dir = tree.git_dir().to_owned();
    let evil = git(&dir, &["commit-tree", &format!("{shown}^{{tree}}"), "-p", &shown, "-m", "Not shown"]);
    git(&dir, &["update-ref", &format!("refs/heads/coder/{run}"), &evil]);
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
    assert_eq!(world.git(&["rev-parse", "HEAD^2"]), shown);
}

#[test]
fn a_merge_approved_in_advance_asks_nobody() {
    let world = World::new();
    let run = world.start(StartMission { approve_merge: true, ..world.mission() }).unwrap().run;
    assert_eq!(world.ended(&run).0, "done");
    assert_eq!(world.git(&["show", "HEAD:sum.sh"]), "echo $(($1 + $2))");
    assert!(!world.facts(&run).contains(&"gate_opened"));
}

#[test]
fn a_line_that_another_mission_moved_is_asked_about_anew() {
    let world = World::new();
    let (mend, stale) = world.asked(world.mission());
    let (note, other) = world.asked(note(&world));
    world.answer(&other, "approve").unwrap();
    assert_eq!(world.ended(&note).0, "done");

    world.answer(&stale, "approve").unwrap();
    let fresh = world.until(&mend, |run| run.status != "active" && run.gates != [stale.gate.clone()]);
    assert_eq!(fresh.status, "waiting", "{fresh:?}");
    let fresh = world.gate(&mend);
    assert_ne!(fresh.action, stale.action, "it is another action");
    assert_eq!(fresh.files, stale.files, "neither what the criterion left nor what the other brought");
    let (head, shown) = (fresh.request["head"].as_str().unwrap(), stale.request["head"].as_str().unwrap());
    let dir = world.tree().git_dir().to_owned();
    assert_eq!(git(&dir, &["rev-parse", &format!("{head}^1")]), shown, "the same commit, on the line");
    assert_eq!(git(&dir, &["show", &format!("{head}:NOTE")]), "noted", "what was judged is what is merged");
    assert_eq!(std::fs::read_to_string(world.workspace(&mend).join("NOTE")).unwrap(), "noted\n");
    let line = world.tree().line_head("main").unwrap().unwrap();
    assert_eq!(fresh.request["expected_line_head"], line.hex());
    world.answer(&fresh, "approve").unwrap();
    let (end, reason) = world.ended(&mend);
    assert_eq!(end, "done", "{reason}");
    assert_eq!(world.git(&["show", "HEAD:NOTE"]), "noted");
    assert_eq!(world.git(&["show", "HEAD:sum.sh"]), "echo $(($1 + $2))");
    assert!(!world.git(&["ls-tree", "--name-only", "HEAD"]).contains("left-over"));
}

#[test]
fn what_nothing_has_checked_asks_also_when_merges_were_approved_in_advance() {
    let mut world = World::new();
    let run = world.start(StartMission { approve_merge: true, ..world.note() }).unwrap().run;
    let gate = world.gate(&run);
    let why = gate.reason.clone().unwrap();
    assert!(why.contains("--yes") && why.contains("nothing was checked"), "{why}");
    world.restart();
    assert_eq!(world.gate(&run).gate, gate.gate, "it asks on");
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
}

#[test]
fn missions_approved_in_advance_all_come_to_their_merges() {
    let world = World::new();
    let yes = |mission| StartMission { approve_merge: true, ..mission };
    let runs = [world.start(yes(world.mission())).unwrap().run, world.start(yes(note(&world))).unwrap().run];
    for run in &runs {
        let (end, reason) = world.ended(run);
        assert_eq!(end, "done", "{reason}");
    }
    let line = world.tree().line_head("main").unwrap().unwrap();
    let names = git(world.tree().git_dir(), &["ls-tree", "--name-only", line.hex()]);
    assert!(names.contains("NOTE"), "{names}");
    assert_eq!(git(world.tree().git_dir(), &["show", &format!("{line}:sum.sh")]), "echo $(($1 + $2))");
}

/// A note, and what tells that it is there: the agent is not asked for a definition of done.
fn note(world: &World) -> StartMission {
    StartMission { done: vec!["test -e NOTE".into()], ..world.note() }
}

/// A model that mends the sum, is told of a conflict, and does `then` about it.
fn mends_and_then(then: &str) -> World {
    World::with(&format!(
        "{}\n[[scenario.turn]]\n[[scenario.turn.call]]\nname = \"shell\"\ninput = {{ command = {then:?} }}\n\
         [[scenario.turn]]\ntext = \"Both are in.\"\n",
        crate::world::MODEL
    ))
}

/// The owner changes the same line while a proposal waits, another mission brings that to the line, and
/// the proposal is approved.
fn in_conflict(world: &World) -> String {
    let (run, gate) = world.asked(world.mission());
    world.write("sum.sh", "echo \"$(($1-$2))\"\n");
    world.commit("The owner quotes it");
    let (other, second) = world.asked(note(world));
    world.answer(&second, "approve").unwrap();
    world.ended(&other);
    world.answer(&gate, "approve").unwrap();
    run
}

#[test]
fn a_conflict_goes_back_to_the_agent_with_both_versions() {
    let world = mends_and_then("cp sum.sh SEEN; printf 'echo \"$(($1+$2))\"\\n' > sum.sh");
    let run = in_conflict(&world);
    let told = || {
        let requests = world.model_requests();
        let mut requests = requests.iter().map(|request| request["messages"].to_string());
        requests.rfind(|told| told.contains("other changes were merged into `main`"))
    };
    world.until(&run, |run| run.status == "waiting" && told().is_some());
    let told = told().unwrap();
    assert!(told.contains("- sum.sh"), "{told}");
    let seen = std::fs::read_to_string(world.workspace(&run).join("SEEN")).unwrap();
    for part in ["<<<<<<< ", "echo $(($1 + $2))\n", "=======", "echo \"$(($1-$2))\"\n", ">>>>>>> "] {
        assert!(seen.contains(part), "no {part}: {seen}");
    }
    let gate = world.gate(&run);
    world.answer(&gate, "approve").unwrap();
    let (end, reason) = world.ended(&run);
    assert_eq!(end, "done", "{reason}");
    assert_eq!(world.git(&["show", "HEAD:sum.sh"]), "echo \"$(($1+$2))\"");
    assert_eq!(world.git(&["show", "HEAD:NOTE"]), "noted");
    let changed = world.git(&["diff", "--name-only", "HEAD^1", "HEAD"]);
    assert_eq!(changed, "SEEN\nsum.sh", "only what the run itself did");
}

#[test]
fn a_conflict_that_is_not_resolved_is_partial_and_the_branch_keeps_the_work() {
    let again = "\n[[scenario.turn]]\ntext = \"I leave it.\"\n".repeat(8);
    let world = World::with(&format!("{}{again}", crate::world::MODEL));
    let run = in_conflict(&world);
    let (end, reason) = world.ended(&run);
    assert_eq!(end, "partial", "{reason}");
    assert!(reason.contains("conflicts in sum.sh") && reason.contains("keeps the work"), "{reason}");
    assert_eq!(world.git(&["show", "HEAD:sum.sh"]), "echo \"$(($1-$2))\"");
}

#[test]
fn the_patch_of_a_proposal_is_an_artifact_of_its_step() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    let patch: Digest = gate.request["patch"].as_str().unwrap().parse().unwrap();
    let events = kernel::port::Journal::history(&*world.daemon().journal, run.parse().unwrap(), 0, 1000);
    let kept = events.unwrap().into_iter().any(|event| match event.header.fact {
        domain::Fact::StepCompleted { artifacts, .. } => artifacts == [patch],
        _ => false,
    });
    assert!(kept);
}
