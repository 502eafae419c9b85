//! Which models Regie knows by itself, and what they cost.
//!
//! A versioned table; money is integer nanodollars (10⁻⁹ dollar). A model that is not in it has
//! no known price, which is not a price of zero.

use domain::{Price, Terms};

use crate::wire::bare;
use crate::{Usage, Wire};

/// The version of the built-in table: the day its prices were read.
pub const AS_OF: &str = "2026-11-10";

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

/// Name, and nanodollars per input and output token. A million tokens at 1 dollar is 1,000
/// nanodollars each.
const TABLE: [(&str, u64, u64); 8] = [
    ("gpt-6-astra", 10_000, 50_000),
    ("claude-fable-5-2", 8_000, 40_000),
    (DEFAULT_MODEL, 4_000, 20_000),
    ("claude-sonnet-5-5", 2_000, 10_000),
    ("gpt-6.1-sol", 2_000, 10_000),
    ("gpt-6.1-terra", 1_000, 5_000),
    ("claude-haiku-5-5", 100, 500),
    ("gpt-6-luna", 100, 500),
];

/// The names of the models with a known price, dearest first.
pub fn models() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, ..)| *name)
}

/// The price of a model, by its name or its name with a date; `None` when unknown, as that of every local
/// model.
#[must_use]
pub fn price(model: &str) -> Option<Price> {
    if matches!(bare(model), SCRIPTED | SCRIPTED_SMALL) {
        return Some(Price {
            input: 0,
            output: 0,
            cache_read: 0,
            cache_write: 0,
            record: "scripted model: no vendor is called and nothing is spent".into(),
        });
    }
    // A local server may call its model whatever it likes.
    if Wire::of(model) == Wire::Chat {
        return None;
    }
    let name = undated(bare(model));
    let write = |input: u64| match Wire::of(name) {
        Wire::Messages => input * 5 / 4,
        Wire::Responses | Wire::Chat => input,
    };
    TABLE.iter().find(|(known, ..)| *known == name).map(|&(_, input, output)| Price {
        input,
        output,
        cache_read: input / 10,
        cache_write: write(input),
        record: format!("built-in table of {AS_OF}").into(),
    })
}

/// The most tokens that one answer may have, unless the window is small.
const MAX_OUTPUT: u32 = 16_000;

/// On what terms a run of this model begins. A small window has short answers.
#[must_use]
pub fn terms(model: &str) -> Terms {
    let window = window(model);
    let quarter = u32::try_from(window / 4).unwrap_or(u32::MAX);
    let max_output = MAX_OUTPUT.min(quarter).max(1);
    let (price, reasoning) = (price(model), reasons(model));
    Terms { window, max_output, price, effort: None, batch: false, reasoning, instead_of: None }
}

/// Whether a model is known to reason as it sees fit and to show a summary of that, on its vendor's own wire.
fn reasons(model: &str) -> bool {
    let name = undated(bare(model));
    let is_known = matches!(name, SCRIPTED | SCRIPTED_SMALL) || models().any(|known| known == name);
    is_known && Wire::of(model) != Wire::Chat
}

/// The window of a model in tokens, question and answer together; of an unknown one the default, which is
/// the least that the known vendors offer.
#[must_use]
pub fn window(model: &str) -> u64 {
    match (Wire::of(model), bare(model)) {
        (_, SCRIPTED_SMALL) => 16_000,
        (_, SCRIPTED) => DEFAULT_WINDOW,
        (Wire::Chat, _) => LOCAL_WINDOW,
        _ => DEFAULT_WINDOW,
    }
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

/// A model name without a trailing `-YYYYMMDD`.
fn undated(model: &str) -> &str {
    match model.rsplit_once('-') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => model,
    }
}
