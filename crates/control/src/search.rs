//! Words in all missions. The index is brought up to the journal before each search, and is made again
//! when it is of another journal.

use std::sync::Arc;

use domain::{Fact, Payload, Recorded, Source};
use kernel::port::{Found, Index, IndexError, Journal, Mark, Text};
use models::Response;
use serde_json::Value;

use crate::Control;
use crate::api::{Hit, Piece};
use crate::error::{Error, Kind};

/// Events taken into the index at a time.
const PAGE: usize = 1024;
/// How much of one text is indexed, in bytes.
const MAX_TEXT: usize = 256 * 1024;
/// The most hits that one search gives.
const MAX_HITS: usize = 500;

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        Self::new(Kind::Unavailable, "search.unavailable", error.to_string()).mend_apart()
    }
}

impl Control {
    /// The recorded texts of all runs that have these words, the best ones first. Long outputs are
    /// looked through as far as they are in the journal itself.
    ///
    /// # Errors
    /// When nothing is looked for, or journal or index cannot be read.
    pub async fn search(&self, words: &str, limit: usize) -> Result<Vec<Hit>, Error> {
        if !words.chars().any(char::is_alphanumeric) {
            return Err(Error::new(Kind::Invalid, "search.empty", "there is no word to look for")
                .hint("give at least one letter or digit, as `regie search \"connection reset\"`"));
        }
        let (journal, index) = (self.journal(), Arc::clone(&self.index));
        let (words, limit) = (words.to_owned(), limit.clamp(1, MAX_HITS));
        let one = Arc::clone(&self.indexing);
        self.blocking(move || {
            // What is being forgotten meanwhile must not come back.
            let _one = one.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            catch_up(&*journal, &*index)?;
            Ok(index.find(&words, limit)?.into_iter().map(hit).collect())
        })
        .await
    }
}

/// Takes into the index what it lacks.
fn catch_up(journal: &dyn Journal, index: &dyn Index) -> Result<(), Error> {
    let mut position = match index.mark()? {
        Some(mark) if is_of(journal, mark)? => mark.position,
        Some(_) => {
            index.clear()?;
            0
        }
        None => 0,
    };
    loop {
        let page = journal.stream(position, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        position = last.position;
        let texts: Vec<Text> = page.iter().filter_map(text).collect();
        index.add(&texts, Mark { position, hash: last.hash })?;
    }
}

/// Whether an index that has come this far was made from this journal.
fn is_of(journal: &dyn Journal, mark: Mark) -> Result<bool, Error> {
    let there = journal.stream(mark.position.saturating_sub(1), 1)?;
    Ok(there.first().is_some_and(|event| event.position == mark.position && event.hash == mark.hash))
}

/// What there is to find in an event.
fn text(event: &Recorded) -> Option<Text> {
    let payload = event.payload.as_ref().filter(|payload| !payload.0.is_empty())?;
    let header = &event.header;
    let (kind, text) = match (&header.fact, header.source) {
        (Fact::RunStarted(_), _) => ("goal", goal(payload)?),
        (Fact::StepPlanned(_), _) => ("call", strings(payload)),
        (Fact::StepCompleted { .. }, Source::Agent) => ("answer", answer(payload)),
        (Fact::StepCompleted { .. }, Source::Tool) => ("output", strings(payload)),
        (Fact::StepCompleted { .. }, _) => ("checkpoint", strings(payload)),
        (Fact::Said { .. }, _) => ("said", plain(payload)),
        (Fact::Ended { .. }, _) => ("end", plain(payload)),
        _ => return None,
    };
    let text = cut(text);
    let step = header.fact.step();
    (!text.trim().is_empty()).then_some(Text {
        run: header.run,
        seq: header.seq,
        at: header.at,
        step,
        kind,
        text,
    })
}

fn goal(payload: &Payload) -> Option<String> {
    let mission: domain::Mission = serde_json::from_slice(&payload.0).ok()?;
    Some(mission.goal)
}

/// What the model said; its calls are found where they are made.
fn answer(payload: &Payload) -> String {
    match serde_json::from_slice::<Response>(&payload.0) {
        Ok(response) => response.text(),
        Err(_) => strings(payload),
    }
}

fn plain(payload: &Payload) -> String {
    String::from_utf8_lossy(&payload.0).into_owned()
}

/// All strings of a JSON document, one a line; what is no JSON as it is.
fn strings(payload: &Payload) -> String {
    fn gather(value: &Value, all: &mut String) {
        match value {
            Value::String(text) => {
                all.push_str(text);
                all.push('\n');
            }
            Value::Array(values) => values.iter().for_each(|value| gather(value, all)),
            Value::Object(fields) => fields.values().for_each(|value| gather(value, all)),
            _ => {}
        }
    }
    let Ok(value) = serde_json::from_slice::<Value>(&payload.0) else { return plain(payload) };
    let mut all = String::new();
    gather(&value, &mut all);
    all
}

fn cut(mut text: String) -> String {
    let mut end = MAX_TEXT.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

fn hit(found: Found) -> Hit {
    Hit {
        run: found.run.to_string(),
        seq: found.seq,
        at: found.at.0,
        step: found.step.map(|step| step.0),
        kind: found.kind,
        excerpt: found
            .excerpt
            .into_iter()
            .map(|piece| Piece { text: piece.text, is_match: piece.is_match })
            .collect(),
    }
}
