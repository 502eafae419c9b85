//! The tool calls of one answer: each gets exactly one result, and all results go into one message.

use bytes::Bytes;
use domain::budget::Exhausted;
use domain::{Effect, Image, Risk};
use models::{Block, Message, RawJson, Response};
use serde::Serialize;

use super::deferred::{self, Meant};
use super::images::{self, Shown};
use crate::config::Toolbox;

/// Results up to this many bytes are never cleared.
const SHORT: usize = 600;

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Turn {
    calls: Vec<Call>,
    /// A cap that one of them met.
    pub(super) exhausted: Option<Exhausted>,
    /// The run is being cancelled.
    pub(super) cancelled: bool,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    id: String,
    pub(super) name: String,
    pub(super) request: Bytes,
    pub(super) effect: Effect,
    pub(super) risk: Risk,
    progress: Progress,
    /// Where the whole of its output is.
    path: Option<String>,
    /// The image that it gave.
    image: Option<Image>,
}

/// A call with its result, as it is looked at for repetitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) name: &'a str,
    pub(super) request: &'a [u8],
    pub(super) result: &'a str,
    /// Where the whole of the result is: a name that differs each time.
    pub(super) path: Option<&'a str>,
}

impl Sight<'_> {
    /// The call in a few words.
    pub(super) fn title(&self) -> String {
        let request = serde_json::from_slice::<serde_json::Value>(self.request).unwrap_or_default();
        let input = request.get("input").unwrap_or(&request);
        let told = ["command", "path", "pattern"].iter().find_map(|field| input.get(field));
        match told {
            Some(serde_json::Value::String(text)) => format!("{}: {text}", self.name),
            Some(other) => format!("{}: {other}", self.name),
            None => self.name.to_owned(),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Due,
    Planned,
    Answered(Result<String, String>),
}

#[derive(Serialize)]
struct ToolRequest<'a> {
    tool: &'a str,
    input: &'a RawJson,
}

impl Turn {
    /// The calls of an answer. What must not be executed (a broken input, a tool that is not there), or
    /// needs nothing but the tool list, is answered at once and becomes no step.
    pub(super) fn new(response: &Response, toolbox: &Toolbox) -> Self {
        let calls = response.calls().map(|call| {
            let answered = |result: Result<String, String>| Call {
                id: call.id.to_owned(),
                name: call.name.to_owned(),
                request: Bytes::new(),
                effect: Effect::Read,
                risk: Risk::Read,
                progress: Progress::Answered(result),
                path: None,
                image: None,
            };
            let input = match call.input {
                Ok(input) => input,
                Err(error) => return answered(Err(error.to_string())),
            };
            let (tool, input) = match deferred::meant(toolbox, call.name, input) {
                Meant::Step(tool, input) => (tool, input),
                Meant::Told(result) => return answered(result),
            };
            let name = tool.spec.name.as_str();
            Call {
                id: call.id.to_owned(),
                name: name.to_owned(),
                request: super::json(&ToolRequest { tool: name, input: &input }),
                effect: tool.effect,
                risk: tool.risk,
                progress: Progress::Due,
                path: None,
                image: None,
            }
        });
        Self { calls: calls.collect(), exhausted: None, cancelled: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The calls that wait for a step, in order.
    pub(super) fn due(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.progress == Progress::Due)
    }

    /// The first call of this tool that waits.
    pub(super) fn due_of(&self, name: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.progress == Progress::Due && call.name == name)
    }

