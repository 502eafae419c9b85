//! Delivery: the owner's branch is fast-forwarded when nothing of the owner's can be lost or
//! altered, and otherwise left alone. This is the only place that writes to the owner's repository.
//!
//! The order makes every interruption repeatable: objects, lock, files, index, branch, unlock. A
//! repetition finds each path in its old or its new state and completes the rest.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::attributes::{self, ALTERING, Alteration};
use crate::checkout::{Changes, IndexLock, Standing, keep_owner, obstacle, replace};
use crate::error::{Doing as _, DoingAt as _, Error, list};
use crate::git::{Git, join_nul, to_path};
use crate::hold::Hold;
use crate::id::{Commit, Treeish as _};
use crate::lens::Lens;
use crate::manners::{self, Hook, Manners};
use crate::owner::{self, Place};
use crate::tree::{Tree, are_related, is_ancestor, line_ref};

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The owner's branch, index and files moved.
    FastForwarded {
        /// Where the branch stood.
        from: Commit,
        /// Where it stands: at the commit, or at a merge of it that was made for the owner.
        to: Commit,
        /// What the owner should know of the hook that follows a merge.
        note: Option<String>,
    },
    /// The owner's branch contains the commit.
    AlreadyThere,
    /// The owner's repository was left as it is.
    Left {
        /// Why.
        reason: String,
        /// What the owner can type there to take the commit.
        command: String,
    },
}

/// Why a delivery stops: it must not, or it cannot.
enum Stop {
    Leave(String, Way),
    Failed(Error),
}

/// How the owner takes the commit over by hand.
#[derive(Clone, Copy)]
enum Way {
    /// Into the repository.
    Fetch,
    /// By a merge of the owner's own, which git signs.
    Merge,
    /// Into a new clone: the repository is not there, or is another one.
    Clone,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Tree {
    /// Fast-forwards the branch `branch` of the owner's repository at `repo` to `commit`, files and
    /// index included, if that is safe; with what `manners` allows in the owner's name. Repeating it, after a
    /// crash too, is harmless; the hook alone may then run twice.
    ///
    /// # Errors
    /// Failures of git and of the file system. That the owner's repository does not allow it is no
    /// error but [`Delivery::Left`].
    pub fn deliver(
        &self,
        repo: &Path,
        branch: &str,
        commit: &Commit,
        manners: Manners,
    ) -> Result<Delivery, Error> {
        let hold = self.lock()?;
        let delivered = self.try_deliver(&hold, repo, branch, commit, manners);
        // The hook may start another git, or be slow: nobody else waits for it.
        drop(hold);
        let (delivery, place, head) = match delivered {
            Ok(delivered) => delivered,
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Leave(reason, way)) => {
                let command = match way {
                    Way::Fetch => self.fetch_command(branch),
                    Way::Merge => self.fetch_command(branch).replace("git merge ", "git merge --no-ff "),
                    Way::Clone => self.clone_command(branch, repo),
                };
                return Ok(Delivery::Left { reason, command });
            }
        };
        let ran = if manners.hooks { manners::hook_run(&place, &head) } else { None };
        Ok(match delivery {
            Delivery::FastForwarded { from, to, note } => {
                Delivery::FastForwarded { from, to, note: ran.or(note) }
            }
            other => other,
        })
    }

    /// What the owner types to get Regie's line of the branch `branch` as a repository of its own, beside
    /// what may stand at `repo`.
    pub fn clone_command(&self, branch: &str, repo: &Path) -> String {
        let mut to = repo.as_os_str().to_owned();
        if repo.symlink_metadata().is_ok() {
            to.push("-from-regie");
        }
        let line = line_ref(branch);
        let line = line.strip_prefix("refs/heads/").unwrap_or(&line).to_owned();
        let dir = self.git_dir().to_string_lossy();
        format!(
            "git clone -b {} {} {}",
            shell_quoted(&line),
            shell_quoted(&dir),
            shell_quoted(&to.to_string_lossy())
        )
    }

