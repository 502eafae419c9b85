//! The host on ports that a test holds in its hands. Time is the runtime's and paused: what waits for
//! an hour waits for nothing, and an hour passes only when nobody has anything to do.

mod bench;
mod claims;
mod clock;
mod failures;
mod lineage;
mod orders;
mod sleep;
mod undriven;

use std::time::Duration;

use domain::gate::Answer;
use domain::run::{End, Status};
use domain::{Fact, StepNo};
use kernel::host::{Error, Rest};
use kernel::machine::Order;
use testkit::sim::{Act, Op, Rule};

use bench::{Bench, DONE, OWNER};

#[tokio::test(start_paused = true)]
async fn a_run_goes_to_its_end_and_is_let_go() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Write), Op::new(Act::Put)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    let rest = bench.host.rest(bench.run).unwrap();
    assert_eq!((rest.borrow().clone(), bench.host.live()), (Rest::Moving, vec![bench.run]));
    bench.executor.release();
    assert_eq!(bench.at_rest().await, DONE);
    assert_eq!(*rest.borrow(), Rest::Ended(End::Done));
    assert_eq!(bench.host.live(), []);
    let steps: Vec<_> = bench.executor.started().iter().map(|(work, _)| (work.step, work.attempt)).collect();
    assert_eq!(steps, [(StepNo(1), 1), (StepNo(2), 1), (StepNo(3), 1)]);
}

#[tokio::test(start_paused = true)]
async fn launching_twice_is_launching_once() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.executor.hold();
    let (first, second) = tokio::join!(bench.launch(), bench.launch());
    assert_eq!((first, second), (Ok(()), Ok(())));
    bench.launch().await.unwrap();
    let order = Order::Stop { by: OWNER.into() };
    assert_eq!(bench.host.launch(bench.run, Some(order)).await, Err(Error::NotRecorded));
    bench.executor.release();
    assert_eq!(bench.at_rest().await, DONE);
    assert_eq!(bench.journal.count(bench.run, "claimed"), 1);
    assert_eq!(bench.journal.count(bench.run, "stop_requested"), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_hears_that_a_launch_failed_can_launch_again() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    for _ in 0..50 {
        bench.drivers.works(false);
        assert!(matches!(bench.launch().await, Err(Error::Driver(_))));
        assert_eq!(bench.host.live(), [], "its entry is gone before anybody is told");
    }
    bench.drivers.works(true);
    bench.launch().await.unwrap();
    assert_eq!(bench.at_rest().await, DONE);
}

#[tokio::test(start_paused = true)]
async fn a_launch_beside_one_that_fails_is_not_lost_with_it() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.drivers.fail_once();
    let (first, second) = tokio::join!(bench.launch(), bench.launch());
    assert!(matches!(first, Err(Error::Driver(_))), "{first:?}");
    assert_eq!(second, Ok(()));
    assert_eq!(bench.at_rest().await, DONE);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_closed_leaves_its_runs_as_a_crash_would() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Put)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    let before = bench.position();
    bench.host.close().await;
    assert_eq!(bench.host.live(), []);
    assert_eq!((bench.launch().await, bench.stop().await), (Err(Error::Closed), Err(Error::Closed)));
    assert_eq!(bench.position(), before, "nothing is written about it");
    bench.executor.release();
    let next = bench.successor(bench.clock.clone());
    next.launch().await.unwrap();
    assert_eq!(next.at_rest().await, DONE);
}

#[tokio::test(start_paused = true)]
async fn the_bell_rings_for_every_append() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Read)], &[Op::new(Act::Put)]]);
    let mut bell = bench.host.bell();
    bench.executor.hold();
    bench.launch().await.unwrap();
    for step in 1..=3 {
        bench.executor.heard(step).await;
        // What is on record and acknowledged has rung: the step has started since.
        assert!(bell.has_changed().unwrap(), "step {step}");
        assert_eq!(*bell.borrow_and_update(), bench.position());
        let (work, inbox) = bench.executor.running().pop().unwrap();
        inbox.send(testkit::fakes::succeeded(&work, "done"));
    }
    assert_eq!(bench.at_rest().await, DONE);
    assert_eq!(*bell.borrow_and_update(), bench.position());
}

#[tokio::test(start_paused = true)]
async fn events_that_did_not_pass_the_host_ring_by_hand() {
    let bench = Bench::new(&[&[Op::new(Act::Read)]]);
    let bell = bench.host.bell();
    bench.another(2);
    assert!(!bell.has_changed().unwrap());
    bench.host.ring();
    assert_eq!(*bell.borrow(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_gate_expires_by_the_clock_alone() {
    let bench = Bench::new(&[&[Op::new(Act::Send).ruled(Rule::Ask)]]);
    bench.launch().await.unwrap();
    bench.idle().await;
    assert_eq!(bench.journal.count(bench.run, "gate_opened"), 1);
    assert_eq!(bench.journal.count(bench.run, "gate_answered"), 0);
    tokio::time::sleep(Duration::from_millis(bench::PATIENCE + 1)).await;
    assert_eq!(bench.at_rest().await, DONE);
    let answers: Vec<_> = bench.facts(|fact| match fact {
        Fact::GateAnswered { answer, by, .. } => Some((*answer, by.clone())),
        _ => None,
    });
    assert_eq!(answers, [(Answer::Expired, "svc:kernel".to_owned())]);
    assert!(bench.executor.started().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_timer_fires_by_the_clock_alone() {
    let bench = Bench::new(&[&[Op::new(Act::Timer(3_600_000))]]);
    bench.launch().await.unwrap();
    tokio::time::sleep(Duration::from_millis(3_599_000)).await;
    assert_eq!(bench.state().status, Status::Active);
    assert_eq!(bench.at_rest().await, DONE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_at_once_come_to_their_ends() {
    let bench = Bench::new(&[
        &[Op::new(Act::Model)],
        &[Op::new(Act::Read), Op::new(Act::Read)],
        &[Op::new(Act::Write)],
    ]);
    let runs: Vec<_> = (2..=60).map(|number| bench.another(number)).collect();
    for run in &runs {
        bench.host.launch(*run, None).await.unwrap();
    }
    for run in &runs {
        assert_eq!(bench.at_rest_of(*run).await, DONE, "{run}");
    }
    assert_eq!(bench.executor.started().len(), runs.len() * 4);
    assert_eq!(*bench.host.bell().borrow(), bench.position());
}
