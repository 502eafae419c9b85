//! Orders to runs that move, rest, are about to rest, or are over.

use std::sync::Arc;

use domain::Digest;
use domain::fact::Parking;
use domain::gate::Answer;
use domain::run::{Refusal, Status};
use kernel::host::Error;
use kernel::machine::Order;
use kernel::port::{ClaimError, Journal as _};
use testkit::sim::{Act, Op, Rule};

use super::bench::{Bench, DONE, OWNER};

const STOPPED: Status = Status::Parked { reason: Parking::Stopped };

#[tokio::test(start_paused = true)]
async fn a_run_that_rests_is_woken_by_its_order() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Write)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.stop().await.unwrap();
    bench.executor.release();
    assert_eq!(bench.at_rest().await, STOPPED);
    assert_eq!(bench.executor.started().len(), 1, "nothing starts after a stop");
    bench.resume().await.unwrap();
    assert_eq!(bench.at_rest().await, DONE);
    assert_eq!(bench.journal.count(bench.run, "claimed"), 2);
}

#[tokio::test(start_paused = true)]
async fn an_order_overtakes_a_rest_that_is_not_yet_on_record() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Write)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.stop().await.unwrap();
    bench.journal.hold();
    bench.executor.release();
    bench.idle().await;
    let resuming = tokio::spawn({
        let (host, run) = (Arc::clone(&bench.host), bench.run);
        async move { host.order(run, Order::Resume { by: OWNER.into() }).await }
    });
    bench.idle().await;
    assert!(!resuming.is_finished(), "an order is not in force before it is on record");
    assert_eq!(bench.state().status, Status::Active);
    bench.journal.release();
    assert_eq!(resuming.await.unwrap(), Ok(()));
    assert_eq!(bench.at_rest().await, DONE);
    assert_eq!(bench.journal.count(bench.run, "claimed"), 1, "its task never left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_not_lost_between_two_tasks_of_a_run() {
    let reads = vec![[Op::new(Act::Read)]; 400];
    let batches: Vec<&[Op]> = reads.iter().map(<[Op; 1]>::as_slice).collect();
    let bench = Bench::new(&batches);
    bench.executor.hold();
    bench.launch().await.unwrap();
    for round in 0..40 {
        bench.stop().await.unwrap();
        bench.executor.release();
        // Whether it is heard by the task that is leaving or by the next one is a matter of luck.
        match bench.resume().await {
            Ok(()) => {}
            Err(Error::Refused(Refusal::NotParked)) => {
                assert_eq!(bench.at_rest().await, STOPPED, "round {round}");
                bench.resume().await.unwrap();
            }
            Err(error) => panic!("round {round}: {error}"),
        }
        bench.executor.hold();
        if bench.state().has_ended() {
            return;
        }
    }
    bench.executor.release();
    assert_eq!(bench.at_rest().await, DONE);
    let events = bench.journal.events(bench.run);
    assert!(events.windows(2).all(|pair| pair[0].header.seq + 1 == pair[1].header.seq));
    assert_eq!(bench.journal.count(bench.run, "step_completed"), 400);
    assert_eq!(bench.journal.count(bench.run, "stop_requested"), 40);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_comes_back_and_leaves_nothing() {
    let bench = Bench::new(&[&[Op::new(Act::Send).ruled(Rule::Ask)]]);
    bench.launch().await.unwrap();
    bench.idle().await;
    let before = bench.position();
    let gate = bench.journal.gates(true).unwrap().pop().unwrap().gate;
    let answer = |action, answer| Order::Answer { gate, action: Some(action), answer, by: OWNER.into() };
    let shown = *bench.state().gates.values().map(|open| &open.action).next().unwrap();
    let other = bench.order(answer(Digest::of(b"another"), Answer::Approved)).await;
    assert_eq!(other, Err(Error::Refused(Refusal::OtherAction(gate))));
    let word = bench.order(answer(shown, Answer::WasDone)).await;
    assert_eq!(word, Err(Error::Refused(Refusal::OtherQuestion(gate))));
    assert_eq!(bench.resume().await, Err(Error::Refused(Refusal::NotParked)));
    assert_eq!(bench.position(), before);

    bench.order(answer(shown, Answer::Approved)).await.unwrap();
    assert_eq!(bench.at_rest().await, DONE);
    let after = bench.position();
    assert_eq!(bench.order(answer(shown, Answer::Approved)).await, Err(Error::Refused(Refusal::Ended)));
    assert_eq!(bench.stop().await, Err(Error::Refused(Refusal::Ended)));
    assert_eq!(bench.launch().await, Err(Error::Refused(Refusal::Ended)));
    assert_eq!((bench.position(), bench.host.live()), (after, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_rests_is_not_moved_by_a_launch() {
    let bench = Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Write)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.stop().await.unwrap();
    bench.executor.release();
    assert_eq!(bench.at_rest().await, STOPPED);
    bench.launch().await.unwrap();
    assert_eq!(bench.at_rest().await, STOPPED);
    assert_eq!(bench.executor.started().len(), 1);
    assert_eq!(bench.stop().await, Err(Error::Refused(Refusal::Parked)));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_exist_is_said_to_be_none() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    let nobody = domain::RunId::from_bytes([9; 16]);
    let missing = Err(Error::Claim(ClaimError::NoSuchRun(nobody)));
    assert_eq!(bench.host.launch(nobody, None).await, missing);
    assert_eq!(bench.host.order(nobody, Order::Stop { by: OWNER.into() }).await, missing);
    assert_eq!(bench.host.live(), []);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_rest_comes_to_its_end() {
    let bench = Bench::new(&[&[Op::new(Act::Model)]]);
    bench.executor.hold();
    bench.launch().await.unwrap();
    bench.stop().await.unwrap();
    bench.executor.release();
    assert_eq!(bench.at_rest().await, STOPPED);
    bench.order(Order::Cancel { by: OWNER.into() }).await.unwrap();
    assert_eq!(bench.at_rest().await, Status::Ended { end: domain::run::End::Cancelled });
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_wants_to_rest_is_parked_until_it_is_resumed() {
    let bench = Bench::new(&[]);
    bench.drivers.rest();
    bench.launch().await.unwrap();
    let reason = Parking::Blocked { code: "run.stalled".into(), hint: "say how".into() };
    assert_eq!(bench.at_rest().await, Status::Parked { reason });
    assert_eq!(bench.journal.count(bench.run, "step_planned"), 0);
    // A word to a run that rests is kept, and lets nothing move by itself.
    bench.order(Order::Say { by: OWNER.into(), text: "go on".into(), now: false }).await.unwrap();
    assert!(matches!(bench.at_rest().await, Status::Parked { .. }));
    bench.resume().await.unwrap();
    assert_eq!(bench.at_rest().await, DONE);
}
