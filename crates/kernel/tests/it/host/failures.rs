//! Appends that fail, and answers that come too late.

use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::budget::Exhausted;
use domain::fact::{Denial, Parking};
use domain::run::{End, Status};
use domain::{Amount, Fact, LeaseId};
use kernel::host::Error;
use kernel::machine::Input;
use kernel::port::{AppendError, Finished, Refused};
use testkit::fakes::succeeded;
use testkit::sim::{Act, Op};

use super::bench::{Bench, DONE};

fn full() -> AppendError {
    AppendError::Storage("no space left".into())
}

/// Each step was started this often, in the order of the steps.
fn starts(bench: &Bench) -> Vec<usize> {
    let started = bench.executor.started();
    let last = started.iter().map(|(work, _)| work.step.0).max().unwrap_or(0);
    (1..=last).map(|step| started.iter().filter(|(work, _)| work.step.0 == step).count()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_changed_under_a_decision_is_decided_again() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Put)]]);
    bench.journal.fail([AppendError::LeaseMoved(LeaseId::from_bytes([1; 16]))]);
    bench.launch().await.unwrap();
    assert_eq!(bench.at_rest().await, DONE);
    assert_eq!(starts(&bench), [1, 1]);
    assert_eq!(bench.journal.count(bench.run, "claimed"), 1);
}

#[tokio::test(start_paused = true)]
async fn while_the_journal_cannot_write_nothing_starts_and_later_it_goes_on() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Send)]]);
    bench.journal.fail(vec![full(); 5]);
    bench.launch().await.unwrap();
    // Five failures wait 0.2, 0.4, 0.8, 1.6 and 3.2 seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(bench.executor.started().is_empty());
    assert_eq!(bench.position(), 1, "only its first event is on record");
    assert_eq!(bench.at_rest().await, DONE);
    assert_eq!(starts(&bench), [1, 1], "no step twice");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_could_not_be_written_is_asked_for_again() {
    let bench = Bench::new(&[&[Op::new(Act::Put)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.journal.fail([full()]);
    bench.executor.release();
    assert_eq!(bench.at_rest().await, DONE);
    let tries: Vec<_> = bench.executor.started().iter().map(|(work, _)| (work.attempt, work.key)).collect();
    assert_eq!(tries.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(tries[0].1, tries[1].1, "it is repeated under its key");
    assert_eq!(bench.journal.count(bench.run, "step_completed"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_order_is_not_left_waiting_for_a_full_disk() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    bench.journal.fail(vec![full(); 12]);
    let answer = tokio::time::timeout(Duration::from_secs(10), bench.stop()).await;
    assert_eq!(answer, Ok(Err(Error::NotRecorded)));
    assert_eq!(bench.journal.count(bench.run, "stop_requested"), 0);
    tokio::time::sleep(Duration::from_secs(600)).await;
    // It has the run again, and the step that went on meanwhile.
    assert_eq!(bench.executor.running().len(), 1);
    bench.stop().await.unwrap();
    bench.executor.release();
    assert_eq!(bench.at_rest().await, Status::Parked { reason: Parking::Stopped });
    assert_eq!(starts(&bench), [1]);
}

#[tokio::test(start_paused = true)]
async fn an_order_whose_append_fails_once_is_given_again() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    bench.journal.fail([full()]);
    bench.stop().await.unwrap();
    assert_eq!(bench.journal.count(bench.run, "stop_requested"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_machine_that_is_gone_changes_nothing() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    let (work, gone) = bench.executor.started().pop().unwrap();
    bench.journal.fail([AppendError::HeadMoved(bench.run)]);
    bench.stop().await.unwrap();
    let (same, now) = bench.executor.running().pop().unwrap();
    assert_eq!((same.step, same.attempt), (work.step, work.attempt));

    gone.send(succeeded(&work, "stale"));
    gone.send(Input::Lost(work.step, work.attempt));
    bench.idle().await;
    assert_eq!(bench.journal.count(bench.run, "step_completed"), 0);
    now.send(succeeded(&work, "fresh"));
    assert_eq!(bench.at_rest().await, Status::Parked { reason: Parking::Stopped });
    let said: Vec<_> = bench
        .journal
        .events(bench.run)
        .into_iter()
        .filter(|event| matches!(event.header.fact, Fact::StepCompleted { .. }))
        .filter_map(|event| event.payload)
        .collect();
    assert_eq!(said.iter().map(|payload| payload.0.as_slice()).collect::<Vec<_>>(), [b"fresh"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_driven_says_why_and_is_left_as_it_is() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.drivers.works(false);
    let why = Refused { code: "run.undrivable".into(), hint: "the prompt is gone".into() };
    assert_eq!(bench.launch().await, Err(Error::Driver(why)));
    assert_eq!((bench.position(), bench.host.live()), (1, vec![]));
    bench.drivers.works(true);
    bench.launch().await.unwrap();
    assert_eq!(bench.at_rest().await, DONE);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_loaded_again_is_tried_until_it_can() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.journal.fail([full()]);
    bench.launch().await.unwrap();
    bench.drivers.works(false);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(bench.executor.started().is_empty());
    bench.drivers.works(true);
    assert_eq!(bench.at_rest().await, DONE);
    assert_eq!(starts(&bench), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_defect_in_one_run_costs_neither_the_others_nor_itself_for_ever() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.drivers.panic(true);
    assert_eq!(bench.launch().await, Err(Error::NotRecorded));
    bench.idle().await;
    assert_eq!(bench.host.live(), []);
    bench.drivers.panic(false);
    let other = bench.another(2);
    bench.host.launch(other, None).await.unwrap();
    assert_eq!(bench.at_rest_of(other).await, DONE);
    bench.launch().await.unwrap();
    assert_eq!(bench.at_rest().await, DONE);
}

#[tokio::test(start_paused = true)]
async fn a_day_that_filled_up_after_the_decision_is_decided_again_and_loses_no_answer() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Model)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    // The first call used what it had reserved; the second is let in by a decision that overlooks that.
    bench.day.cap.store(1_500, Ordering::SeqCst);
    bench.day.overlooked.store(1, Ordering::SeqCst);
    let (work, inbox) = bench.executor.running().remove(0);
    let Input::Finished(step, attempt, finished) = succeeded(&work, "an answer") else { panic!() };
    let spent = Amount { nanodollars: 1_000, ..finished.spent };
    inbox.send(Input::Finished(step, attempt, Finished { spent, ..finished }));
    assert_eq!(bench.at_rest().await, Status::Ended { end: End::Blocked });
    assert_eq!(starts(&bench), [1], "the second call never began");
    assert_eq!(bench.journal.count(bench.run, "step_completed"), 1);
    assert_eq!(bench.journal.count(bench.run, "model_call_lost"), 0, "a paid answer is kept");
    let denied = bench.facts(|fact| match fact {
        Fact::StepDenied { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(denied, [Denial::Budget { cap: Exhausted::Day }]);
    assert_eq!(bench.state().budget.spent.nanodollars, 1_000);
}
