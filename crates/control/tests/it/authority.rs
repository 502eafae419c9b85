//! What is taken back wins over what was decided before, and what services do is decided and on record.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;

use control::api::{LeaseWanted, MintLease, RaiseHalt, Sweep};
use domain::event::{self, Event, Head, Sealed};
use domain::{Fact, Lease, LeaseId, Payload, RunId, Source, Timestamp};
use kernel::port::{Append, AppendError, Expect, Journal};
use trust::leases;

use crate::world::World;

/// An event after the first of a chain.
fn next(run: RunId, head: Head) -> Vec<Sealed> {
    static SALT: AtomicU8 = AtomicU8::new(1);
    let fact = Fact::Interrupted { by: "human:owner".into() };
    let event = Event { at: Timestamp(2), source: Source::Owner, fact, payload: Payload::EMPTY };
    event::seal(run, head, vec![event], || [SALT.fetch_add(1, Ordering::SeqCst); 16])
}

#[test]
fn what_was_decided_under_a_child_is_not_written_once_its_root_is_taken_back() {
    let world = World::new();
    let journal = &world.daemon().journal;
    let run = RunId::from_bytes([3; 16]);
    let root = Lease {
        id: LeaseId::from_bytes([1; 16]),
        run: Some(run),
        parent: None,
        principal: "agent:coder".into(),
        on_behalf_of: "human:owner".into(),
        purpose: "race".into(),
        tools: vec!["read".into()],
        paths: domain::Grants::default(),
        budget: None,
        labels: None,
        granted_at: None,
        expires_at: Timestamp(u64::MAX),
        epoch: 0,
        revoked: false,
    };
    leases::grant(&**journal, &root).unwrap();
    let child = Lease { id: LeaseId::from_bytes([2; 16]), ..root.clone() };
    let decided = leases::narrow(&**journal, root.id, &child).unwrap().unwrap();
    let append = |head: Head, lease| Append {
        run,
        expect: Expect { fence: 0, head, lease, day: None },
        events: next(run, head),
    };
    let first = append(Head::EMPTY, None);
    let head = Head { seq: 1, hash: first.events[0].hash };
    journal.create(first).unwrap();
    let write = |append| {
        let (sender, answer) = mpsc::channel();
        journal.append(append, Box::new(move |result| sender.send(result).unwrap()));
        answer.recv().unwrap()
    };
    let under = Some((decided.id, decided.epoch));
    leases::revoke(&**journal, root.id).unwrap();
    assert_eq!(write(append(head, under)), Err(AppendError::LeaseMoved(child.id)));
    assert!(write(append(head, None)).is_ok(), "what needs no lease is written");
}

#[test]
fn what_is_swept_by_itself_is_decided_under_a_lease_and_on_record_before_it_goes() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    world.answer(&gate, "refuse").unwrap();
    world.ended(&run);
    let sweep = || Sweep { dry_run: false, older_than: 0, caches: u64::MAX, branches: None, bin: None };
    assert!(world.workspace(&run).exists());
    // What cannot be put on record is not done.
    world.block(world.control().halt_raise(RaiseHalt::default())).unwrap();
    assert_eq!(world.block(world.control().sweep_due(sweep())).unwrap_err().code, "halt.on");
    assert!(world.workspace(&run).exists());
    world.block(world.control().halt_lift()).unwrap();

    let swept = world.block(world.control().sweep_due(sweep())).unwrap();
    assert!(swept.items.iter().any(|item| item.what == "workspace" && item.goes), "{swept:?}");
    assert!(!world.workspace(&run).exists());
    let acts = world.block(world.control().act_list()).unwrap();
    let act = acts.iter().find(|act| act.what == "sweep.workspace").unwrap();
    assert_eq!(
        (act.by.as_str(), act.of.as_str(), act.outcome.as_deref()),
        ("svc:keeper", run.as_str(), Some("gone"))
    );
    let lease = act.lease.clone().unwrap();
    let lease = world.block(world.control().lease_fetch(&lease)).unwrap();
    assert_eq!(
        (lease.lease.principal.as_str(), lease.lease.on_behalf_of.as_str()),
        ("svc:keeper", "human:owner")
    );
    assert!(lease.acts.iter().any(|act| act.what == "sweep.workspace"));
    // Its lease is granted once a day, not once a sweep.
    world.block(world.control().sweep_due(sweep())).unwrap();
    let keepers = world.block(world.control().lease_list(true)).unwrap();
    assert_eq!(keepers.iter().filter(|lease| lease.principal == "svc:keeper").count(), 1);
}

#[test]
fn a_lease_on_files_is_not_granted_where_nothing_holds_it() {
    let mut world = World::new();
    world.jail = sandbox::Status::Unsupported("no namespaces".into());
    world.restart();
    let lease = LeaseWanted { write: Some(vec!["src/**".into()]), ..LeaseWanted::default() };
    let mission = control::api::StartMission { allow_unjailed: true, lease, ..world.mission() };
    assert_eq!(world.start(mission).unwrap_err().code, "lease.unjailed");
}

#[test]
fn a_minted_lease_shows_its_token_to_nobody_who_looks_at_it() {
    let world = World::new();
    let wanted = MintLease { holder: "node:desk".into(), millis: 1_000, ..MintLease::default() };
    let minted = world.block(world.control().lease_mint(wanted)).unwrap();
    assert!(!format!("{minted:?}").contains(&minted.token));
    let token = leases::token::Token::of_bearer(&minted.token);
    let lease = leases::token::bearer(&*world.daemon().journal, &token).unwrap();
    assert_eq!(lease.id.to_string(), minted.lease.lease);
}

#[test]
fn a_daemon_that_died_while_everything_was_halted_is_followed_by_one_that_stops_the_runs() {
    let mut world = World::new();
    world.daemon().bare.hold();
    let run = world.start(world.mission()).unwrap().run;
    world.block(world.daemon().bare.started(1));
    // The switch is on, and the daemon dies before it has stopped anything.
    assert_eq!(trust::halt::raise(&*world.daemon().journal, "human:owner", "", Timestamp(1)).unwrap(), 1);
    world.restart();
    let parked = world.until(&run, |run| run.status != "active");
    assert_eq!(parked.status, "parked");
    assert!(world.daemon().bare.lines().is_empty(), "nothing was done again");
    let refused = world.start(world.mission()).unwrap_err();
    assert_eq!((refused.code, refused.hint.as_deref()), ("halt.on", Some("`regie halt --lift` ends that")));
}
