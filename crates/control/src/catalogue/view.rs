//! The requests and answers of the catalogue, shared with clients.

use models::Wire;
use models::catalogue::Origin;
use serde::{Deserialize, Serialize};

use crate::api::{Problem, Vendor};

/// Asks for the lists of the endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadModels {
    /// The vendors' keys and addresses.
    #[serde(default)]
    pub vendor: Vendor,
    /// Whether lists that are fresh are read again as well.
    #[serde(default)]
    pub refresh: bool,
}

/// The models that are known of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    /// Endpoint by endpoint.
    pub endpoints: Vec<Endpoint>,
}

/// An endpoint and its models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `anthropic`, `openai` or `local`.
    pub wire: String,
    /// Its base URL; `null` when it cannot be asked.
    pub url: Option<String>,
    /// When the list was read; `null` when it never was.
    pub as_of: Option<u64>,
    /// Whether a model that is not in the list cannot be had there.
    pub is_complete: bool,
    /// Its models, as it orders them.
    pub models: Vec<Model>,
    /// Why it cannot be asked, or could not be now.
    pub problem: Option<Problem>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The name that `--model` takes.
    pub name: String,
    /// The vendor's name for people.
    pub display: Option<String>,
    /// The window in tokens.
    pub window: u64,
    /// `endpoint`, `table` or `default`.
    pub window_from: Origin,
    /// The longest window that it could have, where the endpoint may give it less.
    pub longest: Option<u64>,
    /// The most tokens of one answer. Those of a run are shorter.
    pub max_output: Option<u64>,
    /// Whether it calls tools.
    pub tools: Option<bool>,
    /// Whether it sees images.
    pub vision: Option<bool>,
    /// Whether it reasons before it answers.
    pub thinking: Option<bool>,
    /// When it was released.
    pub created: Option<u64>,
    /// Whether it is there for another thing than conversations in text.
    pub is_other: bool,
    /// What a token costs, in nanodollars.
    pub price: Option<domain::Price>,
    /// The longest request in tokens that is sold at this price; a run stays below it.
    pub price_holds: Option<u64>,
}

/// The wire's name in the API.
pub(crate) const fn short(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "anthropic",
        Wire::Responses => "openai",
        Wire::Chat => "local",
    }
}

/// A name that stands for any model of a wire.
pub(crate) const fn any_model(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "anthropic/any",
        Wire::Responses => "openai/any",
        Wire::Chat => "local/any",
    }
}

/// The base URL of the address that calls go to.
pub(crate) fn base(url: &str, wire: Wire) -> String {
    let path = match wire {
        Wire::Messages => "/messages",
        Wire::Responses => "/responses",
        Wire::Chat => "/chat/completions",
    };
    let base = url.strip_suffix(path).unwrap_or(url);
    base.strip_suffix("/v1").unwrap_or(base).to_owned()
}
