//! A conversation that grows: results are cleared in batches, then all of it is compacted, and a mission
//! that cannot be made to fit ends with a word on it.

use domain::run::{Command, End};
use domain::{Digest, Fact, Outcome, StepKind};
use engine::config::Clearing;
use engine::{Config, ModelFailure};
use kernel::driver::{Driver, Next};
use models::{Block, Response, Stop, Usage};
use serde_json::{Value, json};

use crate::world::{World, answer, call, calls, config, mission, output, shell};

const MODEL: &str = "claude-opus-5-5";

/// An answer whose tokens the vendor does not count: bytes decide.
fn uncounted(response: Response) -> Response {
    Response { usage: Usage::default(), ..response }
}

fn small(window: u64) -> Config {
    let clearing = Clearing { keep_bytes: 3_000, keep_results: 1, batch_bytes: 6_000 };
    Config { window, clearing, max_output_tokens: 100, ..config() }
}

/// One turn with one command whose output has this many bytes.
fn turn(world: &mut World, serial: usize, bytes: usize) {
    world.model(&uncounted(calls(vec![shell(&format!("t{serial}"), &format!("command {serial}"))])));
    let step = world.one("shell");
    world.done(&step, Outcome::Succeeded, &output(&"x".repeat(bytes), 0));
}

fn summary(text: &str) -> Response {
    uncounted(answer(Stop::EndTurn, vec![Block::text(text)]))
}

/// The model is asked for a summary and gives it.
#[track_caller]
fn compact(world: &mut World, response: &Response) -> Value {
    let step = world.one(MODEL);
    assert_eq!((step.kind, step.reserve.turns), (StepKind::Compaction, 0));
    world.done(&step, Outcome::Succeeded, response);
    world.request(&step)
}

fn texts(messages: &Value) -> Vec<String> {
    let blocks =
        messages.as_array().unwrap().iter().flat_map(|message| message["content"].as_array().unwrap());
    blocks
        .map(|block| {
            let text = block["text"].as_str().or_else(|| block["content"].as_str());
            text.unwrap_or_else(|| block["type"].as_str().unwrap()).to_owned()
        })
        .collect()
}

/// What was sent can be made again from the journal, byte for byte.
#[track_caller]
fn is_repeatable(world: &World) {
    let again = world.reloaded();
    for fact in world.facts() {
        if let Fact::StepPlanned(planned) = fact
            && let Some(upto) = planned.composed_upto
        {
            let bytes = again.compose(planned.step, upto).unwrap();
            assert_eq!(Digest::of(&bytes), planned.request, "step {}", planned.step);
        }
    }
    assert_eq!(again.next(&world.state), world.driver.next(&world.state));
}

#[test]
fn old_results_are_cleared_in_batches_and_the_latest_stay() {
    let mut world = World::with(mission(&[]), small(200_000));
    let mut cleared = Vec::new();
    for serial in 0..10 {
        turn(&mut world, serial, 2_000);
        let sent = texts(&world.messages());
        cleared.push(sent.iter().filter(|text| text.starts_with("[an old result")).count());
    }
    assert_eq!(cleared, [0, 0, 0, 0, 0, 4, 4, 4, 4, 8], "in batches, not one by one");
    let sent = texts(&world.messages());
    assert_eq!(sent[2], "[an old result of 2000 bytes, cleared to save room]");
    assert_eq!(sent.iter().filter(|text| text.len() == 2_000).count(), 2);
    is_repeatable(&world);
}

#[test]
fn a_run_of_the_driver_before_sends_what_it_always_sent() {
    assert!(engine::native::drives("native/1") && !engine::native::drives("native/9"));
    let mut world = World::driven_by("native/1", mission(&[]), small(200_000));
    for serial in 0..10 {
        turn(&mut world, serial, 2_000);
    }
    assert!(!texts(&world.messages()).iter().any(|text| text.starts_with("[an old result")));
}

