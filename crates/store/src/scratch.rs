//! The git dir that an agent works with: made beside the workspace, shown as its `.git` in jails only.
//!
//! What git does in a jail is the agent's own: the host writes this directory once, before any agent has
//! seen it, and never reads it, nor runs a git on it. What the host has to say later it says in `given`,
//! which jails see read-only: the history as packs, and where the branch stands. So whatever an agent leaves
//! here (configuration, hooks, links) is obeyed inside jails and nowhere else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::attributes;
use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::{Git, to_path};
use crate::id::{Commit, Treeish as _};
use crate::made::remove_all;
use crate::owner::Owner;
use crate::tree::Tree;
use crate::view::{PACKS, SHALLOW, Wanted, bring_packs, lines};
use crate::workspace::{Workspace, beside, remove_if_there};

/// Where jails see what the host gives, as the runner mounts it.
const GIVEN: &str = "/.regie/git";
/// The user and the group of every process in a jail, as git notes them of files.
const USER: u32 = 1000;
/// More tags are not taken over.
const MOST_TAGS: usize = 10_000;

const CONFIG: &str = "\
[core]
\trepositoryFormatVersion = 0
\tfileMode = true
\tbare = false
\tlogAllRefUpdates = true
";

/// What holds for every git in a jail. Nobody is there to write into an editor.
const SYSTEM: &str = "\
[user]
\tname = Regie agent
\temail = agent@localhost
[core]
\teditor = true
\tpager = cat
[init]
\tdefaultBranch = main
[protocol \"file\"]
\tallow = always
[safe]
\tdirectory = *
[gc]
\tauto = 0
[maintenance]
\tauto = false
";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// The one of the workspace in `dir`, if it was made.
    pub fn open(dir: &Path) -> Option<Self> {
        let dir = beside(dir, ".scratch");
        dir.is_dir().then_some(Self { dir })
    }

    /// The git dir. Jails write to it, and nothing in it may be trusted or followed.
    pub fn git_dir(&self) -> PathBuf {
        self.dir.join("git")
    }

    /// What jails see at `/.regie/git` and cannot change: `objects`, `head`, `gitconfig`.
    pub fn given(&self) -> PathBuf {
        self.dir.join("given")
    }

    /// Whether its history is cut, as in a shallow clone.
    pub fn is_shallow(&self) -> bool {
        self.given().join(SHALLOW).exists()
    }

    /// Where the runner notes which `head` the git dir knows of.
    pub fn told(&self) -> PathBuf {
        self.dir.join("told")
    }

    /// Lets jails see that the branch has taken in what others merged: its new head, with all that it
    /// reaches. Repeating it is harmless.
    ///
    /// # Errors
    /// When git or the file system fails; jails go on with what they saw before.
    pub fn follow(&self, tree: &Tree, head: &Commit) -> Result<(), Error> {
        const DOING: &str = "show the agent what was merged";
        let given = self.given();
        let at = given.join("head");
        let known = lines(&at).doing_at(DOING, &at)?;
        let known: Option<Commit> = known.first().and_then(|line| line.parse().ok());
        if known.as_ref() == Some(head) {
            return Ok(());
        }
        let shallow = lines(&given.join(SHALLOW)).doing_at(DOING, &given)?;
        tree.pack(&Wanted { tip: head, known: known.as_ref(), shallow: &shallow }, &given.join(PACKS))?;
        let fresh = given.join("head.new");
        fs::write(&fresh, format!("{head}\n")).doing_at(DOING, &fresh)?;
        fs::rename(&fresh, &at).doing_at(DOING, &at)
    }
}

