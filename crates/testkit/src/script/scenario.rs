//! A scenario: what the scripted model says, turn by turn, and how it fails.

use serde::Deserialize;

/// One scripted conversation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A name for ledger and errors.
    #[serde(default = "unnamed")]
    pub name: String,
    /// Text that the first user message must contain; `None` serves every conversation.
    #[serde(default, rename = "match")]
    pub matches: Option<String>,
    /// Text that any user message must contain.
    #[serde(default)]
    pub heard: Option<String>,
    /// The answers, in order.
    #[serde(rename = "turn")]
    pub turns: Vec<Turn>,
    /// The answers to requests for a summary, in order; the last one serves all further ones.
    #[serde(default, rename = "compaction")]
    pub compactions: Vec<Turn>,
    /// The models that the server lists.
    #[serde(default, rename = "model")]
    pub models: Vec<Listed>,
    /// How its batches are treated.
    #[serde(default)]
    pub batch: Queue,
}

/// A model that the server lists, with what it says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listed {
    /// Its id on the wire.
    pub id: String,
    /// Its window in tokens.
    pub window: Option<u64>,
    /// The most tokens of one answer.
    pub max_output: Option<u64>,
    /// Whether it sees images.
    pub vision: Option<bool>,
    /// Whether it reasons.
    pub thinking: Option<bool>,
}

/// How the batch queue treats what a scenario serves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    /// How often a batch is asked for its state until it has ended.
    pub polls: u32,
    /// What happens to the first submissions to the server, in this order.
    #[serde(rename = "fault")]
    pub faults: Vec<QueueFault>,
}

/// What happens to batches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueFault {
    /// In which way.
    pub kind: QueueFaultKind,
    /// How many batches it hits; 0 is for ever.
    #[serde(default = "once")]
    pub times: u32,
}

/// The ways in which a batch fares badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueFaultKind {
    /// Nothing: the batch is answered.
    None,
    /// The vendor never came to it.
    Expired,
    /// Somebody cancelled it at the vendor.
    Canceled,
    /// The vendor does not take its file; on the Messages wire the same as cancelled.
    Failed,
    /// It is taken, and the connection breaks before that is said.
    Unacknowledged,
    /// It is taken, and nothing is said.
    Silent,
    /// It is not taken, and answered with a 500, which leaves that open.
    Broken,
}

impl Default for Queue {
    fn default() -> Self {
        Self { polls: 1, faults: Vec::new() }
    }
}

impl Queue {
    /// What happens to this submission to the server, from 0.
    pub(super) fn fault(&self, submission: usize) -> Option<QueueFaultKind> {
        let mut before = 0_usize;
        let hits = |fault: &&QueueFault| {
            before = before.saturating_add(usize::try_from(fault.times).unwrap_or(usize::MAX));
            fault.times == 0 || submission < before
        };
        self.faults.iter().find(hits).map(|fault| fault.kind)
    }
}

/// One scripted answer. Blocks come in the order raw, thinking, text, calls.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    /// Whole content blocks as JSON texts.
    pub raw: Vec<String>,
    /// Reasoning; may be empty, and is signed.
    pub thinking: Option<String>,
    /// A signature other than the server's own, which is checked when it comes back.
    pub signature: Option<String>,
    /// Prose.
    pub text: Option<String>,
    /// Tool calls.
    #[serde(rename = "call")]
    pub calls: Vec<Call>,
    /// The stop reason on the wire.
    pub stop: Option<String>,
    /// What the answer is said to take; by default from the sizes of request and answer.
    pub usage: Option<Usage>,
    /// Texts that the last user message must contain.
    pub expect: Vec<String>,
    /// Milliseconds before the first byte.
    pub delay_ms: u64,
    /// Milliseconds before each event.
    pub pace_ms: u64,
    /// Sends the stream in pieces of this many bytes.
    pub chunk_bytes: Option<usize>,
    /// Sprinkles `ping` events.
    pub ping: bool,
    /// Sprinkles unknown events and comments.
    pub unknown: bool,
    /// How the first attempts fail.
    #[serde(rename = "fault")]
    pub faults: Vec<Fault>,
}

/// A scripted tool call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool's name.
    pub name: String,
    /// The call's id; by default one that follows from conversation and place.
    #[serde(default)]
    pub id: Option<String>,
    /// The input as a table.
    #[serde(default)]
    pub input: Option<toml::Table>,
    /// The input as text, sent as it is.
    #[serde(default)]
    pub json: Option<String>,
}

/// Tokens that an answer is said to take.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the four numbers of the wire")]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// How attempts fail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// In which way.
    pub kind: FaultKind,
    /// How many attempts it hits; 0 is for ever.
    #[serde(default = "once")]
    pub times: u32,
    /// The HTTP status of [`FaultKind::Status`].
    #[serde(default)]
    pub status: Option<u16>,
    /// When to come again, as it is said there: seconds or an HTTP date, or milliseconds.
    #[serde(default)]
    pub retry_after: Option<String>,
    /// Where that is said.
    #[serde(default)]
    pub said: Said,
    /// The vendor's words.
    #[serde(default)]
    pub message: Option<String>,
    /// The error type of [`FaultKind::Error`].
    #[serde(default)]
    pub error: Option<String>,
    /// Events that are sent before the fault.
    #[serde(default)]
    pub after_events: usize,
}

