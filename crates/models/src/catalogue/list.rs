//! What an endpoint says of its models, in no vendor's words.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::price;
use crate::Wire;
use crate::wire::bare;

/// What an endpoint says of one model. What it does not say is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Model {
    /// The name that Regie has for it, with a prefix where its wire needs one.
    pub name: String,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// The window in tokens that the endpoint gives it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The longest window in tokens that the model could have, where the endpoint may give it less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<u64>,
    /// The most tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// Whether it calls tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// Whether it sees images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vision: Option<bool>,
    /// Whether it reasons before it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// Whether it reasons as it sees fit, and can be asked to show a summary of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<bool>,
    /// When it was released, in seconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<u64>,
    /// Whether it is there for another thing than conversations in text, as embeddings or speech.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_other: bool,
}

/// What kind of server a list is from, as far as that changes what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A vendor's own, or one that is like it.
    #[default]
    Plain,
    /// Ollama: the window is `num_ctx`, which may be far below what the model could have.
    Ollama,
    /// LM Studio: the window is chosen when the model is loaded.
    LmStudio,
    /// llama.cpp: one model, whatever it is asked for.
    LlamaCpp,
}

/// The models of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listing {
    /// As the endpoint orders them.
    pub models: Vec<Model>,
    /// Whether a model that is not among them cannot be had there. A gateway may know more than it tells.
    pub is_complete: bool,
    /// What kind of server said so.
    pub kind: Kind,
}

impl Listing {
    /// What is said of a model, by Regie's name for it. A tag or date may be left out, as the endpoint
    /// itself allows.
    #[must_use]
    pub fn find(&self, model: &str) -> Option<&Model> {
        let wire = Wire::of(model);
        let wanted = bare(model);
        let is = |one: &Model| Wire::of(&one.name) == wire && bare(&one.name) == wanted;
        let is_nearly = |one: &Model| {
            let name = bare(&one.name);
            Wire::of(&one.name) == wire
                && match wire {
                    Wire::Chat => name.strip_suffix(":latest") == Some(wanted),
                    Wire::Messages | Wire::Responses => undated(name) == undated(wanted),
                }
        };
        let only = match (self.kind, self.models.as_slice()) {
            (Kind::LlamaCpp, [only]) => Some(only),
            _ => None,
        };
        let all = || self.models.iter();
        all().find(|one| is(one)).or_else(|| all().find(|one| is_nearly(one))).or(only)
    }

    /// Whether it is certain that the model cannot be had at this endpoint.
    #[must_use]
    pub fn lacks(&self, model: &str) -> bool {
        self.is_complete && self.find(model).is_none()
    }

    /// The names that are most like one that is not there, the nearest first, at most three.
    #[must_use]
    pub fn nearest(&self, model: &str) -> Vec<&str> {
        let mut all: Vec<(usize, &str)> = self
            .models
            .iter()
            .filter(|one| !one.is_other)
            .map(|one| (distance(bare(model), bare(&one.name)), one.name.as_str()))
            .collect();
        all.sort();
        all.into_iter().take(3).map(|(_, name)| name).collect()
    }
}

/// A name without its date; `claude-opus-4-0` stands for the first `claude-opus-4-…` of any.
fn undated(name: &str) -> &str {
    let name = price::undated(name);
    name.strip_suffix("-0").unwrap_or(name)
}

/// Where a list is read from, below the endpoint's base URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Below the version, as `models`.
    Versioned(&'static str),
    /// Beside the version, as `api/tags`.
    Beside(&'static str),
}

/// Reads from an endpoint: without a body by `GET`, with one by `POST`.
pub(crate) trait Read: Sync {
    /// What is there, as JSON.
    fn json(
        &self,
        source: Source,
        query: &str,
        body: Option<Value>,
    ) -> futures_util::future::BoxFuture<'_, Result<Value, crate::call::Error>>;

    /// That what was read is no list; says why.
    fn unreadable(&self, what: &'static str) -> crate::call::Error;

    /// Whether the endpoint is the vendor's own, and no gateway.
    fn is_the_vendors(&self) -> bool;
}

/// The name that Regie has for a model of a wire.
pub(crate) fn name_of(wire: Wire, id: &str) -> String {
    if wire != Wire::Chat && Wire::of(id) == wire && bare(id) == id {
        return id.to_owned();
    }
    let prefix = match wire {
        Wire::Messages => "anthropic/",
        Wire::Responses => "openai/",
        Wire::Chat => "local/",
    };
    format!("{prefix}{id}")
}

/// How many letters have to be added, taken or changed to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(200).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, a) in one.chars().take(200).enumerate() {
        let mut left = line + 1;
        let mut fresh = vec![left];
        for (b, pair) in other.iter().zip(row.windows(2)) {
            let &[diagonal, above] = pair else { continue };
            left = (above + 1).min(left + 1).min(diagonal + usize::from(a != *b));
            fresh.push(left);
        }
        row = fresh;
    }
    row.last().copied().unwrap_or_default()
}
