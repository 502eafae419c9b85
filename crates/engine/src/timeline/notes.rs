//! What a line says beside its own step: that a check came before the work, and that most of the money
//! is spent.

use domain::{Amount, Caps, Mission, Payload};
use models::Response;

use super::{Item, Kind, words};
use crate::words::dollars;

/// The share of a mission's cap, in percent, at which its owner is told.
const WARN_AT: u128 = 80;

/// What the lines so far have told.
#[derive(Debug, Default)]
pub(super) struct Notes {
    caps: Caps,
    spent: Amount,
    is_warned: bool,
    /// The owner gave no criterion, and the agent has not proposed any yet.
    awaits_definition: bool,
    /// What is checked now is what the agent has just proposed: it may fail.
    pub(super) is_trying: bool,
}

impl Notes {
    pub(super) fn of(caps: Caps, mission: Option<&Mission>) -> Self {
        let awaits_definition = mission.is_some_and(|mission| mission.done.is_empty());
        Self { caps, awaits_definition, ..Self::default() }
    }

    /// Takes in what the model has answered.
    pub(super) fn answered(&mut self, kind: Kind, payload: Option<&Payload>) {
        if kind != Kind::Model || !self.awaits_definition {
            return;
        }
        let response = payload.and_then(|payload| serde_json::from_slice::<Response>(&payload.0).ok());
        if response.is_some_and(|response| !words::definition(&response).is_empty()) {
            (self.awaits_definition, self.is_trying) = (false, true);
        }
    }

    /// A line with what there is to be said beside it.
    pub(super) fn note(&mut self, item: Item) -> Item {
        let item = match item.kind {
            Kind::Verdict if self.is_trying => {
                Item { outcome: joined(&item.outcome, "before the work"), is_error: false, ..item }
            }
            _ => item,
        };
        self.spent = self.spent.plus(item.cost);
        let (spent, cap) = (u128::from(self.spent.nanodollars), u128::from(self.caps.nanodollars));
        if self.is_warned || cap == 0 || spent * 100 < cap * WARN_AT {
            return item;
        }
        self.is_warned = true;
        let warning =
            format!("{} % of the cap of {} is spent", spent * 100 / cap, dollars(self.caps.nanodollars));
        Item { outcome: joined(&item.outcome, &warning), ..item }
    }
}

fn joined(one: &str, other: &str) -> String {
    if one.is_empty() { other.to_owned() } else { format!("{one} · {other}") }
}
