//! What an agent may see of a project's history: packs that hold what one commit reaches, and nothing else.
//!
//! A store holds more than any run may know: other runs' branches and snapshots, and, by hard links, whatever
//! the owner's repository has. So an agent is never shown the store, but packs made for it. They are kept
//! by commit in `views` of the git dir and handed to runs by hard links: a view may go at any time.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::Git;
use crate::hold::Hold;
use crate::id::{Commit, Treeish as _};
use crate::made::remove_all;
use crate::tree::Tree;

/// Of a longer history the newest commits are seen, as in a shallow clone.
const MOST_COMMITS: usize = 10_000;
/// The same where the packs of the store hold more than [`LARGE`].
const MOST_COMMITS_OF_MUCH: usize = 200;
/// In bytes.
const LARGE: u64 = 1 << 30;
/// A view made from another one has its packs and one more; with so many it is made from nothing again.
const MOST_PACKS: usize = 12;
/// How many views of a project are kept.
const KEPT: usize = 4;

/// Where a view has its packs.
pub(crate) const PACKS: &str = "objects/pack";
/// The commits whose parents are not in a view; absent when all are.
pub(crate) const SHALLOW: &str = "shallow";

/// What is packed: everything that `tip` reaches, without what `known` does.
pub(crate) struct Wanted<'a> {
    pub(crate) tip: &'a Commit,
    pub(crate) known: Option<&'a Commit>,
    /// Commits that are taken to have no parents.
    pub(crate) shallow: &'a [String],
}

impl Tree {
    /// Makes ahead what [`crate::Workspace::scratch`] shows of the history of `tip`. What goes wrong goes wrong
    /// there again, and is told there.
    pub fn view_prepare(&self, tip: &Commit) {
        let _ = self.view(tip);
    }

    /// The directory with what `tip` reaches, made when it is not there.
    pub(crate) fn view(&self, tip: &Commit) -> Result<PathBuf, Error> {
        const DOING: &str = "make what the agent sees of the history";
        let views = self.git_dir().join("views");
        fs::create_dir_all(&views).doing_at(DOING, &views)?;
        let lock = views.join("lock");
        let _hold = Hold::take(&lock).doing_at(DOING, &lock)?;
        let at = views.join(tip.hex());
        if at.is_dir() {
            return Ok(at);
        }
        let fresh = views.join("new");
        remove_all(&fresh).doing_at("remove a left-over", &fresh)?;
        let packs = fresh.join(PACKS);
        fs::create_dir_all(&packs).doing_at(DOING, &packs)?;
        let before = self.view_before(&views, tip)?;
        let shallow = match &before {
            Some((_, view)) => {
                bring_packs(&view.join(PACKS), &packs).doing_at(DOING, &packs)?;
                lines(&view.join(SHALLOW)).doing_at(DOING, view)?
            }
            None => self.boundary(tip)?,
        };
        let known = before.as_ref().map(|(commit, _)| commit);
        self.pack(&Wanted { tip, known, shallow: &shallow }, &packs)?;
        if !shallow.is_empty() {
            let file = fresh.join(SHALLOW);
            fs::write(&file, shallow.join("\n") + "\n").doing_at(DOING, &file)?;
        }
        fs::rename(&fresh, &at).doing_at(DOING, &at)?;
        for (_, old) in known_views(&views).doing_at(DOING, &views)?.into_iter().skip(KEPT) {
            remove_all(&old).doing_at("remove an old view", &old)?;
        }
        Ok(at)
    }

    /// A view of an ancestor of `tip`, which spares most of the work.
    fn view_before(&self, views: &Path, tip: &Commit) -> Result<Option<(Commit, PathBuf)>, Error> {
        for (commit, view) in known_views(views).doing_at("look for views", views)? {
            let packs = fs::read_dir(view.join(PACKS)).into_iter().flatten().flatten();
            let packs = packs.filter(|entry| entry.path().extension().is_some_and(|is| is == "pack")).count();
            // One whose commit is not in the store any more is of no use.
            if packs < MOST_PACKS && self.is_known(&commit)? && self.is_ancestor(&commit, tip)? {
                return Ok(Some((commit, view)));
            }
        }
        Ok(None)
    }

