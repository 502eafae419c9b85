//! What a request asks of a vendor beyond the conversation, and which parameter a vendor refused.
//!
//! Which model takes which parameter is not known by its name alone, and some depend on the account. So a
//! refusal that names one is told apart from other bad requests, and who composes can leave it out.

use std::fmt;

use domain::Digest;
use serde::{Deserialize, Serialize};

use crate::{Request, Wire};

/// What a request asks beyond the conversation. A wire that has no such thing sends nothing for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Where the vendor places requests by a key, one that is the same as long as model, tools and system
    /// text are: the next turn, and the next run, find the cache of the one before.
    pub cache_key: bool,
    /// The model reasons as far as it sees fit, and a summary of that is shown.
    pub reasoning: bool,
}

/// What a vendor may refuse of a request whose conversation it would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// [`Extras::cache_key`].
    CacheKey,
    /// [`Extras::reasoning`].
    Reasoning,
    /// [`Request::effort`].
    Effort,
    /// Earlier reasoning, which goes back signed or sealed.
    Recall,
    /// Images of any kind.
    Images,
}

impl Extras {
    /// Whether it asks for this.
    #[must_use]
    pub const fn holds(self, parameter: Parameter) -> bool {
        match parameter {
            Parameter::CacheKey => self.cache_key,
            Parameter::Reasoning => self.reasoning,
            Parameter::Effort | Parameter::Recall | Parameter::Images => false,
        }
    }

    /// The same without this.
    #[must_use]
    pub const fn without(self, parameter: Parameter) -> Self {
        match parameter {
            Parameter::CacheKey => Self { cache_key: false, ..self },
            Parameter::Reasoning => Self { reasoning: false, ..self },
            Parameter::Effort | Parameter::Recall | Parameter::Images => self,
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CacheKey => "cache key",
            Self::Reasoning => "summary of its reasoning",
            Self::Effort => "effort of this kind",
            Self::Recall => "earlier reasoning",
            Self::Images => "images",
        })
    }
}

impl Parameter {
    /// The parameter that a vendor's refusal of a request names; `field` is what it calls the one at fault.
    pub(crate) fn refused(wire: Wire, field: &str, message: &str) -> Option<Self> {
        let text = format!("{field} {message}").to_ascii_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| text.contains(word));
        match wire {
            Wire::Messages if !names(&["messages."]) => match () {
                () if names(&["effort"]) => Some(Self::Effort),
                () if names(&["thinking"]) => Some(Self::Reasoning),
                () => None,
            },
            Wire::Messages => {
                let is_of_reasoning =
                    names(&["thinking"]) && names(&["signature", "modified", "conversation"]);
                is_of_reasoning.then_some(Self::Recall)
            }
            Wire::Responses => match () {
                () if names(&["prompt_cache_key"]) => Some(Self::CacheKey),
                () if names(&["reasoning.summary", "reasoning summar"]) => Some(Self::Reasoning),
                () if names(&["encrypted content", "encrypted_content"]) => Some(Self::Recall),
                () if names(&["reasoning.effort", "reasoning_effort"]) => Some(Self::Effort),
                () if field == "reasoning" || names(&["parameter: 'reasoning'"]) => Some(Self::Reasoning),
                () => None,
            },
            Wire::Chat => names(&["reasoning_effort"]).then_some(Self::Effort),
        }
    }

    /// How the owner can mend it.
    pub(crate) const fn mend(self) -> &'static str {
        match self {
            Self::Effort => "choose another effort for this model, or none",
            Self::CacheKey | Self::Reasoning | Self::Recall | Self::Images => "it can be left out",
        }
    }
}

/// The key under which a vendor may place the requests of equal beginnings. Nothing of a run is in it.
pub(crate) fn cache_key(request: &Request) -> String {
    let mut text = format!("{}\0{}", request.model, request.system);
    for tool in &request.tools {
        for part in [&tool.name, &tool.description, tool.input_schema.as_str()] {
            text.push('\0');
            text.push_str(part);
        }
    }
    let digest = Digest::of(text.as_bytes()).to_string();
    format!("regie-{}", digest.get(..32).unwrap_or(&digest))
}
