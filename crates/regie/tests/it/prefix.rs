//! What a vendor's prompt cache lives on: each request repeats the bytes of the one before, but for cuts that
//! have a name. One long mission on each wire, its requests compared as bytes.

use std::fmt::Write as _;

use models::Wire;
use serde_json::Value;
use testkit::script::Options;

use crate::world::{MEND, World, finish, until};

/// The turn during which the owner says something, and the request that it is.
const SPOKEN_AT: usize = 3;
/// The turn that ends too early.
const TOO_EARLY: usize = 7;
/// The turn after which the vendor has counted so much that the conversation is compacted.
const FULL: usize = 12;

/// Calls with long results, more blocks in one turn than a cache looks back, and all that is appended
/// beside them.
fn scenario() -> String {
    let mut text = "name = \"long\"\n".to_owned();
    for turn in 0..16 {
        writeln!(text, "\n[[turn]]\nthinking = \"Turn {turn}: let me look — très bien.\"").unwrap();
        let call = |text: &mut String, name: &str, input: &str| {
            writeln!(text, "[[turn.call]]\nname = \"{name}\"\ninput = {{ {input} }}").unwrap();
        };
        match turn {
            SPOKEN_AT => text.push_str("delay_ms = 2000\n"),
            FULL => text.push_str("usage = { input = 120000, output = 20 }\n"),
            _ => {}
        }
        match turn {
            0 => {
                call(&mut text, "read", "path = \"web/page.js\"");
                call(&mut text, "read", "path = \"sum.sh\"");
                call(&mut text, "shell", "command = \"sh check.sh\"");
            }
            1 => (0..14).for_each(|at| call(&mut text, "shell", &format!("command = \"echo {at}\""))),
            TOO_EARLY => text.push_str("text = \"It is done.\"\n"),
            14 => call(&mut text, "edit", r#"path = "sum.sh", old = "$1 - $2", new = "$1 + $2""#),
            15 => text.push_str("text = \"The sum is right now.\"\n"),
            _ => {
                text.push_str("text = \"I look at more of it.\"\n");
                for at in 0..4 {
                    let from = turn * 10 + at;
                    call(&mut text, "shell", &format!("command = \"seq {from} 9000\""));
                }
            }
        }
    }
    text.push_str("\n[[compaction]]\ntext = \"## Goal\\nMend the sum.\"\n");
    text
}

/// The place of the first difference, with the bytes around it on both sides; `None` when the newer goes on
/// where the older ends.
fn first_difference(old: &str, new: &str) -> Option<String> {
    let (old, new) = (unmarked(old), unmarked(new));
    // What closes the older one gives way to what is appended.
    let kept = old.trim_end_matches([']', '}', '"']);
    let at = kept.bytes().zip(new.bytes()).position(|(old, new)| old != new);
    let at = at.or_else(|| (new.len() < kept.len()).then_some(new.len()))?;
    let around = |text: &str| {
        let bytes = &text.as_bytes()[at.saturating_sub(60)..(at + 60).min(text.len())];
        String::from_utf8_lossy(bytes).into_owned()
    };
    Some(format!("at byte {at}\nold: {}\nnew: {}", around(&old), around(&new)))
}

/// Without the marks, which move, and which the vendor leaves out when it compares.
fn unmarked(body: &str) -> String {
    body.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

/// What the record calls it when a request does not go on where the one before ended.
fn cut(old: &str, new: &str) -> Option<&'static str> {
    let more = |what: &str| new.matches(what).count() > old.matches(what).count();
    match () {
        () if more("[an old result of ") => Some("cleared"),
        () if more("[Compacted by Regie; ") => Some("compacted"),
        () => None,
    }
}

fn told(world: &World) -> Vec<[u64; 3]> {
    let events = world.events("last");
    let usage = events.iter().map(|event| &event["content"]["usage"]).filter(|usage| usage.is_object());
    let of = |usage: &Value, name: &str| usage[name].as_u64().unwrap();
    usage.map(|usage| [of(usage, "input"), of(usage, "cache_read"), of(usage, "cache_write")]).collect()
}

#[test]
fn the_first_difference_is_shown_with_what_is_around_it() {
    let old = r#"{"messages":[{"a":"one"},{"a":"two"}]}"#;
    assert_eq!(first_difference(old, r#"{"messages":[{"a":"one"},{"a":"two"},{"b":"x"}]}"#), None);
    let shown = first_difference(old, r#"{"messages":[{"a":"one"},{"a":"tw0"},{"b":"x"}]}"#).unwrap();
    assert!(shown.starts_with("at byte 33\nold: ") && shown.contains(r#"{"a":"tw0"}"#), "{shown}");
    assert!(first_difference(old, r#"{"messages":[{"a":"one"}"#).is_some(), "it ends too early");
}

#[test]
fn each_request_repeats_the_one_before_but_for_cuts_with_a_name() {
    for wire in Wire::ALL {
        let options = Options { caches: true, ..Options::default() };
        let world = World::with(&scenario(), options);
        std::fs::create_dir(world.project().join("web")).unwrap();
        std::fs::write(world.project().join("web/AGENTS.md"), "Use semicolons in pages.\n").unwrap();
        std::fs::write(world.project().join("web/page.js"), "let a = 1\n").unwrap();
        assert!(world.git(&["add", "."]).status.success());
        assert!(world.git(&["commit", "-q", "-m", "Pages"]).status.success());
        let model = match wire {
            Wire::Messages => "scripted",
            Wire::Responses => "openai/scripted",
            Wire::Chat => "local/scripted",
        };
        let run = ["run", "Make the check pass", "--done", "sh check.sh", "--yes", "--detach"];
        let begun = finish(world.regie_on(wire, "", &[&run[..], &["--model", model]].concat()));
        assert_eq!(begun.code, Some(0), "{begun:?}");
        until("the slow turn is asked for", || world.sent().len() == SPOKEN_AT + 1);
        assert_eq!(world.ask(&["say", "last", "Mind the umlauts: ä."]).code, Some(0));
        let ended = world.ended("last");
        assert_eq!(ended.end, "done", "{wire:?}: {}", ended.reason);

        let sent = world.sent();
        assert_eq!(sent.len(), 16 + 1, "{wire:?}");
        for words in ["Use semicolons in pages.", "Mind the umlauts", "Not done yet.", "echo 13"] {
            assert!(sent.iter().any(|body| body.contains(words)), "{wire:?}: {words}");
        }
        let mut cuts = Vec::new();
        let mut whole = Vec::new();
        for (at, pair) in sent.windows(2).enumerate() {
            let difference = first_difference(&pair[0], &pair[1]);
            match (difference, cut(&pair[0], &pair[1])) {
                (None, None) => whole.push(at),
                (Some(_), Some(name)) => cuts.push((at, name)),
                (difference, name) => {
                    panic!("{wire:?}: requests {at} and {}, {name:?}: {difference:?}", at + 1)
                }
            }
        }
        assert_eq!(cuts, [(6, "cleared"), (9, "cleared"), (11, "cleared"), (13, "compacted")], "{wire:?}");
        reads_from_the_cache(&world, wire, &whole);
        if wire == Wire::Messages {
            for body in &sent {
                let marks = body.matches(r#""cache_control":"#).count();
                assert!((3..=4).contains(&marks), "{marks} marks");
            }
        }
        world.is_whole();
    }
}

/// Where nothing was cut, what the vendor had read before comes from its cache, and costs tell it apart.
fn reads_from_the_cache(world: &World, wire: Wire, whole: &[usize]) {
    let told = told(world);
    assert_eq!(told.len(), 16 + 1, "{wire:?}");
    let mut compared = 0;
    for at in whole.iter().copied().filter(|at| *at != FULL && at + 1 != FULL) {
        let (before, after) = (told[at].iter().sum::<u64>(), told[at + 1]);
        assert!(after[1] * 10 >= before * 9, "{wire:?}: request {}: {after:?} after {before}", at + 1);
        compared += 1;
    }
    assert!(compared >= 8, "{compared}");
    let costs = world.ask(&["costs", "--json"]).json();
    let read: u64 = told.iter().map(|usage| usage[1]).sum();
    assert_eq!(costs["total"]["told"]["cache_read"], read, "{costs}");
    assert!(read > 0);
}

#[test]
fn a_parameter_that_the_vendor_refuses_does_not_end_the_mission() {
    let reasoning = "Your organization must be verified to generate reasoning summaries.";
    for (wire, model, message, field) in [
        (Wire::Messages, "scripted", "adaptive thinking is not supported on this model", "thinking"),
        (Wire::Responses, "openai/scripted", reasoning, "reasoning"),
        (Wire::Responses, "openai/scripted", "Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key"),
    ] {
        let fault = format!("[[turn.fault]]\nkind = \"status\"\nstatus = 400\nmessage = \"{message}\"\n");
        let world = World::new(&MEND.replacen("[[turn.call]]", &format!("{fault}\n[[turn.call]]"), 1));
        let run = ["run", "Make the check pass", "--done", "sh check.sh", "--yes", "--model", model];
        let said = finish(world.regie_on(wire, "", &run));
        assert_eq!(said.code, Some(0), "{said:?}");
        let asked = world.asked();
        assert_eq!(asked.len(), 5, "{message}");
        assert!(asked[0].get(field).is_some(), "{}", asked[0]);
        assert!(asked[1..].iter().all(|request| request.get(field).is_none()), "{message}");
        let shown = world.ask(&["show", "last"]).flat();
        assert!(shown.contains("answered 400") && shown.contains("turn 1 model.no_"), "{shown}");
        world.is_whole();
    }
}
