//! The files of a recording.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::{Digest, Event, Fact, Payload, Recorded, RunId, Source, StepNo, Timestamp};
use models::tape::{Attempt, End, Head};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::scrub::Scrubber;

/// The version of the format.
pub const FORMAT: u32 = 1;

/// What a recording is of; [`MANIFEST`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of Regie that made it.
    pub regie: String,
    /// The run.
    pub run: RunId,
    /// The run's driver, as `native/3`.
    pub driver: String,
    /// The model of the main loop.
    pub model: String,
    /// How it is spoken to.
    pub wire: String,
    /// Where the calls went.
    pub endpoint: String,
    /// The proxy that they went through, without its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// When the recording began.
    pub began_at: Timestamp,
    /// The number of the first event that was recorded as it happened.
    pub since: u64,
    /// What stands for the key wherever it was masked; nothing when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The digests of the files that do not change.
    pub files: BTreeMap<String, Digest>,
    /// What is known once the run is over; a recording without it ends before its run did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Whole>,
}

/// That nothing follows any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whole {
    /// How many events there are.
    pub events: u64,
    /// The digest of [`EVENTS`].
    pub digest: Digest,
}

/// The manifest's file.
pub const MANIFEST: &str = "recording.json";
/// The system prompt.
pub const SYSTEM: &str = "system.txt";
/// The tool list.
pub const TOOLS: &str = "tools.json";
/// The events of the run, one a line.
pub const EVENTS: &str = "events.jsonl";
/// The events of what the run goes on from.
pub const INHERITED: &str = "inherited.jsonl";
/// One directory for each try of a model call.
pub const CALLS: &str = "calls";
/// The directory of the images that the agent looked at, each named by the digest of its bytes.
pub const IMAGES: &str = "images";
/// The exact request, in a call's directory.
pub const REQUEST: &str = "request.json";
/// What is known of a call when it is over, in its directory.
pub const CALL: &str = "call.json";

/// The directory of one try of a model call.
pub fn call_dir(root: &Path, step: StepNo, attempt: u32) -> PathBuf {
    root.join(CALLS).join(format!("{:04}-{attempt}", step.0))
}

/// The file of an attempt's body.
pub fn body_name(attempt: usize) -> String {
    format!("attempt-{attempt}.body")
}

/// A call that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// When its answer was taken, by the clock of the daemon; nothing when it was ended from this side.
    pub at: Option<Timestamp>,
    /// The digest of the request's file.
    pub request: Digest,
    /// Whether something in the request was masked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
    /// The attempts.
    pub attempts: Vec<Kept>,
}

/// An attempt, without its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The beginning of the answer.
    pub head: Option<Head>,
    /// How it ended.
    pub end: Option<End>,
    /// The digest of the body's file.
    pub body: Digest,
}

impl Kept {
    /// The attempt with its body.
    pub fn with(self, body: Vec<u8>) -> Attempt {
        Attempt { head: self.head, body: body.into(), end: self.end }
    }
}

/// An event, as it is written.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line {
    run: RunId,
    seq: u64,
    at: Timestamp,
    source: Source,
    fact: Box<RawValue>,
    /// The payload where it is JSON, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    /// The payload where it is another text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The payload where it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<Vec<u8>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    forgotten: bool,
    /// Whether something in it was masked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    masked: bool,
}

/// An event, as it is read.
#[derive(Debug, Clone)]
pub struct Written {
    /// The event, without its place in the chain.
    pub event: Recorded,
    /// Whether something in it was masked.
    pub masked: bool,
}

impl Line {
    /// Masks and writes an event.
    ///
    /// # Errors
    /// When it cannot be put into JSON.
    pub fn of(recorded: &Recorded, scrubber: &Scrubber) -> Result<Self, serde_json::Error> {
        let header = &recorded.header;
        let mut fact = serde_json::to_vec(&header.fact)?;
        let mut masked = scrubber.text(&mut fact);
        let mut line = Self {
            run: header.run,
            seq: header.seq,
            at: header.at,
            source: header.source,
            fact: serde_json::from_slice(&fact)?,
            payload: None,
            text: None,
            bytes: None,
            forgotten: recorded.payload.is_none(),
            masked: false,
        };
        let mut payload = recorded.payload.clone().unwrap_or_default().0;
        masked |= scrubber.text(&mut payload);
        match String::from_utf8(payload) {
            Ok(text) if text.is_empty() => {}
            Ok(text) => match RawValue::from_string(text.clone()) {
                // As it stands, if it is a line of its own.
                Ok(raw) if raw.get() == text && text != "null" && !text.contains(['\n', '\r']) => {
                    line.payload = Some(raw)
                }
                _ => line.text = Some(text),
            },
            Err(error) => line.bytes = Some(error.into_bytes()),
        }
        Ok(Self { masked, ..line })
    }

    /// Reads it back.
    ///
    /// # Errors
    /// When its fact is none.
    pub fn read(self) -> Result<Written, serde_json::Error> {
        let fact: Fact = serde_json::from_str(self.fact.get())?;
        let payload = match (self.payload, self.text, self.bytes) {
            (Some(raw), _, _) => raw.get().as_bytes().to_vec(),
            (None, Some(text), _) => text.into_bytes(),
            (None, None, bytes) => bytes.unwrap_or_default(),
        };
        let event = Event { at: self.at, source: self.source, fact, payload: Payload(payload) };
        let mut event = recorded(self.run, self.seq, event);
        if self.forgotten {
            event.payload = None;
        }
        Ok(Written { event, masked: self.masked })
    }
}

/// An event outside of any chain.
pub(super) fn recorded(run: RunId, seq: u64, event: Event) -> Recorded {
    Recorded {
        position: seq,
        header: domain::Header {
            version: domain::event::VERSION,
            run,
            seq,
            at: event.at,
            source: event.source,
            domain: domain::event::DEFAULT_DOMAIN.into(),
            key_id: domain::event::NO_KEY.into(),
            fact: event.fact,
        },
        payload: Some(event.payload),
        hash: Digest::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn again(payload: Vec<u8>) -> Written {
        let run = RunId::new(1, [7; 10]);
        let fact = Fact::Said { by: "human:owner".into(), now: true };
        let event = Event { at: Timestamp(5), source: Source::Owner, fact, payload: Payload(payload) };
        let line = Line::of(&recorded(run, 3, event), &Scrubber::default()).unwrap();
        let text = serde_json::to_string(&line).unwrap();
        assert!(!text.contains('\n'), "one line");
        serde_json::from_str::<Line>(&text).unwrap().read().unwrap()
    }

    proptest! {
        #[test]
        fn any_payload_comes_back_byte_for_byte(bytes: Vec<u8>, text in "[ -~\n\té]{0,40}") {
            for payload in [bytes, text.clone().into_bytes(), serde_json::to_vec(&text).unwrap()] {
                prop_assert_eq!(again(payload.clone()).event.payload.unwrap().0, payload);
            }
        }
    }

    #[test]
    fn json_that_is_not_as_plain_json_is_written_comes_back_too() {
        for payload in
            [" 1", "{ \"b\" : 1.0e5,\n\"a\":2 }", "1e999", "null", "\"\\u00e9\"", "{\"a\":1,\"a\":2}", ""]
        {
            assert_eq!(again(payload.into()).event.payload.unwrap().0, payload.as_bytes(), "{payload:?}");
        }
    }
}