    /// What the owner types to merge Regie's line of the branch `branch` by hand.
    pub fn fetch_command(&self, branch: &str) -> String {
        let dir = self.git_dir().to_string_lossy();
        let (dir, line) = (shell_quoted(&dir), shell_quoted(&line_ref(branch)));
        format!("git fetch {dir} {line} && git merge FETCH_HEAD")
    }

    /// What the owner types to have the branch `name` of a run in a repository, under the same name.
    pub fn branch_command(&self, name: &str) -> String {
        let dir = self.git_dir().to_string_lossy();
        let refs = shell_quoted(&format!("refs/heads/{name}:refs/heads/{name}"));
        format!("git fetch {} {refs} && git switch {}", shell_quoted(&dir), shell_quoted(name))
    }

    /// Gives the delivery, where the owner's repository lies, and the head of the branch afterwards.
    fn try_deliver(
        &self,
        hold: &Hold,
        repo: &Path,
        branch: &str,
        commit: &Commit,
        manners: Manners,
    ) -> Result<(Delivery, Place, Commit), Stop> {
        let place = Place::find(repo).map_err(owner_stop)?;
        let lock = IndexLock::take(&place.git_dir).doing_at("lock your index", &place.git_dir)?;
        let Some(mut lock) = lock else {
            return leave("another git is at work there (or was killed: remove .git/index.lock)");
        };
        let mut owner = owner::inspect_place(&place).map_err(owner_stop)?;
        if owner.branch != branch {
            return leave(format!("the checkout is on `{}`, not on `{branch}`", owner.branch));
        }
        if let Some((from, to)) = lock.interrupted.clone()
            && from == owner.head
            && to != *commit
            && self.is_ancestor(&to, commit)?
        {
            // An earlier delivery was interrupted: it comes first.
            let standing =
                if self.is_known(&from)? { from.clone() } else { manners::stands_for(&place, &from)? };
            self.fast_forward(hold, &place, &owner.dirty, &mut lock, [&from, &standing, &to], manners)?;
            owner = owner::inspect_place(&place).map_err(owner_stop)?;
        }
        let lens = Lens::new(&place, &owner.head, Some(self.git_dir()))
            .doing_at("look at your repository", &place.root)?;
        if is_ancestor(lens.git("merge-base"), commit, &owner.head)? {
            return Ok((Delivery::AlreadyThere, place, owner.head));
        }
        let standing = match is_ancestor(lens.git("merge-base"), &owner.head, commit)? {
            true => owner.head.clone(),
            false => manners::stands_for(&place, &owner.head)?,
        };
        if !is_ancestor(lens.git("merge-base"), &standing, commit)? {
            if !are_related(lens.git("merge-base"), &owner.head, commit)? {
                let reason = format!("another repository is at {} now", place.root.display());
                return Err(Stop::Leave(reason, Way::Clone));
            }
            return leave(format!("`{branch}` has commits that are not in Regie's line"));
        }
        let from = owner.head;
        let (to, note) =
            self.fast_forward(hold, &place, &owner.dirty, &mut lock, [&from, &standing, commit], manners)?;
        Ok((Delivery::FastForwarded { from, to: to.clone(), note }, place, to))
    }

