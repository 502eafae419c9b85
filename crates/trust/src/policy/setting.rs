//! The owner's rules beside the built-in ones.
//!
//! The strictest of both wins. What a rule of the owner allows takes away another rule's question that it names in
//! `lifts`, and of the built-in questions the one about a setup, for an exact shell line. Nothing that is denied is
//! ever allowed by a rule, and merges keep their own proofs.

use std::sync::Arc;

use domain::{Effect, Label, Labels, Risk, StepKind, Verdict};
use kernel::port::Action;

use super::book::{Book, Heard};
use super::resource::{self, Resources};
use super::rule::{self, Rule, Subject};
use super::{Case, Policy, Ruling, SETUP, is_deliver, is_merge};

/// What the owner's rules are for a run, and what they need to know of it.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// The rules.
    pub book: Arc<Book>,
    /// The path of the project's repository.
    pub project: String,
    /// The folder that the run works in.
    pub workspace: String,
    /// The labels of what the action is about.
    pub labels: Labels,
    /// The labels of what the action would read; a command reads all of the workspace.
    pub takes: Labels,
    /// The labels of all that the run has read.
    pub taint: Labels,
}

/// The owner's rules for an action as they are at this moment, and what they need to know of its run; or why that
/// cannot be read.
pub type Rulebooks = Arc<dyn Fn(&Action<'_>) -> Result<Setting, String> + Send + Sync>;

/// The built-in questions that a rule can lift.
pub const SETUP_ASKS: &str = "setup";
/// That about a merge: lifted by a rule that names the paths which the merge may change.
pub const MERGE_ASKS: &str = "merge";

impl Policy {
    /// Judges a case by the built-in rules and the owner's.
    pub fn judge_in(&self, case: &Case<'_>, setting: &Setting) -> Ruling {
        let action = case.action;
        let resources = if setting.book.rules().is_empty() {
            Resources::default()
        } else {
            resource::of(action.kind, action.tool, action.request, &setting.workspace)
        };
        let heard = setting.book.hear(&Subject {
            principal: action.principal,
            project: &setting.project,
            kind: action.kind,
            tool: action.tool,
            effect: action.effect,
            risk: action.risk,
            resources: &resources,
            labels: &setting.labels,
            taint: &setting.taint,
        });
        let ruling = self.judge_heard(case, &heard);
        match rule_of_two(case, setting) {
            Some(why) if ruling.verdict == Verdict::Allow && action.approved.is_none() => {
                Ruling { verdict: Verdict::Ask, rule: why.into(), gate: None }
            }
            Some(why) if ruling.verdict == Verdict::Ask => {
                Ruling { rule: format!("{}, and {why}", ruling.rule), ..ruling }
            }
            _ => ruling,
        }
    }

    /// Judges a case by the built-in rules and what the owner's say.
    pub fn judge_heard(&self, case: &Case<'_>, heard: &Heard<'_>) -> Ruling {
        match lifting_merge(case, heard).filter(|_| !case.merge_approved) {
            None => strictest(self.judge(case), case, heard),
            // The owner's approval in advance, for some paths: the same proofs are asked for.
            Some(rule) => {
                let ruling = self.judge(&Case { merge_approved: true, ..case.clone() });
                let words = rule.words();
                let rule = match ruling.verdict {
                    Verdict::Allow if ruling.gate.is_none() => words,
                    Verdict::Ask => ruling.rule.replacen("--yes", &words, 1),
                    _ => ruling.rule,
                };
                strictest(Ruling { rule, ..ruling }, case, heard)
            }
        }
    }
}

/// Without a human, a run never does all three: read what a stranger wrote, hold what is sensitive, and change or
/// reach something outside of its workspace.
fn rule_of_two(case: &Case<'_>, setting: &Setting) -> Option<&'static str> {
    let action = case.action;
    let is_outward = rule::is_deed(action.kind)
        && (action.risk >= Risk::Network
            || matches!(action.effect, Effect::NonIdempotent | Effect::IdempotentWrite))
        // It hands over what an approved merge did.
        && !is_deliver(case);
    let has = |label| setting.taint.has(label) || setting.labels.has(label);
    (is_outward && has(Label::EXTERNAL) && has(Label::SENSITIVE)).then_some(
        "rule of two: the run has read what is external and what is sensitive, so this needs the owner's approval",
    )
}

/// The stricter of what the built-in rules and the owner's say.
fn strictest(built_in: Ruling, case: &Case<'_>, heard: &Heard<'_>) -> Ruling {
    if built_in.verdict == Verdict::Deny {
        return built_in;
    }
    if let Some(rule) = heard.denying() {
        return Ruling { verdict: Verdict::Deny, rule: rule.words(), gate: None };
    }
    let setup = lifting_setup(case, heard).filter(|_| built_in.verdict == Verdict::Ask);
    match (heard.asking(), case.action.approved) {
        (Some(rule), Some(gate)) => Ruling {
            verdict: Verdict::Allow,
            rule: format!("{}: approved at {gate}", rule.words()),
            gate: Some(gate),
        },
        (Some(rule), None) => {
            let also = (built_in.verdict == Verdict::Ask && setup.is_none()).then_some(built_in.rule);
            let rule = match also {
                Some(also) => format!("{also}, and {}", rule.words()),
                None => rule.words(),
            };
            Ruling { verdict: Verdict::Ask, rule, gate: None }
        }
        (None, _) => match (setup, heard.allowing()) {
            (Some(rule), _) => Ruling { verdict: Verdict::Allow, rule: rule.words(), gate: None },
            (None, Some(rule)) if built_in.verdict == Verdict::Allow && built_in.gate.is_none() => {
                Ruling { rule: rule.words(), ..built_in }
            }
            (None, _) => built_in,
        },
    }
}

/// The rule that answers a merge's question: it names it, and all the files that the merge changes.
fn lifting_merge<'a>(case: &Case<'_>, heard: &Heard<'a>) -> Option<&'a Rule> {
    heard.lifting(MERGE_ASKS).filter(|rule| is_merge(case) && rule.when.paths.is_some())
}

/// The rule that answers a setup's question: it names it, and the exact line of it.
fn lifting_setup<'a>(case: &Case<'_>, heard: &Heard<'a>) -> Option<&'a Rule> {
    let is_setup = case.action.kind == StepKind::ToolCall && case.action.tool == SETUP;
    heard.lifting(SETUP_ASKS).filter(|rule| is_setup && !rule.when.shell_line.is_empty())
}

/// The rule that lets exactly this happen again without a question, as it is written into a file. `lifts` are the
/// rules that asked; `about` says in one line where it comes from.
///
/// `None` where no rule could say it: the action is not known whole, or it leaves the house.
pub fn written(name: &str, tool: &str, resources: &Resources, lifts: &[&str], about: &str) -> Option<String> {
    if resources.unread || !resources.trees.is_empty() {
        return None;
    }
    let (key, value, shown) = match (&resources.line, resources.paths.as_slice()) {
        (Some(line), _) => ("line", line.clone(), line),
        (None, [path]) if !path.is_empty() && resources.hosts.is_empty() => ("paths", literal(path), path),
        _ => return None,
    };
    let example = format!("{tool} {shown}");
    let lifts: Vec<String> = lifts.iter().map(|name| quoted(name)).collect();
    let about = about.replace(|letter: char| letter.is_control(), " ");
    Some(format!(
        "\n# {about}\n[[rule]]\nname = {}\nverdict = \"allow\"\ntool = {}\n{key} = {}\nlifts = [{}]\nmatch = [{}]\n",
        quoted(name),
        quoted(tool),
        quoted(&value),
        lifts.join(", "),
        quoted(&example),
    ))
}

/// A text as TOML has it: as in JSON, but for a letter that TOML wants escaped.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A path as a pattern that is nothing but this path.
fn literal(path: &str) -> String {
    // One without a slash would count in every folder.
    let mut pattern = String::from(if path.starts_with('/') { "" } else { "./" });
    for letter in path.chars() {
        if "*?[]{}\\!".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}
