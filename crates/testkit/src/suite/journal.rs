//! What every journal must do: the ports [`Journal`] and [`Records`].

#![allow(clippy::expect_used, reason = "a behaviour suite fails by panicking")]

use std::collections::BTreeSet;
use std::sync::mpsc;

use domain::event::Head;
use domain::fact::{End, Parking};
use domain::gate::{Answer, Question};
use domain::{Amount, Effect, Fact, GateId, Recorded, StepKind, StepNo};
use kernel::port::{
    Append, AppendError, Appended, ClaimError, DayCap, Journal, JournalError, RecordError, Records,
};

use super::history::{Chain, NOON, completed, decision, intended, lease, plan};

/// One place where a journal may live.
pub trait Subject {
    /// The adapter.
    type Journal: Journal + Records;

    /// Opens the journal of this place. What an earlier opening wrote, since dropped, is there.
    fn open(&self) -> Self::Journal;
}

/// Runs every case, each in a fresh place.
///
/// # Panics
/// When a case fails.
pub fn check<S: Subject>(make: impl Fn() -> S) {
    for (name, case) in cases::<S::Journal>() {
        // Shown by the test harness next to the panic of the case that fails.
        announce(name);
        case(&make().open());
    }
    announce("restart");
    restart(&make());
}

#[expect(clippy::print_stderr, reason = "tells which case a panic belongs to; captured by the harness")]
fn announce(name: &str) {
    eprintln!("journal suite: {name}");
}

