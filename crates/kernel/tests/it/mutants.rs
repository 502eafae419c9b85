//! Deliberate mistakes: the suite is worth something only if it sees them.

use kernel::machine::Mutant;
use testkit::sim::{self, Act, Flaws, Op, Options, Owner, Program, World};

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

/// An append fails while the workspace is rolled back: the machine that replaces the old one asks for a
/// roll-back of its own, and must not take the end of the first for the end of the second.
fn roll_back_twice(flaws: Flaws, seed: u64) -> Result<(), String> {
    let program = Program::of(&[&[Op::new(Act::Model)], &[Op::new(Act::Write)]]);
    let mut world = World::new(program, seed, flaws)?;
    world.owner = Owner::Away;
    world.boot()?;
    world.until(|world| world.outside.workspace == "[1")?;
    world.crash_daemon();
    world.crash_runner();
    world.until(World::is_rolling_back)?;
    world.stop()?.map_err(|refusal| refusal.to_string())?;
    world.fail_append()?;
    world.finish().map(drop)
}

#[test]
fn answers_to_a_machine_that_is_gone_are_seen() {
    let caught = |flaws| (0..WITHIN).filter(|seed| roll_back_twice(flaws, *seed).is_err()).count();
    assert_eq!(caught(Flaws::default()), 0);
    assert!(caught(Flaws { stale_inbox: true, ..Flaws::default() }) > 0);
}
