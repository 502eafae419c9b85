//! A scripted turn as a vendor's bytes, on whichever wire it was asked for.

mod chat;
mod fault;
pub(super) mod messages;
mod responses;

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::rules;
use super::scenario::{Call, Fault, FaultKind, Turn, Usage};

/// How many characters one delta carries.
const PIECE: usize = 12;

/// The wires that the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// `POST /v1/messages`.
    Messages,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/chat/completions`.
    Chat,
}

/// What the answer is for.
pub(super) struct Asked<'a> {
    pub request: &'a Value,
    pub model: &'a str,
    /// Digest of the first user message: makes ids differ between conversations.
    pub conversation: &'a str,
    pub scenario: &'a str,
    pub turn: usize,
    pub body_bytes: usize,
    /// What the prompt cache says of the input.
    pub input: Option<Usage>,
}

/// A step in sending a stream.
#[derive(Debug)]
pub(super) enum Act {
    Send(Bytes),
    Pause,
    Cut,
    Hang,
}

impl Wire {
    /// The conversation as user and assistant messages of blocks, which the scenario is about.
    pub(super) fn conversation(self, request: &Value) -> Value {
        match self {
            Self::Messages => request.clone(),
            Self::Responses => rules::responses::conversation(request),
            Self::Chat => rules::chat::conversation(request),
        }
    }

    /// Why the vendor would refuse this request; `None` when it would not.
    pub(super) fn objection(self, request: &Value) -> Option<String> {
        match self {
            Self::Messages => rules::objection(request),
            Self::Responses => rules::responses::objection(request),
            Self::Chat => rules::chat::objection(request),
        }
    }

    /// The turn as one message.
    pub(super) fn message(self, turn: &Turn, asked: &Asked<'_>) -> Value {
        match self {
            Self::Messages => messages::message(turn, asked),
            Self::Responses => responses::message(turn, asked),
            Self::Chat => chat::message(turn, asked),
        }
    }

    /// The error body of a status.
    pub(super) fn refusal(self, status: u16, message: &str) -> Value {
        match self {
            Self::Messages => messages::error_body(messages::error_kind(status), message),
            Self::Responses | Self::Chat => responses::error_body(status, message),
        }
    }

    /// The tokens that a request counts against the vendor's limits.
    pub(super) fn counted(self, request: &Value, body_bytes: usize) -> u64 {
        let input = u64::try_from(body_bytes / 4).unwrap_or(u64::MAX);
        match self {
            Self::Messages | Self::Chat => input,
            Self::Responses => input.max(request["max_output_tokens"].as_u64().unwrap_or(0)),
        }
    }

    /// The name of the header with the vendor's id of a request.
    pub(super) fn request_id(self) -> &'static str {
        match self {
            Self::Messages => "request-id",
            Self::Responses | Self::Chat => "x-request-id",
        }
    }

    fn events(self, turn: &Turn, asked: &Asked<'_>) -> Vec<String> {
        match self {
            Self::Messages => messages::events(turn, asked),
            Self::Responses => responses::events(turn, asked),
            Self::Chat => chat::events(turn, asked),
        }
    }

    /// A frame whose data is no JSON.
    fn garbage(self) -> &'static str {
        match self {
            Self::Messages => "event: content_block_delta\ndata: {\"type\": \"conte\n\n",
            Self::Responses => "event: response.output_text.delta\ndata: {\"type\": \"respo\n\n",
            Self::Chat => "data: {\"choices\": [{\"del\n\n",
        }
    }

    /// An error inside the stream.
    fn error(self, kind: &str, message: &str) -> String {
        match self {
            Self::Messages => frame("error", &messages::error_body(kind, message)),
            Self::Responses => responses::error_event(kind, message),
            Self::Chat => chat::error_chunk(kind, message),
        }
    }

    /// The turn as a stream, with the fault that hits it.
    pub(super) fn stream(self, turn: &Turn, asked: &Asked<'_>, fault: Option<&Fault>) -> Vec<Act> {
        let mut frames = self.events(turn, asked);
        let mut end = None;
        if let Some(fault) = fault {
            let at = fault.after_events.min(frames.len());
            match fault.kind {
                FaultKind::Garbage => frames.insert(at, self.garbage().to_owned()),
                FaultKind::Truncated => {
                    frames.truncate(at.saturating_add(1));
                    if let Some(last) = frames.last_mut() {
                        *last = last.chars().take(last.chars().count() / 2).collect();
                    }
                }
                FaultKind::Error => {
                    frames.truncate(at);
                    let kind = fault.error.as_deref().unwrap_or("api_error");
                    let message = fault.message.as_deref().unwrap_or("scripted error");
                    frames.push(self.error(kind, message));
                }
                FaultKind::Cut | FaultKind::Silence => {
                    frames.truncate(at);
                    end = Some(if fault.kind == FaultKind::Cut { Act::Cut } else { Act::Hang });
                }
                FaultKind::Status | FaultKind::Overflow => {}
            }
        }
        let mut acts: Vec<Act> = match (turn.chunk_bytes, turn.pace_ms) {
            (Some(size), _) => {
                let all = frames.concat().into_bytes();
                all.chunks(size).map(|chunk| Act::Send(Bytes::copy_from_slice(chunk))).collect()
            }
            (None, 0) => frames.into_iter().map(|frame| Act::Send(frame.into())).collect(),
            (None, _) => frames.into_iter().flat_map(|frame| [Act::Pause, Act::Send(frame.into())]).collect(),
        };
        acts.extend(end);
        acts
    }
}

/// SHA-256 in lower-case hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The server's signature of a reasoning block.
pub(super) fn signature(model: &str, thinking: &str) -> String {
    format!("sig_{}", sha256(format!("{model}\n{thinking}").as_bytes()))
}

fn frame(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// A text in the pieces in which it streams; nothing as no piece.
fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(PIECE).map(|piece| piece.iter().collect()).collect()
}

fn input_of(call: &Call) -> String {
    match (&call.json, &call.input) {
        (Some(json), _) => json.clone(),
        (None, Some(table)) => serde_json::to_string(table).unwrap_or_default(),
        (None, None) => String::new(),
    }
}

fn usage(turn: &Turn, asked: &Asked<'_>) -> Usage {
    turn.usage.unwrap_or_else(|| {
        let letters = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let calls: usize = turn.calls.iter().map(|call| call.name.len() + input_of(call).len()).sum();
        let said = letters(&turn.text) + letters(&turn.thinking) + calls;
        let input = u64::try_from(asked.body_bytes / 4).unwrap_or(u64::MAX);
        let output = u64::try_from(said / 4 + 1).unwrap_or(u64::MAX);
        let read = asked.input.unwrap_or(Usage { input, ..Usage::default() });
        Usage { output, ..read }
    })
}

/// The id of a scripted call, unless it has one.
fn call_id(call: &Call, asked: &Asked<'_>, place: usize, prefix: &str) -> String {
    call.id.clone().unwrap_or_else(|| format!("{prefix}_{}", short(asked, &format!("call {place}"))))
}

fn short(asked: &Asked<'_>, what: &str) -> String {
    let Asked { conversation, scenario, turn, .. } = asked;
    let all = sha256(format!("{conversation}\n{scenario}\n{turn}\n{what}").as_bytes());
    all.chars().take(24).collect()
}
