//! What a run starts from: the owner's HEAD, or the working tree as it is; and what comes beside it.

use domain::Timestamp;
use store::{Commit, Included, Owner, Signature, Submodules, Tree, Workspace};

use crate::error::Error;
use crate::view;

/// How many files a warning names.
const NAMED: usize = 5;
/// How many paths of uncommitted changes are put on record.
const RECORDED: usize = 500;

/// Where a run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// At the commit that is checked out.
    Head,
    /// At the files as they are.
    WorkingTree,
}

/// The beginning of a run.
pub(crate) struct Begin {
    /// The commit that it starts from.
    pub(crate) base: Commit,
    /// The owner's uncommitted changes in it.
    pub(crate) uncommitted: Vec<String>,
    /// What the owner should know.
    pub(crate) warnings: Vec<String>,
}

/// Imports what the run starts from.
pub(crate) fn begin(tree: &Tree, owner: &Owner, from: From, now: Timestamp) -> Result<Begin, Error> {
    let known = tree.line_head(&owner.branch)?;
    let mut begun = imported(tree, owner, from, now)?;
    if let Some(known) = known
        && known != begun.base
        && !tree.is_ancestor(&known, &begun.base)?
    {
        begun.warnings.insert(
            0,
            format!(
                "another repository is at {} than the one that Regie knew there: its line of {} begins anew, and \
                 what was merged before is kept as {} in {}",
                owner.root.display(),
                owner.branch,
                store::former_ref(&owner.branch, &known),
                tree.git_dir().display()
            ),
        );
    }
    Ok(begun)
}

fn imported(tree: &Tree, owner: &Owner, from: From, now: Timestamp) -> Result<Begin, Error> {
    if from == From::Head {
        let base = tree.import(owner)?;
        return Ok(Begin { base, uncommitted: Vec::new(), warnings: left_out(owner).into_iter().collect() });
    }
    let signature = Signature {
        name: crate::missions::OWNER.into(),
        email: "owner@regie.invalid".into(),
        seconds: i64::try_from(now.0 / 1000).unwrap_or(i64::MAX),
    };
    let taken = tree.import_uncommitted(owner, &signature)?;
    let shown = |paths: &[std::path::PathBuf]| -> Vec<String> {
        paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
    };
    let mut warnings = Vec::new();
    if !taken.paths.is_empty() {
        warnings.push(format!(
            "the run starts from your working tree; its uncommitted changes will be part of the merge: {}",
            some(&shown(&taken.paths))
        ));
    }
    if !taken.left.is_empty() {
        warnings.push(format!("no commit can hold, and so are left out: {}", some(&shown(&taken.left))));
    }
    let mut uncommitted = shown(&taken.paths);
    let more = uncommitted.len().saturating_sub(RECORDED);
    if more > 0 {
        uncommitted.truncate(RECORDED);
        uncommitted.push(format!("… and {more} more"));
    }
    Ok(Begin { base: taken.base, uncommitted, warnings })
}

fn left_out(owner: &Owner) -> Option<String> {
    let files: Vec<_> =
        owner.dirty.iter().chain(&owner.untracked).map(|path| path.display().to_string()).collect();
    if files.is_empty() {
        return None;
    }
    Some(format!(
        "the run starts from HEAD of {}; uncommitted changes are left out (--dirty takes them along): {}",
        owner.branch,
        some(&files)
    ))
}

/// What `.worktreeinclude` names and the workspace does not have.
pub(crate) fn not_included(included: &Included) -> Option<String> {
    let (first, why) = included.left.first()?;
    let more = included.left.len().saturating_sub(1);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    Some(format!(
        "{} names files that were not copied: {} ({why}){more}",
        store::INCLUDE_FILE,
        first.display()
    ))
}

/// What the owner should know of the submodules.
pub(crate) fn submodules(found: &Submodules) -> Vec<String> {
    let mut warnings = Vec::new();
    if !found.filled.is_empty() {
        let paths: Vec<_> = found.filled.iter().map(|path| path.display().to_string()).collect();
        warnings.push(format!(
            "submodules are there as they are recorded; changes in them are not part of a proposal: {}",
            some(&paths)
        ));
    }
    if !found.left.is_empty() {
        let reasons: Vec<_> =
            found.left.iter().map(|(path, why)| format!("{} ({why})", path.display())).collect();
        warnings.push(format!("submodules are empty in the workspace: {}", some(&reasons)));
    }
    warnings
}

/// Makes the git dir that the agent sees, and gives what the owner should know of it. A run goes on without.
pub(crate) fn scratch(workspace: &Workspace, owner: &Owner, line: &str, base: &Commit) -> Vec<String> {
    match workspace.scratch(owner, line, base) {
        Ok(scratch) if scratch.is_shallow() => {
            vec!["the history is long: the agent's git sees the newest part of it only".into()]
        }
        Ok(_) => Vec::new(),
        Err(error) => vec![format!("git does not work for the agent: {}", view::with_causes(&error))],
    }
}

/// The copied files that hold values of the owner's environment.
pub(crate) fn withheld(included: &Included) -> Vec<String> {
    let is_environment = |path: &&std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".env"))
    };
    included.copied.iter().filter(is_environment).map(|path| path.to_string_lossy().into_owned()).collect()
}

fn some(files: &[String]) -> String {
    let named: Vec<_> = files.iter().take(NAMED).map(String::as_str).collect();
    let more = files.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