impl Workspace {
    /// Makes the git dir that jails show as `.git` of this workspace: its history is that of `base`, its
    /// branch is named as this workspace's, beside `line`, and its index knows the files as they are. One
    /// that is there stays as it is.
    ///
    /// # Errors
    /// When git or the file system fails; the workspace is whole without it.
    pub fn scratch(&self, owner: &Owner, line: &str, base: &Commit) -> Result<Scratch, Error> {
        const DOING: &str = "make the agent's git directory";
        // What jails mount it on. It stays empty outside.
        let place = self.dir().join(".git");
        match fs::create_dir(&place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).doing_at(DOING, &place);
            }
            _ => {}
        }
        if let Some(scratch) = Scratch::open(self.dir()) {
            return Ok(scratch);
        }
        let fresh = Scratch { dir: beside(self.dir(), ".scratch.new") };
        remove_all(&fresh.dir).doing_at("remove a left-over", &fresh.dir)?;
        let (git, given) = (fresh.git_dir(), fresh.given());
        for dir in [git.join("objects/info"), git.join("objects/pack"), git.join("refs"), given.join(PACKS)] {
            fs::create_dir_all(&dir).doing_at(DOING, &dir)?;
        }
        let view = self.tree().view(base)?;
        bring_packs(&view.join(PACKS), &given.join(PACKS)).doing_at(DOING, &given)?;
        // An owner's repository that cannot be asked is no reason to work without history.
        let tags = self.tags(owner, base, &given.join(PACKS)).unwrap_or_default();
        let write = |path: PathBuf, content: &[u8]| fs::write(&path, content).doing_at(DOING, &path);
        let shallow = view.join(SHALLOW);
        if shallow.exists() {
            for to in [&git, &given] {
                let to = to.join(SHALLOW);
                fs::copy(&shallow, &to).doing_at(DOING, &to)?;
            }
        }
        write(given.join("gitconfig"), SYSTEM.as_bytes())?;
        write(given.join("head"), format!("{base}\n").as_bytes())?;
        write(fresh.told(), format!("{base}\n").as_bytes())?;
        write(git.join("HEAD"), format!("ref: refs/heads/{}\n", self.branch()).as_bytes())?;
        write(git.join("config"), CONFIG.as_bytes())?;
        write(git.join("objects/info/alternates"), format!("{GIVEN}/objects\n").as_bytes())?;
        write(git.join("packed-refs"), &self.refs(line, base, tags)?)?;
        attributes::ignore_in_tree(&git).doing_at(DOING, &git)?;
        self.index_of_agent(base, &git.join("index"))?;
        let scratch = Scratch { dir: beside(self.dir(), ".scratch") };
        fs::rename(&fresh.dir, &scratch.dir).doing_at(DOING, &scratch.dir)?;
        Ok(scratch)
    }

    /// The branches and tags that the agent begins with.
    fn refs(&self, line: &str, base: &Commit, mut tags: Vec<String>) -> Result<Vec<u8>, Error> {
        let mut refs = vec![format!("refs/heads/{} {base}", self.branch())];
        // A branch cannot be named as the directory of another one.
        if !self.branch().starts_with(&format!("{line}/")) {
            let at = match self.tree().line_head(line)? {
                Some(head) if self.tree().is_ancestor(&head, base)? => head,
                _ => base.clone(),
            };
            refs.push(format!("refs/heads/{line} {at}"));
        }
        refs.append(&mut tags);
        refs.sort();
        let mut text = String::from("# pack-refs with: peeled fully-peeled sorted \n");
        for line in refs {
            let mut words = line.split(' ');
            let (name, object) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            text.push_str(&format!("{object} {name}\n"));
            if let Some(peeled) = words.next() {
                text.push_str(&format!("^{peeled}\n"));
            }
        }
        Ok(text.into_bytes())
    }

    /// The owner's tags in the history of `base`, as name, object and commit; what they say is packed into
    /// `packs`.
    fn tags(&self, owner: &Owner, base: &Commit, packs: &Path) -> Result<Vec<String>, Error> {
        const DOING: &str = "read the owner's tags";
        let from = &owner.place.common_dir;
        let list = |merged: &Commit| {
            Git::at(from, "for-each-ref")
                .args(["--merged", merged.hex()])
                .arg(format!("--count={MOST_TAGS}"))
                .args(["--format=%(refname) %(objectname) %(*objectname) %(objecttype) %(*objecttype)"])
                .args(["refs/tags"])
                .run()
        };
        let out = match list(base) {
            Ok(out) => out,
            // What only Regie has is not known there.
            Err(_) if self.tree().is_ancestor(&owner.head, base)? => list(&owner.head).doing(DOING)?,
            Err(_) => return Ok(Vec::new()),
        };
        let (mut tags, mut objects) = (Vec::new(), String::new());
        for line in String::from_utf8_lossy(&out).lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                [name, commit, "", "commit", ..] => tags.push(format!("{name} {commit}")),
                [name, object, commit, "tag", "commit"] => {
                    tags.push(format!("{name} {object} {commit}"));
                    objects.push_str(&format!("{object}\n"));
                }
                _ => {}
            }
        }
        if objects.is_empty() {
            return Ok(tags);
        }
        let store = from.join("objects");
        // It would be taken for several places.
        if store.to_string_lossy().contains([':', '"']) {
            return Ok(Vec::new());
        }
        let git = Git::at(self.tree().git_dir(), "pack-objects");
        let git = git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &store).stdin(objects.into_bytes());
        self.tree().pack_with(git, packs)?;
        Ok(tags)
    }

    /// Writes an index with the tree of `base` that knows the files as a jail sees them, so that the first
    /// `git status` need not read each of them.
    fn index_of_agent(&self, base: &Commit, to: &Path) -> Result<(), Error> {
        const DOING: &str = "make the agent's index";
        let held = self.held()?;
        let mut index = fs::read(held.index_path()).doing_at(DOING, held.index_path())?;
        let wanted = self.tree().tree_of(base)?;
        // Mostly it was written for just that tree, and says so.
        if tree_of(&index).as_deref() != Some(wanted.hex()) {
            fs::write(to, &index).doing_at(DOING, to)?;
            held.git("read-tree").index(to).args(["--reset", base.hex()]).run().doing(DOING)?;
            let lock = to_path(&[to.as_os_str().as_encoded_bytes(), b".lock"].concat());
            remove_if_there(&lock)?;
            index = fs::read(to).doing_at(DOING, to)?;
        }
        // One of another form tells git less of the files, which looks at each of them then.
        let _ = give(&mut index, USER);
        fs::write(to, index).doing_at(DOING, to)
    }
}

