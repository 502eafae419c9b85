//! One walk over the files that the rules can be about, which lays the mounts.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::{Access, Mount};

use super::look::{LONGEST, LONGEST_NAME};
use super::{Absent, Compiled, Error, Kind, Laid, Look, Rights, Rule, Verb, Why};

/// The most mounts that rules may become: each costs tens of microseconds at every start.
const MOST_MOUNTS: usize = 4_000;
/// The most names that are looked at.
const MOST_NAMES: usize = 1_000_000;
/// The deepest path: the walk goes down by recursion.
const DEEPEST: usize = 512;
/// Where a jail has something of its own.
const OWN: [&str; 2] = ["/proc", "/dev"];

pub(super) fn walk(rules: &[Rule], look: &dyn Look) -> Result<Compiled, Error> {
    let mut walk =
        Walk { rules, look, laid: Vec::new(), used: vec![false; rules.len()], names: 0, is_unseen: false };
    let start = (0..rules.len()).map(|rule| (rule, 0)).collect::<Vec<_>>();
    let start = walk.rested(start);
    let root = PathBuf::from("/");
    walk.visit(&root, &start, Above { given: Rights::NONE, granted: Rights::NONE })?;
    let idle = (0..rules.len()).filter(|rule| !walk.used.get(*rule).copied().unwrap_or(true)).collect();
    Ok(Compiled { laid: walk.laid, idle })
}

/// A rule, and how far into its pattern a path has come.
type State = (usize, usize);

/// What holds in the directory above.
#[derive(Clone, Copy)]
struct Above {
    /// By the mount that is there.
    given: Rights,
    /// By the rules.
    granted: Rights,
}

struct Walk<'a> {
    rules: &'a [Rule],
    look: &'a dyn Look,
    laid: Vec<Laid>,
    used: Vec<bool>,
    names: usize,
    /// Whether something that a rule might keep could not be looked at, in the directory that is visited.
    is_unseen: bool,
}

