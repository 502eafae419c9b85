//! One rule of the owner: when it holds, and what it says then.

use std::sync::Arc;

use domain::{Effect, Label, Labels, Risk, StepKind, Verdict};
use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};

use super::resource::{self, Resources};
use super::shell::Pattern;

/// Whose words a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The owner's, for all projects.
    Owner,
    /// The owner's, for one project.
    Project,
    /// A repository's own. Agents and strangers write it: it only makes things stricter.
    Repository,
}

/// What a rule is held against.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Who acts, as `agent:coder`.
    pub principal: &'a str,
    /// The path of the project's repository.
    pub project: &'a str,
    /// The kind of step.
    pub kind: StepKind,
    /// The tool, or the model.
    pub tool: &'a str,
    /// What repeating it would do.
    pub effect: Effect,
    /// How much can go wrong.
    pub risk: Risk,
    /// What it is about.
    pub resources: &'a Resources,
    /// The labels of what it is about.
    pub labels: &'a Labels,
    /// The labels of all that the run has read.
    pub taint: &'a Labels,
}

/// A rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What it is called, once in a file.
    pub name: String,
    /// What it says.
    pub verdict: Verdict,
    /// Why, in the owner's words.
    pub reason: Option<String>,
    /// Rules by name that ask, and do not where this one allows.
    pub lifts: Vec<String>,
    /// Whose rule it is.
    pub level: Level,
    /// The file that it stands in, as it is shown.
    pub file: Arc<str>,
    /// Its line there, from 1.
    pub line: usize,
    pub(super) when: When,
}

/// When a rule holds: everything that is said must hold, of each list one entry.
#[derive(Debug, Clone, Default)]
pub(super) struct When {
    pub(super) principal: Vec<GlobMatcher>,
    pub(super) project: Vec<GlobMatcher>,
    pub(super) tool: Vec<GlobMatcher>,
    /// Tools that are named and are no pattern; empty where one is.
    pub(super) tools: Vec<String>,
    pub(super) kind: Vec<StepKind>,
    pub(super) effect: Vec<Effect>,
    pub(super) at_least: Option<Risk>,
    pub(super) at_most: Option<Risk>,
    pub(super) paths: Option<Paths>,
    pub(super) host: Vec<GlobMatcher>,
    pub(super) command: Vec<Pattern>,
    pub(super) shell_line: Vec<String>,
    pub(super) labels: Vec<Labels>,
    pub(super) taint: Vec<Labels>,
}

/// Patterns of paths.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) globs: Vec<globset::Glob>,
    set: GlobSet,
    /// The folder below which each of them lies; empty where that can be any.
    bases: Vec<String>,
}

impl Paths {
    /// Reads patterns: one without a slash counts in every folder, one that begins with a slash is a path of the
    /// whole system, any other counts from the workspace on, as does `./name`. A folder stands for all that lies in it;
    /// where a rule allows, only one that ends in a slash does.
    pub(super) fn parse(patterns: &[String], is_strict: bool) -> Result<Self, String> {
        let mut globs = Vec::new();
        let mut bases = Vec::new();
        for written in patterns {
            // In small letters on both sides: sets of globs are fast while case counts.
            let pattern = if is_strict { written.to_lowercase() } else { written.clone() };
            let plain = pattern.trim_end_matches('/');
            if plain.trim().is_empty() {
                return Err("a pattern is blank: write `**` for all paths".into());
            }
            let whole = match plain.strip_prefix("./") {
                Some(inside) => inside.to_owned(),
                None if plain.contains('/') => plain.to_owned(),
                None => format!("**/{plain}"),
            };
            let inside = format!("{whole}/**");
            let meant = match (is_strict, pattern.ends_with('/')) {
                (true, _) => vec![whole.clone(), inside],
                (false, true) => vec![inside],
                (false, false) => vec![whole.clone()],
            };
            for text in meant {
                globs.push(glob(&text).map_err(|why| format!("`{written}` {why}"))?);
            }
            let literal = whole.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
            let base = match literal == whole {
                true => literal,
                false => literal.rsplit_once('/').map_or("", |(base, _)| base),
            };
            bases.push(base.to_owned());
        }
        let mut set = GlobSetBuilder::new();
        globs.iter().for_each(|glob| {
            set.add(glob.clone());
        });
        let set = set.build().map_err(|error| error.to_string())?;
        Ok(Self { globs, set, bases })
    }

    /// Whether a path, in small letters, is among what patterns that are strict mean.
    pub(super) fn hold(&self, path: &str) -> bool {
        self.set.is_match(path)
    }

    pub(super) fn any(&self, resources: &Resources) -> bool {
        let below = |tree: &String| {
            let tree = tree.to_lowercase();
            let meets = |base: &String| resource::is_below(base, &tree) || resource::is_below(&tree, base);
            self.set.is_match(&tree) || self.bases.iter().any(meets)
        };
        resources.paths.iter().any(|path| self.set.is_match(path.to_lowercase()))
            || resources.trees.iter().any(below)
    }

