//! What a proposal has to show for itself before an approval in advance (`--yes`) covers its merge: a
//! criterion that tells whether the goal is reached. Read from the exact request of the merge, which is on
//! record, so that the same proposal is judged the same after a crash.

use serde::Deserialize;

/// What is read of the request of a merge.
#[derive(Deserialize)]
struct Proposal {
    /// The commands that passed.
    checks: Vec<String>,
    /// The same where the agent proposed them.
    #[serde(default)]
    proposed: Vec<Proposed>,
}

#[derive(Deserialize)]
struct Proposed {
    /// How it stood before the work.
    before: String,
}

/// How a criterion stood that says something by passing.
const FAILED: &str = "failed";

/// Why an approval in advance does not cover the merge that is asked for with `request`, in words for the
/// owner; `None` where it does.
///
/// The owner's own criteria count as they are. Those of the agent count when one of them failed before the
/// work: otherwise the agent would decide alone that it is done.
pub fn lacking(request: &[u8]) -> Option<&'static str> {
    let Ok(Proposal { checks, proposed }) = serde_json::from_slice(request) else {
        return Some("--yes does not cover a proposal of which it cannot be told what was checked");
    };
    if checks.is_empty() {
        return Some("--yes covers what passes its criteria, and there are none: nothing was checked");
    }
    let proves = proposed.is_empty() || proposed.iter().any(|one| one.before == FAILED);
    (!proves).then_some("--yes does not cover criteria of the agent's that nobody saw fail before the work")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(request: &str, why: Option<&str>) {
        let lacking = lacking(request.as_bytes());
        assert_eq!(lacking.is_some(), why.is_some(), "{lacking:?}");
        assert!(lacking.unwrap_or_default().contains(why.unwrap_or_default()), "{lacking:?}");
    }

    #[test]
    fn what_an_approval_in_advance_covers() {
        check(r#"{"checks":["make test"],"proposed":[],"goal":"x"}"#, None);
        check(r#"{"checks":["make test"]}"#, None);
        check(r#"{"checks":["a","b"],"proposed":[{"before":"passed"},{"before":"failed"}]}"#, None);
        check(r#"{"checks":[]}"#, Some("nothing was checked"));
        for before in ["passed", "passed_at_work", "untried", "a later word"] {
            let request = format!(r#"{{"checks":["a"],"proposed":[{{"before":"{before}"}}]}}"#);
            check(&request, Some("nobody saw fail"));
        }
        for damaged in ["", "{}", "null", r#"{"checks":["a"],"proposed":[{}]}"#] {
            check(damaged, Some("cannot be told"));
        }
    }
}
