//! A clock that was set back while no daemon ran: what waits for a time waits for what was left of it,
//! and no event is older than the one before it.

use std::sync::Arc;
use std::time::Duration;

use domain::gate::Answer;
use domain::run::Status;
use domain::{Fact, Timestamp};
use kernel::port::Clock;
use testkit::fakes::RuntimeClock;
use testkit::sim::{Act, Op, Rule};

use super::bench::{self, Bench, DONE};

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// The runtime's clock, set back.
struct Back(RuntimeClock);

impl Clock for Back {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.now().0 - DAY)
    }
}

async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Another daemon takes over, in yesterday.
async fn taken_over(bench: &Bench) -> Bench {
    let next = bench.successor(Arc::new(Back(RuntimeClock::begin())));
    next.launch().await.unwrap();
    next
}

#[track_caller]
fn in_order(bench: &Bench) {
    let times: Vec<_> = bench.journal.events(bench.run).iter().map(|event| event.header.at).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_timer_waits_for_no_more_than_it_had_left() {
    let bench = Bench::new(&[&[Op::new(Act::Timer(30 * MINUTE))]]);
    bench.launch().await.unwrap();
    pass(10 * MINUTE).await;
    let next = taken_over(&bench).await;
    // The time of the run goes on from its last event, the beginning of the wait.
    pass(29 * MINUTE).await;
    assert_eq!(next.state().status, Status::Active);
    pass(2 * MINUTE).await;
    assert_eq!(next.state().status, DONE);
    in_order(&next);
}

#[tokio::test(start_paused = true)]
async fn a_gate_stays_open_as_long_as_it_should_and_no_longer() {
    let bench = Bench::new(&[&[Op::new(Act::Send).ruled(Rule::Ask)]]);
    bench.launch().await.unwrap();
    bench.idle().await;
    let next = taken_over(&bench).await;
    pass(bench::PATIENCE - MINUTE).await;
    assert_eq!(next.journal.count(next.run, "gate_answered"), 0);
    pass(2 * MINUTE).await;
    let answers =
        next.facts(|fact| if let Fact::GateAnswered { answer, .. } = fact { Some(*answer) } else { None });
    assert_eq!(answers, [Answer::Expired]);
    in_order(&next);
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_the_future_keeps_nobody_out() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Put)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    let next = taken_over(&bench).await;
    next.executor.release();
    assert_eq!(next.at_rest().await, DONE);
    in_order(&next);
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_came_due_while_no_daemon_ran_fires_once() {
    let bench = Bench::new(&[&[Op::new(Act::Timer(10 * MINUTE))], &[Op::new(Act::Put)]]);
    bench.launch().await.unwrap();
    pass(9 * MINUTE).await;
    // Two daemons in a row, before and after the moment: neither skips it, neither doubles it.
    let second = bench.successor(Arc::new(RuntimeClock::begin()));
    second.launch().await.unwrap();
    pass(2 * MINUTE).await;
    let third = second.successor(Arc::new(RuntimeClock::begin()));
    let _ = third.launch().await;
    pass(20 * MINUTE).await;
    assert_eq!(third.state().status, DONE);
    assert_eq!(third.journal.count(third.run, "timer_fired"), 1);
    in_order(&third);
}