#[test]
fn many_instructions_do_not_fill_the_window_for_good() {
    let mut world = World::with(mission(&[]), small(40_000));
    for serial in 0..6 {
        world.model(&uncounted(calls(vec![call(
            &format!("r{serial}"),
            "read",
            json!({"path": format!("a{serial}")}),
        )])));
        let step = world.one("read");
        let mut told = output(&"x".repeat(3_000), 0);
        told["instructions"] = json!({"path": format!("d{serial}/AGENTS.md"), "text": "u".repeat(11_000)});
        world.done(&step, Outcome::Succeeded, &told);
    }
    compact(&mut world, &summary("all of it"));
    let sent = texts(&world.messages());
    assert_eq!(sent.iter().filter(|text| text.contains("uuu")).count(), 2);
    let named = "to be read before you work there: d2/AGENTS.md, d3/AGENTS.md, d4/AGENTS.md, d5/AGENTS.md";
    assert!(sent.last().unwrap().contains(named), "{}", sent.last().unwrap());
    is_repeatable(&world);
}

#[test]
fn short_results_and_errors_stay_what_they_are_and_a_stub_names_the_whole() {
    let mut world = World::with(mission(&[]), small(200_000));
    world.model(&uncounted(calls(vec![shell("a", "1"), shell("b", "2"), shell("c", "3")])));
    let steps = world.go();
    world.done(&steps[0], Outcome::Succeeded, &output("short", 0));
    world.done(&steps[1], Outcome::Failed, &output(&"e".repeat(8_000), 1));
    let mut long = output(&"l".repeat(8_000), 0);
    long["path"] = json!("/outputs/4.txt");
    world.done(&steps[2], Outcome::Succeeded, &long);
    turn(&mut world, 1, 4_000);
    let messages = world.messages();
    let results = messages[2]["content"].as_array().unwrap();
    assert_eq!(results[0]["content"], "short");
    assert_eq!(
        (results[1]["tool_use_id"].as_str(), results[1]["is_error"].as_bool()),
        (Some("b"), Some(true))
    );
    assert!(results[1]["content"].as_str().unwrap().starts_with("[an old result of 8"), "{}", results[1]);
    assert_eq!(
        results[2]["content"],
        "[an old result of 8000 bytes, cleared to save room; `read` or `search` the whole in /outputs/4.txt]"
    );
}

