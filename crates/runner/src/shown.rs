//! What a step sees of its workspace: compiled from rules, with what stays as it is whatever a mission says.

use std::path::Path;

use domain::Effect;
use sandbox::compile::{Absent, Base, Error, Machine, Pattern, Rule, Rules, Verb, compile};
use sandbox::{Error as Jail, Mount};

use crate::config::Config;

/// Names of Regie's own at the top of a workspace: what is there under them is not changed by a step. One that
/// a step makes is caught before a merge, as is all that others may execute or trust.
const KEPT: &str = ".regie*";

/// The mounts that show the workspace at `root`.
///
/// # Errors
/// [`Jail::Plan`] says what of the workspace cannot be shown.
pub(crate) fn workspace(config: &Config, effect: Effect, root: &Path) -> Result<Vec<Mount>, Jail> {
    // The home may be reached by links of its owner; below it nobody but Regie makes any.
    let place = config.workspace.canonicalize().unwrap_or_else(|_| config.workspace.clone());
    let compiled = rules(&place, effect).and_then(|rules| compile(&rules, &Machine));
    compiled
        .map(|compiled| compiled.mounts_at(&place, root))
        .map_err(|error| Jail::Plan { reason: error.to_string() })
}

fn rules(place: &Path, effect: Effect) -> Result<Rules, Error> {
    let whole = Pattern::literal(place)?;
    let verb = if effect == Effect::Read { Verb::Read } else { Verb::Write };
    let base = Base { workspace: place.to_owned(), home: None };
    let kept = Pattern::glob(KEPT, &base)?;
    let left = |verb| Rule { absent: Absent::Left, ..Rule::new(verb, kept.clone(), "Regie's own") };
    let paths = vec![
        Rule::new(verb, whole.clone(), "the workspace"),
        Rule::new(Verb::Exec, whole, "the workspace"),
        left(Verb::Read),
        left(Verb::Exec),
    ];
    Ok(Rules { paths, system: Vec::new(), cwd: Some(place.to_owned()) })
}
