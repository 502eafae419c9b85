//! A run's events as people read them. Pure: events in, text out, so that the live view and `regie
//! show` are the same, and tests need no terminal.

use std::collections::{BTreeMap, BTreeSet};

use control::api;
use serde_json::Value;

use super::prose::Prose;
use crate::screen::{style, text};

/// Columns of a line's name.
const NAME: usize = 10;
/// Columns before what a line says: indent, mark, name.
const BEFORE: usize = 2 + 2 + NAME + 1;

/// How much is shown below a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The beginning and the end of what matters.
    Brief,
    /// All that the record's lines hold.
    Whole,
}

/// What a model call is shown as while it runs.
const THINKING: &str = "thinking";

/// A merge that was asked for or done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) subject: String,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) line: String,
    pub(crate) commit: Option<String>,
}

/// What is running.
#[derive(Debug)]
struct Running {
    title: String,
    /// The line of its reasoning that is being written.
    reasoning: String,
    is_merge: bool,
    since: Option<u64>,
}

/// Folds events into text.
#[derive(Debug)]
pub(crate) struct View {
    depth: Depth,
    width: usize,
    running: BTreeMap<u64, Running>,
    prose: Prose,
    /// Whether lines say the number of their step, which `regie fork --at` takes.
    is_numbered: bool,
    /// The step whose words are being set.
    speaking: Option<u64>,
    /// Steps whose words were seen as they came.
    spoken: BTreeSet<u64>,
    /// Steps that are over.
    settled: u64,
    spent: api::Spent,
    turns: u64,
    merge: Merge,
    refused: bool,
    last_words: Option<String>,
}

impl View {
    pub(crate) fn new(depth: Depth, width: usize) -> Self {
        Self {
            depth,
            width,
            running: BTreeMap::new(),
            prose: Prose::new(width),
            is_numbered: false,
            speaking: None,
            spoken: BTreeSet::new(),
            settled: 0,
            spent: api::Spent::default(),
            turns: 0,
            merge: Merge::default(),
            refused: false,
            last_words: None,
        }
    }

    /// With the number of each step beside its result.
    pub(crate) fn numbered(self) -> Self {
        Self { is_numbered: true, ..self }
    }

    /// Counts on from where a run stood before the first event that is shown.
    pub(crate) fn go_on_from(&mut self, turns: u64, spent: api::Spent) {
        self.turns = turns;
        self.spent = spent;
    }

    /// The merge that the events tell of.
    pub(crate) fn merge(&self) -> &Merge {
        &self.merge
    }

    /// Why it ended, in words.
    pub(crate) fn last_words(&self) -> Option<&str> {
        self.last_words.as_deref()
    }

    /// Whether a gate was answered with no, or not in time.
    pub(crate) fn was_refused(&self) -> bool {
        self.refused
    }

    /// Takes in what arrives before it is on record.
    pub(crate) fn delta(&mut self, delta: &api::Delta) -> String {
        if delta.step <= self.settled && delta.kind != "lagged" {
            return String::new();
        }
        match delta.kind.as_str() {
            "text" => {
                let mut shown = String::new();
                if self.speaking != Some(delta.step) {
                    shown.push_str(&self.hush());
                    shown.push('\n');
                    self.speaking = Some(delta.step);
                }
                shown.push_str(&self.prose.push(&delta.text));
                self.spoken.insert(delta.step);
                shown
            }
            "thinking" => {
                self.think(delta);
                String::new()
            }
            "retry" | "waiting" => {
                let said = text::short(&text::line(&delta.text), self.width.saturating_sub(BEFORE));
                format!("{}  {} {}\n", self.hush(), style::waiting("↻"), style::dim(&said))
            }
            "queue" => {
                if let Some(running) = self.running.get_mut(&delta.step) {
                    running.title = "waiting in the vendor's queue".into();
                }
                String::new()
            }
            // What was lost comes again with the event.
            "lagged" => {
                if let Some(step) = self.speaking {
                    self.spoken.remove(&step);
                }
                self.hush()
            }
            _ => String::new(),
        }
    }