#[test]
fn a_full_conversation_goes_on_from_a_summary() {
    let mut world = World::with(mission(&["make test"]), small(4_000));
    let before = world.messages()[0]["content"][0]["text"].clone();
    world.model(&uncounted(calls(vec![call("r", "read", json!({"path": "src/sum.js"}))])));
    let step = world.one("read");
    world.done(&step, Outcome::Succeeded, &output(&"x".repeat(2_000), 0));
    turn(&mut world, 1, 5_000);
    let asked = compact(&mut world, &summary("## Goal\nMend it."));
    let last = texts(&asked["messages"]).pop().unwrap();
    assert!(last.starts_with("Regie compacts this conversation"), "{last}");
    assert!(texts(&asked["messages"]).len() > 4, "the whole conversation is before it");
    let messages = world.messages();
    assert_eq!(messages.as_array().unwrap().len(), 1);
    assert_eq!(messages[0]["content"][0]["text"], before, "the goal stays, word by word");
    insta::assert_snapshot!(messages[0]["content"][1]["text"].as_str().unwrap(), @r"
    [Compacted by Regie; turns before: 2; compactions: 1]
    The conversation up to here was replaced by the summary that you wrote of it:

    ## Goal
    Mend it.

    What ran last, from Regie's record:
    - event 13: `command 1`: exit code 0

    Files that you only read, the latest first: src/sum.js

    Their contents are no longer in front of you: read again what you go on with.
    ");
    turn(&mut world, 2, 10);
    is_repeatable(&world);
}

#[test]
fn what_the_owner_said_outlives_a_compaction_word_by_word() {
    let mut world = World::with(mission(&[]), small(4_000));
    world.model(&uncounted(calls(vec![shell("t0", "ls")])));
    let step = world.one("shell");
    world
        .tell_bytes(Command::Say { by: "human:owner".into(), now: false }, b"never touch `legacy/`".to_vec());
    world.done(&step, Outcome::Succeeded, &output(&"x".repeat(3_000), 0));
    turn(&mut world, 1, 5_000);
    compact(&mut world, &summary("all of it"));
    let words = "The owner says, while you are working:\n\nnever touch `legacy/`";
    assert_eq!(texts(&world.messages()).iter().filter(|text| *text == words).count(), 1);
    is_repeatable(&world);
}

#[test]
fn the_vendors_own_count_decides_where_there_is_one() {
    let mut world = World::with(mission(&[]), small(4_000));
    let mut response = calls(vec![shell("t", "ls")]);
    response.usage = Usage { input: 10, output: 50, cache_read: 2_100, cache_write: 50 };
    world.model(&response);
    let step = world.one("shell");
    world.done(&step, Outcome::Succeeded, &output("x", 0));
    compact(&mut world, &summary("all of it"));
}

#[test]
fn instructions_of_a_directory_are_told_once_and_outlive_a_compaction() {
    let mut world = World::with(mission(&[]), small(4_000));
    for serial in 0..2 {
        world.model(&uncounted(calls(vec![call(
            &format!("r{serial}"),
            "read",
            json!({"path": "web/a.js"}),
        )])));
        let step = world.one("read");
        let mut told = output(&"x".repeat(3_000), 0);
        told["instructions"] = json!({"path": "web/AGENTS.md", "text": "Use tabs.\n"});
        world.done(&step, Outcome::Succeeded, &told);
    }
    let words = "The project's own instructions for what is in `web/`, from `web/AGENTS.md`; there they go before \
                 those of the directories above:\n\nUse tabs.";
    let asked = compact(&mut world, &summary("all of it"));
    assert_eq!(texts(&asked["messages"]).iter().filter(|text| *text == words).count(), 1);
    assert_eq!(texts(&world.messages())[1], words);
    is_repeatable(&world);
}

#[test]
fn a_conversation_that_is_full_again_at_once_blocks() {
    let mut world = World::with(mission(&[]), small(4_000));
    turn(&mut world, 0, 7_000);
    compact(&mut world, &summary("all of it"));
    turn(&mut world, 1, 7_000);
    // The work is committed before the run ends.
    world.checkpoint(Some("c0ffee"));
    let (end, reason) = world.end();
    assert_eq!(end, End::Blocked);
    assert!(reason.starts_with("the conversation is full again right after compaction 1"), "{reason}");
    assert!(reason.ends_with("keeps the work at c0ffee"), "{reason}");
}

#[test]
fn a_summary_is_cut_to_a_part_of_the_window() {
    let mut world = World::with(mission(&[]), small(4_000));
    turn(&mut world, 0, 7_000);
    compact(&mut world, &summary(&"long ".repeat(5_000)));
    turn(&mut world, 1, 10);
    let Next::Run(specs) = world.driver.next(&world.state) else { panic!() };
    assert_eq!(specs[0].kind, StepKind::ModelCall);
}

#[test]
fn a_goal_that_fills_the_window_blocks_before_anything_is_spent() {
    let mission = domain::Mission { goal: "x".repeat(20_000), ..mission(&[]) };
    let world = World::with(mission, small(4_000));
    let (end, reason) = world.end();
    assert_eq!(end, End::Blocked);
    assert!(reason.starts_with("the goal and the instructions alone take about 67"), "{reason}");
}

#[test]
fn a_model_that_gives_no_summary_blocks() {
    let mut world = World::with(mission(&[]), small(4_000));
    turn(&mut world, 0, 7_000);
    for _ in 0..3 {
        compact(&mut world, &uncounted(calls(vec![shell("s", "ls")])));
    }
    world.checkpoint(None);
    let (end, reason) = world.end();
    assert_eq!(end, End::Blocked);
    assert!(reason.contains("gave no summary of it 3 times in a row"), "{reason}");
}

#[test]
fn a_conversation_that_the_vendor_refuses_is_cleared_and_compacted_once() {
    let mut world = World::with(mission(&[]), small(200_000));
    turn(&mut world, 0, 5_000);
    let too_long = |world: &mut World| {
        let step = world.one(MODEL);
        let failure = ModelFailure {
            code: engine::failure::CONTEXT_TOO_LONG.into(),
            message: "too long".into(),
            hint: String::new(),
            retry_at: None,
            retryable: false,
        };
        world.done(&step, Outcome::Failed, &failure);
    };
    too_long(&mut world);
    let asked = compact(&mut world, &summary("all of it"));
    assert!(texts(&asked["messages"])[2].starts_with("[an old result"), "{asked}");
    turn(&mut world, 1, 10);
    turn(&mut world, 2, 10);
    too_long(&mut world);
    too_long(&mut world);
    let (end, reason) = world.end();
    assert_eq!(end, End::Blocked, "{reason}");
    is_repeatable(&world);
}
