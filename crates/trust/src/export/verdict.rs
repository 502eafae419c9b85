//! What the owner's rules say of a merge that is asked for: read from its exact request, which is on
//! record, with the rules as they are at this moment.

use serde::Deserialize;

use super::report::{Finding, Report, Standing};
use super::rules::Rules;

/// Findings that a reason names.
const NAMED: usize = 3;

/// What is read of the request of a merge.
#[derive(Deserialize)]
struct Proposal {
    /// Absent in the requests of drivers that knew no export gate.
    #[serde(default)]
    export: Option<Report>,
}

/// What the rules say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// Nothing in it needs to be seen, or everything was.
    Clear,
    /// The owner has to see it: why, in words.
    Asks(String),
    /// It is not merged: why, in words.
    Denied(String),
}

/// Judges the request of a merge. One that cannot be read is asked about.
pub fn judge(request: &[u8], rules: &Rules) -> Ruling {
    let report = match serde_json::from_slice::<Proposal>(request) {
        Ok(Proposal { export: Some(report) }) => report,
        Ok(Proposal { export: None }) => return Ruling::Clear,
        Err(_) => {
            return Ruling::Asks("it cannot be told what the proposal would have others execute".into());
        }
    };
    let with = |standing| -> Vec<&Finding> {
        let is_so = |finding: &&Finding| rules.standing(finding.kind, &finding.path) == standing;
        report.findings.iter().filter(is_so).collect()
    };
    let denied = with(Standing::Denied);
    if !denied.is_empty() {
        let why = format!("[export] in config.toml denies {} (export.denied)", named(&denied));
        return Ruling::Denied(why);
    }
    let mut asks = with(Standing::Asks);
    asks.retain(|finding| !finding.seen);
    if !asks.is_empty() {
        return Ruling::Asks(format!("it changes what others execute or trust: {}", named(&asks)));
    }
    // The list is in the order of the standings: what is not on it stands as its last, by the same rules.
    let is_known = report.rules == rules.digest()
        && report.findings.last().is_some_and(|last| last.standing == Standing::Allowed);
    match report.unlisted > 0 && !is_known {
        true => Ruling::Asks(format!(
            "it changes what others execute or trust: {}, more than can be listed",
            report.counted()
        )),
        false => Ruling::Clear,
    }
}

fn named(findings: &[&Finding]) -> String {
    let mut all: Vec<String> = findings
        .iter()
        .take(NAMED)
        .map(|finding| format!("{} ({})", shown(&finding.path), finding.kind.name()))
        .collect();
    let more = findings.len().saturating_sub(NAMED);
    if more > 0 {
        all.push(format!("and {more} more"));
    }
    all.join(", ")
}

/// A path in a sentence: whoever named it may have meant the sentence.
fn shown(path: &str) -> String {
    match path.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", path.get(..end).unwrap_or_default()),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::super::report::{Altered, Count};
    use super::*;

    fn finding(kind: Kind, path: &str, seen: bool) -> Finding {
        Finding {
            standing: Standing::Asks,
            kind,
            path: path.into(),
            change: Altered::Added,
            why: "why".into(),
            what: vec![],
            line: None,
            content: "1".into(),
            seen,
        }
    }

    fn request(report: &Report) -> Vec<u8> {
        serde_json::to_vec(&serde_json::json!({ "checks": ["a"], "export": report })).unwrap()
    }

    #[test]
    fn what_was_seen_is_not_asked_again_and_what_is_denied_never_passes() {
        let all = Report {
            findings: vec![finding(Kind::Hook, ".husky/a", true), finding(Kind::Build, "Makefile", false)],
            ..Report::default()
        };
        let rules = |allow: &[&str], deny: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            Rules::parse(&owned(allow), &[], &owned(deny)).unwrap()
        };
        let Ruling::Asks(why) = judge(&request(&all), &Rules::default()) else { panic!() };
        assert_eq!(why, "it changes what others execute or trust: Makefile (build)");
        assert_eq!(judge(&request(&all), &rules(&["build"], &[])), Ruling::Clear);
        let Ruling::Denied(why) = judge(&request(&all), &rules(&["build"], &["hook"])) else { panic!() };
        assert_eq!(why, "[export] in config.toml denies .husky/a (hook) (export.denied)");
    }

    #[test]
    fn what_is_not_listed_is_asked_unless_the_same_rules_allow_it() {
        let rules = Rules::parse(&["build".into()], &[], &[]).unwrap();
        let mut report = Report {
            findings: vec![Finding {
                standing: Standing::Allowed,
                ..finding(Kind::Build, "Makefile", false)
            }],
            counts: vec![Count { kind: Kind::Build, number: 9 }],
            unlisted: 8,
            rules: rules.digest(),
        };
        assert_eq!(judge(&request(&report), &rules), Ruling::Clear);
        report.rules = "others".into();
        assert!(matches!(judge(&request(&report), &rules), Ruling::Asks(why) if why.contains("9 build")));
    }

    #[test]
    fn requests_of_older_drivers_hold_no_report_and_damaged_ones_are_asked_about() {
        assert_eq!(judge(br#"{"checks":["a"]}"#, &Rules::closed()), Ruling::Clear);
        for damaged in [&b""[..], b"null", br#"{"export":3}"#, br#"{"export":{}}"#] {
            assert!(matches!(judge(damaged, &Rules::default()), Ruling::Asks(_)), "{damaged:?}");
        }
    }
}