    /// The calls that have a result, in order.
    pub(super) fn sights(&self) -> impl Iterator<Item = Sight<'_>> {
        self.calls.iter().filter_map(|call| {
            let result = match &call.progress {
                Progress::Answered(Ok(text) | Err(text)) => text,
                Progress::Due | Progress::Planned => return None,
            };
            let path = call.path.as_deref().filter(|path| !path.is_empty());
            Some(Sight { name: &call.name, request: &call.request, result, path })
        })
    }

    /// The first of them has its step.
    pub(super) fn plan(&mut self) -> Option<usize> {
        let at = self.calls.iter().position(|call| call.progress == Progress::Due)?;
        self.calls.get_mut(at)?.progress = Progress::Planned;
        Some(at)
    }

    /// What has no result is due, also what was planned; whatever stood in the way is gone.
    pub(super) fn begin_again(&mut self) {
        for call in self.calls.iter_mut().filter(|call| call.progress == Progress::Planned) {
            call.progress = Progress::Due;
        }
        (self.exhausted, self.cancelled) = (None, false);
    }

    /// Whether a call may have changed the workspace.
    pub(super) fn writes(&self, at: usize) -> bool {
        self.calls.get(at).is_some_and(|call| call.effect != Effect::Read)
    }

    /// The tool and the request of a call.
    pub(super) fn request(&self, at: usize) -> Option<(&str, &[u8])> {
        self.calls.get(at).map(|call| (call.name.as_str(), &call.request[..]))
    }

    /// Gives a call its result; `path` is where the whole of it is.
    pub(super) fn answer(&mut self, at: usize, result: Result<String, String>, path: Option<String>) {
        if let Some(call) = self.calls.get_mut(at) {
            call.path = path;
            call.progress = Progress::Answered(result);
        }
    }

    /// The result of a call comes with an image.
    pub(super) fn show(&mut self, at: usize, image: Image) {
        if !images::has_room(self.calls.iter().filter_map(|call| call.image.as_ref()), &image) {
            return self.note(at, crate::prompt::CROWDED);
        }
        if let Some(call) = self.calls.get_mut(at)
            && matches!(call.progress, Progress::Answered(Ok(_)))
        {
            call.image = Some(image);
        }
    }

    /// Adds a line to the result of a call.
    pub(super) fn note(&mut self, at: usize, line: &str) {
        let progress = self.calls.get_mut(at).map(|call| &mut call.progress);
        if let Some(Progress::Answered(Ok(text))) = progress {
            *text = format!("{text}\n{line}");
        }
    }

    /// Answers what has no step with a refusal.
    pub(super) fn drop_due(&mut self, why: &str) {
        for call in self.calls.iter_mut().filter(|call| call.progress == Progress::Due) {
            call.progress = Progress::Answered(Err(why.to_owned()));
        }
    }

    /// All results as one message, in the order of the calls, once every call has one.
    pub(super) fn results(&self) -> Option<Message> {
        let block = |call: &Call| match &call.progress {
            Progress::Answered(Ok(text)) => Some(Block::tool_result(call.id.as_str(), Ok(text))),
            Progress::Answered(Err(text)) => Some(Block::tool_result(call.id.as_str(), Err(text))),
            Progress::Due | Progress::Planned => None,
        };
        self.calls.iter().map(block).collect::<Option<Vec<_>>>().map(Message::user)
    }

    /// The images of the results; `None` when there are none.
    pub(super) fn images(&self) -> Option<Shown> {
        let images: Vec<(usize, Image)> =
            self.calls.iter().enumerate().filter_map(|(at, call)| Some((at, call.image?))).collect();
        let block = |call: &Call| match &call.progress {
            Progress::Answered(Ok(text)) if call.image.is_some() => {
                Block::tool_result(call.id.as_str(), Ok(&crate::prompt::unseen(text)))
            }
            Progress::Answered(Ok(text)) => Block::tool_result(call.id.as_str(), Ok(text)),
            Progress::Answered(Err(text)) => Block::tool_result(call.id.as_str(), Err(text)),
            Progress::Due | Progress::Planned => Block::tool_result(call.id.as_str(), Ok("")),
        };
        let hidden = || Message::user(self.calls.iter().map(block).collect());
        (!images.is_empty()).then(|| Shown::new(images, hidden()))
    }

    /// What stands for the results once they are cleared; `None` where that would save nothing.
    pub(super) fn stub(&self) -> Option<Message> {
        let mut saves = false;
        let block = |call: &Call| {
            let (text, is_error) = match &call.progress {
                Progress::Answered(Ok(text)) => (text, false),
                Progress::Answered(Err(text)) => (text, true),
                Progress::Due | Progress::Planned => return None,
            };
            let stub = match text.len() {
                0..=SHORT if call.image.is_some() => Some(crate::prompt::unseen(text)),
                0..=SHORT => None,
                length => Some(crate::prompt::cleared(length, call.path.as_deref())),
            };
            saves |= stub.is_some();
            let text = stub.as_deref().unwrap_or(text);
            Some(Block::tool_result(call.id.as_str(), if is_error { Err(text) } else { Ok(text) }))
        };
        let blocks = self.calls.iter().map(block).collect::<Option<Vec<_>>>()?;
        saves.then(|| Message::user(blocks))
    }
}
