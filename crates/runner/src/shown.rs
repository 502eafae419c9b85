//! What a step sees of its workspace: compiled from rules, with what stays as it is whatever a mission says.

use std::io;
use std::path::Path;

use domain::{Effect, Grants};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use sandbox::compile::{Absent, Base, Error, Machine, Pattern, Rule, Rules, Verb, compile};
use sandbox::{Error as Jail, Mount};

use crate::config::Config;
use crate::plan::Program;

/// Names of Regie's own at the top of a workspace: what is there under them is not changed by a step. One that
/// a step makes is caught before a merge, as is all that others may execute or trust.
const KEPT: &str = ".regie*";

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
    let compiled = rules(&place, effect, grants).and_then(|rules| compile(&rules, &Machine));
    let compiled = compiled.map_err(|error| Jail::Plan { reason: error.to_string() })?;
    if compiled.laid.is_empty() {
        let reason = "the lease of this run shows nothing of the workspace: nothing that it names is there";
        return Err(Jail::Plan { reason: reason.into() });
    }
    Ok(compiled.mounts_at(&place, root))
}

/// Whether steps see all of the workspace.
pub(crate) fn is_whole(config: &Config) -> bool {
    config.paths.reads_everything()
}

fn rules(place: &Path, effect: Effect, grants: &Grants) -> Result<Rules, Error> {
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
    for pattern in grants.readable() {
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