impl Walk<'_> {
    /// Lays the mounts at `path` and below; says whether there are any.
    fn visit(&mut self, path: &Path, states: &[State], above: Above) -> Result<bool, Error> {
        if path.components().count() > DEEPEST {
            return Err(Error::TooDeep { path: path.to_owned(), most: DEEPEST });
        }
        let kind = self.look.kind(path);
        match kind {
            Kind::Absent => return self.absent(path, states, above),
            Kind::Link => return self.link(path, states, above),
            Kind::Unseen => return self.unseen(path, states, above),
            Kind::File | Kind::Directory | Kind::Other => {}
        }
        let ended: Vec<usize> =
            states.iter().filter(|state| self.is_ended(**state)).map(|(r, _)| *r).collect();
        let live: Vec<State> = states.iter().copied().filter(|state| !self.is_ended(*state)).collect();
        if let Some(rule) = self.denying(kind, &ended, &live) {
            return self.deny(path, rule, above, Why::Denied);
        }
        let (rights, rule) = self.rights(path, kind, &ended, states, above)?;
        let freezing =
            if kind == Kind::Directory && rights.can_write() { self.freezing(&live, rights) } else { None };
        let given = if freezing.is_some() { rights.without_write() } else { rights };
        let is_apart = kind == Kind::Directory || rule.is_some();
        let mut is_laid = false;
        if given != above.given && is_apart {
            let (why, rule) = match (freezing, rule) {
                (Some(freezing), _) => (Why::Frozen, Some(freezing)),
                (None, Some(rule)) => (Why::Granted, Some(rule)),
                (None, None) => (Why::Reopened, None),
            };
            self.lay(path, given.access(), why, rule)?;
            is_laid = true;
        }
        self.used_by(rule.into_iter().chain(freezing));
        if kind != Kind::Directory {
            return Ok(is_laid);
        }
        let here = Above { given, granted: rights };
        let Some(is_below) = self.children(path, &live, here, freezing.is_some())? else {
            // Its names cannot be read or looked at, and one of them might be kept.
            let rule = live.iter().map(|(rule, _)| *rule).find(|rule| self.is_less(*rule, rights));
            self.laid.retain(|laid| !laid.mount.target.starts_with(path));
            return match rule {
                Some(rule) => self.deny(path, rule, above, Why::Unreadable),
                None => Ok(is_laid),
            };
        };
        if is_below && !is_laid && above.given.can_write() {
            self.lay(path, Access::Hold, Why::Held, None)?;
            is_laid = true;
        }
        Ok(is_laid || is_below)
    }

    /// What is in a directory; `None` when that has to be known and cannot.
    fn children(
        &mut self,
        path: &Path,
        live: &[State],
        here: Above,
        is_frozen: bool,
    ) -> Result<Option<bool>, Error> {
        // Where nothing is granted only a grant can change something.
        let can_change = |(rule, _): &State| here.granted != Rights::NONE || self.verb(*rule) != Verb::Deny;
        let live = if live.iter().any(can_change) { live } else { &[] };
        let mut names: BTreeSet<OsString> =
            live.iter().filter_map(|state| self.pattern_name(*state)).map(OsStr::to_owned).collect();
        if is_frozen || live.iter().any(|(rule, at)| self.is_wild(*rule, *at)) {
            match self.look.names(path) {
                Ok(found) => {
                    self.names += found.len();
                    if self.names > MOST_NAMES {
                        return Err(Error::TooLarge { most: MOST_NAMES, path: path.to_owned() });
                    }
                    names.extend(found);
                }
                Err(_) if here.granted != Rights::NONE => return Ok(None),
                Err(_) => {}
            }
        }
        let mut is_below = false;
        for name in names {
            let states = live
                .iter()
                .flat_map(|(rule, at)| self.step(*rule, *at, &name).into_iter().map(|at| (*rule, at)))
                .collect();
            let states = self.rested(states);
            if states.is_empty() && here.given == here.granted {
                continue;
            }
            is_below |= self.visit(&path.join(&name), &states, here)?;
            if std::mem::take(&mut self.is_unseen) {
                return Ok(None);
            }
        }
        Ok(Some(is_below))
    }

    /// The rule that denies this path, or all that is in it.
    fn denying(&self, kind: Kind, ended: &[usize], live: &[State]) -> Option<usize> {
        let is_deny = |rule: usize| self.verb(rule) == Verb::Deny;
        let itself = ended.iter().copied().find(|rule| is_deny(*rule));
        let within = || {
            let everything = |(rule, at): &&State| {
                is_deny(*rule) && self.rules.get(*rule).is_some_and(|rule| rule.pattern.is_everything(*at))
            };
            live.iter().find(everything).map(|(rule, _)| *rule)
        };
        itself.or_else(|| (kind == Kind::Directory).then(within).flatten())
    }

    fn deny(&mut self, path: &Path, rule: usize, above: Above, why: Why) -> Result<bool, Error> {
        if above.granted == Rights::NONE {
            return Ok(false);
        }
        self.used_by([rule]);
        self.lay(path, Access::Cover, why, Some(rule))?;
        Ok(true)
    }

    /// What the rules allow here, and the rule that changes it.
    fn rights(
        &mut self,
        path: &Path,
        kind: Kind,
        ended: &[usize],
        states: &[State],
        above: Above,
    ) -> Result<(Rights, Option<usize>), Error> {
        let mut rights = Rights::NONE;
        let mut found = None;
        for rule in ended {
            if kind == Kind::Other {
                if self.is_named(path, states, *rule) {
                    return Err(Error::Special { path: path.to_owned() });
                }
                continue;
            }
            rights = rights.and(Rights::of(self.verb(*rule)));
            found = found.or(Some(*rule));
        }
        let is_root = path.parent().is_none();
        let is_own = OWN.iter().any(|own| path.starts_with(own));
        match found {
            Some(_) if is_root || is_own => Err(Error::Own { path: path.to_owned() }),
            Some(rule) => Ok((rights, Some(rule))),
            None => Ok((above.granted, None)),
        }
    }

    /// The rule that a new name in a directory with these rights could be kept by.
    fn freezing(&self, live: &[State], rights: Rights) -> Option<usize> {
        let keeps = |(rule, at): &&State| self.is_wild(*rule, *at) && self.keeps(*rule, rights);
        live.iter().find(keeps).map(|(rule, _)| *rule)
    }

    /// Whether a rule allows less than that, also for what is not there.
    fn keeps(&self, rule: usize, rights: Rights) -> bool {
        self.is_less(rule, rights) && self.rules.get(rule).is_some_and(|rule| rule.absent == Absent::Covered)
    }

    /// Whether a rule allows less than that.
    fn is_less(&self, rule: usize, rights: Rights) -> bool {
        self.rules.get(rule).is_some_and(|rule| !Rights::of(rule.verb).holds(rights))
    }

    fn absent(&mut self, path: &Path, states: &[State], above: Above) -> Result<bool, Error> {
        let ended = |state: &State| self.is_ended(*state);
        for state in states.iter().filter(|state| ended(state)) {
            let is_grant = self.verb(state.0) != Verb::Deny
                && self.is_named(path, states, state.0)
                && self.rules.get(state.0).is_some_and(|rule| rule.absent == Absent::Covered);
            if is_grant && !above.granted.holds(Rights::of(self.verb(state.0))) {
                return Err(Error::Missing { path: path.to_owned() });
            }
        }
        // No file can have a longer name.
        let is_possible = path.file_name().is_none_or(|name| name.len() <= LONGEST_NAME);
        if !above.given.can_write() || !is_possible {
            return Ok(false);
        }
        let keeping = states.iter().map(|(rule, _)| *rule).find(|rule| self.keeps(*rule, above.granted));
        let Some(rule) = keeping else { return Ok(false) };
        self.used_by([rule]);
        self.lay(path, Access::Cover, Why::Absent, Some(rule))?;
        Ok(true)
    }

    /// Where a rule might keep something of what cannot be looked at, the directory that it is in is covered: its
    /// owner can open it again.
    fn unseen(&mut self, path: &Path, states: &[State], above: Above) -> Result<bool, Error> {
        if states.is_empty() {
            return Ok(false);
        }
        let bytes = path.as_os_str().len();
        if bytes > LONGEST {
            return Err(Error::TooLong { path: path.to_owned(), bytes, most: LONGEST });
        }
        let is_grant = |(rule, at): &&State| {
            self.verb(*rule) != Verb::Deny
                && self.is_ended((*rule, *at))
                && self.is_named(path, states, *rule)
        };
        if states.iter().any(|state| is_grant(&state)) {
            return Err(Error::Unseen { path: path.to_owned() });
        }
        self.is_unseen = states.iter().any(|(rule, _)| self.is_less(*rule, above.granted));
        Ok(false)
    }

    /// Links are followed by no rule. What is named must not be one; what wildcards meet may.
    fn link(&mut self, path: &Path, states: &[State], above: Above) -> Result<bool, Error> {
        for (rule, at) in states {
            let verb = self.verb(*rule);
            let is_left = self.rules.get(*rule).is_some_and(|rule| rule.absent == Absent::Left);
            if is_left || (verb == Verb::Deny && above.granted == Rights::NONE) {
                continue;
            }
            let is_named = self.is_named(path, states, *rule);
            let is_kept = self.is_ended((*rule, *at)) && self.keeps(*rule, above.granted);
            if is_named || (verb == Verb::Deny && is_kept) {
                return Err(Error::Link { path: path.to_owned() });
            }
        }
        Ok(false)
    }

    /// Whether a rule has come to `path` by names alone.
    fn is_named(&self, path: &Path, states: &[State], rule: usize) -> bool {
        let depth = path.components().count().saturating_sub(1);
        let pattern = self.rules.get(rule).map(|rule| &rule.pattern);
        states
            .iter()
            .filter(|(other, _)| *other == rule)
            .any(|(_, at)| pattern.is_some_and(|pattern| pattern.is_certain(*at, depth)))
    }

    fn lay(&mut self, path: &Path, access: Access, why: Why, rule: Option<usize>) -> Result<(), Error> {
        let bytes = path.as_os_str().len();
        if path.to_str().is_none() {
            return Err(Error::NotText { path: path.to_owned() });
        }
        if bytes > LONGEST {
            return Err(Error::TooLong { path: path.to_owned(), bytes, most: LONGEST });
        }
        if self.laid.len() >= MOST_MOUNTS {
            return Err(Error::TooMany { most: MOST_MOUNTS });
        }
        let mount = Mount { source: path.to_owned(), target: path.to_owned(), access };
        self.laid.push(Laid { mount, why, rule });
        Ok(())
    }

    fn used_by(&mut self, rules: impl IntoIterator<Item = usize>) {
        for rule in rules {
            if let Some(used) = self.used.get_mut(rule) {
                *used = true;
            }
        }
    }

    fn verb(&self, rule: usize) -> Verb {
        self.rules.get(rule).map_or(Verb::Deny, |rule| rule.verb)
    }

    fn is_ended(&self, (rule, at): State) -> bool {
        self.rules.get(rule).is_none_or(|rule| rule.pattern.len() == at)
    }

    fn is_wild(&self, rule: usize, at: usize) -> bool {
        self.rules.get(rule).is_some_and(|rule| rule.pattern.is_wild(at))
    }

    fn pattern_name(&self, (rule, at): State) -> Option<&OsStr> {
        self.rules.get(rule)?.pattern.name(at)
    }

    fn step(&self, rule: usize, at: usize, name: &OsStr) -> Vec<usize> {
        self.rules.get(rule).map(|rule| rule.pattern.step(at, name)).unwrap_or_default()
    }

    /// The states with those that are reached without reading a name.
    fn rested(&self, states: Vec<State>) -> Vec<State> {
        let mut all = BTreeSet::new();
        for (rule, at) in states {
            let mut positions = vec![at];
            if let Some(rule) = self.rules.get(rule) {
                rule.pattern.rest(&mut positions);
            }
            all.extend(positions.into_iter().map(|at| (rule, at)));
        }
        all.into_iter().collect()
    }
}