    /// Reasoning passes by where the running step is named; what is kept of it comes with the event.
    fn think(&mut self, delta: &api::Delta) {
        let Some(running) = self.running.get_mut(&delta.step) else { return };
        if delta.text.contains('\n') {
            running.reasoning.clear();
        }
        let rest = delta.text.rsplit('\n').next().unwrap_or_default();
        running.reasoning.push_str(rest);
        let now = text::line(running.reasoning.trim().trim_matches('*'));
        if !now.is_empty() {
            running.title = format!("{THINKING}: {now}");
        }
    }

    /// Takes in an event.
    pub(crate) fn event(&mut self, event: &api::Event) -> String {
        self.absorb(event);
        let Some(line) = &event.line else { return String::new() };
        let mut shown = self.hush();
        match event.fact["fact"].as_str() {
            // The heading has said it, but for what the run goes on from.
            Some("run_started") if event.fact["forked"].is_null() => return shown,
            // The result below says it.
            Some("ended") => {
                self.last_words = line.detail.clone();
                return shown;
            }
            _ => {}
        }
        if line.kind == "model" {
            shown.push_str(&self.turn(event, line));
        } else {
            shown.push_str(&self.line(line));
        }
        shown
    }

    /// What is going on, for a line that is drawn over and over; nothing inside a sentence.
    pub(crate) fn status(&self, now: u64) -> Option<String> {
        if self.prose.is_open() {
            return None;
        }
        let (title, since) = match self.running.values().next_back() {
            Some(running) => (running.title.as_str(), running.since),
            None => ("", None),
        };
        let elapsed = since.map(|since| text::span(now.saturating_sub(since))).unwrap_or_default();
        let title = text::short(title, self.width.saturating_sub(48).max(16));
        let mut parts = vec![title, elapsed, format!("turn {}", self.turns.max(1)), text::spent(&self.spent)];
        parts.retain(|part| !part.is_empty());
        Some(parts.join(" · "))
    }

    /// Ends what is being said.
    pub(crate) fn hush(&mut self) -> String {
        self.speaking = None;
        self.prose.end()
    }

    /// Keeps what is to be known of an event: what runs, what it cost, what is merged.
    fn absorb(&mut self, event: &api::Event) {
        let fact = &event.fact;
        let step = fact["step"].as_u64().unwrap_or_default();
        match fact["fact"].as_str().unwrap_or_default() {
            "step_planned" => self.plan(step, fact, &event.content),
            "step_intended" => {
                if let Some(running) = self.running.get_mut(&step) {
                    running.since = Some(event.at);
                }
            }
            "step_completed" => {
                self.charge(&fact["spent"]);
                self.settled = self.settled.max(step);
                if self.running.remove(&step).is_some_and(|running| running.is_merge) {
                    self.merge.commit = event.content["commit"].as_str().map(text::line);
                }
            }
            // It is asked again under the same number.
            "model_call_lost" => self.charge(&fact["spent"]),
            "step_denied" => {
                self.running.remove(&step);
            }
            "gate_answered" => {
                self.refused = matches!(fact["answer"].as_str(), Some("refused" | "expired"));
            }
            _ => {}
        }
    }

    fn plan(&mut self, step: u64, fact: &Value, content: &Value) {
        let kind = fact["kind"].as_str().unwrap_or_default();
        // A question to a human names the tool that it is about.
        if kind == "wait_human" {
            return;
        }
        let tool = text::line(fact["tool"].as_str().unwrap_or_default());
        let said = ["command", "path", "pattern"].iter().find_map(|name| {
            content["input"][*name].as_str().or_else(|| content[*name].as_str()).map(text::line)
        });
        let is_merge = tool == "merge";
        if is_merge {
            self.propose(content);
        }
        let title = match (kind, said) {
            ("model_call", _) => THINKING.into(),
            ("compaction", _) => "summarising the conversation".into(),
            ("verdict", Some(said)) => format!("check {said}"),
            (_, Some(said)) => format!("{tool} {said}"),
            (_, None) => tool,
        };
        if kind == "model_call" {
            self.turns = self.turns.saturating_add(1);
        }
        self.running.insert(step, Running { title, reasoning: String::new(), is_merge, since: None });
    }

