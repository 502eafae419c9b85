//! The rules. Every rule that matches a case is heard and the strictest wins: deny before ask before
//! allow; a case that no rule matches is denied. A human's approval turns *ask* into *allow* and
//! never lifts a *deny*.
//!
//! Pure, so that a decision can be explained and repeated from what was recorded.

pub mod book;
pub mod example;
pub mod file;
mod labelling;
pub mod resource;
pub mod rule;
mod setting;
pub mod shell;

use domain::{Effect, GateId, Lease, Risk, StepKind, Verdict};
use kernel::port::Action;

pub use book::{Book, Heard};
pub use example::Example;
pub use labelling::Labelling;
pub use resource::Resources;
pub use rule::{Level, Rule as OwnRule, Subject};
pub use setting::{Rulebooks, SETUP_ASKS, Setting, written};

use crate::{export, proof};

/// The tool that proposes a merge into Regie's own line. A lease that names it may propose; whether
/// the merge happens is for a gate, or for a standing approval.
pub const MERGE: &str = "merge";
/// The tool that hands a finished merge to the owner's branch: the second half of an approved merge.
pub const DELIVER: &str = "deliver";
/// The tool that sets a project up: the only step that has the machine's network.
pub const SETUP: &str = "setup";

const IN_ADVANCE: &str = "the owner approved merges of this run when it was started (--yes)";

/// All that a decision depends on.
#[derive(Debug, Clone)]
pub struct Case<'a> {
    /// What is to happen.
    pub action: &'a Action<'a>,
    /// Under which authority, as it is on record at this moment.
    pub lease: &'a Lease,
    /// Whether the owner approved in advance (`--yes`) the merges of this lease whose criteria pass.
    pub merge_approved: bool,
    /// The owner's rules for what leaves the jail, as they are at this moment.
    pub export: &'a export::Rules,
}

/// What the rules say of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that decided, in words for the owner.
    pub rule: String,
    /// The gate whose approval was used.
    pub gate: Option<GateId>,
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What it says when it matches.
    pub verdict: Verdict,
    /// Why, in words for the owner.
    pub text: &'static str,
    matches: fn(&Case<'_>) -> bool,
}

/// A set of rules.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<Rule>,
}

impl Policy {
    /// The rules that every installation has.
    pub fn built_in() -> Self {
        Self { rules: BUILT_IN.to_vec() }
    }

    /// The rules in the order in which equally strict ones are heard.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Judges a case.
    pub fn judge(&self, case: &Case<'_>) -> Ruling {
        let heard = |verdict| self.rules.iter().find(|rule| rule.verdict == verdict && (rule.matches)(case));
        let rule = heard(Verdict::Deny).or_else(|| heard(Verdict::Ask)).or_else(|| heard(Verdict::Allow));
        let Some(rule) = rule else {
            return Ruling {
                verdict: Verdict::Deny,
                rule: "no rule allows this kind of step".into(),
                gate: None,
            };
        };
        let plain = Ruling { verdict: rule.verdict, rule: rule.text.into(), gate: None };
        if rule.verdict != Verdict::Ask {
            return plain;
        }
        let leaves = match is_merge(case) {
            true => export::judge(case.action.request, case.export),
            false => export::Ruling::Clear,
        };
        let asks = |rule: String| Ruling { verdict: Verdict::Ask, rule, gate: None };
        match (case.action.approved, leaves) {
            (_, export::Ruling::Denied(rule)) => Ruling { verdict: Verdict::Deny, rule, gate: None },
            (Some(gate), _) => Ruling {
                verdict: Verdict::Allow,
                rule: format!("{}: approved at {gate}", rule.text),
                gate: Some(gate),
            },
            (None, export::Ruling::Asks(why)) if case.merge_approved => {
                asks(format!("--yes does not cover this: {why}"))
            }
            (None, export::Ruling::Asks(why)) => asks(format!("{}, and {why}", rule.text)),
            (None, export::Ruling::Clear) if is_merge(case) && case.merge_approved => {
                match proof::lacking(case.action.request) {
                    None => Ruling { verdict: Verdict::Allow, rule: IN_ADVANCE.into(), gate: None },
                    Some(why) => asks(why.into()),
                }
            }
            (None, export::Ruling::Clear) => plain,
        }
    }
}

