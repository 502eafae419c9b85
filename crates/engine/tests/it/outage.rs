//! A vendor that is out: attempts and pauses first, then waits that grow, then a rest.

use domain::fact::{Fact, Parking, StepPlanned};
use domain::run::{Command, End, Phase};
use domain::step::OUTAGE;
use domain::{Outcome, StepKind, Timestamp};
use engine::ModelFailure;
use kernel::driver::{Driver, Next};
use models::Stop;

use crate::world::{World, answer, calls, config, mission, output, says, shell};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// A morning, in milliseconds.
const TEN_PAST_TWO: u64 = 20_000 * 24 * HOUR + 2 * HOUR + 10 * MINUTE;

fn failure(code: &str, retry_at: Option<u64>) -> ModelFailure {
    ModelFailure {
        code: code.into(),
        message: "Anthropic answered 503: down".into(),
        hint: "try later".into(),
        retry_at: retry_at.map(Timestamp),
        retryable: true,
    }
}

fn fails(world: &mut World, code: &str) {
    let step = world.one("claude-opus-5-5");
    world.done(&step, Outcome::Failed, &failure(code, None));
}

/// A run whose vendor is out: its attempts have failed.
fn out() -> World {
    let mut world = World::new(&[]);
    world.now = TEN_PAST_TWO;
    (0..4).for_each(|_| fails(&mut world, "model.status"));
    world
}

fn wait(world: &mut World) -> (StepPlanned, u64) {
    let timer = world.one(OUTAGE);
    assert_eq!(timer.kind, StepKind::Timer);
    let Phase::Sleeping { due } = world.state.open[&timer.step].phase else { panic!("it does not sleep") };
    (timer, due.0)
}

fn told(world: &World, timer: &StepPlanned) -> String {
    String::from_utf8(world.requests[&timer.step].to_vec()).unwrap()
}

/// Until the timer is due.
fn wait_out(world: &mut World) -> u64 {
    let (timer, due) = wait(world);
    let waited = due - world.now;
    world.now = due;
    world.fire(&timer);
    waited
}

#[test]
fn a_vendor_that_is_out_is_waited_for_longer_and_longer() {
    let mut world = out();
    let (timer, due) = wait(&mut world);
    insta::assert_snapshot!(
        told(&world, &timer),
        @r#"{"reason":"waiting for Anthropic since 02:10 (UTC): Anthropic answered 503: down; again at 02:15 (UTC)"}"#
    );
    world.now = due;
    world.fire(&timer);
    let mut waits = Vec::new();
    for _ in 0..3 {
        // One question a wait.
        fails(&mut world, "model.unreachable");
        waits.push(wait_out(&mut world) / MINUTE);
    }
    assert_eq!(waits, [14, 59, 59], "15 minutes, then hours, from the failure on");
    world.model(&says("It is back."));
    world.checkpoint(None);
}

#[test]
fn a_vendor_that_asks_to_wait_is_paused_for_before_and_asked_no_earlier_in_an_outage() {
    let mut world = World::new(&[]);
    let overloaded = failure("model.overloaded", Some(60_000));
    for round in 0..5 {
        let step = world.one("claude-opus-5-5");
        world.done(&step, Outcome::Failed, &overloaded);
        let timer = world.one("timer");
        assert_eq!(timer.kind, StepKind::Timer, "round {round}");
        world.fire(&timer);
    }
    let step = world.one("claude-opus-5-5");
    world.done(&step, Outcome::Failed, &overloaded);
    wait_out(&mut world);
    let step = world.one("claude-opus-5-5");
    let later = world.now + 3 * HOUR;
    world.done(&step, Outcome::Failed, &failure("model.rate_limited", Some(later)));
    assert_eq!(wait(&mut world).1, later);
}

