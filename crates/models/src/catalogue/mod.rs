//! Which models there are, how long their windows are, and what they cost.
//!
//! Three sources, the first that says something counts: what the endpoint says of itself ([`Listing`]), the
//! built-in table ([`price()`]), a default. What none of them says is unknown, and unknown is never zero. Money is
//! integer nanodollars (10⁻⁹ dollar).

mod known;
mod list;
mod price;

use domain::{Mission, Price, Terms};

pub use known::{Known, Origin, Said, known};
pub use list::{Kind, Listing, Model};
pub use price::{AS_OF, models, price};

pub(crate) use list::{Read, Source, name_of};

use crate::wire::bare;
use crate::{Usage, Wire};

/// The model of the main loop unless the owner says otherwise.
pub const DEFAULT_MODEL: &str = "claude-opus-5-5";

/// The model name that the scripted model server is asked under.
pub const SCRIPTED: &str = "scripted";

/// The same with a window of 16,000 tokens: its missions are compacted early.
pub const SCRIPTED_SMALL: &str = "scripted-small";

/// The window in tokens that a model is supposed to have unless more is known.
pub const DEFAULT_WINDOW: u64 = 200_000;

/// The window in tokens that a local model is supposed to have: many have no more.
pub const LOCAL_WINDOW: u64 = 32_768;

/// A window in tokens below which an agent forgets what it does before it is done.
pub const SMALL_WINDOW: u64 = 16_000;

/// An upper bound of what a call may cost, for a reservation. An estimate: the vendor counts
/// tokens its own way, and says how many only afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Input tokens, supposed from the size of the request.
    pub input: u64,
    /// Output tokens: all that the request allows.
    pub output: u64,
    /// Nanodollars, all input priced as written to the cache; `None` when the price is unknown.
    pub nanodollars: Option<u64>,
}

/// The most tokens that one answer may have, unless the window is small or the model has a lower bound.
const MAX_OUTPUT: u32 = 16_000;

/// On what terms the runs of a mission go on: those on record, if there are any.
#[must_use]
pub fn terms_of(mission: &Mission) -> Terms {
    mission.terms.clone().unwrap_or_else(|| terms(&mission.model))
}

/// On what terms a run goes on whose record says nothing of them: runs of earlier versions began on these.
/// A small window has short answers.
#[must_use]
pub fn terms(model: &str) -> Terms {
    let window = window(model);
    let (max_output, price, reasoning) = (max_output(window), price(model), reasons(model));
    Terms { window, max_output, price, effort: None, batch: false, reasoning, instead_of: None, blind: false }
}

/// Whether a model is known to reason as it sees fit and to show a summary of that, on its vendor's own wire.
fn reasons(model: &str) -> bool {
    let name = price::undated(bare(model));
    let is_known = matches!(name, SCRIPTED | SCRIPTED_SMALL) || models().any(|known| known == name);
    is_known && Wire::of(model) != Wire::Chat
}

/// The window of a model in tokens, question and answer together, when only its name is known.
#[must_use]
pub fn window(model: &str) -> u64 {
    match (Wire::of(model), bare(model)) {
        (_, SCRIPTED_SMALL) => 16_000,
        (_, SCRIPTED) => DEFAULT_WINDOW,
        (Wire::Chat, _) => LOCAL_WINDOW,
        _ => DEFAULT_WINDOW,
    }
}

/// The most tokens that one answer may have in a window.
fn max_output(window: u64) -> u32 {
    let quarter = u32::try_from(window / 4).unwrap_or(u32::MAX);
    MAX_OUTPUT.min(quarter).max(1)
}

/// What an answer cost, in nanodollars; `None` when the price is unknown.
#[must_use]
pub fn cost(usage: &Usage, price: Option<&Price>) -> Option<u64> {
    let price = price?;
    Some(
        [
            (usage.input, price.input),
            (usage.output, price.output),
            (usage.cache_read, price.cache_read),
            (usage.cache_write, price.cache_write),
        ]
        .into_iter()
        .fold(0_u64, |sum, (tokens, each)| sum.saturating_add(tokens.saturating_mul(each))),
    )
}

/// Bounds the cost of a request before it is sent: a token for every three bytes of the body,
/// and all the output that it allows.
#[must_use]
pub fn estimate(body_bytes: usize, max_tokens: u32, price: Option<&Price>) -> Estimate {
    let input = u64::try_from(body_bytes).unwrap_or(u64::MAX).div_ceil(3);
    let output = u64::from(max_tokens);
    let worst = Usage { output, cache_write: input, ..Usage::default() };
    Estimate { input, output, nanodollars: cost(&worst, price) }
}
