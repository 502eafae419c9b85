//! What differs between two trees, with its content: read from the objects themselves, never from a
//! checkout, and past every filter, attribute and driver of a diff. For those who judge what a proposal
//! would bring; what it means is theirs to say.

use crate::error::{Doing as _, Error};
use crate::git::{self, Git, split_nul};
use crate::id::Treeish;
use crate::tree::Tree;

/// The longest content that is read, in bytes.
const WHOLE: u64 = 4 << 20;
/// What is read at once, in bytes, and at most one change more.
const AT_ONCE: u64 = 32 << 20;
/// Objects that are asked for at once.
const OBJECTS: usize = 4_096;
/// What is read in all, in bytes: the rest counts as unread.
const IN_ALL: u64 = 1 << 30;
/// The id that stands for nothing.
const NOTHING: &[u8] = b"0000000000";
/// The mode of a submodule's commit.
const SUBMODULE: u32 = 0o160_000;

/// One side of an alteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The mode, as 0o100644.
    pub mode: u32,
    /// The object's id, in hexadecimal.
    pub id: String,
    /// What is in it.
    pub content: Content,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// All of it, or the target of a link.
    Whole(Vec<u8>),
    /// It is larger than 4 MiB, or one of more than 1 GiB in all, or not there.
    Unread,
    /// The commit of a submodule: its content is in another repository.
    Elsewhere,
}

/// One path that differs. A rename is a path that is gone and one that is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alteration {
    /// The path; names are bytes.
    pub path: Vec<u8>,
    /// What was there.
    pub before: Option<Entry>,
    /// What is there.
    pub after: Option<Entry>,
}

impl Alteration {
    fn sides(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.before.iter_mut().chain(&mut self.after)
    }

    /// The objects to be read.
    fn objects(&self) -> impl Iterator<Item = &str> {
        let sides = self.before.iter().chain(&self.after);
        sides.filter(|side| side.content == Content::Unread).map(|side| side.id.as_str())
    }
}

impl Tree {
    /// Gives each path that differs between two trees to `see`, in the order of the names and in bounded
    /// memory.
    ///
    /// # Errors
    /// [`Error::Git`] when one of the trees is not in this tree's store.
    pub fn alterations(
        &self,
        from: &impl Treeish,
        to: &impl Treeish,
        mut see: impl FnMut(&Alteration),
    ) -> Result<(), Error> {
        const DOING: &str = "compare two trees";
        let out = Git::at(self.git_dir(), "diff-tree")
            .args(["-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none"])
            .args(["--no-ext-diff", "--no-textconv", from.hex(), to.hex()])
            .run()
            .doing(DOING)?;
        let all = parse(&out).ok_or_else(|| git::unreadable("diff-tree")).doing(DOING)?;
        let mut reading = Reading { tree: self, left: IN_ALL };
        let mut all = all.into_iter();
        loop {
            let several: Vec<_> = all.by_ref().take(OBJECTS / 2).collect();
            if several.is_empty() {
                break;
            }
            reading.read(several, &mut see)?;
        }
        Ok(())
    }

    /// Gives the name of each file of a tree to `see`.
    ///
    /// # Errors
    /// [`Error::Git`] when the tree is not in this tree's store.
    pub fn each_name(&self, of: &impl Treeish, see: impl FnMut(&[u8])) -> Result<(), Error> {
        let out = Git::at(self.git_dir(), "ls-tree")
            .args(["-r", "-z", "--name-only", "--full-tree", of.hex()])
            .run()
            .doing("list the files of a tree")?;
        split_nul(&out).for_each(see);
        Ok(())
    }

    /// Whether a tree has a file of this name.
    ///
    /// # Errors
    /// [`Error::Git`] when the tree is not in this tree's store.
    pub fn has_file(&self, of: &impl Treeish, path: &std::path::Path) -> Result<bool, Error> {
        let out = Git::at(self.git_dir(), "ls-tree")
            .args(["-r", "-z", "--name-only", "--full-tree", of.hex(), "--"])
            .arg(path)
            .run()
            .doing("look for a file in a tree")?;
        Ok(split_nul(&out).any(|name| name == path.as_os_str().as_encoded_bytes()))
    }

    /// The size of each object; `None` where it is not there.
    fn sizes(&self, ids: &[String]) -> Result<Vec<Option<u64>>, Error> {
        const DOING: &str = "measure what was changed";
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let out = Git::at(self.git_dir(), "cat-file")
            .args(["--batch-check=%(objecttype) %(objectsize)"])
            .stdin(lines(ids.iter().map(String::as_str)))
            .run()
            .doing(DOING)?;
        let sizes: Vec<Option<u64>> = out
            .split(|byte| *byte == b'\n')
            .take(ids.len())
            .map(|line| std::str::from_utf8(line.strip_prefix(b"blob ")?).ok()?.parse().ok())
            .collect();
        match sizes.len() == ids.len() {
            true => Ok(sizes),
            false => Err(git::unreadable("cat-file")).doing(DOING),
        }
    }

