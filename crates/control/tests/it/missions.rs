//! Starting a mission, and what is left when it does not start.

use std::path::Path;

use control::api::{CapsWanted, Resume, StartMission, Vendor};
use sandbox::Status as Jail;

use crate::world::{World, git};

/// No run, no workspace.
#[track_caller]
fn nothing_began(world: &World) {
    assert_eq!(world.block(world.control().run_list(false)).unwrap(), []);
    let work = std::fs::read_dir(world.layout().work);
    assert_eq!(work.map_or(0, Iterator::count), 0, "a workspace is left behind");
}

#[track_caller]
fn refused(world: &World, mission: StartMission) -> (u16, &'static str, String, String) {
    let error = world.start(mission).unwrap_err();
    nothing_began(world);
    (error.status(), error.code, error.detail, error.hint.unwrap_or_default())
}

#[test]
fn a_mission_begins_with_what_it_says() {
    let world = World::new();
    let started = world.start(world.mission()).unwrap();
    let head = world.git(&["rev-parse", "HEAD"]);
    assert_eq!((started.line.as_str(), started.base.as_str()), ("main", head.as_str()));
    assert_eq!(started.branch, format!("coder/{}", started.run));
    assert_eq!(started.model, models::catalogue::DEFAULT_MODEL);
    assert_eq!((started.warnings, started.position), (vec![], 0));

    let gate = world.gate(&started.run);
    let run = world.until(&started.run, |_| true);
    assert_eq!((run.mission, run.goal.as_str()), (started.mission, "Make the check pass"));
    assert_eq!(run.repository, world.project().display().to_string());
    world.answer(&gate, "approve").unwrap();
    let (end, reason) = world.ended(&started.run);
    assert_eq!(end, "done", "{reason}");
    assert_eq!(world.git(&["show", "HEAD:sum.sh"]), "echo $(($1 + $2))");
    let message = world.git(&["log", "-1", "--format=%B"]);
    assert!(message.contains(&format!("Regie-Run: {}", started.run)), "{message}");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let world = World::new();
    let goal = |goal: &str| StartMission { goal: goal.into(), ..world.mission() };
    assert_eq!(refused(&world, goal("")).1, "mission.no_goal");
    assert_eq!(refused(&world, goal(" \n")).1, "mission.no_goal");
    let blank = StartMission { done: vec!["true".into(), "  ".into()], ..world.mission() };
    assert_eq!(refused(&world, blank).1, "mission.blank_criterion");
    let capped = |caps| StartMission { caps, ..world.mission() };
    for caps in [
        CapsWanted { tokens: Some(0), ..CapsWanted::default() },
        CapsWanted { turns: Some(0), ..CapsWanted::default() },
        CapsWanted { millis: Some(0), ..CapsWanted::default() },
    ] {
        assert_eq!(refused(&world, capped(caps)).1, "mission.cap_zero");
    }
    let (status, code, detail, hint) =
        refused(&world, StartMission { vendor: Vendor::default(), ..world.mission() });
    assert_eq!((status, code), (422, "model.key_missing"));
    assert_eq!(detail, "no key for Anthropic or OpenAI");
    assert!(hint.starts_with("set ANTHROPIC_API_KEY"), "{hint}");
    let odd = Vendor { base_url: Some("ftp://example.org".into()), ..world.vendor() };
    let (_, code, detail, hint) = refused(&world, StartMission { vendor: odd, ..world.mission() });
    assert_eq!(code, "model.config");
    assert!(
        !detail.contains("example.org") && hint.starts_with("set ANTHROPIC_BASE_URL"),
        "{detail}; {hint}"
    );
    assert!(world.model_requests().is_empty());
}

