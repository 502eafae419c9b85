//! Objects and refs of Regie's git dir, read and written in process: a process costs more than the change of a
//! file. Only the plain case is done here, loose objects and loose refs. Whatever is packed, large or not as
//! expected gives `None`, and is left to git.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha1_checked::{Digest as _, Sha1};

use crate::id::{Commit, Treeish as _};
use crate::message::{Message, Signature};

/// Larger objects are left to git, which need not hold them in memory. In bytes.
pub(crate) const LARGEST: usize = 32 << 20;
/// Fast, and small enough: git packs them later.
const LEVEL: u8 = 1;

/// The name of an object, in bytes.
pub(crate) type Name = [u8; 20];

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Blob,
    Tree,
    Commit,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Tree => "tree",
            Self::Commit => "commit",
        }
    }

    fn head(self, length: usize) -> Vec<u8> {
        format!("{} {length}\0", self.word()).into_bytes()
    }
}

/// The name of an object with this content. `None`: it was made to collide with another one.
pub(crate) fn name(kind: Kind, content: &[u8]) -> Option<Name> {
    let mut hasher = Sha1::new();
    hasher.update(kind.head(content.len()));
    hasher.update(content);
    let result = hasher.try_finalize();
    if result.has_collision() {
        return None;
    }
    result.hash().as_slice().try_into().ok()
}

pub(crate) fn hex(name: &Name) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where a loose object lies. `None`: this is no name of 40 digits.
fn place(git_dir: &Path, hex: &str) -> Option<PathBuf> {
    let (folder, rest) = hex.split_at_checked(2).filter(|(_, rest)| rest.len() == 38)?;
    Some(git_dir.join("objects").join(folder).join(rest))
}

/// Whether the object is there, and loose.
pub(crate) fn is_loose(git_dir: &Path, hex: &str) -> bool {
    place(git_dir, hex).is_some_and(|at| at.metadata().is_ok_and(|meta| meta.len() > 0))
}

/// The content of a loose object, held against its name.
pub(crate) fn read(git_dir: &Path, kind: Kind, hex_name: &str) -> Option<Vec<u8>> {
    let at = place(git_dir, hex_name)?;
    if at.metadata().ok()?.len() > LARGEST as u64 {
        return None;
    }
    let packed = fs::read(at).ok()?;
    let raw = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&packed, LARGEST).ok()?;
    let end = raw.iter().position(|byte| *byte == 0)?;
    let content = raw.get(end + 1..)?;
    let is_right = raw.get(..=end)? == kind.head(content.len())
        && name(kind, content).is_some_and(|name| hex(&name) == hex_name);
    is_right.then(|| content.to_vec())
}

