//! What a delivery does as the owner: a signed merge where the owner's commits are signed, and the
//! owner's hook afterwards. The only place where a git reads the owner's whole configuration.
//!
//! Nothing in the tree is ever executed: a hook counts only where it lies outside of it, and signing
//! starts what the owner's configuration names. Both work in the git dir of the user who runs Regie, or
//! not at all, as git itself would have it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::Git;
use crate::id::{Commit, TreeId, Treeish as _};
use crate::message::KEY_TRAILER;
use crate::owner::Place;

/// How long signing may take: no person is asked, so an agent answers at once or never.
const SIGN_WITHIN: Duration = Duration::from_secs(20);
/// How long a hook may take.
const HOOK_WITHIN: Duration = Duration::from_secs(120);
/// The hook that git runs after a merge.
const HOOK: &str = "post-merge";
/// Says, in the owner's git dir, that the hook is still to run for this head of the branch.
const PENDING: &str = "regie.post-merge";
/// The trailer of a merge made for the owner: what it brings.
const DELIVERS: &str = "Regie-Delivers";

/// What a delivery may do in the owner's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manners {
    /// Sign as the owner's configuration of git asks for.
    pub sign: bool,
    /// Run the owner's `post-merge` hook, where it lies outside the tree.
    pub hooks: bool,
}

impl Manners {
    /// Neither.
    pub const NONE: Self = Self { sign: false, hooks: false };
}

/// Whether the owner's commits are to be signed.
pub(crate) fn wants_signature(place: &Place) -> Result<bool, Error> {
    let value = Git::at(&place.git_dir, "config")
        .with_owner_settings()
        .owner_config_only()
        .args(["--type=bool", "--get", "commit.gpgSign"])
        .outcome()
        .doing("read your settings")?;
    Ok(value.stdout.starts_with(b"true"))
}

/// A merge of `to` into `from` as the owner would make it: in the owner's name, signed when `sign` says
/// so. Its tree is that of `to`. The words say why there is none.
pub(crate) fn merge_as_owner(
    place: &Place,
    from: &Commit,
    to: &Commit,
    tree: &TreeId,
    sign: bool,
) -> Result<Commit, String> {
    own(place)?;
    let said = |error: crate::git::Error| in_words(&error);
    let words = Git::at(&place.git_dir, "log").args(["-1", "--format=%B", to.hex()]).run().map_err(said)?;
    let mut text: String = String::from_utf8_lossy(&words)
        .trim_end()
        .lines()
        .filter(|line| !line.starts_with(KEY_TRAILER))
        .map(|line| format!("{line}\n"))
        .collect();
    if !text.lines().last().is_some_and(|line| line.starts_with("Regie-")) {
        text.push('\n');
    }
    text.push_str(&format!("{DELIVERS}: {to}\n"));
    let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    fs::write(file.path(), text).map_err(|error| error.to_string())?;
    let mut git = Git::at(&place.git_dir, "commit-tree").work_tree(&place.root);
    if sign {
        git = git.arg("-S");
    }
    let git = git.args(["-p", from.hex(), "-p", to.hex(), "-F"]).arg(file.path()).arg(tree.to_string());
    let ended = git.run_as_owner(SIGN_WITHIN).map_err(said)?;
    let Some(ended) = ended else {
        return Err(format!("no answer within {} s", SIGN_WITHIN.as_secs()));
    };
    if ended.code != 0 {
        return Err(in_words(&ended.failure("commit-tree")));
    }
    String::from_utf8_lossy(&ended.stdout).trim().parse().map_err(|_| "git named no commit".to_owned())
}

/// The head that the owner's branch stands for: a merge which changes nothing that its second parent does
/// not have stands for that one, whoever made it.
pub(crate) fn stands_for(place: &Place, head: &Commit) -> Result<Commit, Error> {
    let ask = |what: String| {
        let git = Git::at(&place.git_dir, "rev-parse").args(["-q", "--verify", "--end-of-options"]);
        git.arg(what).outcome().doing("look at your branch")
    };
    let line = |outcome: &crate::git::Outcome| {
        String::from_utf8_lossy(&outcome.stdout).lines().last().unwrap_or_default().to_owned()
    };
    let (second, third) = (ask(format!("{head}^2"))?, ask(format!("{head}^3"))?);
    let Ok(brought) = line(&second).parse::<Commit>() else { return Ok(head.clone()) };
    if second.code != 0 || third.code == 0 {
        return Ok(head.clone());
    }
    let (ours, theirs) = (ask(format!("{head}^{{tree}}"))?, ask(format!("{brought}^{{tree}}"))?);
    Ok(if line(&ours) == line(&theirs) { brought } else { head.clone() })
}

