//! The cap of the day over runs that decide at the same moment: the door, the kernel and the journal
//! together. Only the executor is the test's.

use std::sync::Arc;
use std::time::Duration;

use domain::event::{self, Event, Head};
use domain::fact::{Denial, RunStarted};
use domain::{
    Caps, Digest, Fact, Lease, LeaseId, MissionId, Payload, ProjectId, Recorded, RunId, Source, StepNo,
    Timestamp,
};
use journal::SqliteJournal;
use kernel::Driver;
use kernel::host::{Drivers, Host, Ports, Rest};
use kernel::machine::Input;
use kernel::port::{Append, Clock, Expect, Inbox, Journal, Refused, Workspaces};
use testkit::fakes::{CountingRng, ManualExecutor, RuntimeClock};
use testkit::sim::{Act, Op, Program, Script};
use tokio::task::JoinSet;

/// What one scripted model call reserves, in nanodollars.
const CALL: u64 = 1_000;
const RUNS: u8 = 8;
const ROOM: u64 = 3;
/// How often all of it is tried: each time the threads meet in another order.
const ROUNDS: u8 = 25;

struct OneCall(Arc<Program>);

impl Drivers for OneCall {
    fn driver(&self, _: &Recorded) -> Result<Box<dyn Driver>, Refused> {
        Ok(Box::new(Script::new(Arc::clone(&self.0))))
    }
}

/// Workspaces in which nothing moves.
struct Still;

impl Workspaces for Still {
    fn snapshot(&self, _: RunId, inbox: Arc<dyn Inbox>) {
        inbox.send(Input::Snapshotted("snapshot".into()));
    }

    fn restore(&self, _: RunId, step: StepNo, _: &str, inbox: Arc<dyn Inbox>) {
        inbox.send(Input::Restored(step));
    }
}

/// Puts a run and its lease on record.
fn begin(journal: &SqliteJournal, now: Timestamp, number: u8) -> RunId {
    let (run, lease) = (RunId::new(now.0, [number; 10]), LeaseId::new(now.0, [number; 10]));
    let granted = Lease {
        id: lease,
        run: Some(run),
        parent: None,
        paths: domain::Grants::default(),
        budget: None,
        labels: None,
        granted_at: None,
        principal: "agent:coder".into(),
        on_behalf_of: "human:owner".into(),
        purpose: "spend".into(),
        tools: Vec::new(),
        expires_at: now.plus(1_000_000_000),
        epoch: 0,
        revoked: false,
    };
    trust::leases::grant(journal, &granted).unwrap();
    let started = RunStarted {
        mission: MissionId::new(now.0, [number; 10]),
        project: ProjectId::new(now.0, [1; 10]),
        principal: granted.principal,
        on_behalf_of: granted.on_behalf_of,
        lease,
        branch: format!("coder/{run}"),
        driver: "script/1".into(),
        engine: "test".into(),
        system: Digest::of(b""),
        tools: Digest::of(b""),
        caps: Caps::default(),
        forked: None,
    };
    let event =
        Event { at: now, source: Source::Owner, fact: Fact::RunStarted(started), payload: Payload::EMPTY };
    let events = event::seal(run, Head::EMPTY, vec![event], || [number; 16]);
    let expect = Expect { fence: 0, head: Head::EMPTY, lease: None, day: None };
    journal.create(Append { run, expect, events }).unwrap();
    run
}

/// Eight runs want one call each on a day with room for three.
async fn round(number: u8) {
    let home = tempfile::tempdir().unwrap();
    let journal = Arc::new(SqliteJournal::open(home.path().join("regie.db")).unwrap());
    let executor = Arc::new(ManualExecutor::default());
    executor.hold();
    let clock = Arc::new(RuntimeClock::begin());
    let now = clock.now();
    let door = trust::Door::new(Arc::clone(&journal) as _, Arc::clone(&journal), ROOM * CALL + CALL / 2);
    let ports = Ports {
        journal: Arc::clone(&journal) as _,
        authority: Arc::new(door),
        executor: Arc::clone(&executor) as _,
        workspaces: Arc::new(Still),
        drivers: Arc::new(OneCall(Arc::new(Program::of(&[&[Op::new(Act::Model)]])))),
        clock,
        rng: Arc::new(CountingRng::default()),
    };
    let host = Arc::new(Host::new(ports, "daemon:1".into()));
    let runs: Vec<RunId> = (1..=RUNS).map(|run| begin(&journal, now, run)).collect();
    let mut moving = JoinSet::new();
    for run in runs.clone() {
        let host = Arc::clone(&host);
        moving.spawn(async move {
            host.launch(run, None).await.unwrap();
            if let Some(mut rest) = host.rest(run) {
                let _ = rest.wait_for(|rest| *rest != Rest::Moving).await;
            }
        });
    }
    // Five are denied and over; three wait for their answers.
    for _ in ROOM..u64::from(RUNS) {
        moving.join_next().await.unwrap().unwrap();
    }
    executor.heard(ROOM as usize).await;
    assert_eq!(executor.running().len() as u64, ROOM, "round {number}");
    assert_eq!(journal.spent_on(now.day()), Ok(ROOM * CALL), "round {number}");
    executor.release();
    while let Some(ended) = moving.join_next().await {
        ended.unwrap();
    }
    let denied = runs.iter().filter(|run| {
        let events = journal.history(**run, 0, 100).unwrap();
        events.iter().any(|event| {
            matches!(&event.header.fact, Fact::StepDenied { reason: Denial::Budget { cap }, .. }
                if cap.noun() == "dollars per day")
        })
    });
    assert_eq!(denied.count() as u64, u64::from(RUNS) - ROOM, "round {number}");
    assert_eq!(journal.spent_on(now.day()), Ok(0), "what was not used is given back");
}

#[test]
fn runs_that_decide_at_once_do_not_pass_the_cap_together() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(8).enable_all().build().unwrap();
    for number in 0..ROUNDS {
        let bounded =
            runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), round(number)).await });
        bounded.unwrap();
    }
}