    fn all(&self, resources: &Resources) -> bool {
        resources.trees.is_empty()
            && !resources.paths.is_empty()
            && resources.paths.iter().all(|path| self.set.is_match(path))
    }
}

/// A glob, in which `*` stops at a slash.
fn glob(text: &str) -> Result<globset::Glob, String> {
    GlobBuilder::new(text)
        .literal_separator(true)
        .build()
        .map_err(|error| format!("is no pattern ({})", error.kind()))
}

/// A pattern of names, in which `*` stands for anything.
pub(super) fn name(text: &str) -> Result<GlobMatcher, String> {
    if text.trim().is_empty() {
        return Err("a pattern is blank: write `*` for all, or leave the key out".into());
    }
    let glob = GlobBuilder::new(text).build();
    Ok(glob.map_err(|error| format!("`{text}` is no pattern ({})", error.kind()))?.compile_matcher())
}

/// Whether the steps of a kind are spoken of by rules that name no kind: what an agent does, and not what keeps its
/// run going.
pub(crate) const fn is_deed(kind: StepKind) -> bool {
    matches!(kind, StepKind::ToolCall | StepKind::Verdict | StepKind::Spawn)
}

impl Rule {
    /// Whether it holds.
    pub fn holds(&self, subject: &Subject<'_>) -> bool {
        let When { principal, project, tool, kind, effect, at_least, at_most, .. } = &self.when;
        let is_one = |names: &[GlobMatcher], name: &str| {
            names.is_empty() || names.iter().any(|one| one.is_match(name))
        };
        let kinds = if kind.is_empty() { is_deed(subject.kind) } else { kind.contains(&subject.kind) };
        kinds
            && at_least.is_none_or(|least| subject.risk >= least)
            && at_most.is_none_or(|most| subject.risk <= most)
            && (effect.is_empty() || effect.contains(&subject.effect))
            && is_one(tool, subject.tool)
            && is_one(principal, subject.principal)
            && is_one(project, subject.project)
            && has(&self.when.labels, subject.labels)
            && has(&self.when.taint, subject.taint)
            && self.is_about(subject.resources)
    }

    /// Whether it speaks of what an action is about. What denies or asks is heard when one of the resources could be
    /// meant, what allows when all of them are.
    fn is_about(&self, resources: &Resources) -> bool {
        let When { paths, host, command, shell_line, .. } = &self.when;
        let names_any = paths.is_some() || !host.is_empty() || !command.is_empty() || !shell_line.is_empty();
        if resources.unread && names_any {
            return self.verdict != Verdict::Allow;
        }
        let is_host = |name: &String| host.iter().any(|one| one.is_match(name));
        let line = resources.line.as_deref();
        let of_line =
            shell_line.is_empty() || line.is_some_and(|line| shell_line.iter().any(|own| own == line));
        if self.verdict == Verdict::Allow {
            return of_line
                && paths.as_ref().is_none_or(|paths| paths.all(resources))
                && (host.is_empty() || (!resources.hosts.is_empty() && resources.hosts.iter().all(is_host)))
                && (command.is_empty() || is_allowed(command, resources));
        }
        of_line
            && paths.as_ref().is_none_or(|paths| paths.any(resources))
            && (host.is_empty() || resources.hosts.iter().any(is_host))
            && (command.is_empty() || could_be(command, resources))
    }

    /// It, as a decision on record names it.
    pub fn words(&self) -> String {
        let place = format!("rule \"{}\" in {}:{}", self.name, self.file, self.line);
        match &self.reason {
            Some(reason) => format!("{reason} ({place})"),
            None => place,
        }
    }
}

fn could_be(patterns: &[Pattern], resources: &Resources) -> bool {
    resources.seen.as_ref().is_some_and(|seen| {
        !seen.is_clear() || seen.all().any(|command| patterns.iter().any(|pattern| pattern.could_be(command)))
    })
}

fn is_allowed(patterns: &[Pattern], resources: &Resources) -> bool {
    resources.seen.as_ref().is_some_and(|seen| {
        seen.is_clear()
            && !seen.commands.is_empty()
            && seen.commands.iter().all(|command| patterns.iter().any(|pattern| pattern.is(command)))
    })
}

/// Whether one of some sets of labels is there.
fn has(wanted: &[Labels], labels: &Labels) -> bool {
    wanted.is_empty() || wanted.iter().any(|all| all.is_within(labels))
}

/// Labels that must be there together, as `external+sensitive`.
pub(super) fn labels(text: &str) -> Result<Labels, String> {
    text.split('+').map(|one| one.trim().parse::<Label>().map_err(|error| error.to_string())).collect()
}
