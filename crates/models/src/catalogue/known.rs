//! All that is known of one model, merged from the three sources, each number with where it is from.

use domain::{Price, Terms};
use serde::{Deserialize, Serialize};

use super::{Kind, Listing, Model, price};

/// Where a number is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The endpoint says so.
    Endpoint,
    /// The built-in table.
    Table,
    /// Supposed, as nothing is said.
    Default,
}

/// A number, and where it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// The number.
    pub tokens: u64,
    /// Who says so.
    pub from: Origin,
}

/// All that is known of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What the endpoint says of it; nothing but its name where it says nothing.
    pub model: Model,
    /// The window in tokens, question and answer together.
    pub window: Said,
    /// The most tokens that one answer of a run may have.
    pub max_output: Said,
    /// What a token costs.
    pub price: Option<Price>,
    /// The longest request in tokens that is sold at this price.
    pub price_holds: Option<u64>,
    /// What kind of server it is at.
    pub kind: Kind,
}

/// Merges what an endpoint says, if it was asked, with the built-in table and the defaults.
#[must_use]
pub fn known(model: &str, listing: Option<&Listing>) -> Known {
    let told = listing.and_then(|listing| listing.find(model)).cloned();
    let told = Model { name: model.to_owned(), ..told.unwrap_or_default() };
    let row = price::find(model);
    let (table, default) = (row.map(|row| row.window), super::window(model));
    let said = |tokens, from| Said { tokens, from };
    let window = match (told.window, table) {
        (Some(tokens), _) => said(tokens, Origin::Endpoint),
        (None, Some(tokens)) => said(tokens, Origin::Table),
        // What the model could have at most is no more than a bound.
        (None, None) => said(told.longest.map_or(default, |longest| longest.min(default)), Origin::Default),
    };
    let price_holds = row.and_then(|row| row.holds);
    let most = super::max_output(within(window.tokens, price_holds));
    let max_output = match told.max_output {
        Some(tokens) if tokens < u64::from(most) => said(tokens.max(1), Origin::Endpoint),
        _ => said(u64::from(most), Origin::Default),
    };
    let kind = listing.map(|listing| listing.kind).unwrap_or_default();
    Known { model: told, window, max_output, price: price(model), price_holds, kind }
}

impl Known {
    /// On what terms a run of this model begins. A run stays where its price holds.
    #[must_use]
    pub fn terms(&self) -> Terms {
        Terms {
            window: within(self.window.tokens, self.price_holds),
            max_output: u32::try_from(self.max_output.tokens).unwrap_or(u32::MAX),
            price: self.price.clone(),
            effort: None,
            batch: false,
            reasoning: super::reasons(&self.model.name) && self.model.thinking != Some(false),
            instead_of: None,
            blind: self.model.vision == Some(false),
        }
    }

    /// What an owner should know of the window, and how to mend it.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let name = &self.model.name;
        let mend = match self.kind {
            Kind::Ollama => "set num_ctx in its Modelfile, or OLLAMA_CONTEXT_LENGTH for the server",
            Kind::LmStudio => "load it with a longer context in LM Studio",
            Kind::LlamaCpp => "start llama-server with a larger --ctx-size",
            Kind::Plain => "give the server a longer context",
        };
        let could = match self.model.longest {
            Some(longest) if longest > self.window.tokens => format!(" of the {longest} that it could have"),
            _ => String::new(),
        };
        if self.window.from == Origin::Endpoint && self.window.tokens < super::SMALL_WINDOW {
            return Some(format!(
                "the window of `{name}` is {} tokens{could}, which is short for an agent; {mend}",
                self.window.tokens
            ));
        }
        let is_open =
            self.window.from == Origin::Default && matches!(self.kind, Kind::Ollama | Kind::LmStudio);
        is_open.then(|| {
            format!(
                "the server does not say which window it gives `{name}` before it is loaded, and Regie supposes {} \
                 tokens; {mend}, or let `regie models check {name}` load it and look",
                self.window.tokens
            )
        })
    }
}

fn within(window: u64, holds: Option<u64>) -> u64 {
    holds.map_or(window, |holds| holds.min(window))
}
