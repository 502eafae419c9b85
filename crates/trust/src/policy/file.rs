//! A file of rules: read with the line of everything in it, each rule held against its own examples.
//!
//! Nothing is guessed. A key that is not known, a pattern that is none, an example that its rule contradicts: the
//! whole file is refused, as half of somebody's rules is nobody's intention.

use std::sync::Arc;

use domain::{Effect, Risk, StepKind, Verdict};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as Unknown, StrDeserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::example::Example;
use super::labelling::Labelling;
use super::rule::{self, Level, Paths, Rule, When};
use super::shell::Pattern;

/// The most bytes of a file.
pub const MOST_BYTES: u64 = 256 << 10;
/// The most rules of a file.
const MOST_RULES: usize = 2_000;
/// The longest name of a rule, in bytes.
const LONGEST_NAME: usize = 64;

const KEYS: [&str; 19] = [
    "name",
    "verdict",
    "reason",
    "principal",
    "project",
    "tool",
    "kind",
    "effect",
    "risk_at_least",
    "risk_at_most",
    "paths",
    "host",
    "command",
    "line",
    "labels",
    "taint",
    "lifts",
    "match",
    "not_match",
];

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}; {mend}")]
pub struct Error {
    /// The file, as it is shown.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// How to mend it.
    pub mend: String,
}

/// What a file says.
#[derive(Debug, Clone)]
pub struct Said {
    /// Its rules.
    pub rules: Vec<Rule>,
    /// The labels that it gives.
    pub labels: Labelling,
}

/// Reads the rules of a file.
///
/// # Errors
/// The first thing in it that makes no sense.
pub fn parse(text: &str, file: &str, level: Level) -> Result<Vec<Rule>, Error> {
    read(text, file, level).map(|said| said.rules)
}

/// Reads a file.
///
/// # Errors
/// The first thing in it that makes no sense.
pub fn read(text: &str, file: &str, level: Level) -> Result<Said, Error> {
    let reader = Reader { text, file, level };
    if text.len() as u64 > MOST_BYTES {
        return Err(reader.error(0, "it has more than 256 KiB", "name patterns instead of single files"));
    }
    let document = DeTable::parse(text).map_err(|error| {
        let what = error.message().lines().next().unwrap_or("this is not TOML").to_owned();
        reader.error(error.span().map_or(0, |span| span.start), &what, "a text needs quotes, a list brackets")
    })?;
    let mut rules: Vec<Rule> = Vec::new();
    let mut labels = Labelling::none();
    let mut tables: Vec<_> = document.get_ref().iter().collect();
    tables.sort_by_key(|(name, _)| name.span().start);
    for (name, value) in tables {
        let at = name.span().start;
        if let ("labels", DeValue::Table(given)) = (name.get_ref().as_ref(), value.get_ref()) {
            for entry in given {
                labels.join(reader.label(entry)?);
            }
            continue;
        }
        let DeValue::Array(found) = value.get_ref() else {
            return Err(reader.unknown(name.get_ref(), at, &["rule"]));
        };
        if *name.get_ref() != "rule" {
            return Err(reader.unknown(name.get_ref(), at, &["rule"]));
        }
        if found.len() > MOST_RULES {
            return Err(reader.error(at, "it has more than 2,000 rules", "join some: each key takes a list"));
        }
        for rule in found {
            let at = rule.span().start;
            let DeValue::Table(table) = rule.get_ref() else {
                return Err(reader.error(at, "a rule is a table", "write [[rule]] on a line of its own"));
            };
            let rule = reader.rule(table, at)?;
            if let Some(first) = rules.iter().find(|first| first.name == rule.name) {
                let what = format!("the rule \"{}\" is there already, in line {}", rule.name, first.line);
                return Err(reader.error(at, &what, "give it a name of its own"));
            }
            rules.push(rule);
        }
    }
    Ok(Said { rules, labels })
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    level: Level,
}