    fn propose(&mut self, request: &Value) {
        let message = &request["message"];
        let trailers = message["trailers"].as_array().map(Vec::as_slice).unwrap_or_default();
        self.merge = Merge {
            subject: text::line(message["subject"].as_str().unwrap_or_default()),
            trailers: trailers
                .iter()
                .filter_map(|pair| {
                    let part = |place: usize| pair.get(place).and_then(Value::as_str).map(text::line);
                    Some((part(0)?, part(1)?))
                })
                .collect(),
            line: text::line(request["line"].as_str().unwrap_or_default()),
            commit: None,
        };
    }

    fn charge(&mut self, spent: &Value) {
        let of = |name: &str| spent[name].as_u64().unwrap_or_default();
        self.spent.tokens = self.spent.tokens.saturating_add(of("tokens"));
        self.spent.nanodollars = self.spent.nanodollars.saturating_add(of("nanodollars"));
        self.spent.unpriced = self.spent.unpriced.saturating_add(of("unpriced"));
    }

    /// A model's turn: its words, unless they were seen as they came, then what it took.
    fn turn(&mut self, event: &api::Event, line: &api::Line) -> String {
        let mut shown = String::new();
        let seen = line.step.is_some_and(|step| self.spoken.remove(&step));
        if line.mark == "ok" && !seen {
            shown.push('\n');
            if let Some(said) = &line.detail {
                for said in text::wrap(said, self.width.saturating_sub(2)) {
                    shown.push_str(&format!("  {}\n", style::dim(&said)));
                }
            }
        }
        let mut parts = parts(&line.title);
        if !parts.is_empty() {
            parts.remove(0);
        }
        let spent = &event.fact["spent"];
        match (spent["nanodollars"].as_u64(), spent["unpriced"].as_u64()) {
            (_, Some(1..)) => parts.push("price unknown".into()),
            (Some(money @ 1..), _) => parts.push(text::dollars(money)),
            _ => {}
        }
        parts.extend(self.number(line));
        let turn = format!("turn {}", self.turns.max(1));
        if line.mark == "failed" {
            shown.push_str(&set(style::failed("✗"), &turn, "", &parts, self.width));
            shown.push_str(&self.detail(line, (4, 0)));
        } else {
            shown.push_str(&set(style::dim("·"), &style::dim(&pad(&turn)), "", &parts, self.width));
        }
        shown
    }

    fn line(&self, line: &api::Line) -> String {
        let mark = match line.mark.as_str() {
            "ok" => style::ok("✓"),
            "failed" => style::failed("✗"),
            "waiting" => style::waiting("?"),
            _ => style::dim("·"),
        };
        let mut parts = parts(&line.title);
        let first = if parts.is_empty() { String::new() } else { parts.remove(0) };
        let (name, said) = match line.kind.as_str() {
            "tool" | "verdict" | "gate" | "said" => match first.split_once(": ") {
                Some((name, said)) => (name.to_owned(), said.to_owned()),
                None => (first, String::new()),
            },
            "checkpoint" => (first, String::new()),
            "merge" => ("merge".to_owned(), first.trim_start_matches("merge this proposal ").to_owned()),
            "deliver" => ("deliver".to_owned(), first.trim_start_matches("deliver ").to_owned()),
            "end" | "note" => match first.split_once(": ") {
                Some((name, said)) if name.chars().count() <= NAME => (name.to_owned(), said.to_owned()),
                _ => (String::new(), first),
            },
            _ => (text::line(&line.kind), first),
        };
        parts.extend(self.number(line));
        let mut shown = set(mark, &name, &said, &parts, self.width);
        shown.push_str(&self.detail(line, self.below(line, &name)));
        shown
    }