/// Makes `user` the owner of every file that an index notes. `None`: its form is another one, and it is as it
/// was, or is of no use.
fn give(index: &mut [u8], user: u32) -> Option<()> {
    for at in entries(index)?.0 {
        index.get_mut(at + 28..at + 32)?.copy_from_slice(&user.to_be_bytes());
        index.get_mut(at + 32..at + 36)?.copy_from_slice(&user.to_be_bytes());
    }
    // No checksum: git takes that for one that was not computed.
    let end = index.len().checked_sub(HASH)?;
    index.get_mut(end..)?.fill(0);
    Some(())
}

/// The tree that an index holds, where it says that nothing of it has changed since it had that tree.
fn tree_of(index: &[u8]) -> Option<String> {
    let (_, mut at) = entries(index)?;
    let end = index.len().checked_sub(HASH)?;
    while at < end {
        let length = usize::try_from(number(index, at + 4)?).ok()?;
        let content = index.get(at + 8..(at + 8).checked_add(length)?)?;
        match index.get(at..at + 4)? {
            // The root comes first, and has no name: how many files, how many trees, and its own name.
            b"TREE" => {
                let (head, rest) = content.strip_prefix(b"\0").map(|root| {
                    root.split_at(root.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1))
                })?;
                if head.is_empty() || head.starts_with(b"-") {
                    return None;
                }
                return Some(rest.get(..HASH)?.iter().map(|byte| format!("{byte:02x}")).collect());
            }
            // Its files are elsewhere.
            b"link" => return None,
            _ => {}
        }
        at += 8 + length;
    }
    None
}

/// The length of a hash in an index, in bytes.
const HASH: usize = 20;

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Where each entry of an index begins, and where the last one ends.
fn entries(index: &[u8]) -> Option<(Vec<usize>, usize)> {
    /// The length of what stands before the flags of an entry: what was seen of the file, and its object.
    const BEFORE: usize = 60;
    if index.get(..4)? != b"DIRC" || !matches!(number(index, 4)?, 2 | 3) {
        return None;
    }
    let (mut found, mut at) = (Vec::new(), 12_usize);
    for _ in 0..number(index, 8)? {
        let flags = *index.get(at + BEFORE)?;
        let name = at + BEFORE + if flags & 0x40 != 0 { 4 } else { 2 };
        let length = index.get(name..)?.iter().position(|byte| *byte == 0)?;
        found.push(at);
        // At least one NUL, and as many more as make a multiple of eight.
        at += (name - at + length + 8) & !7;
    }
    Some((found, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_of_another_form_is_left_alone() {
        for bytes in
            [&b""[..], b"DIRC", b"DIRC\0\0\0\x04\0\0\0\0", b"none of it", b"DIRC\0\0\0\x02\xff\xff\xff\xff"]
        {
            let mut index = bytes.to_vec();
            assert_eq!(give(&mut index, 1), None);
            assert_eq!(index, bytes);
            assert_eq!(tree_of(bytes), None);
        }
    }

    /// An empty index with these extensions.
    fn index(extensions: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut index = b"DIRC\0\0\0\x02\0\0\0\0".to_vec();
        for (name, content) in extensions {
            index.extend_from_slice(name);
            index.extend_from_slice(&(content.len() as u32).to_be_bytes());
            index.extend_from_slice(content);
        }
        index.extend_from_slice(&[7; HASH]);
        index
    }

    #[test]
    fn an_index_names_its_tree_only_while_it_is_that_tree() {
        let whole = [&b"\x000 0\n"[..], &[0xab; HASH]].concat();
        assert_eq!(tree_of(&index(&[(b"EOIE", b"what"), (b"TREE", &whole)])), Some("ab".repeat(HASH)));
        assert_eq!(tree_of(&index(&[])), None);
        assert_eq!(tree_of(&index(&[(b"link", b"what"), (b"TREE", &whole)])), None);
        for other in [&b"\x00-1 0\n"[..], b"\x000 0\n", b"\x000 0", b"", &whole[1..]] {
            assert_eq!(tree_of(&index(&[(b"TREE", other)])), None, "{other:?}");
        }
        let cut = index(&[(b"TREE", &whole)]);
        assert_eq!(tree_of(&cut[..cut.len() - HASH - 1]), None);
    }
}
