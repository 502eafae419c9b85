//! The tool calls of a chat stream: whose each fragment is, and what becomes of them.
//!
//! The wire routes by `index`. Some servers leave it out, some give every call the same one, some
//! repeat id and name in every fragment, and some send no id at all.

use std::borrow::Cow;

use crate::block::{InputError, arguments, wrapped};
use crate::http::Fault;
use crate::json::{self, Fields, Glance};
use crate::{Block, RawJson, Stop};

/// The calls in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

/// A call that is being written.
#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// The fields that no fragment grows, as they came.
    rest: Fields,
}

impl Calls {
    /// Takes a fragment; gives the name of the call that it begins, if it does.
    pub(super) fn take(&mut self, fragment: &Glance<'_>) -> Option<String> {
        let index = fragment.get("index").and_then(|raw| serde_json::from_str(raw.get()).ok());
        let id = fragment.text("id").unwrap_or_default();
        let function = fragment.get("function").and_then(Glance::of).unwrap_or_default();
        let name = function.text("name").unwrap_or_default();
        let written = match function.get("arguments") {
            // Not a text but the object itself.
            Some(raw) if raw.get().starts_with('{') => raw.get().into(),
            Some(raw) => json::text(raw).unwrap_or_default(),
            None => Cow::default(),
        };
        if let Some(call) = self.find(index, &id, &name) {
            call.arguments.push_str(&written);
            if call.name.is_empty() {
                call.name = name.into_owned();
            }
            if call.id.is_empty() {
                call.id = id.into_owned();
            }
            return None;
        }
        let mut rest = fragment.to_fields();
        rest.remove("index");
        let (id, name, arguments) = (id.into_owned(), name.into_owned(), written.into_owned());
        self.0.push(Call { index, id, name: name.clone(), arguments, rest });
        Some(name)
    }

    /// The call that a fragment goes on with; `None` when it begins one.
    fn find(&mut self, index: Option<u64>, id: &str, name: &str) -> Option<&mut Call> {
        // The last of those with its index: a server that repeats the index has left the others.
        let at = match index {
            Some(index) => self.0.iter().rposition(|call| call.index == Some(index)),
            None if id.is_empty() => self.0.len().checked_sub(1),
            None => self.0.iter().rposition(|call| call.id == id),
        };
        let call = self.0.get_mut(at?)?;
        let is_another = match (id.is_empty(), call.id.is_empty()) {
            (false, false) => call.id != id,
            // Nothing tells them apart but that the one before is complete and a name comes anew.
            _ => !name.is_empty() && !call.name.is_empty() && is_complete(&call.arguments),
        };
        (!is_another).then_some(call)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The calls as blocks. `cut` says that the last one may be incomplete.
    pub(super) fn close(self, stop: &Stop, cut: bool) -> Result<Vec<Block>, Fault> {
        let last = self.0.len().saturating_sub(1);
        let mut ids: Vec<String> = Vec::new();
        let mut blocks = Vec::new();
        for (place, call) in self.0.into_iter().enumerate() {
            if call.name.is_empty() {
                return Err(Fault::Malformed("a tool call has no name".to_owned()));
            }
            let id = unused(&ids, &call.id, place);
            ids.push(id.clone());
            blocks.push(call.close(&id, stop, cut && place == last)?);
        }
        Ok(blocks)
    }
}

impl Call {
    fn close(self, id: &str, stop: &Stop, cut: bool) -> Result<Block, Fault> {
        let Self { name, arguments: written, rest: mut fields, .. } = self;
        let given = RawJson::string(&written);
        let unreadable = arguments(Some(&given)).err();
        // Some templates fail on the whole conversation when these are not JSON.
        let back = match &unreadable {
            Some(wrong) => RawJson::string(wrapped(wrong).as_str()),
            None if written.trim().is_empty() || written.trim() == "null" => RawJson::string("{}"),
            None => given,
        };
        let mut function =
            fields.get("function").and_then(|raw| raw.decode::<Fields>().ok()).unwrap_or_default();
        function.set("name", RawJson::string(&name));
        function.set("arguments", back);
        fields.set("id", RawJson::string(id));
        fields.set("type", RawJson::string("function"));
        fields.set("function", function.to_raw());
        let block = Block::from_raw(fields.to_raw())
            .map_err(|_| Fault::Malformed("a tool call lacks a field".to_owned()))?;
        let error = match (stop, cut) {
            (Stop::Refusal, _) => Some(InputError::Refused),
            (_, true) => Some(InputError::Truncated(written)),
            (_, false) => unreadable.map(InputError::Unreadable),
        };
        Ok(match error {
            Some(error) => block.with_input_error(error),
            None => block,
        })
    }
}

/// Arguments that could be whole: one JSON object. What ends otherwise is not parsed: a server may repeat
/// the name in every fragment, and the time would be quadratic.
fn is_complete(written: &str) -> bool {
    let written = written.trim();
    written.ends_with('}') && RawJson::parse(written).is_ok_and(|raw| raw.is_object())
}

/// The id of a call: the server's, or one that is made up where it gave none or gave it twice.
fn unused(taken: &[String], given: &str, place: usize) -> String {
    if !given.is_empty() && !taken.iter().any(|id| id == given) {
        return given.to_owned();
    }
    let base = if given.is_empty() { "call" } else { given };
    (place..).map(|n| format!("{base}_{n}")).find(|id| !taken.contains(id)).unwrap_or_default()
}