    /// The number of the step that a line is the result of.
    fn number(&self, line: &api::Line) -> Option<String> {
        let is_result = !matches!(line.kind.as_str(), "gate" | "said" | "end" | "note");
        line.step.filter(|_| self.is_numbered && is_result).map(|step| format!("#{step}"))
    }

    /// How many lines are shown below, from the beginning and from the end.
    fn below(&self, line: &api::Line, name: &str) -> (usize, usize) {
        if self.depth == Depth::Whole {
            return (40, 0);
        }
        match (line.kind.as_str(), line.mark.as_str()) {
            ("tool" | "verdict", "failed") => (9, 3),
            ("tool", _) if name == "shell" => (3, 2),
            ("tool", _) | ("verdict" | "checkpoint", "ok") | ("gate", _) => (0, 0),
            _ => (10, 0),
        }
    }

    /// The first and the last lines of what there is to read.
    fn detail(&self, line: &api::Line, (first, last): (usize, usize)) -> String {
        let Some(detail) = &line.detail else { return String::new() };
        let clean = text::lines(detail);
        // The line above has said how it ended.
        let told = clean.trim_end().lines().filter(|line| !line.starts_with("[exit code "));
        let room = self.width.saturating_sub(6);
        // Output is shown as it is; prose, which is short or comes from the house, is set in lines.
        let is_output = matches!(line.kind.as_str(), "tool" | "verdict" | "checkpoint");
        let all: Vec<String> = if is_output && told.clone().count() > 2 {
            told.map(str::to_owned).collect()
        } else {
            told.flat_map(|line| text::wrap(line, room)).collect()
        };
        let left = all.len().saturating_sub(first + last);
        let mut shown = String::new();
        for (place, read) in all.iter().enumerate() {
            if place >= first && place < first + left {
                if place == first && first + last > 0 {
                    let more = text::of(u64::try_from(left).unwrap_or(u64::MAX), "line", "lines");
                    shown.push_str(&format!("    {}\n", style::dim(&format!("│ … {more}"))));
                }
                continue;
            }
            let read = read.replace('\t', "    ");
            let read = format!("│ {}", text::short(&read, room));
            shown.push_str(&format!("    {}\n", style::dim(read.trim_end())));
        }
        shown
    }
}

/// The pieces of a title.
fn parts(title: &str) -> Vec<String> {
    text::line(title).split(" · ").map(str::to_owned).collect()
}

fn pad(name: &str) -> String {
    format!("{name:<NAME$}")
}

