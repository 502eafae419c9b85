//! What a decision costs, as ratios that come from one run on one machine.
//!
//!     cargo run --release --package bench-trust
//!
//! A decision is all of it: the request is read, a shell line is looked through, every rule that holds is found, and
//! the strictest of those and the built-in ones wins. Beside it stands one match of each path that the request names against the set of globs
//! that the same rules have, and nothing else. Exits with 1 when a target is missed.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program whose output is a table")]

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use domain::{Digest, Effect, Grants, Lease, LeaseId, Risk, RunId, StepKind, StepNo, Timestamp, Verdict};
use kernel::port::Action;
use trust::policy::{Book, Level, Setting, file};
use trust::{Case, Policy, export};

/// The rules of each measurement.
const RULES: usize = 500;
/// What a decision may cost, in matches.
const MOST: f64 = 20.0;
/// Rounds, of which the fastest counts: whatever else the machine does only adds to one.
const ROUNDS: usize = 30;
/// Works in a round.
const WORKS: u32 = 2_000;

fn main() -> Result<ExitCode> {
    let paths: Vec<String> = (0..RULES).map(path).collect();
    println!("{:<84}{:>8}{:>10}  target", "a decision / one match of the same patterns", "ratio", "ns");
    let mut is_met = true;
    let all_paths: String =
        paths.iter().enumerate().map(|(at, path)| rule(at, "deny", &format!("paths = {path:?}"))).collect();
    let edit = r#"{"tool":"edit","input":{"path":"src/module42/deep/er/file.rs","old":"a","new":"b"}}"#;
    let held = r#"{"tool":"edit","input":{"path":"secrets5/a/key.pem","old":"a","new":"b"}}"#;
    let shell =
        r#"{"tool":"shell","input":{"command":"cd src && npm test -- --watch=false | tee out/log.txt"}}"#;
    let edit: Asked<'_> = ("edit", edit, &["src/module42/deep/er/file.rs"]);
    let held: Asked<'_> = ("edit", held, &["secrets5/a/key.pem"]);
    // Every word of a line that could be a path is matched.
    let shell: Asked<'_> = ("shell", shell, &["cd", "src", "npm", "test", "false", "tee", "out/log.txt"]);
    let mixed: String = (0..RULES).map(|at| rule(at, "deny", &mixed(at))).collect();
    for (what, rules, asked, expected) in [
        ("an edit, 500 rules about paths, none holds", &all_paths, edit, Verdict::Allow),
        ("an edit, 500 rules about paths, one holds", &all_paths, held, Verdict::Deny),
        ("an edit, 500 rules of all kinds", &mixed, edit, Verdict::Allow),
        (
            "a shell line of three commands and seven words, 500 rules of all kinds",
            &mixed,
            shell,
            Verdict::Allow,
        ),
    ] {
        is_met &= row(what, rules, asked, expected)?;
    }
    println!("bench: {}", if is_met { "all targets met" } else { "a target is missed" });
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Patterns as people write them.
fn path(at: usize) -> String {
    match at % 5 {
        0 => format!("secrets{at}/**/*.pem"),
        1 => format!("src/gen{at}/**"),
        2 => format!("**/*.lock{at}"),
        3 => format!("config/env{at}.toml"),
        _ => format!("secrets{}/", at.saturating_sub(2)),
    }
}

fn mixed(at: usize) -> String {
    match at % 5 {
        0 => format!("command = [\"deploy{at} *\", \"npm publish{at} *\"]"),
        1 => format!("tool = \"tool{at}\"\nrisk_at_least = \"network\""),
        2 => format!("line = \"make release{at}\""),
        _ => format!("paths = {:?}", path(at)),
    }
}

fn rule(at: usize, verdict: &str, when: &str) -> String {
    format!("[[rule]]\nname = \"r{at}\"\nverdict = \"{verdict}\"\n{when}\n")
}

/// A tool, a request, and the paths that it names.
type Asked<'a> = (&'a str, &'a str, &'a [&'a str]);

/// One row, and whether its target is met.
fn row(what: &str, rules: &str, (tool, request, paths): Asked<'_>, expected: Verdict) -> Result<bool> {
    let book = Arc::new(Book::new(file::parse(rules, "policy.toml", Level::Owner)?)?);
    let setting = Setting { book, project: "/home/me/shop".into(), ..Setting::default() };
    let (run, lease) = (RunId::from_bytes([1; 16]), LeaseId::from_bytes([2; 16]));
    let lease = Lease {
        id: lease,
        run: Some(run),
        parent: None,
        paths: Grants::default(),
        budget: None,
        labels: None,
        granted_at: None,
        principal: "agent:coder".into(),
        on_behalf_of: "human:owner".into(),
        purpose: String::new(),
        tools: vec!["edit".into(), "shell".into()],
        expires_at: Timestamp(u64::MAX),
        epoch: 1,
        revoked: false,
    };
    let action = Action {
        run,
        principal: &lease.principal,
        lease: lease.id,
        step: StepNo::FIRST,
        kind: StepKind::ToolCall,
        effect: Effect::WorkspaceWrite,
        risk: Risk::Workspace,
        tool,
        request: request.as_bytes(),
        digest: Digest::of(request.as_bytes()),
        nanodollars: 0,
        approved: None,
        now: Timestamp(1),
    };
    let (policy, exports) = (Policy::built_in(), export::Rules::default());
    let case = Case { action: &action, lease: &lease, merge_approved: false, export: &exports };
    anyhow::ensure!(policy.judge_in(&case, &setting).verdict == expected, "{what}: another verdict");
    let decision = least(|| policy.judge_in(black_box(&case), &setting));
    let set = setting.book.globs();
    let one = least(|| paths.iter().map(|path| set.matches(black_box(*path)).len()).sum::<usize>());
    let ratio = decision / one;
    let is_met = ratio <= MOST;
    println!("{} {what:<82}{ratio:>8.2}{decision:>10.0}  ≤ {MOST:.0}", if is_met { '✓' } else { '✗' });
    Ok(is_met)
}

/// The least time of one work, in nanoseconds.
fn least<T>(mut work: impl FnMut() -> T) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..WORKS {
            black_box(work());
        }
        least = least.min(begin.elapsed().as_secs_f64() * 1e9 / f64::from(WORKS));
    }
    least
}
