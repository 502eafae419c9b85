//! What a step sees of its workspace: compiled from rules, with what stays as it is whatever a mission says.

use std::io;
use std::path::Path;

use domain::{Effect, Grants};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use sandbox::compile::{Absent, Base, Compiled, Error, Look, Machine, Pattern, Rule, Rules, Verb, compile};
use sandbox::{Access, Error as Jail, Mount};

use crate::config::Config;
use crate::plan::Program;

/// Names of Regie's own at the top of a workspace: what is there under them is not changed by a step. One that
/// a step makes is caught before a merge, as is all that others may execute or trust.
const KEPT: &str = ".regie*";
/// What they begin with.
const OWN: &str = ".regie";

/// The mounts that show the workspace at `root`: to a step what its lease is about, to the setup all of it, as
/// the owner approves that command by itself.
///
/// # Errors
/// [`Jail::Plan`] says what of the workspace cannot be shown.
pub(crate) fn workspace(
    config: &Config,
    effect: Effect,
    program: Program<'_>,
    root: &Path,
) -> Result<Vec<Mount>, Jail> {
    let whole = Grants::default();
    let grants = if matches!(program, Program::Setup(_)) { &whole } else { &config.paths };
    // The home may be reached by links of its owner; below it nobody but Regie makes any.
    let place = config.workspace.canonicalize().unwrap_or_else(|_| config.workspace.clone());
    if effect != Effect::Read {
        make_ready(&place, grants);
    }
    let compiled = compiled(&place, effect, grants, &Machine)
        .map_err(|error| Jail::Plan { reason: error.to_string() })?;
    if compiled.laid.is_empty() {
        let reason = "the lease of this run shows nothing of the workspace: nothing that it names is there";
        return Err(Jail::Plan { reason: reason.into() });
    }
    Ok(compiled.mounts_at(&place, root))
}

fn compiled(place: &Path, effect: Effect, grants: &Grants, look: &dyn Look) -> Result<Compiled, Error> {
    let mut compiled = compile(&rules(place, effect, grants)?, look)?;
    // What wildcards of a lease mean of Regie's own is no more writable than without a lease.
    for laid in &mut compiled.laid {
        let below = laid.mount.target.strip_prefix(place).ok().and_then(|below| below.iter().next());
        if below.is_some_and(|top| top.as_encoded_bytes().starts_with(OWN.as_bytes())) {
            laid.mount.access = match laid.mount.access {
                Access::Write => Access::Read,
                Access::WriteNoExec => Access::ReadNoExec,
                other => other,
            };
        }
    }
    Ok(compiled)
}

/// Whether steps see all of the workspace.
pub(crate) fn is_whole(config: &Config) -> bool {
    config.paths.reads_everything()
}

fn rules(place: &Path, effect: Effect, grants: &Grants) -> Result<Rules, Error> {
    // Beside everything nothing else needs to be said.
    let all = Grants::default();
    let grants = if grants.is_everything() { &all } else { grants };
    let base = Base { workspace: place.to_owned(), home: None };
    let (whole, kept) = (Pattern::literal(place)?, Pattern::glob(KEPT, &base)?);
    // What a lease names and is not there can be made where its directory is writable, and nowhere else.
    let left = |verb, pattern: &Pattern, origin: &str| Rule {
        absent: Absent::Left,
        ..Rule::new(verb, pattern.clone(), origin)
    };
    let mut paths = Vec::new();
    let mut grant = |verb, pattern: &domain::Pattern| -> Result<(), Error> {
        paths.extend(match pattern.top() {
            "" => [verb, Verb::Exec].map(|verb| Rule::new(verb, whole.clone(), "the workspace")),
            top => {
                let pattern = Pattern::glob(top, &base)?;
                [verb, Verb::Exec].map(|verb| left(verb, &pattern, "the lease"))
            }
        });
        Ok(())
    };
    // A rule within another one is what counts there: one that only reads must not take away what may be written.
    // Where that cannot be told from the patterns, it does: the jail holds less then, never more.
    let is_written = |own: &&domain::Pattern| grants.write.iter().any(|write| write.holds(own));
    let everything = [domain::Pattern::everything()];
    let read = if grants.reads_everything() { &everything[..] } else { &grants.read };
    for pattern in read.iter().filter(|own| !is_written(own)).chain(&grants.write) {
        grant(Verb::Read, pattern)?;
    }
    if effect != Effect::Read {
        for pattern in &grants.write {
            grant(Verb::Write, pattern)?;
        }
    }
    // Where nothing above is shown these would grant, not keep.
    if grants.reads_everything() {
        paths.extend([left(Verb::Read, &kept, "Regie's own"), left(Verb::Exec, &kept, "Regie's own")]);
    }
    let cwd = grants.reads_everything().then(|| place.to_owned());
    Ok(Rules { paths, system: Vec::new(), cwd })
}