type Case<J> = (&'static str, fn(&J));

fn cases<J: Journal + Records>() -> Vec<Case<J>> {
    vec![
        ("create twice", create_twice),
        ("unknown runs", unknown_runs),
        ("stale fence", stale_fence),
        ("stale head", stale_head),
        ("stale lease", stale_lease),
        ("broken chain", broken_chain),
        ("one stale run fails alone", one_stale_run_fails_alone),
        ("what follows a refused append is refused", followers_are_refused),
        ("queue order", queue_order),
        ("stream without holes", stream_without_holes),
        ("paging", paging),
        ("claims", claims),
        ("claim against append", claim_against_append),
        ("records", records),
        ("run rows", run_rows),
        ("gates", gates),
        ("spending by day", spending_by_day),
        ("a day has no more than its cap", day_cap),
        ("runs that reserve at once", reserving_at_once),
        ("random histories", random_histories),
        ("many runs at once", many_runs_at_once),
    ]
}

/// Appends and waits.
///
/// # Errors
/// As the journal says.
///
/// # Panics
/// When the journal drops the callback.
pub fn append(journal: &dyn Journal, append: Append) -> Result<Appended, AppendError> {
    let (sender, receiver) = mpsc::channel();
    journal.append(append, Box::new(move |result| drop(sender.send(result))));
    receiver.recv().expect("every append is answered")
}

/// A started run.
fn started(journal: &dyn Journal, number: u64) -> Chain {
    let mut chain = Chain::new(number);
    journal.create(chain.start()).expect("a new run is created");
    chain
}

/// Asserts that a journal has exactly these appends of a run, byte for byte, and a clean chain.
///
/// # Panics
/// When it has not.
pub fn assert_history(journal: &dyn Journal, chain: &Chain, appends: &[Append]) {
    let history = journal.history(chain.run(), 0, usize::MAX).expect("the run is readable");
    let sealed = appends.iter().flat_map(|append| &append.events).collect::<Vec<_>>();
    assert_eq!(history.len(), sealed.len(), "number of events of {}", chain.run());
    for (recorded, sealed) in history.iter().zip(sealed) {
        assert_eq!(recorded.header.to_bytes(), sealed.bytes);
        assert_eq!(recorded.payload.as_ref(), Some(&sealed.payload));
        assert_eq!(recorded.hash, sealed.hash);
    }
    let row = journal.run(chain.run()).expect("the run has a row");
    let last = history.last().map_or(Head::EMPTY, |last| Head { seq: last.header.seq, hash: last.hash });
    assert_eq!(row.head, last);
}

/// Asserts that every chain is whole.
///
/// # Panics
/// When one is not.
pub fn assert_clean(journal: &dyn Journal, runs: u64) {
    let found = journal.verify().expect("the journal is readable");
    assert_eq!(found.broken, []);
    assert_eq!((found.runs, found.erased), (runs, 0));
}

fn create_twice<J: Journal>(journal: &J) {
    let mut chain = Chain::new(1);
    let first = chain.start();
    assert_eq!(journal.create(first.clone()), Ok(Appended { position: 1 }));
    assert_eq!(journal.create(first.clone()), Err(AppendError::HeadMoved(chain.run())));
    assert_history(journal, &chain, &[first]);
    assert_eq!(journal.position(), 1);
}

fn unknown_runs<J: Journal>(journal: &J) {
    let mut chain = Chain::new(1);
    let run = chain.run();
    assert_eq!(journal.history(run, 0, 1), Err(JournalError::NoSuchRun(run)));
    assert_eq!(journal.run(run), Err(JournalError::NoSuchRun(run)));
    assert_eq!(journal.claim(run, "a", NOON, 1, true), Err(ClaimError::NoSuchRun(run)));
    assert_eq!(append(journal, chain.start()), Err(AppendError::HeadMoved(run)));
    assert_eq!(journal.stream(0, 10), Ok(Vec::new()));
    assert_eq!(journal.position(), 0);
}

fn stale_fence<J: Journal>(journal: &J) {
    let mut chain = started(journal, 1);
    let run = chain.run();
    let old = journal.claim(run, "old", NOON, 1_000, false).expect("unclaimed");
    chain.fence = old.fence;
    let new = journal.claim(run, "new", NOON, 1_000, true).expect("forced");
    let refused = append(journal, chain.clone().step(b"zombie"));
    assert_eq!(refused, Err(AppendError::Fenced { run, current: new.fence, ours: old.fence }));
    assert_eq!(journal.position(), 1);
    assert_eq!(journal.history(run, 1, 10), Ok(Vec::new()));
    chain.fence = new.fence;
    append(journal, chain.step(b"alive")).expect("the new holder writes");
}

fn stale_head<J: Journal>(journal: &J) {
    let chain = started(journal, 1);
    let (mut ours, mut theirs) = (chain.clone(), chain);
    let first = ours.step(b"ours");
    append(journal, first).expect("follows the head");
    let refused = append(journal, theirs.step(b"theirs"));
    assert_eq!(refused, Err(AppendError::HeadMoved(theirs.run())));
    assert_eq!(journal.position(), 4);
    assert_eq!(journal.run(ours.run()).map(|row| row.head), Ok(ours.head));
}

fn stale_lease<J: Journal + Records>(journal: &J) {
    let mut chain = started(journal, 1);
    let key = lease(1).to_string();
    chain.lease = Some((lease(1), 1));
    let missing = append(journal, chain.clone().step(b"no lease"));
    assert_eq!(missing, Err(AppendError::LeaseMoved(lease(1))));
    assert_eq!(journal.put("lease", &key, 0, b"granted"), Ok(1));
    append(journal, chain.step(b"in force")).expect("the lease is in force");
    assert_eq!(journal.put("lease", &key, 1, b"revoked"), Ok(2));
    let refused = append(journal, chain.clone().step(b"revoked"));
    assert_eq!(refused, Err(AppendError::LeaseMoved(lease(1))));
    assert_eq!(journal.position(), 4);
}

fn broken_chain<J: Journal>(journal: &J) {
    let mut chain = started(journal, 1);
    let whole = chain.clone().step(b"whole");
    let mut changed = whole.clone();
    changed.events[1].payload.0 = b"changed".to_vec();
    let mut holed = whole.clone();
    holed.events.remove(1);
    let mut foreign = whole;
    foreign.events[0].header.run = Chain::new(2).run();
    for bad in [changed, holed, foreign] {
        assert!(matches!(append(journal, bad), Err(AppendError::Storage(_))));
    }
    assert_eq!(journal.position(), 1);
    append(journal, chain.step(b"whole")).expect("the journal goes on");
    assert_clean(journal, 1);
}

fn one_stale_run_fails_alone<J: Journal>(journal: &J) {
    let mut chains = (0..9).map(|number| started(journal, number)).collect::<Vec<_>>();
    let fence = journal.claim(chains[4].run(), "new", NOON, 1, true).expect("unclaimed").fence;
    let (sender, receiver) = mpsc::channel();
    for (number, chain) in chains.iter_mut().enumerate() {
        let sender = sender.clone();
        let append = chain.step(b"together");
        journal.append(append, Box::new(move |result| drop(sender.send((number, result)))));
    }
    drop(sender);
    let results = receiver.iter().collect::<Vec<_>>();
    assert_eq!(results.len(), 9);
    for (number, result) in results {
        if number == 4 {
            let run = chains[4].run();
            assert_eq!(result, Err(AppendError::Fenced { run, current: fence, ours: 0 }));
        } else {
            assert!(result.is_ok(), "run {number}: {result:?}");
        }
    }
    assert_eq!(journal.position(), 9 + 8 * 3);
    assert_clean(journal, 9);
}

fn followers_are_refused<J: Journal>(journal: &J) {
    let mut chain = started(journal, 1);
    let mut ahead = chain.clone();
    ahead.lease = Some((lease(9), 1));
    let bad = ahead.step(b"under a lease that is not there");
    ahead.lease = None;
    let followers = [ahead.step(b"first"), ahead.step(b"second")];
    let (sender, receiver) = mpsc::channel();
    for append in std::iter::once(bad).chain(followers) {
        let sender = sender.clone();
        journal.append(append, Box::new(move |result| drop(sender.send(result))));
    }
    drop(sender);
    let run = chain.run();
    let expected = [
        Err(AppendError::LeaseMoved(lease(9))),
        Err(AppendError::HeadMoved(run)),
        Err(AppendError::HeadMoved(run)),
    ];
    assert_eq!(receiver.iter().collect::<Vec<_>>(), expected);
    append(journal, chain.step(b"from the head")).expect("the head is where it was");
}

fn queue_order<J: Journal>(journal: &J) {
    let mut chains = [started(journal, 1), started(journal, 2), started(journal, 3)];
    let (sender, receiver) = mpsc::channel();
    for number in 0..200 {
        let sender = sender.clone();
        let append = chains[number % 3].step(b"pipelined");
        journal.append(append, Box::new(move |result| drop(sender.send((number, result)))));
    }
    drop(sender);
    for (expected, (number, result)) in receiver.iter().enumerate() {
        assert_eq!(number, expected, "acknowledged out of order");
        let position = 3 + (number as u64 + 1) * 3;
        assert_eq!(result, Ok(Appended { position }));
    }
    assert_eq!(journal.position(), 603);
}

fn stream_without_holes<J: Journal>(journal: &J) {
    let mut chains = (0..4).map(|number| started(journal, number)).collect::<Vec<_>>();
    let total = 4 + 4 * 30 * 3;
    std::thread::scope(|scope| {
        for chain in &mut chains {
            scope.spawn(move || {
                for _ in 0..30 {
                    append(journal, chain.step(b"streamed")).expect("written");
                }
            });
        }
        let mut cursor = 0;
        while cursor < total {
            let durable = journal.position();
            let seen = journal.stream(cursor, 7).expect("readable");
            assert!(!seen.is_empty() || durable <= cursor, "position {durable} is not in the stream");
            for event in seen {
                assert_eq!(event.position, cursor + 1, "a reader skipped an event");
                cursor = event.position;
            }
            std::thread::yield_now();
        }
    });
    assert_eq!(journal.position(), total);
}

fn paging<J: Journal>(journal: &J) {
    let mut chain = started(journal, 1);
    for _ in 0..5 {
        append(journal, chain.step(b"page")).expect("written");
    }
    let whole = journal.history(chain.run(), 0, 100).expect("readable");
    assert_eq!(whole.len(), 16);
    let (mut pages, mut after) = (Vec::<Recorded>::new(), 0);
    loop {
        let page = journal.history(chain.run(), after, 3).expect("readable");
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        after = last.header.seq;
        pages.extend(page);
    }
    assert_eq!(pages, whole);
    assert_eq!(journal.stream(0, 100), Ok(whole));
}

fn claims<J: Journal>(journal: &J) {
    let chain = started(journal, 1);
    let run = chain.run();
    let first = journal.claim(run, "a", NOON, 30_000, false).expect("unclaimed");
    assert_eq!(first.head, chain.head);
    let held = Err(ClaimError::Held { run, holder: "a".into() });
    assert_eq!(journal.claim(run, "b", NOON.plus(29_999), 30_000, false), held);
    journal.renew(&first, NOON.plus(20_000), 30_000).expect("still ours");
    assert_eq!(journal.claim(run, "b", NOON.plus(49_999), 30_000, false), held);
    let second = journal.claim(run, "b", NOON.plus(50_000), 30_000, false).expect("expired");
    assert!(second.fence > first.fence);
    assert_eq!(journal.renew(&first, NOON.plus(50_001), 30_000), Err(ClaimError::Lost(run)));
    journal.release(&first).expect("a lost claim is given back without an error");
    assert_eq!(
        journal.claim(run, "a", NOON.plus(50_002), 1, false),
        Err(ClaimError::Held { run, holder: "b".into() }),
        "giving back a lost claim must not free the new holder's"
    );
    let third = journal.claim(run, "c", NOON.plus(50_003), 30_000, true).expect("forced");
    assert!(third.fence > second.fence);
    assert_eq!(journal.run(run).map(|row| row.fence), Ok(third.fence));
    journal.release(&third).expect("given back");
    assert_eq!(journal.renew(&third, NOON.plus(50_004), 30_000), Err(ClaimError::Lost(run)));
    let fourth = journal.claim(run, "d", NOON.plus(50_005), 30_000, false).expect("free");
    assert!(fourth.fence > third.fence);
    let again = journal.claim(run, "d", NOON.plus(50_006), 30_000, false).expect("our own");
    assert!(again.fence > fourth.fence);
}

fn claim_against_append<J: Journal>(journal: &J) {
    let mut chain = started(journal, 1);
    let (sender, receiver) = mpsc::channel();
    let queue = |append| {
        let sender = sender.clone();
        journal.append(append, Box::new(move |result| drop(sender.send(result))));
    };
    queue(chain.step(b"before"));
    let claim = journal.claim(chain.run(), "new", NOON, 1, true).expect("forced");
    assert_eq!(claim.head, chain.head, "a claim comes after what was queued before it");
    queue(chain.clone().step(b"after"));
    drop(sender);
    assert_eq!(receiver.iter().map(|result| result.is_ok()).collect::<Vec<_>>(), [true, false]);
}

fn records<J: Records>(journal: &J) {
    assert_eq!(journal.get("project", "a"), Ok(None));
    assert_eq!(journal.put("project", "b", 0, b"one"), Ok(1));
    assert_eq!(journal.put("project", "a", 0, b"other"), Ok(1));
    assert_eq!(journal.put("lease", "a", 0, b"another kind"), Ok(1));
    let moved = |current, expected| {
        Err(RecordError::Moved { kind: "project".into(), key: "b".into(), current, expected })
    };
    assert_eq!(journal.put("project", "b", 0, b"again"), moved(1, 0));
    assert_eq!(journal.put("project", "b", 2, b"ahead"), moved(1, 2));
    assert_eq!(journal.put("project", "b", 1, b"two"), Ok(2));
    let read = journal.get("project", "b").expect("readable").expect("there");
    assert_eq!((read.version, read.body.as_slice()), (2, b"two".as_slice()));
    let listed = journal.list("project").expect("readable");
    assert_eq!(listed.iter().map(|record| record.key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

fn run_rows<J: Journal>(journal: &J) {
    let mut chain = started(journal, 1);
    let other = started(journal, 2);
    let step = chain.state.next_step;
    let spent = Amount { tokens: 700, nanodollars: 40, calls: 1, unpriced: 0, turns: 1 };
    let lost = Amount { tokens: 100, nanodollars: 9, calls: 1, unpriced: 1, turns: 1 };
    chain.now = chain.now.plus(5);
    let facts = vec![
        (Fact::StepPlanned(plan(step, StepKind::ModelCall, Effect::ModelCall, 9)), b"request".to_vec()),
        (intended(step, 9), Vec::new()),
        (Fact::ModelCallLost { step, attempt: 1, spent: lost }, Vec::new()),
        (intended(step, 9), Vec::new()),
        (completed(step, spent), b"answer".to_vec()),
        (Fact::Parked { reason: Parking::Stopped }, Vec::new()),
    ];
    let first = chain.write(facts);
    append(journal, first).expect("written");
    let row = journal.run(chain.run()).expect("there");
    assert_eq!((row.status, row.end), ("parked", None));
    assert_eq!((row.tokens, row.nanodollars, row.unpriced), (800, 49, 1));
    assert_eq!(row.turns, 1, "a lost call has no result");
    assert_eq!(row.updated_at, row.started_at.plus(5));
    let runs = |only_open| {
        let rows = journal.runs(only_open, 10).expect("readable");
        rows.into_iter().map(|row| row.run).collect::<Vec<_>>()
    };
    assert_eq!(runs(true), [other.run(), chain.run()], "newest first; a parked run is open");
    let last = chain.write(vec![
        (Fact::Resumed { by: "human:owner".into() }, Vec::new()),
        (Fact::Ended { end: End::Partial }, b"not merged".to_vec()),
    ]);
    append(journal, last).expect("written");
    let row = journal.run(chain.run()).expect("there");
    assert_eq!((row.status, row.end), ("ended", Some(End::Partial)));
    assert_eq!(runs(true), [other.run()]);
    assert_eq!(runs(false), [other.run(), chain.run()]);
    assert_eq!(journal.runs(false, 1).map(|rows| rows.len()), Ok(1));
}

fn gates<J: Journal>(journal: &J) {
    let mut chain = started(journal, 1);
    let ids = [GateId::new(NOON.0, [1; 10]), GateId::new(NOON.0, [2; 10])];
    for (number, gate) in (1..).zip(ids) {
        chain.now = chain.now.plus(1);
        let opened = Fact::GateOpened {
            gate,
            step: StepNo(number * 2),
            subject: StepNo(number * 2 - 1),
            question: Question::Approve,
            action: domain::Digest::of(b"action"),
            decision: Some(decision()),
            expires_at: NOON.plus(99),
        };
        let append_of_gate = chain.write(vec![(opened, b"merge?".to_vec())]);
        append(journal, append_of_gate).expect("written");
    }
    let open = journal.gates(true).expect("readable");
    assert_eq!(open.iter().map(|gate| gate.gate).collect::<Vec<_>>(), ids);
    assert_eq!((open[0].opened_seq, open[0].expires_at, open[0].run), (2, NOON.plus(99), chain.run()));
    assert_eq!(journal.run(chain.run()).map(|row| row.open_gates), Ok(2));
    let answer = Fact::GateAnswered { gate: ids[0], answer: Answer::Approved, by: "human:owner".into() };
    let answered = chain.write(vec![(answer, Vec::new())]);
    append(journal, answered).expect("written");
    assert_eq!(journal.gates(true).map(|gates| gates.len()), Ok(1));
    let all = journal.gates(false).expect("readable");
    assert_eq!(all.iter().map(|gate| gate.answered_seq).collect::<Vec<_>>(), [Some(4), None]);
    assert_eq!(journal.run(chain.run()).map(|row| row.open_gates), Ok(1));
    let ended = chain.write(vec![(Fact::Ended { end: End::Cancelled }, Vec::new())]);
    append(journal, ended).expect("written");
    assert_eq!(journal.gates(true), Ok(Vec::new()), "a run that has ended asks nothing");
}

fn spending_by_day<J: Journal>(journal: &J) {
    let mut chain = started(journal, 1);
    let (day, tomorrow) = (NOON.day(), NOON.day() + 1);
    let write = |chain: &mut Chain, fact| {
        let facts = chain.write(vec![(fact, Vec::new())]);
        append(journal, facts).expect("written");
        (journal.spent_on(day).expect("readable"), journal.spent_on(tomorrow).expect("readable"))
    };
    let money = |nanodollars| Amount { nanodollars, ..Amount::CALL };
    let (one, two, three) = (StepNo(1), StepNo(2), StepNo(3));
    assert_eq!(write(&mut chain, intended(one, 500)), (500, 0), "a reservation counts");
    assert_eq!(write(&mut chain, intended(two, 300)), (800, 0));
    assert_eq!(write(&mut chain, completed(one, money(120))), (420, 0), "what was used replaces it");
    assert_eq!(write(&mut chain, Fact::StepReturned { step: two }), (120, 0));
    assert_eq!(write(&mut chain, intended(two, 300)), (420, 0));
    let again = match intended(two, 200) {
        Fact::StepIntended { step, decision, reserved, snapshot, .. } => {
            Fact::StepIntended { step, attempt: 2, decision, reserved, snapshot }
        }
        other => other,
    };
    assert_eq!(write(&mut chain, again), (320, 0), "a repetition holds one reservation");
    assert_eq!(write(&mut chain, Fact::StepUncertain { step: two }), (320, 0));
    chain.now = chain.now.plus(86_400_000);
    let settled = write(&mut chain, completed(two, money(250)));
    assert_eq!(settled, (370, 0), "booked on the day whose cap admitted it");
    assert_eq!(write(&mut chain, intended(three, 40)), (370, 40));
    assert_eq!(write(&mut chain, Fact::Ended { end: End::Failed }), (370, 0), "an end holds nothing");
}

fn day_cap<J: Journal>(journal: &J) {
    let (mut one, mut two) = (started(journal, 1), started(journal, 2));
    let cap = DayCap { day: NOON.day(), nanodollars: 1_000 };
    let write = |chain: &mut Chain, cap, fact| {
        let before = (chain.state.clone(), chain.head);
        chain.day = cap;
        let written = append(journal, chain.write(vec![(fact, Vec::new())]));
        if written.is_err() {
            // Nothing of it happened.
            (chain.state, chain.head) = before;
        }
        written.map(|_| journal.spent_on(NOON.day()).expect("readable"))
    };
    let (first, second) = (StepNo(1), StepNo(2));
    let full = Err(AppendError::DayFull(NOON.day(), two.run()));
    assert_eq!(write(&mut one, Some(cap), intended(first, 700)), Ok(700));
    assert_eq!(write(&mut two, Some(cap), intended(first, 301)), full, "another run holds 700 of 1000");
    assert_eq!(write(&mut two, Some(cap), intended(first, 300)), Ok(1_000), "what fits exactly, fits");
    assert_eq!(write(&mut two, Some(cap), intended(second, 0)), Ok(1_000), "what is free fits always");
    let used = Amount { nanodollars: 100, ..Amount::CALL };
    assert_eq!(write(&mut one, Some(cap), completed(first, used)), Ok(400), "a result is never refused");
    assert_eq!(write(&mut one, Some(cap), intended(second, 600)), Ok(1_000), "what was settled has room");
    let other = DayCap { day: NOON.day() + 1, ..cap };
    assert_eq!(write(&mut two, Some(other), intended(StepNo(3), 1)), Ok(1_001), "another day, another cap");
    assert_clean(journal, 2);
}

/// Eight runs reserve at once, again and again, under a cap with room for three.
fn reserving_at_once<J: Journal>(journal: &J) {
    const CALL: u64 = 100;
    let cap = DayCap { day: NOON.day(), nanodollars: 3 * CALL };
    let held = || journal.spent_on(NOON.day()).expect("readable");
    let granted: usize = std::thread::scope(|scope| {
        let runs = (0..8).map(|number| {
            scope.spawn(move || {
                let mut chain = started(journal, number);
                chain.day = Some(cap);
                let mut granted = 0;
                for step in 1..=40 {
                    let before = (chain.state.clone(), chain.head);
                    let wanted = chain.write(vec![(intended(StepNo(step), CALL), Vec::new())]);
                    match append(journal, wanted) {
                        Ok(_) => {
                            granted += 1;
                            assert!(held() <= cap.nanodollars, "the cap is passed");
                            let free =
                                chain.write(vec![(Fact::StepReturned { step: StepNo(step) }, Vec::new())]);
                            append(journal, free).expect("written");
                        }
                        Err(error) => {
                            assert_eq!(error, AppendError::DayFull(cap.day, chain.run()));
                            (chain.state, chain.head) = before;
                        }
                    }
                }
                granted
            })
        });
        let runs: Vec<_> = runs.collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).sum()
    });
    assert!(granted > 0, "nothing was ever let in");
    assert_eq!(journal.spent_on(NOON.day()), Ok(0), "all of it was given back");
    assert_clean(journal, 8);
}

/// The journal's rows agree with the states that the same facts lead to.
fn random_histories<J: Journal>(journal: &J) {
    let (mut days, mut facts) = (BTreeSet::new(), BTreeSet::new());
    let mut booked = 0;
    for seed in 0..40 {
        let mut chain = Chain::new(seed);
        let mut appends = vec![chain.start()];
        journal.create(appends[0].clone()).expect("created");
        for append_of_run in chain.wander(60) {
            append(journal, append_of_run.clone()).expect("written");
            appends.push(append_of_run);
        }
        for event in appends.iter().flat_map(|append| &append.events) {
            days.insert(event.header.at.day());
            facts.insert(event.header.fact.name());
        }
        assert_history(journal, &chain, &appends);
        let (row, state) = (journal.run(chain.run()).expect("there"), &chain.state);
        assert_eq!(row.nanodollars, state.budget.spent.nanodollars, "seed {seed}");
        assert_eq!(row.tokens, state.budget.spent.tokens, "seed {seed}");
        assert_eq!(row.status == "ended", state.has_ended(), "seed {seed}");
        let waiting = if state.has_ended() { 0 } else { state.gates.len() as u64 };
        assert_eq!(row.open_gates, waiting, "seed {seed}");
        let held = state.open.values().map(|open| open.reserved().nanodollars).sum::<u64>();
        booked += row.nanodollars + held;
    }
    assert_eq!(facts.len(), 19, "all facts but those of timers take part: {facts:?}");
    let on_days = days.iter().map(|day| journal.spent_on(*day).expect("readable")).sum::<u64>();
    assert_eq!(on_days, booked, "what the days say and what the runs say");
    assert_clean(journal, 40);
}

fn many_runs_at_once<J: Journal>(journal: &J) {
    std::thread::scope(|scope| {
        for number in 0..50 {
            scope.spawn(move || {
                let mut chain = Chain::new(number);
                let mut appends = vec![chain.start()];
                journal.create(appends[0].clone()).expect("created");
                for _ in 0..20 {
                    appends.push(chain.step(&number.to_le_bytes()));
                    append(journal, appends[appends.len() - 1].clone()).expect("written");
                }
                assert_history(journal, &chain, &appends);
            });
        }
    });
    assert_eq!(journal.position(), 50 * 61);
    assert_clean(journal, 50);
}

fn restart<S: Subject>(subject: &S) {
    let journal = subject.open();
    let mut chain = Chain::new(7);
    let mut appends = vec![chain.start()];
    journal.create(appends[0].clone()).expect("created");
    let claim = journal.claim(chain.run(), "a", NOON, 30_000, false).expect("unclaimed");
    chain.fence = claim.fence;
    for append_of_run in chain.wander(30) {
        append(&journal, append_of_run.clone()).expect("written");
        appends.push(append_of_run);
    }
    journal.put("project", "a", 0, b"kept").expect("written");
    let before = (journal.runs(false, 9), journal.gates(false), journal.stream(0, 999), journal.position());
    drop(journal);
    let journal = subject.open();
    let after = (journal.runs(false, 9), journal.gates(false), journal.stream(0, 999), journal.position());
    assert_eq!(after, before);
    assert_history(&journal, &chain, &appends);
    assert_eq!(journal.get("project", "a").map(|record| record.map(|record| record.version)), Ok(Some(1)));
    let run = chain.run();
    let held = Err(ClaimError::Held { run, holder: "a".into() });
    assert_eq!(journal.claim(run, "b", NOON.plus(1), 1, false), held);
    let position = journal.create(Chain::new(8).start()).expect("created").position;
    assert_eq!(position, before.3 + 1, "positions go on where they were");
    assert_clean(&journal, 2);
}