    /// The contents of objects that are there.
    fn contents(&self, ids: &[&str]) -> Result<Vec<Vec<u8>>, git::Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let out = Git::at(self.git_dir(), "cat-file")
            .args(["--batch=%(objectsize)"])
            .stdin(lines(ids.iter().copied()))
            .run()?;
        let mut rest = out.as_slice();
        let mut all = Vec::with_capacity(ids.len());
        let unreadable = || git::unreadable("cat-file");
        while all.len() < ids.len() {
            let at = rest.iter().position(|byte| *byte == b'\n').ok_or_else(unreadable)?;
            let (head, body) = rest.split_at(at);
            let size: Option<usize> = std::str::from_utf8(head).ok().and_then(|head| head.parse().ok());
            let size = size.ok_or_else(unreadable)?;
            let body = body.get(1..).ok_or_else(unreadable)?;
            all.push(body.get(..size).ok_or_else(unreadable)?.to_vec());
            rest = body.get(size.saturating_add(1)..).ok_or_else(unreadable)?;
        }
        Ok(all)
    }
}

/// Reads contents, as many at once as there is room for.
struct Reading<'a> {
    tree: &'a Tree,
    /// What may still be read, in bytes.
    left: u64,
}

impl Reading<'_> {
    fn read(&mut self, several: Vec<Alteration>, see: &mut impl FnMut(&Alteration)) -> Result<(), Error> {
        let wanted: Vec<String> = several.iter().flat_map(Alteration::objects).map(str::to_owned).collect();
        let mut sizes = self.tree.sizes(&wanted)?.into_iter();
        let (mut group, mut asked, mut sum) = (Vec::new(), Vec::new(), 0_u64);
        for alteration in several {
            for id in alteration.objects() {
                let size = sizes.next().flatten().filter(|size| *size <= WHOLE && *size <= self.left);
                self.left = self.left.saturating_sub(size.unwrap_or(0));
                sum = sum.saturating_add(size.unwrap_or(0));
                asked.push(size.map(|_| id.to_owned()));
            }
            group.push(alteration);
            if sum >= AT_ONCE {
                self.fill(&mut group, &asked)?;
                group.drain(..).for_each(|one| see(&one));
                (asked, sum) = (Vec::new(), 0);
            }
        }
        self.fill(&mut group, &asked)?;
        group.iter().for_each(see);
        Ok(())
    }

    /// Fills in the contents of a group. Of an object that is `None` nothing is read.
    fn fill(&self, group: &mut [Alteration], asked: &[Option<String>]) -> Result<(), Error> {
        let ids: Vec<&str> = asked.iter().flatten().map(String::as_str).collect();
        let mut read = self.tree.contents(&ids).doing("read what was changed")?.into_iter();
        let mut asked = asked.iter();
        for side in group.iter_mut().flat_map(Alteration::sides) {
            if side.content == Content::Unread && asked.next().is_some_and(Option::is_some) {
                side.content = read.next().map_or(Content::Unread, Content::Whole);
            }
        }
        Ok(())
    }
}

fn lines<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut all = Vec::new();
    for id in ids {
        all.extend_from_slice(id.as_bytes());
        all.push(b'\n');
    }
    all
}

/// Reads raw entries: `:100644 100755 OLD NEW M`, then the path.
fn parse(out: &[u8]) -> Option<Vec<Alteration>> {
    let mut all = Vec::new();
    let mut fields = split_nul(out);
    while let Some(head) = fields.next() {
        let words: Vec<&[u8]> = head.strip_prefix(b":")?.split(|byte| *byte == b' ').collect();
        let &[old, new, before, after, _] = words.as_slice() else { return None };
        all.push(Alteration {
            path: fields.next()?.to_vec(),
            before: entry(old, before)?,
            after: entry(new, after)?,
        });
    }
    Some(all)
}

fn entry(mode: &[u8], id: &[u8]) -> Option<Option<Entry>> {
    let mode = u32::from_str_radix(std::str::from_utf8(mode).ok()?, 8).ok()?;
    if mode == 0 {
        return Some(None);
    }
    let content = match mode {
        SUBMODULE => Content::Elsewhere,
        _ => Content::Unread,
    };
    let id = std::str::from_utf8(id).ok().filter(|id| !id.as_bytes().starts_with(NOTHING))?;
    Some(Some(Entry { mode, id: id.to_owned(), content }))
}
