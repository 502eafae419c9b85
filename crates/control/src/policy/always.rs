//! The rule that a gate's *always* writes: exactly this action, in this project, readable and with its origin.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use domain::fact::StepPlanned;
use domain::{Effect, GateId, Payload, Risk, RunId, StepKind, Timestamp, Verdict};
use trust::policy::{Level, SETUP, SETUP_ASKS, Subject, file, resource, written};

use super::Files;
use crate::error::{Error, Kind};
use crate::missions::unavailable;

/// The rule that would be written, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    path: PathBuf,
    shown: String,
    repository: String,
    /// The rule as it will stand there.
    pub(crate) rule: String,
}

/// What a gate's *always* would write; `None` where nothing can be allowed always: a merge, what leaves the house, and
/// what a built-in rule asks.
pub(crate) fn offer(
    files: &Files,
    (run, gate, principal): (RunId, GateId, &str),
    planned: &StepPlanned,
    payload: Option<&Payload>,
    now: Timestamp,
) -> Option<Offer> {
    let is_setup = planned.tool == SETUP;
    let is_grave = planned.risk > Risk::Workspace
        || !matches!(planned.effect, Effect::Read | Effect::WorkspaceWrite)
        || planned.kind != StepKind::ToolCall;
    if is_grave && !is_setup {
        return None;
    }
    let (setting, read) = files.labels_of(run).ok()?;
    let taint = read.all().ok()?;
    let resources = resource::of(planned.kind, &planned.tool, &payload?.0, &setting.workspace);
    let heard = setting.book.hear(&Subject {
        principal,
        project: &setting.project,
        kind: planned.kind,
        tool: &planned.tool,
        effect: planned.effect,
        risk: planned.risk,
        resources: &resources,
        labels: &setting.labels,
        taint: &taint,
    });
    let asking =
        heard.held.iter().filter(|rule| rule.verdict == Verdict::Ask && heard.lifting(&rule.name).is_none());
    let mut lifts: Vec<&str> = asking.map(|rule| rule.name.as_str()).collect();
    if is_setup {
        lifts.push(SETUP_ASKS);
    }
    if lifts.is_empty() || heard.denying().is_some() {
        return None;
    }
    let (repository, project) = files.project_of(run).ok()?;
    let source = files.of_project(project);
    let id = gate.to_string();
    let name = format!("always-{}", id.get(id.len().saturating_sub(8)..).unwrap_or(&id));
    let about =
        format!("Always allow this in this project: approved at {id} on {}.", engine::words::date(now.day()));
    let rule = written(&name, &planned.tool, &resources, &lifts, &about)?;
    Some(Offer { path: source.path, shown: source.shown, repository, rule })
}

impl Offer {
    /// The whole file with the rule in it, held against everything that a file must be.
    ///
    /// # Errors
    /// What makes no sense in the file as it stands.
    pub(crate) fn text(&self) -> Result<String, Error> {
        let source = super::files::Source {
            path: self.path.clone(),
            shown: self.shown.clone(),
            level: Level::Project,
        };
        let refused = |why: String| Error::new(Kind::Conflict, "policy.unreadable", why).mend_apart();
        let before = source.text().map_err(refused)?.unwrap_or_else(|| {
            let repository: String = self.repository.chars().filter(|letter| !letter.is_control()).collect();
            format!("# The owner's rules for {repository}, beside those of policy.toml (docs/policy.md).\n")
        });
        let text = format!("{before}{}", self.rule);
        file::parse(&text, &self.shown, Level::Project).map_err(|error| refused(error.to_string()))?;
        Ok(text)
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// When that cannot be done.
    pub(crate) fn write(&self, text: &str) -> Result<(), Error> {
        let failed = |error: std::io::Error| unavailable("policy.unwritable", &error);
        let fresh = self.path.with_extension("toml.new");
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut file = fs::File::create(&fresh).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&fresh, &self.path).map_err(failed)
    }
}
