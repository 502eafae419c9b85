//! Tools whose schemas are not part of each request: a run with many tools names most of them in its system
//! text alone. Two tools stand for them. `tools_describe` gives their schemas and is no step, as its answer
//! follows from the frozen tool list; `tools_call` is the call of the tool that it names: policy, lease, gate
//! and record know that one only. The list and the two never change, so the vendor's cache holds.

use std::borrow::Cow;
use std::fmt::Write as _;

use models::{RawJson, ToolSpec};
use serde::Deserialize;
use serde_json::Value;

use crate::config::{Tool, Toolbox};
use crate::{prompt, schema, words};

/// Gives the schemas of deferred tools.
pub(crate) const DESCRIBE: &str = "tools_describe";
/// Calls a deferred tool.
pub(crate) const CALL: &str = "tools_call";

/// How many tools are described at once, and how long that may be, in bytes.
const AT_ONCE: usize = 16;
const LONGEST: usize = 48 * 1024;
/// How much of a schema an error repeats, in bytes.
const REPEATED: usize = 8 * 1024;
/// How many names that are alike are told.
const NEAREST: usize = 3;

const FIXED: [(&str, &str, &str); 2] = [
    (
        DESCRIBE,
        "Gives the descriptions and input schemas of tools that the system text lists under \"More tools\".",
        r#"{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":16}},"required":["names"],"additionalProperties":false}"#,
    ),
    (
        CALL,
        "Calls a tool that the system text lists under \"More tools\". Its input must fit the schema that \
         tools_describe gives for it.",
        r#"{"type":"object","properties":{"name":{"type":"string"},"input":{"type":"object"}},"required":["name","input"],"additionalProperties":false}"#,
    ),
];

/// The two tools that stand for the deferred ones.
pub(crate) fn specs() -> impl Iterator<Item = ToolSpec> {
    FIXED.into_iter().filter_map(|(name, description, schema)| {
        let input_schema = RawJson::parse(schema).ok()?;
        Some(ToolSpec { name: name.into(), description: description.into(), input_schema })
    })
}

/// What a call comes to.
pub(super) enum Meant<'a> {
    /// A step of this tool.
    Step(&'a Tool, Cow<'a, RawJson>),
    /// An answer at once.
    Told(Result<String, String>),
}

/// What a call of the tool `name` comes to.
pub(super) fn meant<'a>(toolbox: &'a Toolbox, name: &str, input: &'a RawJson) -> Meant<'a> {
    let defers = toolbox.defers();
    match (toolbox.find(name), name) {
        (Some(tool), _) if tool.deferred => checked(tool, Cow::Borrowed(input)),
        (Some(tool), _) => Meant::Step(tool, Cow::Borrowed(input)),
        (None, DESCRIBE) if defers => Meant::Told(describe(toolbox, input)),
        (None, CALL) if defers => unwrapped(toolbox, input),
        (None, _) => Meant::Told(Err(unknown(toolbox, name))),
    }
}

/// The call inside of a call.
fn unwrapped<'a>(toolbox: &'a Toolbox, input: &RawJson) -> Meant<'a> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wrapped {
        name: String,
        #[serde(default)]
        input: Option<RawJson>,
    }
    let Ok(Wrapped { name, input }) = input.decode::<Wrapped>() else {
        let how = "give the tool's `name` and its `input`, an object";
        return Meant::Told(Err(format!(
            "the input of {CALL} is not what it takes, so nothing was called; {how}"
        )));
    };
    // Some models write an object as text.
    let input = match input {
        None => RawJson::parse("{}").ok(),
        Some(input) => match input.decode::<String>() {
            Ok(text) => RawJson::parse(text).ok(),
            Err(_) => Some(input),
        },
    };
    match (toolbox.find(&name), input) {
        (None, _) => Meant::Told(Err(unknown(toolbox, &name))),
        (Some(tool), Some(input)) if input.is_object() => checked(tool, Cow::Owned(input)),
        (Some(tool), _) => Meant::Told(Err(unfit(tool, &["input must be of type object".to_owned()]))),
    }
}

