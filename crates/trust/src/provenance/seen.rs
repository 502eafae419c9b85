//! What a run has taken in: contents with the voice of each part, and the labels of all of them together.

use domain::label::{Label, Labels};
use serde_json::Value;

use super::manifest::{Act, Manifest, Role, Tool, Voice};
use super::words::{Words, normal, tokens};

/// A call that an agent asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// Its arguments, an object.
    pub arguments: Value,
}

/// What a run has heard from its owner and taken in from its tools, in order.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub(super) words: Words,
    pub(super) contents: Vec<Content>,
    pub(super) made: Vec<Call>,
    taint: Labels,
}

/// One output of a tool.
#[derive(Debug, Clone)]
pub(super) struct Content {
    /// The output's objects; plain values are one object each.
    pub(super) records: Vec<Record>,
    /// The values that the call looked for.
    pub(super) keys: Vec<String>,
    /// Whether names alone were looked at.
    pub(super) by_name: bool,
    /// Whether the call made the objects.
    pub(super) made: bool,
}

/// One object.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    pub(super) leaves: Vec<Leaf>,
    /// What it is called, as it is compared.
    pub(super) names: Vec<String>,
}

/// One value in an object.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub(super) voice: Voice,
    /// As it is compared.
    pub(super) text: String,
}

impl Seen {
    /// Nothing but the owner's goal.
    #[must_use]
    pub fn of_goal(goal: &str) -> Self {
        let mut seen = Self::default();
        seen.hear(goal);
        seen
    }

    /// Takes in what the owner says.
    pub fn hear(&mut self, words: &str) {
        self.words.hear(words);
    }

    /// Takes in what a call that was made has answered.
    pub fn take_in(&mut self, manifest: &Manifest, call: &Call, output: &Value) {
        let tool = manifest.tool(&call.tool);
        if tool.is_none_or(|tool| tool.act != Act::Read) {
            self.made.push(call.clone());
        }
        let content = Content::of(tool, call, output);
        let letters = |leaf: &Leaf| leaf.voice > Voice::System && leaf.text.chars().any(char::is_alphabetic);
        if content.records.iter().flat_map(|record| &record.leaves).any(letters) {
            self.taint.join(&[Label::external()].into_iter().collect());
        }
        // What no one has declared may be anything.
        let anything = || [Label::external(), Label::sensitive()].into_iter().collect();
        if !content.records.is_empty() {
            self.taint.join(&tool.map_or_else(anything, |tool| tool.output.labels.clone()));
        }
        self.contents.push(content);
    }

    /// The labels of all that was taken in.
    #[must_use]
    pub fn taint(&self) -> &Labels {
        &self.taint
    }

    /// The handles that were seen, as token runs.
    pub(super) fn handles(&self) -> Vec<Vec<String>> {
        let leaves =
            self.contents.iter().flat_map(|content| &content.records).flat_map(|record| &record.leaves);
        let handles = leaves.filter(|leaf| leaf.voice == Voice::Handle && leaf.text.len() <= 64);
        handles.map(|leaf| tokens(&leaf.text)).filter(|run| !run.is_empty()).collect()
    }
}

impl Content {
    fn of(tool: Option<&Tool>, call: &Call, output: &Value) -> Self {
        let mut keys = Vec::new();
        if let (Some(tool), Some(arguments)) = (tool, call.arguments.as_object()) {
            let of_role = arguments.iter().filter(|(name, _)| tool.role(name) == Role::Key);
            of_role.for_each(|(_, value)| texts(value, &mut keys));
        }
        let declared = tool.map(|tool| &tool.output);
        let items = output.as_array().map_or_else(|| std::slice::from_ref(output), Vec::as_slice);
        let mut records = Vec::new();
        for item in items {
            let mut record = Record::default();
            record.read(tool, None, item);
            records.push(record);
        }
        records.retain(|record| !record.leaves.is_empty());
        Self {
            records,
            keys,
            by_name: declared.is_some_and(|output| output.by_name),
            made: declared.is_some_and(|output| output.made),
        }
    }
}

impl Record {
    fn read(&mut self, tool: Option<&Tool>, field: Option<&str>, value: &Value) {
        match value {
            Value::Null => {}
            Value::Array(items) => items.iter().for_each(|item| self.read(tool, field, item)),
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| self.read_field(tool, name, value))
            }
            plain => self.push(tool, field, &text_of(plain)),
        }
    }

    fn read_field(&mut self, tool: Option<&Tool>, name: &str, value: &Value) {
        let output = tool.map(|tool| &tool.output);
        match output.and_then(|output| output.keys) {
            Some(voice) if !output.is_some_and(|output| output.fields.contains_key(name)) => {
                self.leaves.push(Leaf { voice, text: normal(name) });
                self.read(tool, None, value);
            }
            _ => self.read(tool, Some(name), value),
        }
    }

    fn push(&mut self, tool: Option<&Tool>, field: Option<&str>, text: &str) {
        let Some(output) = tool.map(|tool| &tool.output) else {
            self.leaves.push(Leaf { voice: Voice::External, text: normal(text) });
            return;
        };
        let voice = match field {
            Some(field) => output.fields.get(field).copied(),
            None => output.plain,
        };
        let voice = voice.unwrap_or(Voice::External);
        if field.is_some_and(|field| output.names.contains(field)) {
            self.names.push(normal(text));
        }
        // A plain text of handles is a list, an entry a line, the first after a heading.
        let is_list = field.is_none() && voice == Voice::Handle;
        let entries = text.lines().enumerate().map(|(n, line)| match line.split_once(": ") {
            Some((_, entry)) if is_list && n == 0 => entry,
            _ => line,
        });
        match is_list {
            true => self.leaves.extend(entries.map(|entry| Leaf { voice, text: normal(entry) })),
            false => self.leaves.push(Leaf { voice, text: normal(text) }),
        }
    }
}

/// The plain values within a value, as texts.
pub(super) fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, into)),
        plain => into.push(text_of(plain)),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
