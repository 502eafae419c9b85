//! Values as people write and read them. Money and time stay exact: no value passes through a float.

use domain::Effort;
use serde_json::json;
use toml::de::DeValue;

use super::{key, owner};
use crate::screen::text;

/// What the values of a key look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A list of commands.
    Commands,
    /// A text that is not blank.
    Text,
    /// How much work a model puts in.
    Effort,
    /// Dollars with at most nine decimals.
    Dollars,
    /// A whole number from 1 on.
    Count,
    /// A span as `1h30m`.
    Span,
    /// Yes or no.
    Switch,
    /// Addresses that something is sent to.
    Addresses,
    /// Kinds of notifications.
    Events,
    /// What the export gate finds: kinds, and patterns of paths.
    Findings,
    /// Names of tools.
    Tools,
    /// Patterns of files.
    Patterns,
    /// An age as `14d`; nothing is an age too.
    Age,
    /// A size as `10 GiB`.
    Size,
}

/// A value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Commands.
    Commands(Vec<String>),
    /// A text.
    Text(String),
    /// Nanodollars.
    Dollars(u64),
    /// A number.
    Count(u64),
    /// Milliseconds.
    Span(u64),
    /// Yes or no.
    Switch(bool),
    /// Addresses or kinds.
    Names(Vec<String>),
    /// Milliseconds.
    Age(u64),
    /// Bytes.
    Size(u64),
}

impl Kind {
    /// Reads a value of a file.
    ///
    /// # Errors
    /// What was expected, in words.
    pub(super) fn of_toml(self, value: &DeValue<'_>) -> Result<Value, String> {
        match (self, value) {
            (Self::Commands, DeValue::Array(items)) => {
                let commands: Option<Vec<String>> =
                    items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
                let commands = commands.ok_or("expected a list of commands, each a string")?;
                if commands.iter().any(|command| command.trim().is_empty()) {
                    return Err("a command is blank: expected one that exits with 0".into());
                }
                Ok(Value::Commands(commands))
            }
            (Self::Commands, _) => Err("expected a list of commands, as [\"make test\"]".into()),
            (Self::Addresses, DeValue::String(one)) => Ok(Value::Names(vec![owner::address(one)?])),
            (Self::Addresses, DeValue::Array(items)) => owner::names(items, owner::address),
            (Self::Addresses, _) => Err("expected an address, as \"https://example.org/hook\"".into()),
            (Self::Events, DeValue::Array(items)) => owner::names(items, owner::event),
            (Self::Events, _) => Err(owner::EVENTS_WANTED.into()),
            (Self::Findings, DeValue::Array(items)) => owner::names(items, owner::finding),
            (Self::Findings, _) => Err(owner::FINDINGS_WANTED.into()),
            (Self::Tools, DeValue::Array(items)) => owner::names(items, tool),
            (Self::Tools, _) => Err("expected a list of tools, as [\"read\", \"edit\"]".into()),
            (Self::Patterns, DeValue::Array(items)) => owner::names(items, pattern),
            (Self::Patterns, _) => Err("expected a list of patterns, as [\"src/**\"]".into()),
            (Self::Switch, DeValue::Boolean(on)) => Ok(Value::Switch(*on)),
            (Self::Switch, _) => Err("expected true or false".into()),
            (Self::Text | Self::Effort | Self::Span | Self::Age | Self::Size, DeValue::String(text)) => {
                self.of_text(text)
            }
            (Self::Effort, _) => Err(EFFORT_WANTED.into()),
            (Self::Age, _) => Err(owner::AGE_WANTED.into()),
            (Self::Size, _) => Err(owner::SIZE_WANTED.into()),
            (Self::Text, _) => Err("expected a string".into()),
            (Self::Span, _) => Err("expected a span in quotes, as \"90s\", \"30m\" or \"1h30m\"".into()),
            (Self::Dollars | Self::Count, DeValue::Integer(number)) if number.radix() == 10 => {
                self.of_text(&number.as_str().replace('_', ""))
            }
            (Self::Dollars, DeValue::Float(number)) => self.of_text(&number.as_str().replace('_', "")),
            (Self::Dollars, _) => Err("expected dollars as a number, as 2 or 0.50".into()),
            (Self::Count, _) => Err("expected a whole number from 1 on".into()),
        }
    }

