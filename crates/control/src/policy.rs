//! The owner's rules: reading their files for each decision, asking what they say, and writing what a gate allows
//! always.
//!
//! | module | what lives there |
//! |---|---|
//! | [`view`] | the requests and answers, shared with clients |
//! | [`files`] | which files count for a run, read anew for every decision |
//! | `always` | the rule that a gate's *always* writes |
//! | `why` | what was decided about a step, and what today's rules would say |

pub mod files;
pub mod view;

pub(crate) mod always;
mod why;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Digest, Grants, Lease, LeaseId, ProjectId, RunId, StepNo, Timestamp, Verdict};
use kernel::port::Action;
use trust::policy::{Example, Heard, Level, OwnRule, SETUP_ASKS};
use trust::{Case, Policy as Rules, export};

pub use files::Files;

use crate::error::{Error, Kind};
use crate::missions::{OWNER, ROLE, project_known};
use crate::{Control, view::name};
use view::{Explain, Explained, Held, Policy, PolicyFile, PolicyRule};

/// A place that rules are asked for.
struct Place {
    repository: Option<PathBuf>,
    project: Option<ProjectId>,
}

impl Control {
    /// The rules that count in a place, and whether their files make sense.
    ///
    /// # Errors
    /// When the place is none, or the records cannot be read.
    pub async fn policy_list(&self, project: Option<String>) -> Result<Policy, Error> {
        let files = self.files.clone();
        let place = self.place(project).await?;
        self.blocking(move || Ok(listed(&files, &place))).await
    }

    /// What would be decided about an action.
    ///
    /// # Errors
    /// When the action makes no sense, or the rules cannot be read.
    pub async fn policy_explain(&self, asked: Explain) -> Result<Explained, Error> {
        let files = self.files.clone();
        let place = self.place(asked.project.clone()).await?;
        let now = self.clock().now();
        self.blocking(move || explained(&files, &place, &asked, now)).await
    }

    async fn place(&self, project: Option<String>) -> Result<Place, Error> {
        let Some(project) = project else { return Ok(Place { repository: None, project: None }) };
        let records = Arc::clone(&self.records);
        self.blocking(move || {
            let path = Path::new(&project).canonicalize().map_err(|error| {
                Error::new(Kind::Invalid, "policy.project", format!("`{project}` cannot be found: {error}"))
                    .hint("give a directory in the project's repository")
            })?;
            let root = store::owner::root(&path);
            let project = root.map(|root| project_known(&*records, root)).transpose()?.flatten();
            Ok(Place { repository: root.map(Path::to_owned), project })
        })
        .await
    }
}

fn listed(files: &Files, place: &Place) -> Policy {
    let mut rules: Vec<PolicyRule> = Rules::built_in()
        .rules()
        .iter()
        .map(|rule| PolicyRule {
            name: None,
            verdict: name(rule.verdict),
            level: "built_in".into(),
            file: None,
            line: None,
            about: rule.text.into(),
            lifts: Vec::new(),
        })
        .collect();
    let mut shown = Vec::new();
    let here = files.sources(place.repository.as_deref(), place.project);
    let elsewhere: Vec<_> = files
        .of_projects()
        .into_iter()
        .filter(|other| here.iter().all(|own| own.path != other.path))
        .collect();
    let all = here
        .into_iter()
        .map(|source| (source, true))
        .chain(elsewhere.into_iter().map(|source| (source, false)));
    for (source, counts) in all {
        let read = source.rules();
        let (exists, found, problem) = match read {
            Ok(None) => (false, Vec::new(), None),
            Ok(Some(found)) => (true, found, None),
            Err(why) => (true, Vec::new(), Some(why)),
        };
        shown.push(PolicyFile {
            file: source.shown.clone(),
            path: source.path.display().to_string(),
            level: level(source.level).into(),
            exists,
            counts,
            rules: found.len() as u64,
            problem,
        });
        if !counts {
            continue;
        }
        rules.extend(found.iter().map(|rule| PolicyRule {
            name: Some(rule.name.clone()),
            verdict: name(rule.verdict),
            level: level(rule.level).into(),
            file: Some(rule.file.to_string()),
            line: Some(rule.line as u64),
            about: rule.reason.clone().unwrap_or_default(),
            lifts: rule.lifts.clone(),
        }));
    }
    Policy { files: shown, rules }
}

