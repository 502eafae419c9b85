//! Path rules: whatever they and the files are, a jail gets no more than each rule on its own says.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use sandbox::compile::{Absent, Base, Compiled, Kind, Look, Pattern, Rights, Rule, Rules, Verb, compile};

/// A line each: `f`, `d`, `l` or `u` and a path is what there is; `-`, `r`, `w` or `x` and a pattern is a rule, and
/// in capitals one that leaves what is not there.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let base = Base { workspace: "/w".into(), home: Some("/h".into()) };
    let (mut tree, mut paths) = (Tree::default(), Vec::new());
    for line in text.lines().take(40) {
        let Some((first, rest)) = line.split_at_checked(1) else { continue };
        match first {
            "f" => tree.put(rest, Kind::File),
            "d" => tree.put(rest, Kind::Directory),
            "l" => tree.put(rest, Kind::Link),
            "u" => tree.put(rest, Kind::Unseen),
            _ => {
                let verb = match first.to_ascii_lowercase().as_str() {
                    "-" => Verb::Deny,
                    "r" => Verb::Read,
                    "w" => Verb::Write,
                    "x" => Verb::Exec,
                    _ => continue,
                };
                let Ok(pattern) = Pattern::glob(rest, &base) else { continue };
                let is_left = first.chars().all(char::is_uppercase);
                let absent = if is_left { Absent::Left } else { Absent::Covered };
                paths.push(Rule { absent, ..Rule::new(verb, pattern, line) });
            }
        }
    }
    let rules = Rules { paths, system: Vec::new(), cwd: None };
    let Ok(compiled) = compile(&rules, &tree) else { return };
    for (path, kind) in &tree.0 {
        let (has, may) = (given(&compiled, path), allowed(&rules, path));
        if *kind == Kind::Link {
            // What a link leads to has rights; the link itself is there, or denied.
            assert!(!is_denied(&rules, path) || has == Rights::NONE, "{path:?}: {has:?} of a denied link");
        } else if *kind == Kind::Unseen {
            // It may be a directory, and hold anything.
            for path in [path.clone(), path.join("secret"), path.join("b/x.key")] {
                let (has, may) = (given(&compiled, &path), allowed(&rules, &path));
                assert!(may.holds(has), "{path:?}: {has:?} of {may:?}");
            }
        } else {
            assert!(may.holds(has), "{path:?}: {has:?} of {may:?}");
        }
    }
}

/// Whether a link, or a directory above it, is denied by a rule that is not only about what is there.
fn is_denied(rules: &Rules, path: &Path) -> bool {
    let denies = |above: &Path| {
        let of_all = |rule: &&Rule| rule.absent == Absent::Covered || above != path;
        rules.paths.iter().filter(of_all).any(|rule| rule.verb == Verb::Deny && rule.pattern.is_match(above))
    };
    path.ancestors().any(denies)
}

fn allowed(rules: &Rules, path: &Path) -> Rights {
    let mut nearest = None;
    for above in path.ancestors() {
        let here = rules.paths.iter().filter(|rule| rule.pattern.is_match(above)).map(|rule| rule.verb);
        let here: Vec<Verb> = here.collect();
        if here.contains(&Verb::Deny) {
            return Rights::NONE;
        }
        nearest = nearest.or(here.into_iter().map(Rights::of).reduce(Rights::and));
    }
    nearest.unwrap_or(Rights::NONE)
}

fn given(compiled: &Compiled, path: &Path) -> Rights {
    let over = compiled.laid.iter().map(|laid| &laid.mount).filter(|mount| path.starts_with(&mount.target));
    let nearest = over
        .filter_map(|mount| Some((mount.target.components().count(), Rights::of_access(mount.access)?)))
        .max_by_key(|(depth, _)| *depth);
    nearest.map_or(Rights::NONE, |(_, rights)| rights)
}

#[derive(Default)]
struct Tree(BTreeMap<PathBuf, Kind>);

impl Tree {
    fn put(&mut self, path: &str, kind: Kind) {
        let Ok(path) = Pattern::literal(Path::new(path)).map(|_| PathBuf::from(path)) else { return };
        let path: PathBuf = path.components().collect();
        let is_below = |above: &Path| self.kind(above) != Kind::Absent && self.kind(above) != Kind::Directory;
        if path.ancestors().skip(1).any(is_below) || self.0.contains_key(&path) {
            return;
        }
        for above in path.ancestors().skip(1) {
            self.0.insert(above.to_owned(), Kind::Directory);
        }
        self.0.insert(path, kind);
    }
}

impl Look for Tree {
    fn kind(&self, path: &Path) -> Kind {
        self.0.get(path).copied().unwrap_or(Kind::Absent)
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let names = self.0.keys().filter(|other| other.parent() == Some(path));
        Ok(names.filter_map(|other| other.file_name()).map(OsStr::to_owned).collect())
    }
}
