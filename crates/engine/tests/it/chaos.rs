//! Random runs: whatever tools, models and policies do, every call is answered exactly once and the
//! run ends within its caps.

use domain::budget::{Caps, Exhausted};
use domain::fact::{Denial, Parking, Purpose, StepPlanned};
use domain::gate::Answer;
use domain::run::Command;
use domain::{Digest, Fact, Outcome, StepKind, StepNo};
use engine::config::Clearing;
use engine::{Config, ModelFailure, Native};
use kernel::driver::{Driver, Next};
use models::{Block, Response, Stop, Usage};
use proptest::prelude::*;
use serde_json::json;

use crate::world::{
    World, answer, at_gate, broken_call, by_policy, call, checkpoint, config, mission, output, shell,
    thinking, toolbox,
};

fn outcome(dice: u8) -> Outcome {
    match dice % 6 {
        0 => Outcome::Failed,
        1 => Outcome::TimedOut,
        2 => Outcome::Cancelled,
        _ => Outcome::Succeeded,
    }
}

fn response(serial: usize, dice: u8) -> Response {
    let id = |n: usize| format!("t{serial}_{n}");
    let defines = |command: &str| json!({"criteria": [{"command": command, "why": "it shows it"}]});
    let blocks = match dice % 9 {
        7 => vec![call(&id(0), "define_done", defines("make test")), shell(&id(1), "a")],
        8 => vec![call(&id(0), "define_done", defines(" "))],
        0 => vec![],
        1 => vec![thinking(), Block::text("done")],
        2 => vec![shell(&id(0), "a"), shell(&id(1), "b"), call(&id(2), "read", json!({}))],
        3 => vec![broken_call(&id(0), "shell", "truncated"), shell(&id(1), "b")],
        4 => vec![call(&id(0), "nothing", json!({})), call(&id(1), "post", json!({"x": 1}))],
        5 => vec![broken_call(&id(0), "shell", "unreadable")],
        _ => vec![Block::text(""), shell(&id(0), "c")],
    };
    let stop = match dice / 7 % 9 {
        0 => Stop::MaxTokens,
        1 => Stop::PauseTurn,
        2 if dice > 200 => Stop::Refusal,
        3 => Stop::ToolUse,
        4 if dice > 220 => Stop::ContextExceeded,
        5 => Stop::Other(String::new()),
        _ => Stop::EndTurn,
    };
    answer(stop, blocks)
}

fn settle(world: &mut World, step: &StepPlanned, serial: usize, dice: u8, more: u8) {
    let room = world.state.budget.check(step.reserve, world.state.active_time(domain::Timestamp(world.now)));
    if let Err(cap) = room {
        return world.deny(step, Denial::Budget { cap });
    }
    match (step.kind, dice % 23) {
        (StepKind::Timer, _) => return world.fire(step),
        (_, 20) => return world.deny(step, by_policy("no")),
        (_, 21) => return world.deny(step, at_gate(Answer::Refused)),
        (_, 22) if more > 230 => return world.deny(step, Denial::Budget { cap: Exhausted::Day }),
        _ => {}
    }
    let outcome = outcome(dice);
    match step.kind {
        StepKind::Compaction if outcome == Outcome::Succeeded && !more.is_multiple_of(5) => {
            let text = "what was said so far ".repeat(usize::from(more % 40));
            let usage = Usage::default();
            world.done(step, outcome, &Response { usage, ..answer(Stop::EndTurn, vec![Block::text(text)]) });
        }
        StepKind::ModelCall | StepKind::Compaction if outcome == Outcome::Succeeded => {
            // Whether the vendor counts or not.
            let usage =
                if serial.is_multiple_of(3) { Usage::default() } else { answer(Stop::EndTurn, vec![]).usage };
            world.done(step, outcome, &Response { usage, ..response(serial, more) });
        }
        StepKind::ModelCall | StepKind::Compaction if outcome == Outcome::Failed => {
            let retry_at = more.is_multiple_of(2).then_some(domain::Timestamp(world.now + 5));
            let failure = ModelFailure {
                code: if more.is_multiple_of(7) { engine::failure::CONTEXT_TOO_LONG } else { "model.cut" }
                    .into(),
                message: "cut".into(),
                hint: String::new(),
                retry_at,
                retryable: true,
            };
            world.done(step, outcome, &failure);
        }
        _ if more.is_multiple_of(11) => world.done_bytes(step, outcome, b"garbage".to_vec()),
        _ if more.is_multiple_of(13) => world.done_bytes(step, outcome, Vec::new()),
        StepKind::Checkpoint => {
            let commit = format!("c{}", more % 3);
            world.done(step, outcome, &checkpoint((!more.is_multiple_of(5)).then_some(commit.as_str())));
        }
        StepKind::Verdict => {
            world.done(step, outcome, &output("said", i32::from(outcome != Outcome::Succeeded)))
        }
        _ if step.tool == "merge" => world.done(step, outcome, &json!({"commit": "m", "message": "no"})),
        _ if step.tool == "deliver" => world.done(step, outcome, &json!({"delivery": "already_there"})),
        _ => {
            let mut output = output(&"said ".repeat(usize::from(more) * 5), i32::from(more % 2));
            if more.is_multiple_of(9) {
                let dir = more % 4;
                output["instructions"] = json!({"path": format!("{dir}/AGENTS.md"), "text": "Use tabs."});
            }
            world.done(step, outcome, &output);
        }
    }
}