    /// Reads a value of the environment.
    ///
    /// # Errors
    /// What was expected, in words.
    pub(super) fn of_text(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Commands => Ok(Value::Commands(vec![text.to_owned()])),
            Self::Text if text.trim().is_empty() => Err("it is blank".into()),
            Self::Text => Ok(Value::Text(text.to_owned())),
            Self::Effort => effort(text).map(|effort| Value::Text(effort.name().into())),
            Self::Dollars => dollars(text).map(Value::Dollars),
            Self::Count => text
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .map(Value::Count)
                .ok_or_else(|| "expected a whole number from 1 on".into()),
            Self::Span => span(text).map(Value::Span),
            Self::Age => owner::age(text).map(Value::Age),
            Self::Size => owner::size(text).map(Value::Size),
            // No variable stands for these.
            Self::Switch | Self::Addresses | Self::Events | Self::Findings => {
                Err("it is said in config.toml only".into())
            }
            Self::Tools | Self::Patterns => Err("it is said in regie.toml only".into()),
        }
    }
}

/// The name of a tool, whether there is one or not.
fn tool(text: &str) -> Result<String, String> {
    match text.trim().is_empty() || text.chars().any(char::is_control) {
        true => Err("a tool has a name, as `read`".into()),
        false => Ok(text.to_owned()),
    }
}

/// A pattern of files.
fn pattern(text: &str) -> Result<String, String> {
    text.parse::<domain::Pattern>().map(|pattern| pattern.to_string()).map_err(|error| error.to_string())
}

impl Value {
    /// The number of a bound, in its smallest unit.
    pub(crate) fn amount(&self) -> Option<u64> {
        match self {
            Self::Dollars(amount)
            | Self::Count(amount)
            | Self::Span(amount)
            | Self::Age(amount)
            | Self::Size(amount) => Some(*amount),
            Self::Commands(_) | Self::Text(_) | Self::Switch(_) | Self::Names(_) => None,
        }
    }

    /// For people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Commands(commands) if commands.is_empty() => "none".into(),
            Self::Commands(commands) => {
                commands.iter().map(|command| text::line(command)).collect::<Vec<_>>().join(" · ")
            }
            Self::Text(value) if value.is_empty() => "none".into(),
            Self::Text(value) => text::line(value),
            Self::Dollars(nanodollars) => text::dollars(*nanodollars),
            Self::Count(count) => text::count(*count),
            Self::Span(millis) => text::bound(*millis),
            Self::Switch(on) => if *on { "yes" } else { "no" }.into(),
            Self::Names(names) if names.is_empty() => "none".into(),
            Self::Names(names) => names.iter().map(|name| owner::shown(name)).collect::<Vec<_>>().join(" · "),
            Self::Age(millis) => owner::age_written(*millis),
            Self::Size(bytes) => text::bytes(*bytes),
        }
    }

    /// For programs: money in nanodollars, time in milliseconds.
    pub(crate) fn json(&self) -> serde_json::Value {
        match self {
            Self::Commands(commands) => json!(commands),
            Self::Text(value) if value.is_empty() => serde_json::Value::Null,
            Self::Text(value) => json!(value),
            Self::Switch(on) => json!(on),
            Self::Names(names) => json!(names.iter().map(|name| owner::shown(name)).collect::<Vec<_>>()),
            Self::Dollars(amount)
            | Self::Count(amount)
            | Self::Span(amount)
            | Self::Age(amount)
            | Self::Size(amount) => json!(amount),
        }
    }

    /// The unit of [`Value::json`], where it has one.
    pub(crate) const fn unit(&self) -> Option<&'static str> {
        match self {
            Self::Dollars(_) => Some("nanodollars"),
            Self::Span(_) | Self::Age(_) => Some("milliseconds"),
            Self::Size(_) => Some("bytes"),
            Self::Commands(_) | Self::Text(_) | Self::Count(_) | Self::Switch(_) | Self::Names(_) => None,
        }
    }

    /// As a file has it.
    pub(crate) fn written(&self) -> String {
        match self {
            Self::Commands(commands) => {
                let all: Vec<String> = commands.iter().map(|command| quoted(command)).collect();
                format!("[{}]", all.join(", "))
            }
            Self::Text(value) => quoted(value),
            Self::Dollars(nanodollars) => {
                let (whole, rest) = (nanodollars / 1_000_000_000, nanodollars % 1_000_000_000);
                let decimals = format!("{rest:09}");
                match decimals.trim_end_matches('0') {
                    "" => format!("{whole}"),
                    decimals => format!("{whole}.{decimals:0<2}"),
                }
            }
            Self::Count(count) => text::count(*count).replace(',', "_"),
            Self::Span(millis) => quoted(&text::bound(*millis).replace("min", "m").replace(' ', "")),
            Self::Switch(on) => on.to_string(),
            Self::Names(names) => {
                let all: Vec<String> = names.iter().map(|name| quoted(name)).collect();
                format!("[{}]", all.join(", "))
            }
            Self::Age(millis) => quoted(&owner::age_written(*millis)),
            Self::Size(bytes) => quoted(&owner::size_written(*bytes)),
        }
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut all = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => all.extend(['\\', c]),
            c if c.is_control() => all.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => all.push(c),
        }
    }
    all.push('"');
    all
}

