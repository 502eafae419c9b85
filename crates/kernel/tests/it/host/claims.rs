//! Claims: another daemon takes a run over, or a renewal does not come through.

use std::time::Duration;

use domain::run::Status;
use kernel::host::{CLAIM_RENEWAL, CLAIM_TTL, Rest};
use kernel::port::{Clock as _, Journal as _};
use testkit::fakes::{RuntimeClock, succeeded};
use testkit::sim::{Act, Op, Rule};

use super::bench::{Bench, DONE};

/// Another daemon takes the run over, as one does that holds the home's lock.
fn take_over(bench: &Bench) {
    bench.journal.claim(bench.run, "daemon:2", RuntimeClock::begin().now(), CLAIM_TTL, true).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_another_daemon_has_taken_is_let_go_and_nothing_more_is_written() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Write)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.executor.heard(1).await;
    let mut rest = bench.host.rest(bench.run).unwrap();
    take_over(&bench);
    let before = bench.position();
    bench.executor.release();
    rest.wait_for(|rest| *rest == Rest::Gone).await.unwrap();
    assert_eq!((bench.at_rest().await, bench.position()), (Status::Active, before));
    for (work, inbox) in bench.executor.started() {
        inbox.send(succeeded(&work, "late"));
    }
    bench.idle().await;
    assert_eq!((bench.position(), bench.executor.started().len()), (before, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_is_noticed_by_its_renewal() {
    let bench = Bench::new(&[&[Op::new(Act::Send).ruled(Rule::Ask)]]);
    bench.launch().await.unwrap();
    bench.idle().await;
    let rest = bench.host.rest(bench.run).unwrap();
    take_over(&bench);
    let before = bench.position();
    tokio::time::sleep(Duration::from_millis(CLAIM_RENEWAL)).await;
    assert_eq!((rest.borrow().clone(), bench.host.live()), (Rest::Gone, vec![]));
    assert_eq!(bench.position(), before);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_cannot_be_written_does_not_cost_the_run() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.journal.break_renewals();
    tokio::time::sleep(Duration::from_millis(2 * CLAIM_TTL)).await;
    assert_eq!(bench.host.live(), [bench.run]);
    bench.executor.release();
    assert_eq!(bench.at_rest().await, DONE);
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_given_back_at_rest_and_held_before() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    let claim = || bench.journal.claim(bench.run, "daemon:2", RuntimeClock::begin().now(), CLAIM_TTL, false);
    assert!(claim().is_err());
    bench.executor.release();
    assert_eq!(bench.at_rest().await, DONE);
    claim().unwrap();
}