    fn fast_forward(
        &self,
        hold: &Hold,
        place: &Place,
        dirty: &[PathBuf],
        lock: &mut IndexLock,
        [from, standing, to]: [&Commit; 3],
        manners: Manners,
    ) -> Result<(Commit, Option<String>), Stop> {
        let raw = Git::at(self.git_dir(), "diff-tree")
            .args(["-r", "-z", "--raw", "--no-renames", "--full-index", "--no-abbrev"])
            .args([standing.hex(), to.hex()])
            .run()
            .doing("compare with your branch")?;
        let changes = Changes::parse(&raw).doing("compare with your branch")?;
        let lens = Lens::new(place, from, Some(self.git_dir()))
            .doing_at("look at your repository", &place.root)?
            .under(hold);
        let step = Step { hold, place, lens, changes, from, to };
        step.refuse_settings()?;
        step.refuse_dirty(dirty)?;
        lock.note(from, to).doing_at("lock your index", &place.git_dir)?;
        step.send_objects()?;
        let tip = self.tip(&step, standing, manners)?;
        let note = hook_note(place, manners)?;
        let scratch = Scratch::new(place)?;
        step.build_index(&scratch)?;
        let standing = step.standing(&scratch)?;
        if let Some(reason) = obstacle(&place.root, &step.changes, &standing) {
            return leave(reason);
        }
        step.stage(&scratch)?;
        replace(&place.root, &scratch.stage, &step.changes)?;
        step.swap_index(&scratch)?;
        if manners.hooks && matches!(manners::hook(place)?, Hook::Outside) {
            manners::hook_due(place, &tip)?;
        }
        step.move_branch(&tip)?;
        Ok((tip, note))
    }

    /// Where the owner's branch will stand: at the commit, or at a merge of it in the owner's name, when the
    /// owner's commits are signed, or the branch stands at such a merge already.
    fn tip(&self, step: &Step<'_>, standing: &Commit, manners: Manners) -> Result<Commit, Stop> {
        let Step { place, from, to, .. } = step;
        let sign = manners.sign && manners::wants_signature(place)?;
        if !sign && standing == *from {
            return Ok((*to).clone());
        }
        let tree = self.tree_of(to)?;
        manners::merge_as_owner(place, from, to, &tree, sign).map_err(|why| {
            let reason = match sign {
                true => format!("your commits are to be signed, and signing did not work here: {why}"),
                false => format!("a merge in your name could not be made: {why}"),
            };
            Stop::Leave(reason, Way::Merge)
        })
    }
}

/// What the owner should know of a hook that is there and does not run.
fn hook_note(place: &Place, manners: Manners) -> Result<Option<String>, Error> {
    Ok(match (manners::hook(place)?, manners.hooks) {
        (Hook::InTree(path), true) => Some(format!(
            "your hook {} was not run: it lies in the tree, where an agent could have written it",
            path.display()
        )),
        (Hook::Outside, false) => Some(
            "your post-merge hook was not run: `[delivery] hooks = true` in config.toml allows it".into(),
        ),
        _ => None,
    })
}

/// One fast-forward, from the checks to the move of the branch.
struct Step<'a> {
    hold: &'a Hold,
    place: &'a Place,
    lens: Lens,
    changes: Changes,
    from: &'a Commit,
    to: &'a Commit,
}

