//! What models cost: a versioned table. A model that is not in it has no known price, which is not a price of
//! zero.

use domain::Price;

use super::{SCRIPTED, SCRIPTED_SMALL};
use crate::Wire;
use crate::wire::bare;

/// The version of the built-in table: the day its prices were read.
pub const AS_OF: &str = "2026-11-10";

/// What the table says of one model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    name: &'static str,
    /// Nanodollars per token of input, of output, of input read from the cache, and of input written to it. A
    /// million tokens at 1 dollar is 1,000 nanodollars each.
    each: [u64; 4],
    /// The window in tokens.
    pub(super) window: u64,
    /// The longest request in tokens that is sold at this price: longer ones cost more, all of them.
    pub(super) holds: Option<u64>,
}

const fn row(name: &'static str, each: [u64; 4], window: u64, holds: u64) -> Row {
    Row { name, each, window, holds: if holds == 0 { None } else { Some(holds) } }
}

/// The models that Regie proposes, dearest first.
const OFFERED: usize = 8;

/// The models that Regie proposes, and below them what else is sold. Vendors that have no price of their own
/// for what is written to the cache, or read from it, take that of input.
const TABLE: [Row; 60] = [
    row("gpt-6-astra", [10_000, 50_000, 1_000, 12_500], 1_050_000, 272_000),
    row("claude-fable-5-2", [8_000, 40_000, 800, 10_000], 1_000_000, 0),
    row("claude-opus-5-5", [4_000, 20_000, 200, 5_000], 1_000_000, 0),
    row("claude-sonnet-5-5", [2_000, 10_000, 100, 2_500], 1_000_000, 0),
    row("gpt-6.1-sol", [2_000, 10_000, 100, 2_500], 1_050_000, 272_000),
    row("gpt-6.1-terra", [1_000, 5_000, 50, 1_250], 1_050_000, 272_000),
    row("claude-haiku-5-5", [100, 500, 10, 125], 1_000_000, 100_000),
    row("gpt-6-luna", [100, 500, 10, 125], 1_050_000, 272_000),
    row("claude-fable-5-1", [10_000, 50_000, 250, 12_500], 1_000_000, 0),
    row("claude-fable-5", [10_000, 50_000, 1_000, 12_500], 1_000_000, 0),
    row("claude-opus-5", [5_000, 25_000, 500, 6_250], 1_000_000, 0),
    row("claude-opus-4-8", [5_000, 25_000, 500, 6_250], 1_000_000, 0),
    row("claude-opus-4-7", [5_000, 25_000, 500, 6_250], 1_000_000, 0),
    row("claude-opus-4-6", [5_000, 25_000, 500, 6_250], 1_000_000, 0),
    row("claude-opus-4-5", [5_000, 25_000, 500, 6_250], 200_000, 0),
    row("claude-opus-4-1", [15_000, 75_000, 1_500, 18_750], 200_000, 0),
    row("claude-opus-4-0", [15_000, 75_000, 1_500, 18_750], 200_000, 0),
    row("claude-opus-4", [15_000, 75_000, 1_500, 18_750], 200_000, 0),
    row("claude-sonnet-5", [2_000, 10_000, 200, 2_500], 1_000_000, 0),
    row("claude-sonnet-4-6", [3_000, 15_000, 300, 3_750], 1_000_000, 0),
    row("claude-sonnet-4-5", [3_000, 15_000, 300, 3_750], 200_000, 200_000),
    row("claude-sonnet-4-0", [3_000, 15_000, 300, 3_750], 200_000, 0),
    row("claude-sonnet-4", [3_000, 15_000, 300, 3_750], 200_000, 0),
    row("claude-3-7-sonnet", [3_000, 15_000, 300, 3_750], 200_000, 0),
    row("claude-3-5-sonnet", [3_000, 15_000, 300, 3_750], 200_000, 0),
    row("claude-haiku-4-5", [1_000, 5_000, 100, 1_250], 200_000, 0),
    row("claude-3-5-haiku", [800, 4_000, 80, 1_000], 200_000, 0),
    row("gpt-6-sol", [2_000, 10_000, 200, 2_500], 1_050_000, 272_000),
    row("gpt-5.6-sol", [4_000, 20_000, 400, 5_000], 1_050_000, 272_000),
    row("gpt-5.6-terra", [2_000, 12_000, 200, 2_500], 1_050_000, 272_000),
    row("gpt-5.6-luna", [200, 1_200, 20, 250], 1_050_000, 272_000),
    row("gpt-5.5-pro", [30_000, 180_000, 30_000, 30_000], 1_000_000, 272_000),
    row("gpt-5.5", [5_000, 30_000, 500, 5_000], 1_000_000, 272_000),
    row("gpt-5.4-pro", [30_000, 180_000, 30_000, 30_000], 1_050_000, 272_000),
    row("gpt-5.4", [2_500, 15_000, 250, 2_500], 1_050_000, 272_000),
    row("gpt-5.4-mini", [750, 4_500, 75, 750], 400_000, 0),
    row("gpt-5.4-nano", [200, 1_250, 20, 200], 400_000, 0),
    row("gpt-5.3", [1_750, 14_000, 175, 1_750], 128_000, 0),
    row("gpt-5.3-codex", [1_750, 14_000, 175, 1_750], 400_000, 0),
    row("gpt-5.2-pro", [21_000, 168_000, 21_000, 21_000], 400_000, 0),
    row("gpt-5.2", [1_750, 14_000, 175, 1_750], 400_000, 0),
    row("gpt-5.1", [1_250, 10_000, 125, 1_250], 400_000, 0),
    row("gpt-5-pro", [15_000, 120_000, 15_000, 15_000], 400_000, 0),
    row("gpt-5", [1_250, 10_000, 125, 1_250], 400_000, 0),
    row("gpt-5-codex", [1_250, 10_000, 125, 1_250], 400_000, 0),
    row("gpt-5-mini", [250, 2_000, 25, 250], 400_000, 0),
    row("gpt-5-nano", [50, 400, 5, 50], 400_000, 0),
    row("gpt-4.1", [2_000, 8_000, 500, 2_000], 1_000_000, 0),
    row("gpt-4.1-mini", [400, 1_600, 100, 400], 1_000_000, 0),
    row("gpt-4.1-nano", [100, 400, 25, 100], 1_000_000, 0),
    row("gpt-4o-2024-05-13", [5_000, 15_000, 5_000, 5_000], 128_000, 0),
    row("gpt-4o", [2_500, 10_000, 1_250, 2_500], 128_000, 0),
    row("gpt-4o-mini", [150, 600, 75, 150], 128_000, 0),
    row("o4-mini", [1_100, 4_400, 275, 1_100], 200_000, 0),
    row("o3-pro", [20_000, 80_000, 20_000, 20_000], 200_000, 0),
    row("o3", [2_000, 8_000, 500, 2_000], 200_000, 0),
    row("o3-mini", [1_100, 4_400, 550, 1_100], 200_000, 0),
    row("o1-pro", [150_000, 600_000, 150_000, 150_000], 200_000, 0),
    row("o1", [15_000, 60_000, 7_500, 15_000], 200_000, 0),
    row("o1-mini", [1_100, 4_400, 550, 1_100], 128_000, 0),
];