/// The owner's hook after a merge.
pub(crate) enum Hook {
    /// There is none.
    None,
    /// It lies in the tree, where an agent may have written it.
    InTree(PathBuf),
    /// It lies outside.
    Outside,
}

/// Looks for the hook without running anything.
pub(crate) fn hook(place: &Place) -> Result<Hook, Error> {
    let dir = Git::at(&place.git_dir, "rev-parse")
        .work_tree(&place.root)
        .with_owner_settings()
        .owner_config_only()
        .args(["--path-format=absolute", "--git-path", "hooks"])
        .path()
        .doing("look for your hooks")?;
    let named = dir.join(HOOK);
    let Ok(real) = fs::canonicalize(&named) else { return Ok(Hook::None) };
    let is_program =
        fs::metadata(&real).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if !is_program {
        return Ok(Hook::None);
    }
    let below = |path: &Path, top: &Path| fs::canonicalize(top).is_ok_and(|top| path.starts_with(top));
    let in_git_dir = below(&real, &place.git_dir) || below(&real, &place.common_dir);
    let in_tree = below(&real, &place.root) && !in_git_dir;
    Ok(if in_tree { Hook::InTree(named) } else { Hook::Outside })
}

/// The folder of the owner's tree that its git takes hooks from (`core.hooksPath`), where it is one.
pub(crate) fn hooks_in_tree(place: &Place) -> Option<PathBuf> {
    let dir = Git::at(&place.git_dir, "rev-parse")
        .work_tree(&place.root)
        .with_owner_settings()
        .owner_config_only()
        .args(["--path-format=absolute", "--git-path", "hooks"])
        .path()
        .ok()?;
    // Of a folder that is not there yet, the name as it is configured.
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (dir, root) = (real(&dir), real(&place.root));
    let is_own = dir.starts_with(real(&place.git_dir)) || dir.starts_with(real(&place.common_dir));
    dir.strip_prefix(&root).ok().filter(|_| !is_own).map(Path::to_owned)
}

/// Notes that the hook is due for the head `tip`, before the branch moves there: a crash in between must
/// not swallow it.
pub(crate) fn hook_due(place: &Place, tip: &Commit) -> Result<(), Error> {
    let path = place.git_dir.join(PENDING);
    fs::write(&path, format!("{tip}\n")).doing_at("note that your hook is due", &path)
}

/// Runs the hook if it is due for the head `head`, and gives what the owner should know. It is run once,
/// and again only when a crash came before its end was noted.
pub(crate) fn hook_run(place: &Place, head: &Commit) -> Option<String> {
    let path = place.git_dir.join(PENDING);
    let due = fs::read_to_string(&path).is_ok_and(|text| text.trim() == head.hex());
    if !due {
        return None;
    }
    let note = match own(place) {
        Ok(()) => run(place, head),
        Err(why) => Some(format!("your {HOOK} hook was not run: {why}")),
    };
    let _ = fs::remove_file(&path);
    note
}

fn run(place: &Place, head: &Commit) -> Option<String> {
    let git = Git::in_dir(&place.root, "hook").args(["run", "--ignore-missing", HOOK, "--", "0"]);
    let why = match git.run_as_owner(HOOK_WITHIN) {
        Ok(Some(ended)) if ended.code == 0 => return None,
        Ok(Some(ended)) => in_words(&ended.failure("hook")),
        Ok(None) => format!("it was ended after {} s", HOOK_WITHIN.as_secs()),
        Err(error) => in_words(&error),
    };
    let short: String = head.hex().chars().take(12).collect();
    Some(format!(
        "your {HOOK} hook failed: {why}; your branch is at {short} all the same: mend what the hook was to do, or \
         repeat it with `git hook run {HOOK} -- 0`"
    ))
}

/// Programs that a git dir names are started only when it is this user's own: git's rule.
fn own(place: &Place) -> Result<(), String> {
    let user = rustix::process::geteuid().as_raw();
    match place.git_dir.symlink_metadata() {
        Ok(meta) if meta.uid() == user => Ok(()),
        Ok(_) => Err(format!("{} belongs to another user", place.git_dir.display())),
        Err(error) => Err(format!("{}: {error}", place.git_dir.display())),
    }
}

/// An error and its cause in one line.
fn in_words(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error} ({cause})"),
        None => error.to_string(),
    }
}