impl Step<'_> {
    /// Leaves repositories alone in which the bytes on disk are not those of the blobs.
    fn refuse_settings(&self) -> Result<(), Stop> {
        if self.changes.touch_submodules() {
            return leave("a submodule changes");
        }
        let shared = fs::read_dir(&self.place.git_dir)
            .doing_at("look at your repository", &self.place.git_dir)?
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("sharedindex."));
        if shared {
            return leave("the repository uses a split index");
        }
        for (key, refused) in [
            ("core.autocrlf", &["true", "yes", "on", "1"][..]),
            ("core.eol", &["crlf"]),
            ("core.sparseCheckout", &["true", "yes", "on", "1"]),
        ] {
            let value = self.lens.owner_git("config").args(["--get", key]).outcome();
            let value = value.doing("read your settings")?;
            let value = String::from_utf8_lossy(&value.stdout).trim().to_lowercase();
            if refused.contains(&value.as_str()) {
                return leave(format!("the setting {key} is `{value}`"));
            }
        }
        for commit in [self.from, self.to] {
            self.refuse_attributes(commit)?;
        }
        Ok(())
    }

    fn refuse_attributes(&self, commit: &Commit) -> Result<(), Stop> {
        let out = self
            .lens
            .owner_git("check-attr")
            .args(["-z", "--stdin"])
            .arg(format!("--source={commit}"))
            .args(ALTERING)
            .stdin(join_nul(self.changes.paths()))
            .run()
            .doing("read your attributes")?;
        let fields: Vec<&[u8]> = out.split(|b| *b == 0).collect();
        for entry in fields.chunks_exact(3) {
            let [path, name, value] = entry else { continue };
            let is_altered = match Alteration::of(name, value) {
                Alteration::None => false,
                Alteration::LineFeeds => self.has_crlf(&to_path(path))?,
                Alteration::Other => true,
            };
            if is_altered {
                let name = String::from_utf8_lossy(name);
                return leave(format!("the attribute `{name}` applies to {:?}", to_path(path)));
            }
        }
        Ok(())
    }

    /// Whether a changed file has lines that end in `\r\n`, before or afterwards.
    fn has_crlf(&self, path: &Path) -> Result<bool, Error> {
        let sides = self.changes.0.get(path).into_iter().flat_map(|change| [&change.old, &change.new]);
        for side in sides.flatten() {
            let object = side.split(' ').nth(1).unwrap_or_default();
            let content = self.lens.git("cat-file").args(["blob", object]).run();
            if attributes::has_crlf(&content.doing("look at the line ends of a file")?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Changes of the owner's are not overwritten, nor are they mixed with a delivery.
    fn refuse_dirty(&self, dirty: &[PathBuf]) -> Result<(), Stop> {
        let foreign = dirty.iter().filter(|path| !self.changes.0.contains_key(*path));
        let foreign: Vec<PathBuf> = foreign.cloned().collect();
        match foreign.is_empty() {
            true => Ok(()),
            false => leave(format!("there are uncommitted changes: {}", list(&foreign))),
        }
    }

    /// Writes a pack of what the owner does not have into the owner's store of objects.
    fn send_objects(&self) -> Result<(), Error> {
        const DOING: &str = "copy the objects into your repository";
        let pack = self.lens.objects().join("pack");
        fs::create_dir_all(&pack).doing_at(DOING, &pack)?;
        let input = format!("{}\n^{}\n", self.to, self.from);
        let git = self.lens.git("pack-objects").args(["-q", "--revs", "--delta-base-offset"]);
        git.arg(pack.join("pack")).stdin(input.into_bytes()).run().map(|_| ()).doing(DOING)?;
        Git::at(&self.place.git_dir, "cat-file").args(["-e", self.to.hex()]).run().map(|_| ()).doing(DOING)
    }

    /// The owner's index with the new entries; those of other files keep what is known of them.
    fn build_index(&self, scratch: &Scratch) -> Result<(), Error> {
        const DOING: &str = "prepare your index";
        let index = self.place.index();
        match fs::copy(&index, &scratch.index) {
            Ok(_) => {
                // git compares times of files with that of the index: a copy must not look newer.
                let copy = fs::OpenOptions::new().write(true).open(&scratch.index);
                let time = fs::metadata(&index).and_then(|meta| meta.modified());
                let set = copy.and_then(|copy| copy.set_modified(time?));
                set.doing_at(DOING, &scratch.index)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).doing_at(DOING, &index),
        }
        let git = self.lens.git("update-index").index(&scratch.index);
        let git = git.args(["-z", "--index-info"]).stdin(self.changes.index_info());
        git.run().map(|_| ()).doing(DOING)
    }

    fn standing(&self, scratch: &Scratch) -> Result<Standing, Error> {
        const DOING: &str = "look at your checkout";
        let staged = |commit: &Commit| -> Result<BTreeSet<PathBuf>, Error> {
            let git = self.lens.git("diff-index").args(["--cached", "-z", "--name-only"]);
            let paths = git.args(["--no-renames", commit.hex()]).paths().doing(DOING)?;
            Ok(paths.into_iter().collect())
        };
        let files = |index: &Path| -> Result<BTreeSet<PathBuf>, Error> {
            let git = self.lens.git("diff").index(index).args(["-z", "--name-only"]);
            let git = git.args(["--no-renames", "--no-ext-diff", "--no-textconv"]);
            Ok(git.args(["--ignore-submodules=all"]).paths().doing(DOING)?.into_iter().collect())
        };
        let index_not_old = staged(self.from)?;
        let index_not_new = staged(self.to)?;
        Ok(Standing {
            index_foreign: index_not_old.intersection(&index_not_new).cloned().collect(),
            index_not_old,
            file_not_index: files(&self.place.index())?,
            file_not_new: files(&scratch.index)?,
        })
    }

    /// Writes the new files beside the checkout, so that each can be renamed into place.
    fn stage(&self, scratch: &Scratch) -> Result<(), Error> {
        let input = join_nul(self.changes.written());
        if input.is_empty() {
            return Ok(());
        }
        let git = self.lens.git("checkout-index").index(&scratch.index).work_tree(&scratch.stage);
        let git = git.args(["-z", "-q", "-f", "--stdin"]).stdin(input);
        git.run().map(|_| ()).doing("prepare the new files")
    }

    fn swap_index(&self, scratch: &Scratch) -> Result<(), Error> {
        const DOING: &str = "update your index";
        // Refreshing ends with 1 when a file needs an update: the owner has just changed it.
        let git = self.lens.git("update-index").index(&scratch.index);
        git.args(["-q", "--refresh"]).outcome().doing(DOING)?;
        let index = self.place.index();
        keep_owner(&self.place.root, &scratch.index);
        fs::rename(&scratch.index, &index).doing_at(DOING, &index)
    }

    fn move_branch(&self, tip: &Commit) -> Result<(), Error> {
        Git::at(&self.place.git_dir, "update-ref")
            .under(self.hold)
            .env("GIT_COMMITTER_NAME", "Regie")
            .env("GIT_COMMITTER_EMAIL", "regie@localhost")
            .args(["-m", "regie: fast-forward", "HEAD", tip.hex(), self.from.hex()])
            .run()
            .map(|_| ())
            .doing("move your branch")
    }
}

/// Files of a delivery under way, in the owner's git dir so that they can be renamed into place.
/// Whoever holds the index lock owns them, so what an interrupted delivery left is removed.
struct Scratch {
    index: PathBuf,
    stage: PathBuf,
}

impl Scratch {
    fn new(place: &Place) -> Result<Self, Error> {
        let scratch =
            Self { index: place.git_dir.join("regie.index"), stage: place.git_dir.join("regie.stage") };
        scratch.clear();
        fs::create_dir(&scratch.stage).doing_at("prepare the new files", &scratch.stage)?;
        Ok(scratch)
    }

    fn clear(&self) {
        let _ = fs::remove_file(&self.index);
        let _ = fs::remove_file(self.index.with_extension("index.lock"));
        let _ = fs::remove_dir_all(&self.stage);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.clear();
    }
}

fn leave<T>(reason: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Leave(reason.into(), Way::Fetch))
}

/// A state of the owner's repository is a reason to leave it alone; a failure stays one.
fn owner_stop(error: owner::Error) -> Stop {
    match error {
        error @ (owner::Error::Git { .. } | owner::Error::Io { .. }) => Stop::Failed(Error::Owner(error)),
        owner::Error::NotFound { path } => {
            Stop::Leave(format!("your repository is not at {} any more", path.display()), Way::Clone)
        }
        owner::Error::NoRepository { path } => {
            Stop::Leave(format!("{} is no git repository any more", path.display()), Way::Clone)
        }
        state => Stop::Leave(state.to_string(), Way::Fetch),
    }
}

fn shell_quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
