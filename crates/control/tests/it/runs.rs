//! Runs: their names, how they are shown, and orders to them.

use control::api::Resume;
use domain::RunId;
use kernel::port::Journal as _;

use crate::world::World;

#[test]
fn a_run_is_meant_by_its_id_either_end_of_it_or_as_the_last() {
    let world = World::new();
    let (first, _) = world.asked(world.note());
    let (second, _) = world.asked(world.note());
    let fetch = |name: &str| world.block(world.control().run_fetch(name)).map(|run| run.run);
    assert_eq!(fetch("last").as_ref(), Ok(&second));
    for run in [&first, &second] {
        let id = run.strip_prefix("run_").unwrap();
        let shared = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
        assert_eq!(fetch(run).as_ref(), Ok(run));
        assert_eq!(fetch(id).as_ref(), Ok(run));
        assert_eq!(fetch(&run[..=shared]).as_ref(), Ok(run), "by its beginning");
        assert_eq!(fetch(&id[id.len() - 8..].to_uppercase()).as_ref(), Ok(run), "by its end");
    }
    assert_eq!(fetch(&first[..8]).unwrap_err().code, "run.ambiguous");
    let nobody = RunId::from_bytes([1; 16]).to_string();
    for unknown in ["zzzz", "", "run_", nobody.as_str()] {
        let error = fetch(unknown).unwrap_err();
        assert_eq!((error.status(), error.code), (404, "run.not_found"), "`{unknown}`");
        assert_eq!(error.hint.as_deref(), Some("`regie runs` lists them"), "`{unknown}`");
    }
    let stopped = world.block(world.control().run_stop(&nobody)).unwrap_err();
    assert_eq!((stopped.status(), stopped.code), (404, "run.not_found"));
    let listed = world.block(world.control().run_list(true)).unwrap();
    assert_eq!(listed.iter().map(|run| &run.run).collect::<Vec<_>>(), [&second, &first]);
}

#[test]
fn without_runs_there_is_no_last_one() {
    let world = World::new();
    assert_eq!(world.block(world.control().run_fetch("last")).unwrap_err().code, "run.not_found");
}

#[test]
fn a_run_is_shown_with_what_it_used_and_how_it_ended() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    let waiting = world.until(&run, |_| true);
    assert_eq!((waiting.turns, waiting.gates), (2, vec![gate.gate.clone()]));
    assert_eq!((waiting.end, waiting.reason, waiting.code), (None, None, None));
    assert!(waiting.spent.tokens > 0 && waiting.spent.nanodollars > 0);
    world.answer(&gate, "approve").unwrap();
    let ended = world.until(&run, |run| run.status == "ended");
    assert_eq!((ended.end.as_deref(), ended.gates), (Some("done"), vec![]));
    assert!(ended.reason.unwrap().starts_with("merged into main as "));
    let events = world.block(world.control().run_events(&run, 0, 1000)).unwrap();
    let last = events.last().unwrap();
    assert_eq!((events.len() as u64, &last.hash), (ended.events, &ended.head));
    assert_eq!(last.at, ended.updated_at);
}

#[test]
fn lines_are_the_same_from_wherever_they_are_read() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    world.asked(world.note());
    world.answer(&gate, "approve").unwrap();
    world.ended(&run);
    let all = world.block(world.control().run_events(&run, 0, 1000)).unwrap();
    assert!(all.iter().filter(|event| event.line.is_some()).count() > 5);
    for after in (0..all.len()).rev().chain([3, 1, 7]) {
        let some = world.block(world.control().run_events(&run, after as u64, 3)).unwrap();
        let end = (after + 3).min(all.len());
        assert_eq!(some, all[after..end], "after {after}");
    }
    // The stream holds the events of both runs; one's lines do not depend on the other's.
    let stream = world.block(world.control().events_after(0, 1000)).unwrap();
    let positions: Vec<_> = stream.iter().map(|event| event.position).collect();
    assert_eq!(positions, (1..=stream.len() as u64).collect::<Vec<_>>());
    let of_run: Vec<_> = stream.iter().filter(|event| event.run == run).cloned().collect();
    assert_eq!(of_run, all);
    for position in [2, 11, 5] {
        let rest = world.block(world.control().events_after(position, 4)).unwrap();
        let begin = usize::try_from(position).unwrap();
        assert_eq!(rest, stream[begin..begin + 4]);
    }
}

