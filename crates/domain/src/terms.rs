//! On what terms a run asks its model: what was known of the model when the run began. A resumed run goes on
//! under the same terms, whatever a newer catalogue says.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// What is on record of a run's model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The window in tokens, question and answer together.
    pub window: u64,
    /// The most tokens that one answer may have, reasoning included.
    pub max_output: u32,
    /// What a token costs; absent when that is unknown, which is not a price of zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// How much work the model puts into an answer; the vendor's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Whether calls go by the vendor's batch queue, for half the price and hours later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batch: bool,
    /// Whether the model is known to reason as it sees fit, and to show a summary of that when asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reasoning: bool,
    /// The first choice, when it could not be asked as the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<Instead>,
    /// Whether the model is known to look at no images.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blind: bool,
}

/// A model that was the first choice, and that a run does without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instead {
    /// Its name.
    pub model: String,
    /// Why it could not be asked, for people.
    pub why: String,
}

/// What one token costs, in nanodollars (10⁻⁹ dollar), and where that is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// One uncached input token.
    pub input: u64,
    /// One output token, reasoning included.
    pub output: u64,
    /// One input token read from the vendor's cache.
    pub cache_read: u64,
    /// One input token written to the vendor's cache.
    pub cache_write: u64,
    /// The record that the price is from, for people.
    pub record: Cow<'static, str>,
}

/// How much work a model puts into an answer: the first lever on cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the vendors' own scale, named as on their wires")]
pub enum Effort {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Effort {
    /// All of them, the least first.
    pub const ALL: [Self; 5] = [Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

impl std::fmt::Display for Effort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
