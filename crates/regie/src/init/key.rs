//! Vendor keys in the environment: their names, never their values; and what became of the check of the one
//! that is used.

use serde::Serialize;

use crate::check::{Report, precise};
use crate::screen::{style, text};

/// Variables that hold a vendor's key, and whether Regie uses it today.
const KNOWN: [(&str, bool); 11] = [
    ("ANTHROPIC_API_KEY", true),
    ("ANTHROPIC_AUTH_TOKEN", true),
    ("OPENAI_API_KEY", true),
    ("OPENROUTER_API_KEY", false),
    ("GEMINI_API_KEY", false),
    ("GOOGLE_API_KEY", false),
    ("MISTRAL_API_KEY", false),
    ("DEEPSEEK_API_KEY", false),
    ("GROQ_API_KEY", false),
    ("XAI_API_KEY", false),
    ("AZURE_OPENAI_API_KEY", false),
];

/// A key that is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Key {
    pub(super) name: &'static str,
    used: bool,
}

impl Key {
    /// For people.
    pub(super) const fn shown(&self) -> &'static str {
        if self.used {
            "set, not checked: --check-key makes one small call, and says its cost before"
        } else {
            "set, not used: Regie asks Anthropic, OpenAI and your own model server"
        }
    }
}

/// The keys that are set to something.
pub(super) fn in_environment(lookup: &dyn Fn(&str) -> Option<String>) -> Vec<Key> {
    let is_set = |name: &str| lookup(name).is_some_and(|value| !value.trim().is_empty());
    KNOWN.into_iter().filter(|(name, _)| is_set(name)).map(|(name, used)| Key { name, used }).collect()
}

/// What became of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "detail")]
pub(super) enum Checked {
    /// The vendor answered, for this much, in nanodollars where the price is known.
    Works { model: String, nanodollars: Option<u64> },
    /// It did not, or nothing could be sent.
    Refused(String),
    /// Nobody agreed to the call.
    NotAsked,
}

impl From<Report> for Checked {
    fn from(report: Report) -> Self {
        match report.failure() {
            Some(why) => Self::Refused(why),
            None => Self::Works { model: report.model, nanodollars: report.nanodollars },
        }
    }
}

impl Checked {
    /// For people.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Works { model, nanodollars } => {
                let cost = nanodollars.map_or("a price that is unknown".into(), precise);
                format!("{} the key works: {} answered, for {cost}", style::ok("✓"), text::line(model))
            }
            Self::Refused(why) => {
                format!("{} the key does not work: {}", style::failed("✗"), text::line(why))
            }
            Self::NotAsked => format!("{} no call was made", style::dim("·")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_and_never_shown() {
        let found = in_environment(&|name| match name {
            "ANTHROPIC_API_KEY" | "XAI_API_KEY" => Some("sk-secret".into()),
            "OPENAI_API_KEY" => Some(" ".into()),
            _ => None,
        });
        assert_eq!(
            found.iter().map(|key| (key.name, key.used)).collect::<Vec<_>>(),
            [("ANTHROPIC_API_KEY", true), ("XAI_API_KEY", false)]
        );
        let said = format!("{found:?} {} {}", serde_json::to_string(&found).unwrap(), found[0].shown());
        assert!(!said.contains("sk-secret"));
    }
}