/// Objects that are written together.
pub(crate) struct Batch<'a> {
    git_dir: &'a Path,
    /// The folders that got a name.
    folders: BTreeSet<PathBuf>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(git_dir: &'a Path) -> Self {
        Self { git_dir, folders: BTreeSet::new() }
    }

    /// Writes one; it is whole under its name or not there. It stays after a crash once [`Batch::end`] came back.
    pub(crate) fn add(&mut self, kind: Kind, content: &[u8]) -> io::Result<Name> {
        let refused = || io::Error::other("the content was made to collide with another one");
        let name = name(kind, content).ok_or_else(refused)?;
        let hex = hex(&name);
        let at = place(self.git_dir, &hex).ok_or_else(refused)?;
        let folder = at.parent().unwrap_or(self.git_dir);
        if is_loose(self.git_dir, &hex) {
            // Who wrote it may have been killed before it saw to the folder.
            self.folders.insert(folder.to_owned());
            return Ok(name);
        }
        match fs::create_dir(folder) {
            Ok(()) => {
                self.folders.insert(self.git_dir.join("objects"));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let mut raw = kind.head(content.len());
        raw.extend_from_slice(content);
        // git tidies up what is called like this.
        let mut draft = tempfile::Builder::new().prefix("tmp_obj_").tempfile_in(folder)?;
        draft.write_all(&miniz_oxide::deflate::compress_to_vec_zlib(&raw, LEVEL))?;
        draft.as_file().set_permissions(fs::Permissions::from_mode(0o444))?;
        draft.as_file().sync_all()?;
        draft.persist(&at).map_err(|failed| failed.error)?;
        self.folders.insert(folder.to_owned());
        Ok(name)
    }

    /// Waits until the names are on the disk.
    pub(crate) fn end(self) -> io::Result<()> {
        self.folders.iter().try_for_each(|folder| File::open(folder)?.sync_all())
    }
}

/// Writes a commit, the same bytes as `git commit-tree`.
pub(crate) fn commit(
    git_dir: &Path,
    tree: &str,
    parents: &[&Commit],
    message: &Message,
    signature: &Signature,
) -> Option<Commit> {
    let is_twice =
        parents.iter().enumerate().any(|(at, one)| parents.iter().skip(at + 1).any(|two| one == two));
    if is_twice || !is_loose(git_dir, tree) || parents.iter().any(|parent| parent.hex().len() != 40) {
        return None;
    }
    let [name, email, date] = signature.parts();
    if !is_plain(&name) || !is_plain(&email) {
        return None;
    }
    let who = format!("{name} <{email}> {}", date.trim_start_matches('@'));
    let mut text = format!("tree {tree}\n");
    for parent in parents {
        text.push_str(&format!("parent {parent}\n"));
    }
    text.push_str(&format!("author {who}\ncommitter {who}\n\n"));
    let mut raw = text.into_bytes();
    raw.extend(message.text());
    let mut batch = Batch::new(git_dir);
    let name = batch.add(Kind::Commit, &raw).ok()?;
    batch.end().ok()?;
    hex(&name).parse().ok()
}

/// Whether git takes nothing away at the ends of a name. What it takes away depends on its version.
fn is_plain(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric();
    !text.is_empty() && !text.starts_with(is_sign) && !text.ends_with(is_sign)
}

/// What a commit says of its tree.
pub(crate) fn tree_of(raw: &[u8]) -> Option<&str> {
    std::str::from_utf8(raw.strip_prefix(b"tree ")?.get(..40)?).ok()
}

/// Where a ref lies. `None`: it is none, or not one of these.
fn ref_place(git_dir: &Path, reference: &str) -> Option<PathBuf> {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_ref = reference.starts_with("refs/") && reference.split('/').all(is_plain);
    is_ref.then(|| git_dir.join(reference))
}

/// Where a loose ref stands, when the commit is there and loose.
pub(crate) fn ref_head(git_dir: &Path, reference: &str) -> Option<Commit> {
    let text = fs::read_to_string(ref_place(git_dir, reference)?).ok()?;
    let commit: Commit = text.strip_suffix('\n')?.parse().ok()?;
    read(git_dir, Kind::Commit, commit.hex())?;
    Some(commit)
}

/// Moves a loose ref that stands at `expected` to a commit that is there. `None`: git has to do it, or to say why not.
pub(crate) fn ref_move(git_dir: &Path, reference: &str, to: &Commit, expected: &Commit) -> Option<()> {
    let at = ref_place(git_dir, reference)?;
    read(git_dir, Kind::Commit, to.hex())?;
    let lock = git_dir.join(format!("{reference}.lock"));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&lock).ok()?;
    let mut moved = || {
        // A link is not what git makes of a ref.
        let stands = at.symlink_metadata().is_ok_and(|meta| meta.is_file())
            && fs::read_to_string(&at).is_ok_and(|now| now.strip_suffix('\n') == Some(expected.hex()));
        if !stands {
            return Err(io::Error::other("it stands elsewhere"));
        }
        file.write_all(format!("{to}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&lock, &at)
    };
    if moved().is_err() {
        let _ = fs::remove_file(&lock);
        return None;
    }
    // The ref has moved. When the disk fails now, git finds it elsewhere than expected, and says so.
    File::open(at.parent()?).and_then(|folder| folder.sync_all()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Git;

    fn store(scratch: &Path) -> PathBuf {
        Git::in_dir(scratch, "init").args(["-q", "--bare", "."]).run().unwrap();
        scratch.to_owned()
    }

    #[test]
    fn commits_are_those_of_git() {
        let scratch = tempfile::tempdir().unwrap();
        let store = store(scratch.path());
        let mut batch = Batch::new(&store);
        let blob = batch.add(Kind::Blob, b"content\n").unwrap();
        let tree = batch.add(Kind::Tree, &[b"100644 a\0".as_slice(), &blob].concat()).unwrap();
        batch.end().unwrap();
        let tree = hex(&tree);
        let names = [("agent:mender", "a@b"), ("J. R. x", ".<x>@y"), ("\u{e9}t\u{e9}, x", "x y@\u{e9}")];
        for (name, email) in names {
            let signature =
                Signature { name: name.to_owned(), email: email.to_owned(), seconds: 1_700_000_000 };
            let message = Message { subject: "Say \u{e4}".to_owned(), ..Message::default() };
            let ours = commit(&store, &tree, &[], &message, &signature);
            let theirs: Commit = Git::at(&store, "commit-tree")
                .signed(&signature)
                .stdin(message.text())
                .args(["-F", "-", &tree])
                .object()
                .unwrap();
            assert!(ours.as_ref().is_none_or(|ours| *ours == theirs), "{signature:?}");
            assert_eq!(ours.is_none(), email.starts_with('.'), "{signature:?}");
        }
        Git::at(&store, "fsck").args(["--strict", "--full"]).run().unwrap();
    }

    #[test]
    fn a_damaged_object_is_left_to_git() {
        let scratch = tempfile::tempdir().unwrap();
        let store = store(scratch.path());
        let mut batch = Batch::new(&store);
        let (one, two) = (batch.add(Kind::Blob, b"one").unwrap(), batch.add(Kind::Blob, b"two").unwrap());
        batch.end().unwrap();
        assert_eq!(read(&store, Kind::Blob, &hex(&one)).unwrap(), b"one");
        assert_eq!(read(&store, Kind::Tree, &hex(&one)), None);
        let place = |name| place(&store, &hex(name)).unwrap();
        fs::rename(place(&two), place(&one)).unwrap();
        assert_eq!(read(&store, Kind::Blob, &hex(&one)), None);
        fs::set_permissions(place(&one), fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(place(&one), b"").unwrap();
        // One that a crash left empty is written again.
        Batch::new(&store).add(Kind::Blob, b"one").unwrap();
        assert_eq!(read(&store, Kind::Blob, &hex(&one)).unwrap(), b"one");
    }

    #[test]
    fn a_ref_moves_from_where_it_stands_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let store = store(scratch.path());
        let tree = hex(&Batch::new(&store).add(Kind::Tree, b"").unwrap());
        let make = |seconds| {
            let signature = Signature { name: "a".to_owned(), email: "a@b".to_owned(), seconds };
            commit(&store, &tree, &[], &Message::default(), &signature).unwrap()
        };
        let (one, two) = (make(1), make(2));
        let name = "refs/heads/a/b";
        assert_eq!(ref_move(&store, name, &two, &one), None, "it is not there");
        fs::create_dir_all(store.join("refs/heads/a")).unwrap();
        fs::write(store.join(name), format!("{one}\n")).unwrap();
        assert_eq!(ref_move(&store, name, &one, &two), None, "it stands elsewhere");
        let missing: Commit = "1".repeat(40).parse().unwrap();
        assert_eq!(ref_move(&store, name, &missing, &one), None, "there is no such commit");
        fs::write(store.join(format!("{name}.lock")), "").unwrap();
        assert_eq!(ref_move(&store, name, &two, &one), None, "somebody else is at it");
        fs::remove_file(store.join(format!("{name}.lock"))).unwrap();
        assert_eq!(ref_head(&store, name), Some(one.clone()));
        ref_move(&store, name, &two, &one).unwrap();
        assert_eq!(ref_head(&store, name), Some(two));
        assert_eq!(ref_head(&store, "refs/heads/../heads/a/b"), None);
    }
}