#[test]
fn after_a_day_the_run_rests_until_it_is_resumed() {
    let mut world = out();
    let mut waits = 0;
    while let Next::Run(_) = world.driver.next(&world.state) {
        wait_out(&mut world);
        fails(&mut world, "model.status");
        waits += 1;
    }
    assert_eq!(waits, 26, "5 and 15 minutes, hours, and what is left of the day");
    let Next::Rest { code, hint } = world.driver.next(&world.state) else { panic!("it does not rest") };
    assert_eq!(code, "model.status");
    insta::assert_snapshot!(hint, @"Anthropic has not answered since 2024-10-04 02:10 (UTC): Anthropic answered 503: down; nothing is spent while the run rests");
    let reason = Parking::Blocked { code, hint };
    world.tell_bytes(Command::Park { reason }, Vec::new());
    world.tell_bytes(Command::Resume { by: "human:owner".into() }, Vec::new());
    // It has all its attempts again.
    (0..4).for_each(|_| fails(&mut world, "model.status"));
    assert!(told_since(&mut world).contains("since 02:1"));
}

fn told_since(world: &mut World) -> String {
    let (timer, _) = wait(world);
    told(world, &timer)
}

#[test]
fn a_resume_asks_at_once_and_a_word_is_read_then() {
    let mut world = out();
    wait(&mut world);
    world.tell_bytes(
        Command::Say { by: "human:owner".into(), now: false },
        b"Look at the sums first".to_vec(),
    );
    assert_eq!(world.driver.next(&world.state), world.driver.next(&world.state));
    world.tell_bytes(Command::Resume { by: "human:owner".into() }, Vec::new());
    assert!(world.state.open.is_empty());
    world.one("claude-opus-5-5");
    assert!(world.last_said().contains("Look at the sums first"));
    // A run that does nothing else needs no resume.
    assert!(world.state.decide(Timestamp(world.now), Command::Resume { by: "human:owner".into() }).is_err());
}

#[test]
fn waiting_for_a_vendor_is_nobodys_time() {
    let mut world = out();
    let before = world.state.active_time(Timestamp(world.now));
    wait(&mut world);
    let later = Timestamp(world.now + 20 * HOUR);
    assert!(world.state.active_time(later) <= before + 100);
    world.tell_bytes(Command::Resume { by: "human:owner".into() }, Vec::new());
    world.now += 7;
    assert!(world.state.active_time(Timestamp(world.now)) > before);
}

#[test]
fn an_answer_starts_the_count_again() {
    let mut world = World::new(&[]);
    (0..3).for_each(|_| fails(&mut world, "model.cut"));
    world.model(&calls(vec![shell("t1", "ls")]));
    let step = world.one("shell");
    world.done(&step, Outcome::Succeeded, &output("", 0));
    (0..4).for_each(|_| fails(&mut world, "model.cut"));
    wait(&mut world);
}

#[test]
fn garbage_ends_a_run_unless_its_vendor_is_out() {
    let mut world = World::new(&[]);
    (0..4).for_each(|_| fails(&mut world, "model.malformed"));
    assert_eq!(world.end().0, End::Failed);
    let mut world = out();
    wait_out(&mut world);
    fails(&mut world, "model.malformed");
    wait_out(&mut world);
    let step = world.one("claude-opus-5-5");
    world.done(
        &step,
        Outcome::Failed,
        &ModelFailure { retryable: false, ..failure("model.bad_request", None) },
    );
    assert_eq!(world.end().0, End::Failed);
}

#[test]
fn a_summary_waits_for_the_vendor_as_well() {
    let mut world = World::new(&["true"]);
    world.model(&answer(Stop::ContextExceeded, vec![models::Block::text("no")]));
    for _ in 0..4 {
        let step = world.one("claude-opus-5-5");
        assert_eq!(step.kind, StepKind::Compaction);
        world.done(&step, Outcome::Failed, &failure("model.idle", None));
    }
    wait_out(&mut world);
    assert_eq!(world.one("claude-opus-5-5").kind, StepKind::Compaction);
}

#[test]
fn runs_of_the_driver_before_end_as_they_always_did() {
    let mut world = World::driven_by("native/3", mission(&[]), config());
    (0..4).for_each(|_| fails(&mut world, "model.status"));
    let (end, reason) = world.end();
    assert_eq!(end, End::Failed);
    insta::assert_snapshot!(reason, @"Anthropic answered 503: down (model.status); try later; nothing was changed");
    assert!(!world.facts().any(|fact| matches!(fact, Fact::TimerSet { .. })));
}