const BUILT_IN: [Rule; 14] = [
    Rule {
        verdict: Verdict::Deny,
        text: "the lease of this run was revoked",
        matches: |case| case.lease.revoked,
    },
    Rule {
        verdict: Verdict::Deny,
        text: "the lease of this run has expired",
        matches: |case| case.action.now >= case.lease.expires_at,
    },
    Rule {
        verdict: Verdict::Deny,
        text: "the lease was granted to another run or principal",
        matches: |case| {
            case.lease.run != Some(case.action.run) || case.lease.principal != case.action.principal
        },
    },
    Rule { verdict: Verdict::Deny, text: "the lease does not hold this tool", matches: lacks_tool },
    Rule {
        verdict: Verdict::Deny,
        text: "there is no way out to the network: this installation has no egress",
        matches: |case| case.action.risk == Risk::Network,
    },
    Rule { verdict: Verdict::Ask, text: "a merge needs the owner's approval", matches: is_merge },
    Rule {
        verdict: Verdict::Ask,
        text: "a setup has the network of this machine, which needs the owner's approval",
        matches: |case| is_tool(case) && case.action.tool == SETUP,
    },
    Rule {
        verdict: Verdict::Ask,
        text: "what leaves the house or cannot be taken back needs the owner's approval",
        matches: |case| {
            let grave = case.action.risk == Risk::External
                || matches!(case.action.effect, Effect::NonIdempotent)
                || (is_tool(case) && case.action.effect == Effect::IdempotentWrite);
            grave && !is_merge(case) && !is_deliver(case)
        },
    },
    Rule {
        verdict: Verdict::Allow,
        text: "model calls are allowed within the budget",
        matches: |case| {
            matches!(case.action.kind, StepKind::ModelCall | StepKind::Compaction)
                && case.action.effect == Effect::ModelCall
                && case.action.risk == Risk::Read
        },
    },
    Rule {
        verdict: Verdict::Allow,
        text: "reading inside the jail is allowed",
        matches: |case| {
            is_tool(case) && case.action.effect == Effect::Read && case.action.risk <= Risk::Workspace
        },
    },
    Rule {
        verdict: Verdict::Allow,
        text: "writing in the workspace is allowed",
        matches: |case| {
            is_tool(case)
                && case.action.effect == Effect::WorkspaceWrite
                && case.action.risk <= Risk::Workspace
        },
    },
    Rule {
        verdict: Verdict::Allow,
        text: "committing the workspace to the run's own branch is allowed",
        matches: |case| {
            case.action.kind == StepKind::Checkpoint
                && case.action.effect == Effect::IdempotentWrite
                && case.action.risk <= Risk::Workspace
        },
    },
    Rule {
        verdict: Verdict::Allow,
        text: "the criteria are run inside the jail",
        matches: |case| {
            case.action.kind == StepKind::Verdict
                && case.action.effect == Effect::WorkspaceWrite
                && case.action.risk <= Risk::Workspace
        },
    },
    Rule {
        verdict: Verdict::Allow,
        text: "delivering hands over what an approved merge put on Regie's own line, and nothing else",
        matches: is_deliver,
    },
];

fn is_tool(case: &Case<'_>) -> bool {
    case.action.kind == StepKind::ToolCall
}

fn is_merge(case: &Case<'_>) -> bool {
    is_tool(case) && case.action.tool == MERGE && case.action.effect == Effect::IdempotentWrite
}

fn is_deliver(case: &Case<'_>) -> bool {
    is_tool(case) && case.action.tool == DELIVER && case.action.effect == Effect::IdempotentWrite
}

fn lacks_tool(case: &Case<'_>) -> bool {
    let named = if is_deliver(case) { MERGE } else { case.action.tool };
    is_tool(case) && !case.lease.tools.iter().any(|tool| tool == named)
}