/// Makes the directories that a lease names as writable and that are not there: a jail cannot open what does
/// not exist, and the directory above may be read-only. One that cannot be made is not writable; no link is
/// followed, as an agent may have made it.
fn make_ready(place: &Path, grants: &Grants) {
    for directory in grants.write.iter().filter_map(domain::Pattern::named_directory) {
        if let Err(error) = make(place, directory) {
            tracing::debug!(directory, %error, "a directory of a lease is not there");
        }
    }
}

fn make(place: &Path, directory: &str) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut at = openat(CWD, place, flags, Mode::empty())?;
    for name in directory.split('/') {
        match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        at = openat(&at, name, flags, Mode::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use proptest::prelude::*;
    use sandbox::compile::{Kind, Rights};

    use super::*;

    const DIRECTORIES: [&str; 8] = [".regie", "a", "a/b", "a/b/a", "b", "b/ab", "ab", "ab/b"];
    const FILES: [&str; 8] = [".regie/c", "c", "a/c", "a/b/c", "a/b/a/ab", "b/c", "b/ab/b", "ab/b/c"];

    /// Those, below `/w`.
    struct Tree;

    impl Look for Tree {
        fn kind(&self, path: &Path) -> Kind {
            let Ok(path) = path.strip_prefix("/w") else { return Kind::Directory };
            let is = |known: &&&str| Path::new(known) == path;
            match path.as_os_str().is_empty() || DIRECTORIES.iter().any(|one| is(&one)) {
                true => Kind::Directory,
                false if FILES.iter().any(|one| is(&one)) => Kind::File,
                false => Kind::Absent,
            }
        }

        fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
            let path = path.strip_prefix("/w").map_err(io::Error::other)?;
            let all = DIRECTORIES.iter().chain(&FILES).map(Path::new);
            Ok(all
                .filter(|one| one.parent() == Some(path))
                .filter_map(Path::file_name)
                .map(Into::into)
                .collect())
        }
    }

    /// What a jail lets be done with a path: by the nearest mount that says something of it.
    fn rights(compiled: &Compiled, path: &Path) -> Rights {
        let above = compiled.laid.iter().rev().filter(|laid| path.starts_with(&laid.mount.target));
        above.filter_map(|laid| Rights::of_access(laid.mount.access)).next().unwrap_or(Rights::NONE)
    }

    fn patterns() -> impl Strategy<Value = Vec<domain::Pattern>> {
        let name = prop::sample::select(vec!["a", "b", "c", "ab", "*", "?", "a*", "*b", "**"]);
        let pattern = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/").parse().unwrap());
        prop::collection::vec(pattern, 0..3)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]
        #[test]
        fn a_jail_shows_what_the_lease_says_and_lets_nothing_more_be_written(
            read in patterns(),
            write in patterns(),
        ) {
            let grants = Grants { read, write };
            for effect in [Effect::Read, Effect::WorkspaceWrite] {
                let compiled = compiled(Path::new("/w"), effect, &grants, &Tree).unwrap();
                for path in DIRECTORIES.iter().chain(&FILES) {
                    let rights = rights(&compiled, &Path::new("/w").join(path));
                    let may_write =
                        effect != Effect::Read && grants.may_write(path) && !path.starts_with(OWN);
                    prop_assert!(!rights.can_write() || may_write, "{} {:?}", path, grants);
                    if grants.reads_everything() {
                        prop_assert_eq!(rights.can_write(), may_write, "{} {:?}", path, grants);
                    }
                    let can_read = rights.holds(Rights::of(Verb::Read));
                    prop_assert_eq!(can_read, grants.may_read(path), "{} {:?}", path, grants);
                }
            }
        }
    }
}