    /// Packs what is wanted into the directory `to`; nothing, when nothing is new.
    pub(crate) fn pack(&self, wanted: &Wanted<'_>, to: &Path) -> Result<(), Error> {
        let mut input = String::new();
        for commit in wanted.shallow {
            input.push_str(&format!("--shallow {commit}\n"));
        }
        input.push_str(&format!("{}\n", wanted.tip));
        if let Some(known) = wanted.known {
            input.push_str(&format!("^{known}\n"));
        }
        let git = Git::at(self.git_dir(), "pack-objects").args(["--revs"]);
        self.pack_with(git.stdin(input.into_bytes()), to)
    }

    /// Runs a prepared `git pack-objects`. Deltas are taken over and not looked for: it is to be fast.
    pub(crate) fn pack_with(&self, git: Git, to: &Path) -> Result<(), Error> {
        const DOING: &str = "pack what the agent sees of the history";
        let stage = tempfile::Builder::new().prefix("pack-").tempdir_in(self.git_dir());
        let stage = stage.doing_at(DOING, self.git_dir())?;
        git.args(["-q", "--non-empty", "--delta-base-offset", "--window=0"])
            .arg(stage.path().join("pack"))
            .run()
            .doing(DOING)?;
        bring_packs(stage.path(), to).doing_at(DOING, to)
    }

    /// The commits at which the history is cut so that it is not too long.
    fn boundary(&self, tip: &Commit) -> Result<Vec<String>, Error> {
        let most = match self.pack_bytes() > LARGE {
            true => MOST_COMMITS_OF_MUCH,
            false => MOST_COMMITS,
        };
        let out = Git::at(self.git_dir(), "rev-list")
            .args(["--parents", &format!("--max-count={most}"), tip.hex()])
            .run()
            .doing("count the commits")?;
        let out = String::from_utf8_lossy(&out);
        let commits = out.lines().filter_map(|line| line.split(' ').next());
        let seen: HashSet<&str> = commits.collect();
        let is_cut = |line: &&str| line.split(' ').any(|commit| !seen.contains(commit));
        let mut shallow: Vec<String> =
            out.lines().filter(is_cut).filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
        // The store itself may be cut, where the owner's repository is.
        let own = self.git_dir().join("shallow");
        let own = lines(&own).doing_at("read where the history ends", &own)?;
        shallow.extend(own.into_iter().filter(|commit| seen.contains(commit.as_str())));
        Ok(shallow)
    }

    fn pack_bytes(&self) -> u64 {
        let packs = fs::read_dir(self.git_dir().join("objects/pack")).into_iter().flatten().flatten();
        packs.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
    }
}

/// The views that are there, the newest first.
fn known_views(views: &Path) -> io::Result<Vec<(Commit, PathBuf)>> {
    let mut found: Vec<(SystemTime, Commit, PathBuf)> = Vec::new();
    for entry in fs::read_dir(views)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(commit) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        found.push((entry.metadata()?.modified()?, commit, entry.path()));
    }
    found.sort_by_key(|(modified, ..)| std::cmp::Reverse(*modified));
    Ok(found.into_iter().map(|(_, commit, path)| (commit, path)).collect())
}

/// Gives every pack of `from` one more name in `to`, or a copy; the index of a pack comes after it.
pub(crate) fn bring_packs(from: &Path, to: &Path) -> io::Result<()> {
    let mut files = fs::read_dir(from)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort_by_key(|file| file.extension().is_some_and(|is| is == "idx"));
    for file in files {
        let target = to.join(file.file_name().unwrap_or_default());
        if target.symlink_metadata().is_ok() {
            continue;
        }
        if fs::hard_link(&file, &target).is_err() {
            let mut draft = tempfile::NamedTempFile::new_in(to)?;
            io::copy(&mut File::open(&file)?, &mut draft)?;
            draft.flush()?;
            draft.persist(&target).map_err(|error| error.error)?;
        }
    }
    Ok(())
}

/// The lines of a small file; none when it is not there.
pub(crate) fn lines(path: &Path) -> io::Result<Vec<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