const fn level(level: Level) -> &'static str {
    match level {
        Level::Owner => "owner",
        Level::Project => "project",
        Level::Repository => "repository",
    }
}

fn explained(files: &Files, place: &Place, asked: &Explain, now: Timestamp) -> Result<Explained, Error> {
    let mut example = example(asked)?;
    let principal = asked.principal.clone().unwrap_or_else(|| format!("agent:{ROLE}"));
    let repository = place.repository.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    example.principal = Some(principal.clone());
    example.project = Some(repository);
    let book = files.book(place.repository.as_deref(), place.project).map_err(unreadable)?;
    let heard = book.hear(&example.subject());
    let run = RunId::from_bytes([0; 16]);
    // A lease that holds the tool: what leases lack is for `why`, of a run that has one.
    let lease = Lease {
        id: LeaseId::from_bytes([0; 16]),
        run: Some(run),
        parent: None,
        paths: Grants::default(),
        budget: None,
        labels: None,
        granted_at: None,
        principal: principal.clone(),
        on_behalf_of: OWNER.into(),
        purpose: String::new(),
        tools: vec![example.tool.clone(), trust::policy::MERGE.into()],
        expires_at: Timestamp(u64::MAX),
        epoch: 1,
        revoked: false,
    };
    let action = Action {
        run,
        principal: &principal,
        lease: lease.id,
        step: StepNo::FIRST,
        kind: example.kind,
        effect: example.effect,
        risk: example.risk,
        tool: &example.tool,
        request: b"{}",
        digest: Digest::of(b"{}"),
        nanodollars: 0,
        approved: None,
        now,
    };
    let rules = export::Rules::default();
    let case = Case { action: &action, lease: &lease, merge_approved: false, export: &rules };
    let built_in = Rules::built_in();
    let ruling = built_in.judge_heard(&case, &heard);
    let own = built_in.judge(&case);
    let mut held = vec![Held {
        name: None,
        verdict: name(own.verdict),
        file: None,
        line: None,
        about: own.rule,
        lifted_by: (own.verdict == Verdict::Ask && ruling.verdict == Verdict::Allow)
            .then(|| heard.lifting(SETUP_ASKS).map(|rule| rule.name.clone()))
            .flatten(),
    }];
    held.extend(own_rules(&heard));
    let seen = example.resources.seen.as_ref();
    let commands = seen.map(|seen| seen.commands.iter().map(shown).collect()).unwrap_or_default();
    Ok(Explained {
        verdict: name(ruling.verdict),
        rule: ruling.rule,
        held,
        commands,
        unclear: seen
            .map(|seen| seen.unclear.iter().map(|why| (*why).to_owned()).collect())
            .unwrap_or_default(),
    })
}

/// The action that is asked about.
fn example(asked: &Explain) -> Result<Example, Error> {
    let invalid = |what: String| Error::new(Kind::Invalid, "policy.action", what);
    let mut example = Example::parse(&asked.action).map_err(|why| {
        invalid(format!("the action makes no sense: {why}"))
            .hint("as in: regie policy explain shell git push")
    })?;
    for (names, labels) in [(&asked.labels, &mut example.labels), (&asked.taint, &mut example.taint)] {
        for one in names {
            let label: domain::Label = one.parse().map_err(|error: domain::label::NotALabel| {
                invalid(error.to_string()).hint("labels are `external`, `sensitive` and your own")
            })?;
            labels.join(&[label].into_iter().collect());
        }
    }
    Ok(example)
}

/// A command as it is shown: a word that is only known at run time ends in `…`.
fn shown(command: &trust::policy::shell::Command) -> String {
    let word = |word: &trust::policy::shell::Word| {
        if word.known { word.text.clone() } else { format!("{}…", word.text) }
    };
    command.words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn own_rules(heard: &Heard<'_>) -> Vec<Held> {
    let row = |rule: &&OwnRule| Held {
        name: Some(rule.name.clone()),
        verdict: name(rule.verdict),
        file: Some(rule.file.to_string()),
        line: Some(rule.line as u64),
        about: rule.reason.clone().unwrap_or_default(),
        lifted_by: (rule.verdict == Verdict::Ask)
            .then(|| heard.lifting(&rule.name).map(|lifting| lifting.name.clone()))
            .flatten(),
    };
    heard.held.iter().map(row).collect()
}

fn unreadable(why: String) -> Error {
    Error::new(Kind::Invalid, "policy.unreadable", why).mend_apart()
}
