//! Vendor keys in the environment: their names, never their values; and the one call that shows
//! whether the key that is used works.

use std::sync::Arc;
use std::time::Duration;

use models::{Adapter, Block, Config, Message, Provider, Request, Wire, catalogue};
use serde::Serialize;

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

/// How long the vendor may be silent.
const PATIENCE: Duration = Duration::from_secs(30);

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

/// A call that is ready and not made.
pub(super) struct Call {
    provider: Arc<dyn Provider>,
    body: bytes::Bytes,
    model: String,
    most: Option<u64>,
}

/// Makes the smallest call ready.
///
/// # Errors
/// Why there is none, in words.
pub(super) fn prepare(model: &str) -> Result<Call, String> {
    let mut config = Config::from_lookup(Wire::of(model), |name| std::env::var(name).ok())
        .map_err(|error| error.to_string())?;
    config.max_attempts = 1;
    config.idle_timeout = config.idle_timeout.min(PATIENCE);
    let provider = Adapter::connect(config).map_err(|error| error.to_string())?;
    let request = Request {
        model: model.to_owned(),
        max_tokens: 1,
        system: String::new(),
        tools: Vec::new(),
        messages: vec![Message::user(vec![Block::text("Say ok.")])],
        effort: None,
        extras: models::Extras::default(),
    };
    let body = provider.compose(&request).map_err(|error| error.to_string())?;
    let most = catalogue::estimate(body.len(), 1, catalogue::price(model).as_ref()).nanodollars;
    Ok(Call { provider, body, model: model.to_owned(), most })
}

impl Call {
    /// What it is and what it costs, before it is made.
    pub(super) fn announcement(&self) -> String {
        let cost =
            self.most.map_or("a price that is unknown".into(), |most| format!("at most {}", precise(most)));
        format!(
            "to check the key: one message to {} at {}, one token of answer, {cost}; outside of all caps",
            text::line(&self.model),
            text::line(self.provider.endpoint()),
        )
    }

    /// Makes it.
    pub(super) async fn make(self) -> Checked {
        match self.provider.call(self.body, &mut |_| {}).await {
            Ok(response) => Checked::Works {
                nanodollars: catalogue::cost(&response.usage, catalogue::price(&self.model).as_ref()),
                model: self.model,
            },
            Err(error) => Checked::Refused(error.to_string()),
        }
    }
}

/// Dollars down to the last place that is not zero.
fn precise(nanodollars: u64) -> String {
    let decimals = format!("{:09}", nanodollars % 1_000_000_000);
    format!("${}.{:0<2}", nanodollars / 1_000_000_000, decimals.trim_end_matches('0'))
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

    #[test]
    fn small_money_is_not_rounded_away() {
        assert_eq!(precise(70_125), "$0.000070125");
        assert_eq!(precise(1_500_000_000), "$1.50");
        assert_eq!(precise(0), "$0.00");
    }
}
