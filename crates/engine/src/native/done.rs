//! The definition of done that the agent proposes where its owner gave none.
//!
//! The call is no step: its answer follows from the recorded answer of the model, and the first list that
//! is accepted is frozen. Each of its commands is then run once, as a verdict, before the work goes on: a
//! command that passes already proves little, and the gate says so.

use serde::{Deserialize, Serialize};

use domain::{Criterion, Effect, Mission, Risk};
use models::{RawJson, ToolSpec};

use super::view::{Judgement, Stage, View};
use crate::config::{Error, Tool};
use crate::host::{Before, Proposed};
use crate::prompt;

/// The tool's name.
pub const TOOL: &str = "define_done";

/// Times that the stop hook asks for a definition before the work is proposed without one.
const REMINDERS: u32 = 2;
/// How many criteria there may be.
const MOST: usize = 8;
/// How long a command may be, in bytes.
const LONGEST: usize = 1_000;
/// How much of a reason is kept, in bytes.
const REASON: usize = 300;

const DESCRIPTION: &str = "\
Defines when this mission is done: one to eight shell commands that Regie itself runs in the workspace when \
you finish, each of which must then exit with 0. Call it once, after a first look at the project and before \
you change anything: the first list that is accepted is frozen. Choose commands that fail as long as the \
goal is not reached, such as the project's own tests or a check of exactly what is asked for; one that passes \
already is shown to the owner as such.";

const SCHEMA: &str = r#"{"type":"object","properties":{"criteria":{"type":"array","minItems":1,"maxItems":8,"items":{"type":"object","properties":{"command":{"type":"string","description":"A shell command that exits with 0 when this part of the goal is reached."},"why":{"type":"string","description":"What it proves, in one sentence."}},"required":["command","why"],"additionalProperties":false}}},"required":["criteria"],"additionalProperties":false}"#;

/// The tool as a run without criteria of its owner's holds it.
///
/// # Errors
/// When its schema is no JSON, which a test rules out.
pub(crate) fn tool() -> Result<Tool, Error> {
    let input_schema =
        RawJson::parse(SCHEMA).map_err(|source| Error::Schema { tool: TOOL.into(), source })?;
    let spec = ToolSpec { name: TOOL.into(), description: DESCRIPTION.into(), input_schema };
    Ok(Tool { spec, effect: Effect::Read, risk: Risk::Read, deferred: false })
}

/// One criterion as it is proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) command: String,
    pub(crate) why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    criteria: Vec<Wanted>,
}

/// What the driver keeps of it.
#[derive(Debug, Default)]
pub(super) struct Definition {
    /// The owner gave no criterion, and the run has the tool.
    pub(super) is_asked: bool,
    /// How often the stop hook has asked.
    reminders: u32,
    /// The frozen list; its commands are the mission's criteria.
    frozen: Vec<Wanted>,
    /// How each of them stood when it was frozen, as far as that was tried.
    before: Vec<Option<bool>>,
    /// Whether they are still to be tried.
    is_new: bool,
    /// Whether the files were those of the start when they were tried.
    untouched: Option<bool>,
}

impl Definition {
    /// The trial begins.
    pub(super) fn starts(&mut self, untouched: Option<bool>) {
        self.untouched = self.untouched.or(untouched);
    }

    /// A run that goes on from another one of the same mission keeps what was frozen there.
    pub(super) fn carry(&self, mission: &mut Mission) {
        if mission.done.is_empty() {
            mission.done = self.criteria();
        }
    }

    /// Another mission has a definition of its own.
    pub(super) fn forget(&mut self) {
        *self = Self { is_asked: self.is_asked, ..Self::default() };
    }

    fn criteria(&self) -> Vec<Criterion> {
        let commands = self.frozen.iter().map(|wanted| wanted.command.clone());
        commands.map(|command| Criterion::Command { command }).collect()
    }

    /// Whether the criteria are the agent's.
    pub(super) const fn is_agents(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// What the owner is told of each criterion.
    pub(super) fn proposed(&self) -> Vec<Proposed> {
        let told = self.frozen.iter().enumerate().map(|(at, Wanted { command, why })| {
            let before = match (self.before.get(at).copied().flatten(), self.untouched.unwrap_or(false)) {
                (None, _) => Before::Untried,
                (Some(false), _) => Before::Failed,
                (Some(true), true) => Before::Passed,
                (Some(true), false) => Before::PassedAtWork,
            };
            Proposed { command: command.clone(), why: why.clone(), before }
        });
        told.collect()
    }

    /// Why the mission has none, where the agent owed one.
    pub(super) fn missing(&self) -> &'static str {
        if self.is_asked { ", and the agent proposed none when asked" } else { "" }
    }
}