/// What was expected.
pub(super) const EFFORT_WANTED: &str = "expected \"low\", \"medium\", \"high\", \"xhigh\" or \"max\"";

/// How much work a model puts in.
///
/// # Errors
/// What was expected, in words.
pub(crate) fn effort(text: &str) -> Result<Effort, String> {
    if let Some(effort) = Effort::ALL.into_iter().find(|effort| effort.name() == text) {
        return Ok(effort);
    }
    Err(match key::near(text, &Effort::ALL.map(Effort::name)) {
        Some(near) => format!("{EFFORT_WANTED}; did you mean {near}?"),
        None => EFFORT_WANTED.to_owned(),
    })
}

/// Dollars as people write them, in nanodollars, exactly.
///
/// # Errors
/// What was expected, in words.
pub(crate) fn dollars(text: &str) -> Result<u64, String> {
    let wrong = || "expected dollars with at most nine decimals, as 2 or 0.50".to_owned();
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && decimals.is_empty()) || !plain(whole) || !plain(decimals) || decimals.len() > 9 {
        return Err(wrong());
    }
    let number = |text: &str| if text.is_empty() { Ok(0) } else { text.parse::<u64>().map_err(|_| wrong()) };
    let whole = number(whole)?.checked_mul(domain::budget::DOLLAR).ok_or_else(wrong)?;
    whole.checked_add(number(&format!("{decimals:0<9}"))?).ok_or_else(wrong)
}

/// A span as people write it, in milliseconds.
///
/// # Errors
/// What was expected, in words.
pub(crate) fn span(text: &str) -> Result<u64, String> {
    let wrong = || "expected a span, as 90s, 30m or 1h30m".to_owned();
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = rest.split_at(end);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (unit, left) = unit.split_at(unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len()));
        let millis: u64 = match unit {
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        total = number.checked_mul(millis).and_then(|more| total.checked_add(more)).ok_or_else(wrong)?;
        rest = left;
    }
    if total == 0 { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_exact() {
        assert_eq!(dollars("1.50"), Ok(1_500_000_000));
        assert_eq!(dollars(".000000001"), Ok(1));
        assert_eq!(dollars("2"), Ok(2_000_000_000));
        for wrong in ["", ".", "-1", "1,5", "1e3", "0.0000000001", "99999999999"] {
            assert!(dollars(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_effort_is_one_of_five() {
        assert_eq!(effort("xhigh"), Ok(Effort::Xhigh));
        assert!(effort("hihg").unwrap_err().ends_with("; did you mean high?"));
        assert_eq!(effort("enormous"), Err(EFFORT_WANTED.to_owned()));
    }

    #[test]
    fn spans_add_up() {
        assert_eq!(span("90s"), Ok(90_000));
        assert_eq!(span("1h30m"), Ok(5_400_000));
        for wrong in ["", "30", "m", "0s", "3 m", "5d", "-1s"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let all = [
            (Kind::Commands, Value::Commands(vec!["a \"b\" \\ 'c'\t".into()])),
            (Kind::Dollars, Value::Dollars(1_500_000_000)),
            (Kind::Dollars, Value::Dollars(1)),
            (Kind::Count, Value::Count(5_000_000)),
            (Kind::Span, Value::Span(5_400_000)),
            (Kind::Switch, Value::Switch(true)),
            (Kind::Addresses, Value::Names(vec!["https://example.org/a?b=c".into()])),
            (Kind::Events, Value::Names(vec!["gate".into()])),
            (Kind::Age, Value::Age(14 * 86_400_000)),
            (Kind::Age, Value::Age(5_400_000)),
            (Kind::Size, Value::Size(10 << 30)),
            (Kind::Size, Value::Size(1_000_001)),
        ];
        for (kind, value) in all {
            let text = value.written();
            let read = DeValue::parse(&text).unwrap();
            assert_eq!(kind.of_toml(read.get_ref()), Ok(value), "{text}");
        }
    }
}