/// Every call of the conversation has exactly one result, in the very next message: `compose` refuses
/// a request where one is missing, doubled or stray. While calls are due, it must refuse.
fn check_answered(world: &World) {
    let composed = world.driver.compose(StepNo::FIRST, u64::MAX);
    match world.driver.next(&world.state) {
        Next::Run(specs)
            if specs.iter().any(|spec| spec.kind == StepKind::ToolCall && !is_hosts(&spec.tool)) =>
        {
            assert!(composed.is_err(), "calls are due and already answered");
        }
        Next::Run(_) => drop(composed.unwrap()),
        Next::End { reason, .. } => {
            composed.unwrap();
            assert!(!reason.is_empty() && !reason.contains("cannot be made"), "{reason}");
        }
        Next::Rest { .. } => drop(composed.unwrap()),
        Next::Wait => panic!("nobody is waited for"),
    }
}

/// What was sent can be made again byte for byte, from the journal alone.
fn check_bytes(world: &World, again: &Native) {
    for fact in world.facts() {
        let Fact::StepPlanned(planned) = fact else { continue };
        let Some(upto) = planned.composed_upto else { continue };
        match again.compose(planned.step, upto) {
            Ok(bytes) => assert_eq!(Digest::of(&bytes), planned.request, "step {}", planned.step),
            // The run was given up for an answer that cannot be read.
            Err(error) => assert!(error.reason.contains("cannot be read"), "{error}"),
        }
    }
}

fn is_hosts(tool: &str) -> bool {
    matches!(tool, "merge" | "deliver")
}

/// The owner says something, and perhaps interrupts `step`. True when that has settled it.
fn speak(world: &mut World, step: &StepPlanned, word: &str, dice: u8) -> bool {
    let now = dice.is_multiple_of(2);
    world.tell_bytes(Command::Say { by: "human:owner".into(), now }, word.into());
    // An open call stays what was recorded.
    if let Some(upto) = step.composed_upto {
        let composed = world.reloaded().compose(step.step, upto).unwrap();
        assert_eq!(composed, world.requests[&step.step]);
    }
    let interrupted = world.state.open.get(&step.step).is_some_and(|open| open.interrupted);
    if interrupted && dice.is_multiple_of(3) {
        world.deny(step, Denial::Interrupted);
        return true;
    }
    false
}

/// Every word is in the conversation, or the end says that the last ones came too late.
fn check_read(world: &World, words: &[String]) {
    let request = String::from_utf8(world.driver.compose(StepNo::FIRST, u64::MAX).unwrap().to_vec()).unwrap();
    let unread = words.iter().skip_while(|word| request.contains(word.as_str())).count();
    let (_, reason) = world.end();
    assert_eq!(
        unread > 0,
        reason.contains("came too late to be read"),
        "{unread} of {}: {reason}",
        words.len()
    );
}