/// Reads a proposal, or says what is wrong with it.
pub(crate) fn read(input: &str) -> Result<Vec<Wanted>, String> {
    let Input { mut criteria } = serde_json::from_str(input)
        .map_err(|error| format!("the input is not what the schema says: {error}"))?;
    if criteria.is_empty() || criteria.len() > MOST {
        return Err(format!("give 1 to {MOST} criteria; these are {}", criteria.len()));
    }
    for wanted in &mut criteria {
        wanted.command = wanted.command.trim().to_owned();
        wanted.why = prompt::cut(wanted.why.trim(), REASON).to_owned();
        let command = wanted.command.as_str();
        if command.is_empty() {
            return Err("a command is blank; give one that exits with 0 when the goal is reached".into());
        }
        if command.len() > LONGEST || command.contains('\0') {
            return Err(format!(
                "a command has more than {LONGEST} bytes; put it into a script of the project"
            ));
        }
        if wanted.why.is_empty() {
            return Err(format!("say why: what does `{}` prove?", prompt::cut(command, 100)));
        }
    }
    let mut commands: Vec<&str> = criteria.iter().map(|wanted| wanted.command.as_str()).collect();
    commands.sort_unstable();
    if commands.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err("a command is there twice".into());
    }
    Ok(criteria)
}

impl View {
    /// Answers the calls of a turn that define when the mission is done.
    pub(super) fn define(&mut self) {
        while let Some(at) = self.turn.due_of(TOOL) {
            let input = self.turn.request(at).map(|(_, request)| request.to_vec()).unwrap_or_default();
            let answer = self.freeze(&input);
            self.turn.answer(at, answer, None);
        }
    }

    fn freeze(&mut self, request: &[u8]) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Request {
            input: RawJson,
        }
        let Some(mission) = self.mission.as_mut().filter(|_| self.definition.is_asked) else {
            return Err("the owner's definition of done holds; it cannot be changed".into());
        };
        if self.definition.is_agents() {
            return Err("the definition of done is frozen; only the owner may change it".into());
        }
        let request: Request =
            serde_json::from_slice(request).map_err(|error| format!("the call cannot be read: {error}"))?;
        let frozen = read(request.input.as_str())?;
        self.judgements = vec![Judgement::Due; frozen.len()];
        self.definition.before = vec![None; frozen.len()];
        self.definition.is_new = true;
        let told = prompt::frozen(frozen.len());
        self.definition.frozen = frozen;
        mission.done = self.definition.criteria();
        Ok(told)
    }

    /// Where a turn leads whose results are in the conversation.
    pub(super) fn after_turn(&mut self) -> Stage {
        match std::mem::take(&mut self.definition.is_new) {
            true => Stage::Trying,
            false => Stage::Asking,
        }
    }

    /// The trial is over, or the owner does not wait for the rest of it.
    pub(super) fn tried(&mut self, seq: u64) {
        let stood = |judgement: &Judgement| match judgement {
            Judgement::Passed => Some(true),
            Judgement::Failed(_) => Some(false),
            Judgement::Due | Judgement::Planned => None,
        };
        self.definition.before = self.judgements.iter().map(stood).collect();
        self.definition.untouched = self.definition.untouched.or(Some(!self.touched));
        self.judgements.fill(Judgement::Due);
        // It outlives every compaction, as the owner's own criteria do.
        let text = prompt::tried(&self.definition.proposed());
        self.pin(seq, text);
        self.stage = Stage::Asking;
    }

    /// The stop hook, where there are changes and nothing that tells whether they are what was asked for.
    /// Gives whether the agent is sent on.
    pub(super) fn asks_for_definition(&mut self, seq: u64) -> bool {
        let owes = self.definition.is_asked && !self.definition.is_agents() && self.commit().is_some();
        if !owes || self.definition.reminders >= REMINDERS {
            return false;
        }
        self.definition.reminders = self.definition.reminders.saturating_add(1);
        self.say(seq, prompt::UNDEFINED.to_owned());
        self.stage = Stage::Asking;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: &str, why: &str) {
        let error = read(input).unwrap_err();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn the_schema_is_json() {
        assert_eq!(tool().unwrap().spec.name, TOOL);
    }

    #[test]
    fn what_cannot_be_a_definition_is_refused() {
        let one = |command: &str, why: &str| format!(r#"{{"command":"{command}","why":"{why}"}}"#);
        let all = |some: &[String]| format!(r#"{{"criteria":[{}]}}"#, some.join(","));
        assert_eq!(read(&all(&[one(" make test ", "x")])).unwrap()[0].command, "make test");
        refused("{}", "what the schema says");
        refused(&all(&[]), "give 1 to 8");
        refused(&all(&vec![one("true", "x"); 9]), "these are 9");
        refused(&all(&[one(" ", "x")]), "blank");
        refused(&all(&[one(&"x".repeat(1_001), "x")]), "more than 1000");
        refused(&all(&[one("make", " ")]), "say why");
        refused(&all(&[one("make", "x"), one("make", "y")]), "twice");
        refused(r#"{"criteria":[{"command":"a","why":"b","passes":true}]}"#, "what the schema says");
    }
}
