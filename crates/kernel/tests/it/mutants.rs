//! Deliberate mistakes: the suite is worth something only if it sees them.

use kernel::machine::Mutant;
use testkit::sim::{self, Flaws, Options};

/// The number of schedules within which a mistake must be seen.
const WITHIN: u64 = 300;

fn caught_by(options: impl Fn(u64) -> Options) -> String {
    let failure = (0..WITHIN).find_map(|seed| sim::run(options(seed)).err());
    failure.map_or_else(|| panic!("{WITHIN} schedules do not see the mistake"), |failure| failure.what)
}

#[test]
fn an_effect_before_its_intention_is_seen() {
    let mutant = Some(Mutant::EffectBeforeIntent);
    let what = caught_by(|seed| Options { seed, mutant, ..Options::default() });
    assert!(what.contains("without a durable intention") || what.contains("starts unplanned"), "{what}");
}

#[test]
fn a_blind_retry_is_seen() {
    let mutant = Some(Mutant::BlindRetry);
    let what = caught_by(|seed| Options { seed, mutant, ..Options::default() });
    assert!(what.contains("happens again and nobody said so"), "{what}");
}

#[test]
fn a_journal_without_fences_is_seen() {
    let flaws = Flaws { fence_unchecked: true, ..Flaws::default() };
    let what = caught_by(|seed| Options { seed, flaws, ..Options::default() });
    assert!(what.contains("wrote under fence"), "{what}");
}

#[test]
fn a_journal_that_acknowledges_before_it_is_on_disk_is_seen() {
    let flaws = Flaws { acks_before_durable: true, ..Flaws::default() };
    let what = caught_by(|seed| Options { seed, flaws, ..Options::default() });
    assert!(what.contains("without a durable intention") || what.contains("starts unplanned"), "{what}");
}