#[test]
fn a_diff_is_that_of_the_workspace_while_the_run_moves_and_of_its_branch_after() {
    let world = World::new();
    world.daemon().bare.hold();
    let run = world.start(world.mission()).unwrap().run;
    world.block(world.daemon().bare.started(1));
    let moving = world.block(world.control().run_diff(&run)).unwrap();
    assert_eq!((moving.head, moving.files.len()), (None, 1));
    world.daemon().bare.release();
    let gate = world.gate(&run);
    world.answer(&gate, "approve").unwrap();
    world.ended(&run);
    let ended = world.block(world.control().run_diff(&run)).unwrap();
    assert_eq!(ended.head.as_deref(), gate.request["head"].as_str());
    assert_eq!(ended.files.len(), 1, "what the criterion left in the workspace is not in it");
    assert!(ended.patch.contains("+echo $(($1 + $2))"), "{}", ended.patch);
}

#[test]
fn a_run_that_is_paused_rests_when_its_call_has_ended_and_goes_on() {
    let world = World::new();
    world.daemon().bare.hold();
    let run = world.start(world.mission()).unwrap().run;
    world.block(world.daemon().bare.started(1));
    world.block(world.control().run_pause(&run)).unwrap();
    let early = world.block(world.control().run_resume(&run, Resume::default())).unwrap_err();
    assert_eq!((early.status(), early.code), (409, "run.stopping"), "it is not said to go on and then rests");
    world.daemon().bare.release();
    let parked = world.until(&run, |run| run.status != "active");
    assert_eq!((parked.status.as_str(), parked.reason.as_deref()), ("parked", Some("stopped by the owner")));
    assert_eq!(world.model_requests().len(), 1, "nothing new begins after a pause");
    let again = world.block(world.control().run_pause(&run)).unwrap_err();
    assert_eq!((again.status(), again.hint.as_deref()), (409, Some("`regie resume` lets it go on")));
    world.block(world.control().run_resume(&run, Resume::default())).unwrap();
    world.gate(&run);
    // One that moves needs no order.
    world.block(world.control().run_resume(&run, Resume::default())).unwrap();
    assert_eq!(world.facts(&run).iter().filter(|fact| **fact == "resumed").count(), 1);
}

#[test]
fn a_run_that_is_stopped_rests_at_once_and_its_call_is_told_to_have_been_interrupted() {
    let world = World::new();
    world.daemon().bare.hold();
    let run = world.start(world.mission()).unwrap().run;
    world.block(world.daemon().bare.started(1));
    // Nobody gives the result of the call: it is cut.
    world.block(world.control().run_stop(&run)).unwrap();
    let parked = world.until(&run, |run| run.status != "active");
    assert_eq!((parked.status.as_str(), parked.reason.as_deref()), ("parked", Some("stopped by the owner")));
    let facts = world.facts(&run);
    let at = |name| facts.iter().position(|fact| *fact == name).unwrap();
    assert!(at("interrupted") < at("stop_requested") && at("stop_requested") < at("parked"), "{facts:?}");
    world.daemon().bare.release();
    world.block(world.control().run_resume(&run, Resume::default())).unwrap();
    world.gate(&run);
    let told = world.model_requests()[1]["messages"].to_string();
    assert!(told.contains("interrupted by the owner"), "{told}");
}