/// One line: mark, name, what it says, and how it went.
fn set(mark: String, name: &str, said: &str, parts: &[String], width: usize) -> String {
    let tail = parts.join(" · ");
    let left = width.saturating_sub(BEFORE + tail.chars().count() + 2).max(20);
    let said = text::short(said, left);
    let name = if name.is_empty() { String::new() } else { format!("{} ", pad(name)) };
    let gap = if said.is_empty() || tail.is_empty() { "" } else { "  " };
    let tail = if tail.is_empty() { tail } else { style::dim(&tail) };
    format!("{}\n", format!("  {mark} {name}{said}{gap}{tail}").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a run that mended a test, as a daemon told them.
    fn recorded() -> Vec<api::Event> {
        include_str!("../../tests/recorded/mended.jsonl")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn plain(shown: &str) -> String {
        anstream::adapter::strip_str(shown).to_string()
    }

    fn folded(depth: Depth) -> (View, String) {
        let mut view = View::new(depth, 90);
        let shown: String = recorded().iter().map(|event| view.event(event)).collect();
        (view, plain(&shown))
    }

    fn said(step: u64, kind: &str, text: &str) -> api::Delta {
        api::Delta { run: String::new(), step, kind: kind.into(), text: text.into() }
    }

    #[test]
    fn a_run_as_it_happens() {
        insta::assert_snapshot!(folded(Depth::Brief).1);
    }

    #[test]
    fn a_run_afterwards() {
        insta::assert_snapshot!(folded(Depth::Whole).1);
    }

    #[test]
    fn the_merge_is_known_with_its_trailers() {
        let (view, _) = folded(Depth::Brief);
        assert_eq!(view.merge().line, "main");
        assert_eq!(view.merge().subject, "Merge: Make the failing test pass");
        assert_eq!(view.merge().commit.as_deref().map(str::len), Some(40));
        assert_eq!(view.merge().trailers.first().map(|(name, _)| name.as_str()), Some("Regie-Run"));
    }

    #[test]
    fn reasoning_passes_by_beside_the_running_step() {
        let mut view = View::new(Depth::Brief, 90);
        for event in recorded().iter().take_while(|event| event.fact["fact"] != "step_completed") {
            view.event(event);
        }
        let mut see = |text: &str| {
            assert_eq!(view.delta(&said(1, "thinking", text)), "");
            view.running.get(&1).unwrap().title.clone()
        };
        assert_eq!(see("**Reading the "), "thinking: Reading the");
        assert_eq!(see("test**\n\n"), "thinking: Reading the");
        assert!(!see("The sign\u{1b}[2J is wrong").contains('\u{1b}'));
        view.delta(&said(99, "thinking", "of nothing that runs"));
    }

    #[test]
    fn words_that_were_seen_are_not_repeated() {
        let mut view = View::new(Depth::Brief, 90);
        let mut shown = String::new();
        for event in recorded() {
            if event.fact["fact"] == "step_completed" && event.fact["step"] == 1 {
                shown.push_str(&view.delta(&said(1, "text", "I will run ")));
                shown.push_str(&view.delta(&said(1, "text", "the tests first.")));
                shown.push_str(&view.event(&event));
                // Late pieces of a step that is over.
                shown.push_str(&view.delta(&said(1, "text", "again")));
                break;
            }
            shown.push_str(&view.event(&event));
        }
        insta::assert_snapshot!(plain(&shown), @r"

          I will run the tests first.
          · turn 1     940 tokens · 0.9 s · $0.0044
        ");
    }

    #[test]
    fn lost_words_are_taken_from_the_record() {
        let mut view = View::new(Depth::Brief, 90);
        let mut shown = view.delta(&said(1, "text", "I will "));
        shown.push_str(&view.delta(&said(0, "lagged", "3")));
        for event in recorded().iter().take_while(|event| event.fact["step"] != 2) {
            shown.push_str(&view.event(event));
        }
        assert!(
            plain(&shown).contains("then I read the code") || plain(&shown).contains("Then I read the code")
        );
    }

    #[test]
    fn what_is_going_on_fits_on_a_line() {
        let mut view = View::new(Depth::Brief, 90);
        for event in recorded().iter().take(7) {
            view.event(event);
        }
        let since = recorded()[6].at;
        assert_eq!(
            view.status(since + 3_200).as_deref(),
            Some("shell node --test · 3.2 s · turn 1 · 940 tokens · $0.0044")
        );
        view.delta(&said(2, "queue", "0"));
        assert_eq!(
            view.status(since + 3_200).as_deref(),
            Some("waiting in the vendor's queue · 3.2 s · turn 1 · 940 tokens · $0.0044")
        );
        view.delta(&said(3, "text", "In the middle of "));
        assert_eq!(view.status(since), None);
    }

    #[test]
    fn an_unknown_event_is_no_panic() {
        let mut view = View::new(Depth::Brief, 90);
        let event = api::Event {
            position: 1,
            run: String::new(),
            seq: 1,
            at: 0,
            source: String::new(),
            fact: serde_json::json!(["not", "a", "fact"]),
            content: serde_json::json!(7),
            hash: String::new(),
            line: Some(api::Line {
                step: None,
                kind: "\x1b[2J".into(),
                mark: String::new(),
                title: String::new(),
                detail: Some("\x1b]0;title\x07".into()),
                image: None,
            }),
        };
        let shown = plain(&view.event(&event));
        assert!(!shown.contains('\x1b') && !shown.contains('\x07'), "{shown:?}");
    }
}