type Value<'t> = Spanned<DeValue<'t>>;
type Key<'t> = Spanned<std::borrow::Cow<'t, str>>;

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    fn error(&self, at: usize, what: &str, mend: &str) -> Error {
        Error {
            file: self.file.to_owned(),
            line: self.line(at),
            what: what.to_owned(),
            mend: mend.to_owned(),
        }
    }

    fn unknown(&self, key: &str, at: usize, known: &[&str]) -> Error {
        let mend = match known {
            [one] => format!("rules stand under [[{one}]], what files are labelled under [labels]"),
            _ => format!("the keys of a rule are {}", known.join(", ")),
        };
        self.error(at, &format!("there is no key `{key}`"), &mend)
    }

    /// A label, and the files that have it.
    fn label(&self, entry: (&Key<'_>, &Value<'_>)) -> Result<Labelling, Error> {
        let patterns = self.texts(entry)?;
        Labelling::of_one(entry.0.get_ref(), &patterns).map_err(|why| self.refused(entry, &why))
    }

    fn rule(&self, table: &DeTable<'_>, at: usize) -> Result<Rule, Error> {
        for (key, _) in table {
            if !KEYS.contains(&key.get_ref().as_ref()) {
                return Err(self.unknown(key.get_ref(), key.span().start, &KEYS));
            }
        }
        let get = |name: &str| table.iter().find(|(key, _)| key.get_ref() == name);
        let missing = |key: &str, mend: &str| self.error(at, &format!("a rule has no `{key}`"), mend);
        let name = get("name").ok_or_else(|| missing("name", "say what it is called: name = \"no-push\""))?;
        let name = self.checked_name(name)?;
        let verdict = get("verdict").ok_or_else(|| {
            missing("verdict", "say what it does: verdict = \"deny\", \"ask\" or \"allow\"")
        })?;
        let place = verdict.0.span().start;
        let verdict: Verdict = self.word(verdict, "\"deny\", \"ask\" or \"allow\"")?;
        if self.level == Level::Repository && verdict == Verdict::Allow {
            return Err(self.error(
                place,
                &format!("the rule \"{name}\" allows, and a repository's own rules only deny or ask"),
                "the owner allows, in policy.toml of Regie's home or in the project's file below policy/ there",
            ));
        }
        let lifts = get("lifts").map(|entry| self.texts(entry)).transpose()?.unwrap_or_default();
        if let (Some((key, _)), true) = (get("lifts"), verdict != Verdict::Allow) {
            return Err(self.error(
                key.span().start,
                "only a rule that allows lifts others",
                "remove the line",
            ));
        }
        let reason = get("reason").map(|entry| self.text(entry)).transpose()?;
        let when = self.when(&get, verdict)?;
        let rule = Rule {
            name,
            verdict,
            reason: reason.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")),
            lifts,
            level: self.level,
            file: Arc::from(self.file),
            line: self.line(at),
            when,
        };
        for (key, should) in [("match", true), ("not_match", false)] {
            if let Some(entry) = get(key) {
                self.examples(&rule, entry, should)?;
            }
        }
        Ok(rule)
    }

    fn checked_name(&self, entry: (&Key<'_>, &Value<'_>)) -> Result<String, Error> {
        let name = self.text(entry)?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(fits) {
            let mend = "write up to 64 letters, digits, `-`, `_` and `.`, as \"no-push\"";
            return Err(self.error(
                entry.1.span().start,
                &format!("{name:?} cannot be the name of a rule"),
                mend,
            ));
        }
        Ok(name)
    }

    fn when<'t>(
        &self,
        get: &impl Fn(&str) -> Option<(&'t Key<'t>, &'t Value<'t>)>,
        verdict: Verdict,
    ) -> Result<When, Error> {
        let names = |key| self.each(get(key), rule::name);
        let tools = self.each(get("tool"), |text| Ok(text.to_owned()))?;
        let is_plain = tools.iter().all(|tool| !tool.contains(['*', '?', '[', '{', '\\']));
        let strict = verdict != Verdict::Allow;
        let paths = get("paths").map(|entry| {
            let patterns = self.texts(entry)?;
            Paths::parse(&patterns, strict).map_err(|why| self.refused(entry, &why))
        });
        let command =
            self.each(get("command"), |text| Pattern::parse(text).map_err(|error| error.to_string()))?;
        let shell_line = self.each(get("line"), |text| match text.trim() {
            "" => Err("it is blank: expected a whole shell line".into()),
            line => Ok(line.to_owned()),
        })?;
        let risks = "\"read\", \"workspace\", \"network\" or \"external\"";
        let risk = |key| get(key).map(|entry| self.word::<Risk>(entry, risks)).transpose();
        Ok(When {
            principal: names("principal")?,
            project: names("project")?,
            tool: names("tool")?,
            tools: if is_plain { tools } else { Vec::new() },
            kind: self
                .each(get("kind"), |text| named::<StepKind>(text, "a kind of step, as \"tool_call\""))?,
            effect: self
                .each(get("effect"), |text| named::<Effect>(text, "an effect, as \"workspace_write\""))?,
            at_least: risk("risk_at_least")?,
            at_most: risk("risk_at_most")?,
            paths: paths.transpose()?,
            host: self.each(get("host"), |text| rule::name(&text.to_ascii_lowercase()))?,
            command,
            shell_line,
            labels: self.each(get("labels"), rule::labels)?,
            taint: self.each(get("taint"), rule::labels)?,
        })
    }

    /// Each entry of a list, read; an absent key is an empty list, an empty list makes no sense.
    fn each<T>(
        &self,
        entry: Option<(&Key<'_>, &Value<'_>)>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, Error> {
        let Some(entry) = entry else { return Ok(Vec::new()) };
        let texts = self.texts(entry)?;
        texts.iter().map(|text| read(text).map_err(|why| self.refused(entry, &why))).collect()
    }

    fn refused(&self, (key, _): (&Key<'_>, &Value<'_>), why: &str) -> Error {
        self.error(key.span().start, &format!("`{}`: {why}", key.get_ref()), "mend the line, or remove it")
    }

    fn text(&self, entry: (&Key<'_>, &Value<'_>)) -> Result<String, Error> {
        match entry.1.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.refused(entry, "expected a text in quotes")),
        }
    }

    /// A text, or a list of texts that is not empty.
    fn texts(&self, entry: (&Key<'_>, &Value<'_>)) -> Result<Vec<String>, Error> {
        let wrong = || self.refused(entry, "expected a text in quotes, or a list of them that is not empty");
        match entry.1.get_ref() {
            DeValue::String(text) => Ok(vec![text.to_string()]),
            DeValue::Array(values) if !values.is_empty() => {
                let text = |value: &Value<'_>| match value.get_ref() {
                    DeValue::String(text) => Ok(text.to_string()),
                    _ => Err(wrong()),
                };
                values.iter().map(text).collect()
            }
            _ => Err(wrong()),
        }
    }

    fn word<T: DeserializeOwned>(&self, entry: (&Key<'_>, &Value<'_>), expected: &str) -> Result<T, Error> {
        let text = self.text(entry)?;
        named(&text, expected).map_err(|why| self.refused(entry, &why))
    }

    fn examples(&self, rule: &Rule, entry: (&Key<'_>, &Value<'_>), should: bool) -> Result<(), Error> {
        let DeValue::Array(values) = entry.1.get_ref() else {
            return Err(self.refused(entry, "expected a list of actions, as [\"shell git push\"]"));
        };
        for value in values {
            let at = value.span().start;
            let (example, shown) = self.example(value)?;
            if example.fits(rule) != should {
                let how = if should {
                    "should hold for it and does not"
                } else {
                    "should not hold for it and does"
                };
                let what = format!("the rule \"{}\" contradicts its example {shown:?}: it {how}", rule.name);
                return Err(self.error(
                    at,
                    &what,
                    "mend the rule or the example; no rule of this file counts until then",
                ));
            }
        }
        Ok(())
    }

    /// An example: the action as a text, or a table with more about it.
    fn example(&self, value: &Value<'_>) -> Result<(Example, String), Error> {
        let at = value.span().start;
        let wrong = |what: &str| {
            self.error(at, what, "write it as \"shell git push\" or { action = \"…\", taint = [\"…\"] }")
        };
        let read = |text: &str| Example::parse(text).map_err(|why| wrong(&why));
        let table = match value.get_ref() {
            DeValue::String(text) => return Ok((read(text)?, text.to_string())),
            DeValue::Table(table) => table,
            _ => return Err(wrong("an example is a text or a table")),
        };
        let action = table.iter().find(|(key, _)| key.get_ref() == "action");
        let action = self.text(action.ok_or_else(|| wrong("an example has no `action`"))?)?;
        let mut example = read(&action)?;
        for entry @ (key, _) in table {
            match key.get_ref().as_ref() {
                "action" => {}
                "principal" => example.principal = Some(self.text(entry)?),
                "project" => example.project = Some(self.text(entry)?),
                "effect" => example.effect = self.word(entry, "an effect, as \"workspace_write\"")?,
                "risk" => example.risk = self.word(entry, "a risk, as \"external\"")?,
                own @ ("labels" | "taint") => {
                    for labels in self.each(Some(entry), rule::labels)? {
                        if own == "taint" { &mut example.taint } else { &mut example.labels }.join(&labels);
                    }
                }
                other => {
                    let known = ["action", "principal", "project", "effect", "risk", "labels", "taint"];
                    return Err(self.unknown(other, key.span().start, &known));
                }
            }
        }
        Ok((example, action))
    }
}

/// A value by the name that it has everywhere.
fn named<T: DeserializeOwned>(text: &str, expected: &str) -> Result<T, String> {
    T::deserialize(StrDeserializer::<Unknown>::new(text))
        .map_err(|_| format!("expected {expected}, not {text:?}"))
}