/// Where a refusal says when to come again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// In the header `Retry-After`, in seconds or as an HTTP date.
    #[default]
    Header,
    /// In the header `retry-after-ms`, in milliseconds.
    Millis,
    /// In the error of the body, in seconds: in its words, as OpenAI says it, elsewhere in a field.
    InBody,
}

/// The ways to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// An HTTP error.
    Status,
    /// The HTTP error of a conversation that is longer than the window, in the words of the wire.
    Overflow,
    /// The connection breaks.
    Cut,
    /// Nothing comes any more, and the connection stays open.
    Silence,
    /// A frame that is not JSON, and then the rest.
    Garbage,
    /// The stream ends in the middle of a frame.
    Truncated,
    /// An `error` event.
    Error,
}

/// Why a scenario file is not usable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no TOML of this form.
    #[error("the scenario file cannot be read; see the format of scripted models")]
    Form(#[source] Box<toml::de::Error>),
    /// It says nothing.
    #[error("the scenario file has no turn; add a [[turn]]")]
    Empty,
    /// It mixes the two forms.
    #[error("the scenario file has [[turn]] beside [[scenario]]; move the turns into a scenario")]
    Mixed,
    /// A single scenario was wanted.
    #[error("the scenario file holds {count} scenarios where one is wanted; keep one")]
    NotOne {
        /// How many it holds.
        count: usize,
    },
    /// A turn cannot be served.
    #[error("turn {turn} of scenario `{scenario}` cannot be served: {why}")]
    Turn {
        /// The scenario's name.
        scenario: String,
        /// The turn, from 0.
        turn: usize,
        /// What to mend.
        why: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "unnamed")]
    name: String,
    #[serde(default, rename = "match")]
    matches: Option<String>,
    #[serde(default)]
    heard: Option<String>,
    #[serde(default, rename = "turn")]
    turns: Vec<Turn>,
    #[serde(default, rename = "compaction")]
    compactions: Vec<Turn>,
    #[serde(default, rename = "model")]
    models: Vec<Listed>,
    #[serde(default)]
    batch: Queue,
    #[serde(default, rename = "scenario")]
    scenarios: Vec<Scenario>,
}

/// Reads a file of one or several scenarios.
///
/// # Errors
/// When it has another form, or a turn cannot be served.
pub fn parse(text: &str) -> Result<Vec<Scenario>, Error> {
    let file: File = toml::from_str(text).map_err(|error| Error::Form(Box::new(error)))?;
    let File { name, matches, heard, turns, compactions, models, batch, mut scenarios } = file;
    match (turns.is_empty(), scenarios.is_empty()) {
        (true, true) => return Err(Error::Empty),
        (true, false) if !compactions.is_empty() => return Err(Error::Mixed),
        (false, false) => return Err(Error::Mixed),
        (false, true) => scenarios.push(Scenario { name, matches, heard, turns, compactions, models, batch }),
        (true, false) => {
            if let Some(first) = scenarios.first_mut() {
                first.models.extend(models);
            }
        }
    }
    for scenario in &scenarios {
        for (place, turn) in scenario.turns.iter().chain(&scenario.compactions).enumerate() {
            if let Some(why) = turn.objection() {
                return Err(Error::Turn { scenario: scenario.name.clone(), turn: place, why });
            }
        }
    }
    Ok(scenarios)
}

impl Scenario {
    /// Reads a file of exactly one scenario.
    ///
    /// # Errors
    /// When it has another form, another number of scenarios, or a turn cannot be served.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut scenarios = parse(text)?;
        let count = scenarios.len();
        match (scenarios.pop(), count) {
            (Some(scenario), 1) => Ok(scenario),
            _ => Err(Error::NotOne { count }),
        }
    }
}

impl Turn {
    /// The fault that hits this attempt (from 1), if any.
    pub(super) fn fault(&self, attempt: u32) -> Option<&Fault> {
        let mut before = 0_u32;
        self.faults.iter().find(|fault| {
            before = before.saturating_add(fault.times);
            fault.times == 0 || attempt <= before
        })
    }

    pub(super) fn stop_reason(&self) -> &str {
        match (&self.stop, self.calls.is_empty()) {
            (Some(stop), _) => stop,
            (None, true) => "end_turn",
            (None, false) => "tool_use",
        }
    }

    fn objection(&self) -> Option<&'static str> {
        let is_object = |text: &String| {
            serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value.is_object())
        };
        if !self.raw.iter().all(is_object) {
            return Some("each of `raw` must be a JSON object");
        }
        if self.calls.iter().any(|call| call.input.is_some() && call.json.is_some()) {
            return Some("a call has either `input` or `json`");
        }
        if self.chunk_bytes == Some(0) {
            return Some("`chunk_bytes` must be 1 or more");
        }
        let status = |fault: &Fault| fault.kind == FaultKind::Status;
        if self.faults.iter().any(|fault| status(fault) != fault.status.is_some()) {
            return Some("a fault of kind `status`, and no other, needs `status`");
        }
        if self.faults.iter().filter_map(|fault| fault.status).any(|status| !(300..600).contains(&status)) {
            return Some("the `status` of a fault must be from 300 to 599");
        }
        let in_body = |fault: &&Fault| fault.said == Said::InBody;
        let seconds = |fault: &Fault| fault.retry_after.as_ref().is_some_and(|it| it.parse::<f64>().is_ok());
        if !self.faults.iter().filter(in_body).all(seconds) {
            return Some("a fault that says it `in_body` needs `retry_after` in seconds");
        }
        None
    }
}

fn unnamed() -> String {
    "scripted".to_owned()
}

fn once() -> u32 {
    1
}
