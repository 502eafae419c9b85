//! A laptop sleeps: the wall clock is hours on, and no time has passed for whoever was waiting.

use std::time::Duration;

use domain::gate::Answer;
use domain::{Fact, StepNo};
use kernel::host::{CLAIM_RENEWAL, CLAIM_TTL};
use kernel::port::{Clock as _, Journal as _};
use testkit::fakes::succeeded;
use testkit::sim::{Act, Op, Rule};

use super::bench::{Bench, DONE, PATIENCE};

const HOURS: u64 = 9 * 3_600_000;

/// The longest that anybody sleeps without looking at the clock.
async fn a_look_at_the_clock() {
    tokio::time::sleep(Duration::from_secs(61)).await;
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_fell_due_in_sleep_fires_once() {
    let bench = Bench::new(&[&[Op::new(Act::Timer(3_600_000)), Op::new(Act::Timer(7_200_000))]]);
    bench.launch().await.unwrap();
    bench.idle().await;
    bench.clock.sleep_through(HOURS);
    a_look_at_the_clock().await;
    assert_eq!(bench.at_rest().await, DONE);
    let fired = bench.facts(|fact| match fact {
        Fact::TimerFired { step } => Some(*step),
        _ => None,
    });
    assert_eq!(fired, [StepNo(1), StepNo(2)]);
    assert_eq!(bench.journal.count(bench.run, "claimed"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_expired_in_sleep_is_answered_once() {
    let bench = Bench::new(&[&[Op::new(Act::Send).ruled(Rule::Ask)]]);
    bench.launch().await.unwrap();
    bench.idle().await;
    bench.clock.sleep_through(PATIENCE + HOURS);
    a_look_at_the_clock().await;
    assert_eq!(bench.at_rest().await, DONE);
    let answers = bench.facts(|fact| match fact {
        Fact::GateAnswered { answer, .. } => Some(*answer),
        _ => None,
    });
    assert_eq!(answers, [Answer::Expired]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_ran_out_in_sleep_is_prolonged_and_nothing_is_done_twice() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Put)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    bench.clock.sleep_through(HOURS);
    tokio::time::sleep(Duration::from_millis(CLAIM_RENEWAL + 1)).await;
    let other = bench.journal.claim(bench.run, "daemon:2", bench.clock.now(), CLAIM_TTL, false);
    assert!(other.is_err(), "it is held again: {other:?}");
    assert_eq!(bench.host.live(), [bench.run]);
    let (work, inbox) = bench.executor.running().pop().unwrap();
    inbox.send(succeeded(&work, "what the model said before"));
    bench.executor.release();
    assert_eq!(bench.at_rest().await, DONE);
    let steps: Vec<_> = bench.executor.started().iter().map(|(work, _)| (work.step, work.attempt)).collect();
    assert_eq!(steps, [(StepNo(1), 1), (StepNo(2), 1)]);
    assert_eq!(bench.journal.count(bench.run, "claimed"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_hours_of_a_sleep_are_not_the_runs_time() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Write)]]);
    assert!(HOURS > bench.state().budget.caps.millis, "a sleep that is longer than the run may take");
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    bench.clock.sleep_through(HOURS);
    let (work, inbox) = bench.executor.running().pop().unwrap();
    inbox.send(succeeded(&work, "late"));
    // A run at the end of its budget would never come here.
    tokio::time::timeout(Duration::from_secs(3_600), bench.executor.heard(2)).await.unwrap();
    bench.executor.release();
    assert_eq!(bench.at_rest().await, DONE, "and not at the end of its budget");
    assert_eq!(bench.executor.started().len(), 2);
}