#[test]
fn a_repository_that_cannot_be_used_is_refused_with_its_mend() {
    let world = World::new();
    let at = |path: &Path| StartMission { project: path.display().to_string(), ..world.mission() };
    let place = |name: &str| {
        let path = world.scratch().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let empty = place("empty");
    git(&empty, &["init", "-q"]);
    let bare = place("bare");
    git(&bare, &["init", "-q", "--bare"]);
    world.git(&["checkout", "-q", "-b", "other"]);
    world.write("sum.sh", "echo other\n");
    world.commit("Other");
    world.git(&["checkout", "-q", "main"]);
    world.write("sum.sh", "echo main\n");
    world.commit("Main");
    world.git(&["merge", "-q", "-s", "ours", "--no-commit", "other"]);

    for (path, what, mend) in [
        (world.scratch().join("nowhere"), "is not a directory", "give the path of a git repository"),
        (place("plain"), "is not in a git repository", "run `git init && git add -A && git commit`"),
        (bare, "is a bare repository", "give a clone with a checkout (`git clone`)"),
        (empty, "has no commit yet", "run `git add -A && git commit`"),
        (world.project(), "a merge is in progress in", "finish it or run `git merge --abort`"),
    ] {
        let (status, code, detail, hint) = refused(&world, at(&path));
        assert_eq!((status, code, hint.as_str()), (422, "project.unusable", mend), "{detail}");
        assert!(detail.contains(what) && !detail.contains(mend), "{detail}");
    }
}

#[test]
fn what_the_owner_should_know_is_a_warning() {
    let world = World::new();
    world.write("sum.sh", "echo uncommitted\n");
    world.write("scratch.txt", "mine\n");
    let mission = StartMission { model: Some("scripted-1".into()), ..world.note() };
    let started = world.start(mission).unwrap();
    assert_eq!(started.warnings.len(), 2, "{:?}", started.warnings);
    assert!(
        started.warnings[0].starts_with("the price of `scripted-1` is unknown"),
        "{:?}",
        started.warnings
    );
    assert_eq!(
        started.warnings[1],
        "the run starts from HEAD of main; uncommitted changes are left out (--dirty takes them along): sum.sh, scratch.txt"
    );
    let files = world.workspace(&started.run);
    assert_eq!(std::fs::read_to_string(files.join("sum.sh")).unwrap(), "echo $(($1 - $2))\n");
    assert!(!files.join("scratch.txt").exists());
    world.gate(&started.run);
    // Two turns, and two more in which it owes a definition of done.
    let spent = world.until(&started.run, |_| true).spent;
    assert_eq!((spent.nanodollars, spent.unpriced), (0, 4));
}

#[test]
fn a_machine_without_jails_refuses_or_warns() {
    let mut world = World::new();
    for jail in [Jail::Unsupported("no namespaces".into()), Jail::Degraded("no seccomp".into())] {
        world.jail = jail;
        world.restart();
        let (status, code, detail, hint) = refused(&world, world.mission());
        assert_eq!((status, code), (503, "jail.unsupported"));
        assert!(detail.contains("no ") && hint.contains("--allow-unjailed"), "{detail}; {hint}");
    }
    let started = world.start(StartMission { allow_unjailed: true, ..world.mission() }).unwrap();
    assert_eq!(started.warnings, ["steps are NOT jailed on this machine: no seccomp"]);
    let run = started.run.parse().unwrap();
    assert!(control::runs::Charter::read(&*world.daemon().journal, run).unwrap().mission.allow_unjailed);
}

#[test]
fn what_was_prepared_is_taken_away_when_a_later_part_fails() {
    let world = World::new();
    world.daemon().artifacts.break_now(true);
    assert_eq!(refused(&world, world.mission()).1, "artifact.failed");
    world.daemon().artifacts.break_now(false);
    world.daemon().records.break_now(true);
    assert_eq!(refused(&world, world.mission()).1, "lease.failed");
    world.daemon().records.break_now(false);
    let (run, _) = world.asked(world.mission());
    assert_eq!(std::fs::read_dir(world.layout().work).unwrap().count(), 1, "{run}");
}

/// The system text that the model was sent for a mission on the repository as it is.
fn system(world: &World) -> String {
    world.asked(world.note());
    world.model_requests().last().unwrap()["system"].to_string()
}

#[test]
fn the_projects_instructions_are_told_to_the_model() {
    let world = World::new();
    world.write("CLAUDE.md", "Tabs, never spaces.\n");
    world.commit("Instruct");
    assert!(system(&world).contains("Tabs, never spaces."));
    world.write("AGENTS.md", "Spaces, never tabs.\n");
    world.commit("Instruct anew");
    let told = system(&world);
    assert!(told.contains("Spaces, never tabs.") && !told.contains("Tabs, never spaces."), "{told}");
}

#[test]
fn instructions_that_are_a_link_or_not_committed_are_not_read() {
    let world = World::new();
    std::fs::write(world.scratch().join("secret"), "the owner's secret\n").unwrap();
    std::os::unix::fs::symlink(world.scratch().join("secret"), world.project().join("AGENTS.md")).unwrap();
    world.commit("Link");
    world.write("CLAUDE.md", "uncommitted words\n");
    let told = system(&world);
    assert!(!told.contains("the owner's secret") && !told.contains("uncommitted words"), "{told}");
}

#[test]
fn a_second_mission_has_the_same_project_and_a_branch_of_its_own() {
    let world = World::new();
    let (first, second) = (world.start(world.note()).unwrap(), world.start(world.note()).unwrap());
    assert_ne!(first.branch, second.branch);
    world.tree();
    for run in [&first.run, &second.run] {
        world.gate(run);
    }
    assert_eq!(world.block(world.control().gate_list(true)).unwrap().len(), 2);
}

#[test]
fn missions_that_begin_at_once_on_a_new_repository_share_its_project() {
    let world = World::new();
    let control = world.control();
    let started = world.block(async {
        let start = || control.mission_start(world.note());
        let (a, b, c, d) = tokio::join!(start(), start(), start(), start());
        [a, b, c, d]
    });
    for started in started {
        world.gate(&started.unwrap().run);
    }
    world.tree();
}

#[test]
fn a_run_that_cannot_be_driven_yet_has_begun_and_is_resumed_when_that_is_mended() {
    let world = World::new();
    world.daemon().artifacts.break_reads(true);
    let started = world.start(world.note()).unwrap();
    assert!(
        started.warnings[0].contains(&format!("`regie resume {}`", started.run)),
        "{:?}",
        started.warnings
    );
    let resume = || world.block(world.control().run_resume(&started.run, Resume::default()));
    assert_eq!(resume().unwrap_err().code, "run.undrivable");
    world.daemon().artifacts.break_reads(false);
    resume().unwrap();
    world.gate(&started.run);
}
