//! Prices: integers, never zero for what is unknown.

use models::Usage;
use models::catalogue::{self, cost, estimate, price};

#[test]
fn the_default_model_has_the_documented_price() {
    let opus = price(catalogue::DEFAULT_MODEL).unwrap();
    assert_eq!((opus.input, opus.output, opus.cache_read, opus.cache_write), (4_000, 20_000, 200, 5_000));
    assert!(opus.record.contains(catalogue::AS_OF));
}

#[test]
fn every_price_of_the_table_is_exact() {
    for name in catalogue::models() {
        let price = price(name).unwrap();
        assert!(price.cache_read * 10 == price.input || price.cache_read * 20 == price.input, "{name}");
        assert_eq!(price.cache_write * 4, price.input * 5, "{name}");
        assert_eq!(price.output, price.input * 5, "{name}");
    }
    let haiku = price("claude-haiku-5-5-20261101").unwrap();
    assert_eq!((haiku.input, haiku.output, haiku.cache_read, haiku.cache_write), (100, 500, 10, 125));
}

#[test]
fn an_unknown_model_has_no_price_and_no_cost() {
    for name in [
        "",
        "claude",
        "claude-opus-9",
        "claude-opus-5-5-mini",
        "gpt-6",
        "local/gpt-6-luna",
        "claude-opus-5-5-2026110x",
    ] {
        assert_eq!(price(name), None, "{name}");
    }
    assert_eq!(cost(&Usage { input: 1, ..Usage::default() }, None), None);
    assert_eq!(estimate(100, 100, None).nanodollars, None);
}

#[test]
fn the_scripted_model_is_free_and_says_so() {
    let free = price(catalogue::SCRIPTED).unwrap();
    let usage = Usage { input: 9, output: 9, cache_read: 9, cache_write: 9 };
    assert_eq!(cost(&usage, Some(&free)), Some(0));
    assert!(free.record.contains("nothing is spent"));
}

#[test]
fn the_kinds_of_input_are_priced_apart() {
    let opus = price(catalogue::DEFAULT_MODEL).unwrap();
    let usage = Usage { input: 1, output: 10, cache_read: 100, cache_write: 1_000 };
    assert_eq!(cost(&usage, Some(&opus)), Some(4_000 + 200_000 + 20_000 + 5_000_000));
    let all = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
    assert_eq!(cost(&all, Some(&opus)), Some(u64::MAX));
}

#[test]
fn an_estimate_supposes_the_worst() {
    let opus = price(catalogue::DEFAULT_MODEL).unwrap();
    let bound = estimate(3_001, 500, Some(&opus));
    assert_eq!((bound.input, bound.output), (1_001, 500));
    assert_eq!(bound.nanodollars, Some(1_001 * 5_000 + 500 * 20_000));
}

#[test]
fn the_defaults_of_both_vendors_have_prices_and_a_local_model_has_none() {
    let known = |model: &str| price(model).map(|price| (price.input, price.output));
    assert_eq!(known("gpt-6-astra"), Some((10_000, 50_000)));
    assert_eq!(known("gpt-6.1-sol"), Some((2_000, 10_000)));
    assert_eq!(known("openai/gpt-6.1-terra"), Some((1_000, 5_000)));
    assert_eq!(known("gpt-6-luna"), Some((100, 500)));
    for (dated, like) in [
        ("claude-opus-4-20250514", "claude-opus-4"),
        ("gpt-4.1-2025-04-14", "gpt-4.1"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
    ] {
        assert!(known(dated).is_some() && known(dated) == known(like), "{dated}");
    }
    assert_ne!(known("gpt-4o-2024-05-13"), known("gpt-4o-2024-11-20"));
    for unknown in ["local/gpt-6-luna", "local/qwen3", "openai/claude", "gpt-6.1", "gpt-4.1-2025-04-1x"] {
        assert_eq!(known(unknown), None, "{unknown}");
    }
    assert_eq!(known("local/scripted"), Some((0, 0)));
    assert_eq!(catalogue::window("local/qwen3"), catalogue::LOCAL_WINDOW);
    assert_eq!(catalogue::window("local/scripted-small"), 16_000);
}