#[test]
fn a_cancelled_run_is_over_for_every_order() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    world.block(world.control().run_cancel(&run)).unwrap();
    assert_eq!(world.ended(&run), ("cancelled".into(), "cancelled by the owner".into()));
    for refused in [
        world.block(world.control().run_cancel(&run)),
        world.block(world.control().run_stop(&run)),
        world.block(world.control().run_resume(&run, Resume::default())),
        world.answer(&gate, "approve").map(|_| ()),
    ] {
        let error = refused.unwrap_err();
        assert_eq!((error.status(), error.code), (409, "run.refused"));
        assert_eq!(error.hint.as_deref(), Some(crate::world::ENDED_HINT));
    }
}

#[test]
fn no_key_is_kept_for_a_run_that_is_over() {
    let world = World::new();
    let (run, gate) = world.asked(world.note());
    world.answer(&gate, "refuse").unwrap();
    world.ended(&run);
    let id: RunId = run.parse().unwrap();
    assert!(world.daemon().vendors.provider(id).is_some());
    world.control().release(id);
    let key = Resume { vendor: world.vendor(), record: None };
    world.block(world.control().run_resume(&run, key)).unwrap_err();
    assert!(world.daemon().vendors.provider(id).is_none());
}

#[test]
fn a_gate_may_be_answered_while_its_run_rests() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    world.block(world.control().run_stop(&run)).unwrap();
    world.until(&run, |run| run.status == "parked");
    world.answer(&gate, "approve").unwrap();
    let parked = world.until(&run, |_| true);
    assert_eq!((parked.status.as_str(), parked.gates), ("parked", vec![]));
    world.block(world.control().run_resume(&run, Resume::default())).unwrap();
    assert_eq!(world.ended(&run).0, "done");
}

#[test]
fn a_cancellation_ends_a_step_that_runs() {
    let world = World::new();
    world.daemon().bare.hold();
    let run = world.start(world.mission()).unwrap().run;
    world.block(world.daemon().bare.started(1));
    world.block(world.control().run_cancel(&run)).unwrap();
    assert_eq!(world.ended(&run).0, "cancelled");
}

#[test]
fn artifacts_are_fetched_by_their_digest() {
    let world = World::new();
    world.asked(world.note());
    let fetch = |digest: &str| world.block(world.control().artifact_fetch(digest));
    let first = world.daemon().journal.stream(0, 1).unwrap().remove(0);
    let domain::Fact::RunStarted(started) = first.header.fact else { panic!("{first:?}") };
    assert!(String::from_utf8(fetch(&started.system.to_string()).unwrap()).unwrap().contains("coding agent"));
    assert_eq!(fetch("abc").unwrap_err().status(), 422);
    let missing = fetch(&domain::Digest::of(b"nothing").to_string()).unwrap_err();
    assert_eq!((missing.status(), missing.code), (404, "artifact.not_found"));
}

#[test]
fn every_link_of_every_chain_holds() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    world.asked(world.note());
    world.answer(&gate, "approve").unwrap();
    world.ended(&run);
    let audit = world.block(world.control().audit_verify()).unwrap();
    assert!(audit.intact, "{audit:?}");
    assert_eq!((audit.runs, audit.events, audit.erased), (2, world.control().hello().position, 0));
}

#[test]
fn a_run_of_another_driver_is_refused_and_both_are_named() {
    use kernel::host::Drivers as _;

    let world = World::new();
    world.asked(world.note());
    let mut first = world.daemon().journal.stream(0, 1).unwrap().remove(0);
    let compose = std::sync::Arc::new(models::wire::compose);
    let drivers = control::drivers::NativeDrivers::new(world.daemon().artifacts.clone(), compose);
    assert!(drivers.driver(&first).is_ok());
    if let domain::Fact::RunStarted(started) = &mut first.header.fact {
        started.driver = "native/9".into();
    }
    let Err(refused) = drivers.driver(&first) else { panic!("it is driven") };
    assert_eq!(refused.code, "run.undrivable");
    assert!(refused.hint.contains("native/9") && refused.hint.contains("native/4"), "{}", refused.hint);
}
