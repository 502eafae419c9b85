//! The detector alone: it fires on every pure loop within a bound, and never on work that grows.

use proptest::prelude::*;

use super::*;

/// One call of a turn: which command, what it said, and the files before it.
type Call = (u8, u32, u32);

fn turn(stall: &mut Stall, calls: &[Call]) -> Option<Finding> {
    let told: Vec<(Vec<u8>, String)> = calls
        .iter()
        .map(|(command, said, _)| (format!("{{\"command\":{command}}}").into_bytes(), format!("said {said}")))
        .collect();
    if let Some((_, _, files)) = calls.last() {
        stall.files(&files.to_string());
    }
    let sights = told.iter().map(|(request, result)| Sight { name: "shell", request, result, path: None });
    stall.observe(sights)
}

/// Plays turns until the run would rest, and gives how many that took and whether it was warned before.
fn turns_to_rest(cycle: &[Vec<Call>], most: usize) -> Option<(usize, bool)> {
    let (mut stall, mut is_warned) = (Stall::default(), false);
    for (count, calls) in cycle.iter().cycle().take(most).enumerate() {
        match turn(&mut stall, calls) {
            Some(Finding::Replan(_)) => is_warned = true,
            Some(Finding::Rest(_)) => return Some((count + 1, is_warned)),
            None => {}
        }
    }
    None
}

proptest! {
    /// Whatever repeats without change comes to rest, after one warning, within a bound.
    #[test]
    fn a_pure_loop_always_rests(
        cycle in proptest::collection::vec(
            proptest::collection::vec((0u8..6, 0u32..3, Just(0u32)), 1..4), 1..12,
        ),
    ) {
        let bound = cycle.len() + 2 * (IDLE as usize).max(CYCLE * TIMES);
        let found = turns_to_rest(&cycle, bound + 1);
        prop_assert!(matches!(found, Some((count, true)) if count <= bound), "{found:?} of {bound}");
    }

    /// Short cycles are seen long before the bound of idle turns.
    #[test]
    fn a_short_cycle_rests_after_two_rounds_of_three(length in 1usize..=CYCLE) {
        let cycle: Vec<Vec<Call>> = (0..length).map(|at| vec![(u8::try_from(at).unwrap(), 0, 0)]).collect();
        prop_assert_eq!(turns_to_rest(&cycle, 100), Some((2 * TIMES * length, true)));
    }

    /// Work whose files are new at each turn is never disturbed, whatever it calls.
    #[test]
    fn growing_work_never_rests(turns in proptest::collection::vec((0u8..3, 0u32..2), 1..200)) {
        let mut stall = Stall::default();
        for (files, (command, said)) in (0u32..).zip(turns) {
            prop_assert_eq!(turn(&mut stall, &[(command, said, files)]), None);
        }
    }

    /// Nor is a command that is asked again and again while what it says moves.
    #[test]
    fn polling_never_rests(count in 1u32..200) {
        let mut stall = Stall::default();
        for said in 0..count {
            prop_assert_eq!(turn(&mut stall, &[(0, said, 0)]), None);
        }
    }

    /// The last call of a loop being new each time keeps it from being one.
    #[test]
    fn a_loop_that_learns_is_none(count in 1u32..100) {
        let mut stall = Stall::default();
        for said in 0..count {
            prop_assert_eq!(turn(&mut stall, &[(0, 0, 0), (1, said, 0)]), None);
        }
    }
}

#[test]
fn a_change_after_the_warning_earns_another_one() {
    let mut stall = Stall::default();
    let mut again = |files| (0..TIMES).find_map(|_| turn(&mut stall, &[(0, 0, files)]));
    assert!(matches!(again(0), Some(Finding::Replan(_))));
    assert!(matches!(again(1), Some(Finding::Replan(_))), "the files are new");
    assert!(matches!(again(1), Some(Finding::Rest(_))));
}

#[test]
fn files_that_go_to_and_fro_are_a_loop() {
    let cycle = [vec![(0, 0, 0)], vec![(1, 0, 1)]];
    assert_eq!(turns_to_rest(&cycle, 100), Some((12, true)));
}

#[test]
fn the_owner_s_words_begin_anew() {
    let mut stall = Stall::default();
    for _ in 0..10 {
        assert_eq!(turn(&mut stall, &[(0, 0, 0)]), None);
        assert_eq!(turn(&mut stall, &[(0, 0, 0)]), None);
        stall.reset();
    }
}

#[test]
fn the_repetition_is_told_exactly() {
    let mut stall = Stall::default();
    let found = (0..TIMES).find_map(|_| turn(&mut stall, &[(7, 0, 0)]));
    let Some(Finding::Replan(what)) = found else { panic!("{found:?}") };
    assert_eq!(what, "3 times in a row the same: shell: 7, with the same results on the same files");
}

#[test]
fn spans_and_clocks_are_no_change_and_other_numbers_are() {
    for (one, two) in [
        ("ok in 0.12s", "ok in 3.40s"),
        ("duration_ms 4.2", "duration_ms 17"),
        ("(12.3 ms)", "(9.1 ms)"),
        ("at 12:00:01 done", "at 12:00:09 done"),
    ] {
        assert_eq!(steady(one), steady(two));
    }
    for (one, two) in [("12 lines", "13 lines"), ("45%", "46%"), ("step 3", "step 4"), ("v1.2", "v1.3")] {
        assert_ne!(steady(one), steady(two));
    }
}