fn checked<'a>(tool: &'a Tool, input: Cow<'a, RawJson>) -> Meant<'a> {
    if tool.deferred {
        let read = |raw: &RawJson| raw.decode::<Value>().unwrap_or_default();
        let faults = schema::faults(&read(&tool.spec.input_schema), &read(&input));
        if !faults.is_empty() {
            return Meant::Told(Err(unfit(tool, &faults)));
        }
    }
    Meant::Step(tool, input)
}

fn unfit(tool: &Tool, faults: &[String]) -> String {
    let schema = prompt::cut(tool.spec.input_schema.as_str(), REPEATED);
    let (name, faults) = (&tool.spec.name, faults.join("; "));
    format!("`{name}` was not called, its input does not fit: {faults}\n\nIts input schema: {schema}")
}

fn describe(toolbox: &Toolbox, input: &RawJson) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Names {
        names: Vec<String>,
    }
    let Ok(Names { names }) = input.decode::<Names>() else {
        return Err(format!("the input of {DESCRIBE} is not what it takes; give `names`, a list of names"));
    };
    if names.is_empty() || names.len() > AT_ONCE {
        return Err(format!("{DESCRIBE} takes 1 to {AT_ONCE} names at once"));
    }
    let mut text = String::new();
    let mut known = 0;
    for name in &names {
        let Some(tool) = toolbox.find(name) else {
            let _ = writeln!(text, "{}\n", unknown(toolbox, name));
            continue;
        };
        let ToolSpec { name, description, input_schema } = &tool.spec;
        let part = format!("## {name}\n{description}\n\nInput schema: {}\n\n", input_schema.as_str());
        if text.len().saturating_add(part.len()) > LONGEST && known > 0 {
            let _ = writeln!(text, "`{name}` is left out, as this is long already: ask for it alone\n");
            continue;
        }
        known += 1;
        text.push_str(prompt::cut(&part, LONGEST));
    }
    let text = text.trim_end().to_owned();
    if known == 0 { Err(text) } else { Ok(text) }
}

fn unknown(toolbox: &Toolbox, name: &str) -> String {
    let shown = prompt::cut(name, 100);
    if !toolbox.defers() {
        let names: Vec<&str> = toolbox.names().collect();
        return format!("there is no tool `{shown}`; the tools are: {}", names.join(", "));
    }
    format!("there is no tool `{shown}`; the nearest are: {}", nearest(toolbox, name).join(", "))
}

/// The names that are most alike.
fn nearest<'a>(toolbox: &'a Toolbox, name: &str) -> Vec<&'a str> {
    let mut names: Vec<(usize, &str)> = toolbox
        .names()
        .map(|known| (distance(prompt::cut(name, 64), prompt::cut(known, 64)), known))
        .collect();
    names.sort_unstable();
    names.into_iter().take(NEAREST).map(|(_, known)| known).collect()
}

/// How many letters differ, in lower case.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.to_lowercase().chars().enumerate() {
        let mut diagonal = at;
        let mut left = at + 1;
        let mut next = vec![left];
        for (above, known) in row.iter().skip(1).zip(&other) {
            left = (diagonal + usize::from(letter != *known)).min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

/// The end of a system text that names the deferred tools, in the order of their names; empty when there is
/// none.
pub(crate) fn listing(toolbox: &Toolbox) -> String {
    let mut lines: Vec<String> = toolbox
        .iter()
        .filter(|tool| tool.deferred)
        .map(|tool| {
            format!("- {}: {}", words::clean(&tool.spec.name, 128), words::clean(first_line(tool), 100))
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    lines.sort_unstable();
    format!(
        "\nMore tools\n\nBesides the tools above there are those below. `{DESCRIBE}` gives their inputs, \
         `{CALL}` calls one of them.\n{}\n",
        lines.join("\n")
    )
}

fn first_line(tool: &Tool) -> &str {
    tool.spec.description.trim().lines().next().unwrap_or_default()
}
