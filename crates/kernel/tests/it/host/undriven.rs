//! A run whose driver cannot be made: nothing moves it, and it can be cancelled all the same.

use std::time::Duration;

use domain::run::{End, Status};
use domain::{Fact, Outcome, StepNo};
use kernel::host::Error;
use kernel::machine::{Input, Order};
use kernel::port::{AppendError, Refused};
use testkit::sim::{Act, Op, Rule};

use super::bench::{Bench, OWNER};

const CANCELLED: Status = Status::Ended { end: End::Cancelled };

fn cancel() -> Order {
    Order::Cancel { by: OWNER.into() }
}

fn undrivable() -> Result<(), Error> {
    Err(Error::Driver(Refused { code: "run.undrivable".into(), hint: "the prompt is gone".into() }))
}

/// What the last event says.
fn last_words(bench: &Bench) -> String {
    let last = bench.journal.events(bench.run).pop().unwrap();
    assert!(matches!(last.header.fact, Fact::Ended { .. }), "{:?}", last.header.fact);
    String::from_utf8(last.payload.unwrap().0).unwrap()
}

#[tokio::test(start_paused = true)]
async fn it_is_cancelled_where_it_stands() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Put).ruled(Rule::Ask)]]);
    bench.launch().await.unwrap();
    bench.idle().await;
    assert_eq!(bench.journal.count(bench.run, "gate_opened"), 1);
    let next = bench.successor(bench.clock.clone());
    next.drivers.works(false);
    assert_eq!(next.launch().await, undrivable());
    assert_eq!(next.stop().await, undrivable(), "only its end needs no driver");
    next.order(cancel()).await.unwrap();
    assert_eq!(next.at_rest().await, CANCELLED);
    assert_eq!(last_words(&next), "cancelled by the owner");
    assert!(matches!(next.order(cancel()).await, Err(Error::Refused(_))));
    assert_eq!(next.executor.started().len(), 1, "nothing more began");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_rests_is_cancelled_too() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.stop().await.unwrap();
    bench.executor.release();
    assert!(matches!(bench.at_rest().await, Status::Parked { .. }));
    bench.drivers.works(false);
    assert_eq!(bench.resume().await, undrivable());
    bench.order(cancel()).await.unwrap();
    assert_eq!(bench.at_rest().await, CANCELLED);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_done_is_named() {
    let bench = Bench::new(&[&[Op::new(Act::Send)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    let next = bench.successor(bench.clock.clone());
    bench.host.close().await;
    next.drivers.works(false);
    next.order(cancel()).await.unwrap();
    assert_eq!(next.at_rest().await, CANCELLED);
    assert_eq!(next.journal.count(next.run, "step_uncertain"), 1);
    let outcomes = next.facts(|fact| match fact {
        Fact::StepCompleted { step, outcome, .. } => Some((*step, *outcome)),
        _ => None,
    });
    assert_eq!(outcomes, [(StepNo(1), Outcome::Cancelled)]);
    let words = last_words(&next);
    assert!(words.contains("nobody knows") && words.contains("step 1 (`"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_a_crash_cut_short_comes_to_its_end() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.executor.hold();
    bench.executor.keep_killed();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    bench.order(cancel()).await.unwrap();
    bench.host.close().await;
    assert_eq!(bench.journal.count(bench.run, "ended"), 0);
    let next = bench.successor(bench.clock.clone());
    next.drivers.works(false);
    next.launch().await.unwrap();
    next.idle().await;
    for (work, inbox) in next.executor.killed() {
        inbox.send(Input::Killed(work.step));
    }
    assert_eq!(next.at_rest().await, CANCELLED);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lost_its_driver_while_it_moved_is_cancelled() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    bench.drivers.works(false);
    bench.journal.fail([AppendError::HeadMoved(bench.run)]);
    let given = tokio::time::timeout(Duration::from_secs(10), bench.stop()).await;
    assert_eq!(given, Ok(Err(Error::NotRecorded)), "it cannot be loaded again");
    bench.order(cancel()).await.unwrap();
    assert_eq!(bench.at_rest().await, CANCELLED);
}
