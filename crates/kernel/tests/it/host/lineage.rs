//! A run that goes on from another one is driven only when that one is what it was.

use domain::event::Head;
use domain::fact::{Forked, Purpose};
use domain::run::{End, Status};
use domain::{Digest, RunId, StepNo};
use kernel::host::Error;
use kernel::lineage;
use kernel::machine::Order;
use kernel::port::Journal as _;
use testkit::sim::{Act, Op};
use testkit::suite::history::Chain;

use super::bench::{Bench, DONE, OWNER};

fn bench() -> Bench {
    Bench::new(&[&[Op::new(Act::Model)], &[Op::new(Act::Write), Op::new(Act::Put)]])
}

/// A reference to the events of a run up to one.
fn reference(bench: &Bench, parent: RunId, seq: u64) -> Forked {
    let events = bench.journal.events(parent);
    let head = events.iter().find(|event| event.header.seq == seq).map_or(Digest::ZERO, |event| event.hash);
    let step = StepNo(1);
    Forked { parent, step, seq, head, snapshot: None, purpose: Purpose::Fork }
}

fn begin(bench: &Bench, number: u64, forked: Forked) -> RunId {
    let mut chain = Chain::new(number);
    bench.journal.create(chain.start_from(Some(forked))).unwrap();
    chain.run()
}

/// The event that holds the result of the first step.
fn first_result(bench: &Bench) -> u64 {
    let events = bench.journal.events(bench.run);
    events.iter().find(|event| event.header.fact.name() == "step_completed").unwrap().header.seq
}

#[tokio::test(start_paused = true)]
async fn a_fork_is_driven_from_where_the_other_stood() {
    let bench = bench();
    bench.launch().await.unwrap();
    assert_eq!(bench.at_rest().await, DONE);
    let fork = begin(&bench, 7, reference(&bench, bench.run, first_result(&bench)));
    bench.host.launch(fork, None).await.unwrap();
    assert_eq!(bench.at_rest_of(fork).await, DONE);
    let steps: Vec<_> = bench.executor.started().into_iter().map(|(work, _)| (work.run, work.step)).collect();
    assert_eq!(steps[3..], [(fork, StepNo(1)), (fork, StepNo(2))], "the model is not asked again");
    // And one that goes on from the fork, with all that came before.
    let seq =
        bench.journal.events(fork).iter().rposition(|event| event.header.fact.name() == "step_completed");
    let second = begin(&bench, 8, reference(&bench, fork, seq.unwrap() as u64 + 1));
    bench.host.launch(second, None).await.unwrap();
    assert_eq!(bench.at_rest_of(second).await, DONE);
    assert_eq!(bench.executor.started().len(), 5, "nothing was left to do");
    let inherited = lineage::inherited(&*bench.journal, &reference(&bench, second, 1)).unwrap();
    let runs: Vec<_> = inherited.iter().map(|event| event.header.run).collect();
    assert!(runs.starts_with(&[bench.run]) && runs.ends_with(&[fork, second]), "{runs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_something_else_is_not_driven_and_says_why() {
    let bench = bench();
    bench.launch().await.unwrap();
    bench.at_rest().await;
    let good = reference(&bench, bench.run, first_result(&bench));
    assert!(lineage::check(&*bench.journal, &good).is_ok());
    let missing = RunId::from_bytes([9; 16]);
    let cases = [
        Forked { head: Digest::of(b"another"), ..good.clone() },
        Forked { seq: good.seq + 1, ..good.clone() },
        Forked { seq: 1_000, ..good.clone() },
        Forked { seq: 0, head: Head::EMPTY.hash, ..good.clone() },
        Forked { parent: missing, ..good },
    ];
    for (number, forked) in cases.into_iter().enumerate() {
        lineage::check(&*bench.journal, &forked).unwrap_err();
        let fork = begin(&bench, 20 + number as u64, forked);
        match bench.host.launch(fork, None).await {
            Err(Error::Driver(refused)) => {
                assert_eq!(refused.code, "run.lineage");
                assert!(refused.hint.contains("which it goes on from"), "{}", refused.hint);
            }
            other => panic!("case {number}: {other:?}"),
        }
        assert_eq!(bench.journal.events(fork).len(), 1, "nothing is written");
        // It can be ended all the same.
        bench.host.order(fork, Order::Cancel { by: OWNER.into() }).await.unwrap();
        assert_eq!(bench.at_rest_of(fork).await, Status::Ended { end: End::Cancelled });
    }
    assert_eq!(bench.executor.started().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn forks_of_forks_are_bounded() {
    let bench = bench();
    let mut run = bench.run;
    for number in 0..70 {
        run = begin(&bench, 100 + number, reference(&bench, run, 1));
    }
    let deepest = lineage::inherited(&*bench.journal, &reference(&bench, run, 1)).unwrap_err();
    assert!(matches!(deepest, lineage::Error::TooDeep), "{deepest}");
}
