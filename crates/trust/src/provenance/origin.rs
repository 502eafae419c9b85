//! Where the value of an argument comes from.

use serde::Serialize;
use serde_json::Value;

use super::manifest::{Role, Tool, Voice};
use super::seen::{Call, Content, Record, Seen};
use super::words::{links, normal, same, tokens};

/// Where a value comes from, the most trusted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// There is no value, or none that could carry a message.
    Harmless,
    /// The owner said it.
    Owner,
    /// The system says it of the one thing that the owner named, or of what the run itself made.
    Derived,
    /// The owner's words and names of things that exist.
    Composed,
    /// A link as it stands in what a member wrote, where the owner sent the run.
    Linked,
    /// The name or id of a thing that exists; which of them, something else decided.
    Listed,
    /// It stands in a text that somebody else wrote.
    Foreign,
    /// Nobody said it: the agent made it, from whatever it has read.
    Unknown,
}

/// One value of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Traced {
    /// The argument's path.
    pub argument: String,
    /// What it decides.
    #[serde(skip)]
    pub role: Role,
    /// Where it comes from.
    pub origin: Origin,
    /// The value, as text.
    #[serde(skip)]
    pub(super) text: String,
}

/// Traces every value of a call.
pub(super) fn trace(tool: &Tool, seen: &Seen, call: &Call) -> Vec<Traced> {
    let mut traced = Vec::new();
    if let Value::Object(arguments) = &call.arguments {
        for (name, value) in arguments {
            walk(tool, seen, name, value, &mut traced);
        }
    } else {
        walk(tool, seen, "", &call.arguments, &mut traced);
    }
    traced
}

fn walk(tool: &Tool, seen: &Seen, path: &str, value: &Value, into: &mut Vec<Traced>) {
    match value {
        Value::Null => {}
        Value::Array(items) => items.iter().for_each(|item| walk(tool, seen, path, item, into)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| walk(tool, seen, &format!("{path}.{name}"), value, into));
        }
        plain => {
            let role = tool.role(path);
            let text = plain.as_str().map_or_else(|| plain.to_string(), str::to_owned);
            let origin = origin(seen, role, &text);
            into.push(Traced { argument: path.to_owned(), role, origin, text });
        }
    }
}

/// Where one value comes from.
fn origin(seen: &Seen, role: Role, text: &str) -> Origin {
    if text.trim().is_empty() || (role == Role::Bounded && is_bounded(text)) {
        return Origin::Harmless;
    }
    let amount = text.trim().parse::<f64>().ok().filter(|_| role == Role::Amount);
    if seen.words.hold(text) || amount.is_some_and(|amount| seen.words.count(amount)) {
        return Origin::Owner;
    }
    let value = normal(text);
    let is_it =
        |leaf: &str| leaf == value || amount.is_some_and(|sum| leaf.parse().is_ok_and(|it| same(sum, it)));
    let exists =
        |record: &Record, least| record.leaves.iter().any(|leaf| leaf.voice <= least && is_it(&leaf.text));
    let pairs =
        || seen.contents.iter().flat_map(|content| content.records.iter().map(move |it| (content, it)));
    // Of what a call made, only what the system says of it: the rest repeats the arguments.
    let is_made = |content: &Content, record: &Record| content.made && exists(record, Voice::System);
    let is_meant =
        |content: &Content, record: &Record| exists(record, Voice::Handle) && is_meant(seen, content, record);
    if pairs().any(|(content, record)| is_made(content, record) || is_meant(content, record)) {
        return Origin::Derived;
    }
    if matches!(role, Role::Name | Role::Content | Role::Bounded) && is_composed(seen, role, text) {
        return Origin::Composed;
    }
    if role == Role::Destination && is_linked(seen, text) {
        return Origin::Linked;
    }
    if pairs().any(|(_, record)| exists(record, Voice::Handle)) {
        return Origin::Listed;
    }
    let stands =
        |(_, record): (&Content, &Record)| record.leaves.iter().any(|leaf| leaf.text.contains(&value));
    if pairs().any(stands) { Origin::Foreign } else { Origin::Unknown }
}

/// Whether the owner meant this one object: it is all that was found by a name that the owner said; or it alone of
/// what was found is called what the owner said, or has in its name what was looked for in the owner's words.
fn is_meant(seen: &Seen, content: &Content, record: &Record) -> bool {
    let owners = |key: &&String| seen.words.hold(key);
    let is_only = content.by_name && content.records.len() == 1 && !content.keys.is_empty();
    let alone = |is: &dyn Fn(&String) -> bool| {
        let called = content.records.iter().filter(|it| it.names.iter().any(is)).count();
        called == 1 && record.names.iter().any(is)
    };
    let is_named = || record.names.iter().any(|name| seen.words.name(name) && alone(&|other| other == name));
    let has_key = |key: &String| {
        let run = tokens(key);
        run.len() >= 2 && alone(&|name| tokens(name).windows(run.len()).any(|window| window == run))
    };
    (is_only && content.keys.iter().all(|key| seen.words.hold(key)))
        || is_named()
        || content.keys.iter().filter(owners).any(has_key)
}

/// Whether a text consists of the owner's words; of a name, also of names of things that exist.
fn is_composed(seen: &Seen, role: Role, text: &str) -> bool {
    let handles = if role == Role::Name { seen.handles() } else { Vec::new() };
    seen.words.cover(text, &handles)
}

/// Whether a link stands, as it is, in what a member of the house wrote and the owner sent the run to read.
fn is_linked(seen: &Seen, text: &str) -> bool {
    let sent_there =
        |content: &&Content| !content.keys.is_empty() && content.keys.iter().all(|key| seen.words.hold(key));
    let leaves = seen.contents.iter().filter(sent_there).flat_map(|it| &it.records).flat_map(|it| &it.leaves);
    let value = normal(text);
    leaves.filter(|leaf| leaf.voice == Voice::Member).any(|leaf| links(&leaf.text).contains(&value))
}

/// Whether a value can carry no message: a truth value, a number, a date, two letters.
fn is_bounded(text: &str) -> bool {
    let is_time = text.len() <= 25 && text.chars().all(|c| c.is_ascii_digit() || "-:/.+TZ ".contains(c));
    is_time || matches!(text, "true" | "false") || text.chars().count() <= 2
}
