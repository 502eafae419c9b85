//! All rules of the owner that count for a project, and which of them hold for an action.
//!
//! Every rule that holds is found; the strictest wins, and the order of rules and files is of no matter. So that many
//! rules cost little, each is looked up by the rarest thing that it names: all paths in one set of globs, commands by
//! their program, the rest by their tool.

use std::collections::HashMap;

use domain::Verdict;
use globset::{GlobSet, GlobSetBuilder};

use super::labelling::Labelling;
use super::rule::{Rule, Subject};

/// The rules that count for a project.
#[derive(Debug, Default)]
pub struct Book {
    rules: Vec<Rule>,
    /// The paths of rules that deny or ask, in small letters.
    strict: GlobSet,
    /// The rule of each glob of `strict`.
    strict_owners: Vec<usize>,
    /// The paths of rules that allow.
    allowing: GlobSet,
    /// The rule of each glob of `allowing`.
    allowing_owners: Vec<usize>,
    with_paths: Vec<usize>,
    programs: HashMap<String, Vec<usize>>,
    /// Rules whose program is a pattern.
    any_program: Vec<usize>,
    with_command: Vec<usize>,
    lines: HashMap<String, Vec<usize>>,
    tools: HashMap<String, Vec<usize>>,
    others: Vec<usize>,
    labelling: Labelling,
}

/// What the rules say of an action.
#[derive(Debug, Clone, Default)]
pub struct Heard<'a> {
    /// Every rule that holds, by its name.
    pub held: Vec<&'a Rule>,
    /// Those among them that ask and are lifted by another.
    pub lifted: Vec<&'a Rule>,
}

impl Book {
    /// Of these rules.
    ///
    /// # Errors
    /// When their patterns are too many together.
    pub fn new(mut rules: Vec<Rule>) -> Result<Self, globset::Error> {
        rules.sort_by(|a, b| (&a.name, a.level, a.line).cmp(&(&b.name, b.level, b.line)));
        let mut book = Self::default();
        let (mut strict, mut allowing) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for (at, rule) in rules.iter().enumerate() {
            let when = &rule.when;
            if let Some(paths) = &when.paths {
                let (globs, owners) = match rule.verdict {
                    Verdict::Allow => (&mut allowing, &mut book.allowing_owners),
                    Verdict::Ask | Verdict::Deny => (&mut strict, &mut book.strict_owners),
                };
                for glob in &paths.globs {
                    globs.add(glob.clone());
                    owners.push(at);
                }
                book.with_paths.push(at);
            } else if !when.shell_line.is_empty() {
                for line in &when.shell_line {
                    book.lines.entry(line.clone()).or_default().push(at);
                }
            } else if !when.command.is_empty() {
                for pattern in &when.command {
                    match pattern.program() {
                        Some(program) => book.programs.entry(program).or_default().push(at),
                        None => book.any_program.push(at),
                    }
                }
                book.with_command.push(at);
            } else if when.tools.is_empty() {
                book.others.push(at);
            } else {
                for tool in &when.tools {
                    book.tools.entry(tool.clone()).or_default().push(at);
                }
            }
        }
        book.strict = strict.build()?;
        book.allowing = allowing.build()?;
        book.rules = rules;
        Ok(book)
    }

    /// The same, where files have these labels beside the usual ones.
    #[must_use]
    pub fn labelled(mut self, labels: Labelling) -> Self {
        self.labelling.join(labels);
        self
    }

    /// Which labels files have.
    pub fn labelling(&self) -> &Labelling {
        &self.labelling
    }

    /// The rules, by their names.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The set of all patterns of paths in rules that deny or ask, for what is measured beside it.
    pub fn globs(&self) -> &GlobSet {
        &self.strict
    }

    /// What the rules say.
    pub fn hear(&self, subject: &Subject<'_>) -> Heard<'_> {
        if self.rules.is_empty() {
            return Heard::default();
        }
        let mut near = self.near(subject);
        near.sort_unstable();
        near.dedup();
        let held: Vec<&Rule> =
            near.into_iter().filter_map(|at| self.rules.get(at)).filter(|rule| rule.holds(subject)).collect();
        let lifts = |asking: &Rule| {
            let mut allowing = held.iter().filter(|rule| rule.verdict == Verdict::Allow);
            asking.verdict == Verdict::Ask && allowing.any(|rule| rule.lifts.contains(&asking.name))
        };
        let lifted = held.iter().copied().filter(|rule| lifts(rule)).collect();
        Heard { held, lifted }
    }

    /// The rules that could hold.
    fn near(&self, subject: &Subject<'_>) -> Vec<usize> {
        let about = subject.resources;
        let mut near = self.others.clone();
        near.extend(self.tools.get(subject.tool).into_iter().flatten());
        if about.unread {
            near.extend(
                self.with_paths.iter().chain(&self.with_command).chain(self.lines.values().flatten()),
            );
            return near;
        }
        if !about.trees.is_empty() {
            near.extend(&self.with_paths);
        }
        let mut found = Vec::new();
        for path in &about.paths {
            self.strict.matches_into(path.to_lowercase(), &mut found);
            near.extend(found.iter().filter_map(|glob| self.strict_owners.get(*glob)));
            self.allowing.matches_into(path, &mut found);
            near.extend(found.iter().filter_map(|glob| self.allowing_owners.get(*glob)));
        }
        if let Some(line) = &about.line {
            near.extend(self.lines.get(line).into_iter().flatten());
        }
        if let Some(seen) = &about.seen {
            near.extend(&self.any_program);
            if !seen.is_clear() {
                near.extend(&self.with_command);
            }
            for program in seen.all().filter_map(|command| command.words.first()?.program()) {
                near.extend(self.programs.get(program).into_iter().flatten());
            }
        }
        near
    }
}

impl<'a> Heard<'a> {
    /// The rule that denies, by name the first.
    pub fn denying(&self) -> Option<&'a Rule> {
        self.first(Verdict::Deny)
    }

    /// The rule that asks and is not lifted.
    pub fn asking(&self) -> Option<&'a Rule> {
        self.held.iter().copied().find(|rule| {
            rule.verdict == Verdict::Ask && !self.lifted.iter().any(|lifted| std::ptr::eq(*lifted, *rule))
        })
    }

    /// The rule that allows.
    pub fn allowing(&self) -> Option<&'a Rule> {
        self.first(Verdict::Allow)
    }

    /// The rule that lifts an asking one of this name.
    pub fn lifting(&self, name: &str) -> Option<&'a Rule> {
        let mut allowing = self.held.iter().copied().filter(|rule| rule.verdict == Verdict::Allow);
        allowing.find(|rule| rule.lifts.iter().any(|lifted| lifted == name))
    }

    fn first(&self, verdict: Verdict) -> Option<&'a Rule> {
        self.held.iter().copied().find(|rule| rule.verdict == verdict)
    }
}