/// The names of the models that Regie proposes, dearest first.
pub fn models() -> impl Iterator<Item = &'static str> {
    TABLE.iter().take(OFFERED).map(|row| row.name)
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
    let [input, output, cache_read, cache_write] = find(model)?.each;
    Some(Price {
        input,
        output,
        cache_read,
        cache_write,
        record: format!("built-in table of {AS_OF}").into(),
    })
}

/// What the table says of a model of this name, or of its name without a date.
pub(super) fn find(model: &str) -> Option<&'static Row> {
    // A local server may call its model whatever it likes.
    if Wire::of(model) == Wire::Chat {
        return None;
    }
    let name = bare(model);
    let row = |name: &str| TABLE.iter().find(|row| row.name == name);
    row(name).or_else(|| row(undated(name)))
}

/// A model name without a trailing `-YYYYMMDD`, `-YYYY-MM-DD` or `-latest`.
pub(super) fn undated(model: &str) -> &str {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let Some((name, last)) = model.rsplit_once('-') else { return model };
    if last == "latest" || digits(last, 8) {
        return name;
    }
    let mut parts = model.rsplitn(4, '-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(day), Some(month), Some(year), Some(name))
            if digits(day, 2) && digits(month, 2) && digits(year, 4) =>
        {
            name
        }
        _ => model,
    }
}
