//! Actions in words: the examples that rules are held against, and what `regie policy explain` is asked.

use domain::{Effect, Labels, Risk, StepKind};

use super::resource::Resources;
use super::rule::{Rule, Subject};
use super::{DELIVER, MERGE, SETUP};

/// An action in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Who acts; not said, a rule's own patterns of that are taken to fit.
    pub principal: Option<String>,
    /// The repository; not said, likewise.
    pub project: Option<String>,
    /// The kind of step.
    pub kind: StepKind,
    /// The tool, or the model.
    pub tool: String,
    /// Its effect class.
    pub effect: Effect,
    /// Its risk class.
    pub risk: Risk,
    /// What it is about.
    pub resources: Resources,
    /// The labels of that.
    pub labels: Labels,
    /// The labels of what the run has read.
    pub taint: Labels,
}

impl Example {
    /// Reads `TOOL WORDS`, as `shell git push`, `edit src/x.rs` or `setup npm ci`. A criterion is `verdict COMMAND`, a
    /// call to a model `model_call MODEL`.
    ///
    /// # Errors
    /// When there is no tool in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (tool, words) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if tool.is_empty() {
            return Err("it is blank: expected a tool and what it is about, as \"shell git push\"".into());
        }
        let words = words.trim();
        let (kind, tool) = match tool {
            "verdict" => (StepKind::Verdict, tool),
            "model_call" => (StepKind::ModelCall, words),
            _ => (StepKind::ToolCall, tool),
        };
        let (effect, risk) = classes(kind, tool);
        Ok(Self {
            principal: None,
            project: None,
            kind,
            tool: tool.to_owned(),
            effect,
            risk,
            resources: Resources::named(kind, tool, words),
            labels: Labels::none(),
            taint: Labels::none(),
        })
    }

    /// It as what rules are held against.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            principal: self.principal.as_deref().unwrap_or_default(),
            project: self.project.as_deref().unwrap_or_default(),
            kind: self.kind,
            tool: &self.tool,
            effect: self.effect,
            risk: self.risk,
            resources: &self.resources,
            labels: &self.labels,
            taint: &self.taint,
        }
    }

    /// Whether a rule holds for it.
    pub(super) fn fits(&self, rule: &Rule) -> bool {
        let mut rule = rule.clone();
        if self.principal.is_none() {
            rule.when.principal.clear();
        }
        if self.project.is_none() {
            rule.when.project.clear();
        }
        rule.holds(&self.subject())
    }
}

/// The effect and risk class of a tool; of one that is not built in the gravest.
pub fn classes(kind: StepKind, tool: &str) -> (Effect, Risk) {
    match (kind, tool) {
        (StepKind::ModelCall | StepKind::Compaction, _) => (Effect::ModelCall, Risk::Read),
        (StepKind::Verdict, _) | (_, "edit" | "write" | "shell") => (Effect::WorkspaceWrite, Risk::Workspace),
        (_, "read" | "list" | "search") => (Effect::Read, Risk::Read),
        (_, SETUP) => (Effect::WorkspaceWrite, Risk::External),
        (_, MERGE | DELIVER) => (Effect::IdempotentWrite, Risk::External),
        _ => (Effect::NonIdempotent, Risk::External),
    }
}