/// Plays a run to its end; gives what the owner said on the way.
fn play(
    world: &mut World,
    rolls: &mut impl Iterator<Item = (u8, u8)>,
    backwards: bool,
    talks: u8,
) -> Vec<String> {
    let (mut serial, mut words, mut steps_taken) = (world.inherited(), Vec::new(), 0);
    loop {
        check_answered(world);
        if let Next::End { .. } = world.driver.next(&world.state) {
            return words;
        }
        if let Next::Rest { code, hint } = world.driver.next(&world.state) {
            world.tell(Command::Park { reason: Parking::Blocked { code, hint } }, &());
            assert_eq!(world.reloaded().next(&world.state), world.driver.next(&world.state));
            world.tell(Command::Resume { by: "human:owner".into() }, &());
            continue;
        }
        let mut steps = world.go();
        assert!(!steps.is_empty(), "the driver neither acts nor ends");
        if backwards {
            steps.reverse();
        }
        for step in &steps {
            serial += 1;
            let (dice, more) = rolls.next().unwrap_or_default();
            if talks > 0 && (dice ^ more).is_multiple_of(7 / talks) {
                words.push(format!("word <{}>", words.len()));
                if speak(world, step, &words[words.len() - 1], more) {
                    continue;
                }
            }
            settle(world, step, serial, dice, more);
        }
        steps_taken += steps.len();
        assert!(steps_taken < 400, "the run does not end");
    }
}

fn is_result(world: &World, seq: usize) -> bool {
    matches!(world.events[seq - 1].header.fact, Fact::StepCompleted { .. })
}

/// A fork right before a request to the model sends the very same bytes.
fn check_forks(world: &World, caps: Caps) {
    let done: Vec<String> = world.criteria();
    let done: Vec<&str> = done.iter().map(String::as_str).collect();
    let mission = domain::Mission { caps, ..mission(&done) };
    for fact in world.facts() {
        let Fact::StepPlanned(planned) = fact else { continue };
        let Some(upto) = planned.composed_upto.and_then(|upto| usize::try_from(upto).ok()) else { continue };
        // A fork folds all that came before: some of them are enough.
        if planned.step.0 % 5 != 1 {
            continue;
        }
        let fork = world.forked(upto, Purpose::Fork, &mission);
        match fork.driver.next(&fork.state) {
            Next::Run(specs) => {
                assert_eq!(Digest::of(specs[0].request.bytes()), planned.request, "step {}", planned.step);
                assert_eq!(specs[0].kind, planned.kind);
            }
            other => panic!("step {}: {other:?}", planned.step),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_within_its_caps_with_every_call_answered(
        dice in prop::collection::vec((any::<u8>(), any::<u8>()), 40..200),
        criteria in 0usize..3,
        backwards: bool,
        window in prop::sample::select(vec![600_u64, 2_000, 200_000]),
        batch_bytes in prop::sample::select(vec![500_usize, 2_000, 96 << 10]),
        talks in 0u8..3,
    ) {
        let caps = Caps { turns: 25, calls: 60, ..Caps::default() };
        let commands = ["make test", "make lint"];
        let mission = domain::Mission { caps, ..mission(&commands[..criteria]) };
        let clearing = Clearing { keep_bytes: 400, keep_results: 1, batch_bytes };
        // Without the owner's criteria the agent may define them.
        let toolbox = if criteria > 0 { toolbox() } else { toolbox().with_definition().unwrap() };
        let mission = domain::Mission { tools: Digest::of(&toolbox.to_bytes().unwrap()), ..mission };
        let config = Config { toolbox, window, clearing, max_output_tokens: 100, ..config() };
        let mut world = World::with(mission, config);
        let mut rolls = dice.iter().copied().cycle();
        let words = play(&mut world, &mut rolls, backwards, talks);
        check_read(&world, &words);
        let again = world.reloaded();
        prop_assert_eq!(again.next(&world.state), world.driver.next(&world.state));
        check_bytes(&world, &again);
        prop_assert!(world.state.budget.spent.turns <= 25 && world.state.budget.spent.calls <= 60);
        check_forks(&world, caps);
        // And one of them goes on to an end of its own.
        let results = (1..=world.events.len()).filter(|seq| is_result(&world, *seq));
        let results: Vec<usize> = results.collect();
        if let Some(seq) = results.get(usize::from(dice[0].0) % results.len().max(1)) {
            let mission = domain::Mission { caps, ..crate::world::mission(&commands[..criteria]) };
            let mut fork = world.forked(*seq, Purpose::Fork, &mission);
            if talks > 1 {
                let say = Command::Say { by: "human:owner".into(), now: true };
                fork.tell_bytes(say, "word of the fork".into());
            }
            play(&mut fork, &mut rolls, backwards, talks);
            let again = fork.reloaded();
            prop_assert_eq!(again.next(&fork.state), fork.driver.next(&fork.state));
            check_bytes(&fork, &again);
            prop_assert!(fork.state.budget.spent.turns <= 25);
        }
    }
}
