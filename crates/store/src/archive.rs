//! A tree in a standard form, and back: the files of a line in a directory, the history in a bare repository.
//! The same tree gives the same bytes, whoever exports it and when.

use std::fs;
use std::io;
use std::path::Path;

use crate::attributes;
use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::{self, Git, split_nul, to_path};
use crate::id::{Commit, Treeish as _};
use crate::message::Provenance;
use crate::tree::{Tree, line_ref};

/// The configuration of the history, as it is written.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
/// The longest list of names that is read, in bytes.
const LONGEST: u64 = 256 << 20;

/// A name of the history, and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The ref, as `refs/heads/lines/main`.
    pub name: String,
    /// The object, in hexadecimal: a commit, or a tree of files that no commit has.
    pub object: String,
}

/// A commit of the history, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The commit.
    pub commit: String,
    /// What it comes after.
    pub parents: Vec<String>,
    /// Its files.
    pub files: String,
    /// When, in seconds since 1970.
    pub seconds: i64,
    /// The first line of its message.
    pub subject: String,
    /// What the last paragraph of its message says.
    pub provenance: Provenance,
}

impl Tree {
    /// All names, in their order.
    ///
    /// # Errors
    /// When git fails.
    pub fn names(&self) -> Result<Vec<Named>, Error> {
        const DOING: &str = "list the names of the history";
        let out = Git::at(self.git_dir(), "for-each-ref")
            .args(["--sort=refname", "--format=%(objectname) %(refname)"])
            .run()
            .doing(DOING)?;
        let text = String::from_utf8(out).map_err(|_| git::unreadable("for-each-ref")).doing(DOING)?;
        let named = |line: &str| {
            let (object, name) = line.split_once(' ')?;
            Some(Named { name: name.to_owned(), object: object.to_owned() })
        };
        let all: Option<Vec<_>> = text.lines().map(named).collect();
        all.ok_or_else(|| git::unreadable("for-each-ref")).doing(DOING)
    }

    /// All commits that names reach, by their own names.
    ///
    /// # Errors
    /// When git fails.
    pub fn commits(&self) -> Result<Vec<Told>, Error> {
        const DOING: &str = "list the commits";
        let out = Git::at(self.git_dir(), "log")
            .args(["--all", "--no-show-signature", "--encoding=UTF-8", "-z"])
            .args(["--format=%H%n%P%n%T%n%ct%n%B"])
            .run()
            .doing(DOING)?;
        let text = String::from_utf8_lossy(&out);
        let told = |entry: &str| {
            let mut fields = entry.splitn(5, '\n');
            let (commit, parents, files) = (fields.next()?, fields.next()?, fields.next()?);
            let (seconds, message) = (fields.next()?.parse().ok()?, fields.next()?);
            Some(Told {
                commit: commit.to_owned(),
                parents: parents.split(' ').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
                files: files.to_owned(),
                seconds,
                subject: message.lines().next().unwrap_or_default().to_owned(),
                provenance: Provenance::of(message),
            })
        };
        let all: Option<Vec<_>> = text.split('\0').filter(|entry| !entry.is_empty()).map(told).collect();
        let mut all = all.ok_or_else(|| git::unreadable("log")).doing(DOING)?;
        all.sort_by(|one, other| one.commit.cmp(&other.commit));
        Ok(all)
    }

    /// Writes the history into `to`, which must not exist, as a bare repository that any git reads.
    ///
    /// # Errors
    /// When git or the file system fails; what was written stays.
    pub fn history_write(&self, to: &Path, names: &[Named]) -> Result<(), Error> {
        const DOING: &str = "write the history";
        let write = |path: &str, text: &[u8]| {
            let at = to.join(path);
            fs::write(&at, text).doing_at(DOING, &at)
        };
        for dir in ["objects/pack", "objects/info", "refs"] {
            let dir = to.join(dir);
            fs::create_dir_all(&dir).doing_at(DOING, &dir)?;
        }
        let line = names.iter().find(|named| named.name.starts_with("refs/heads/lines/"));
        write("HEAD", format!("ref: {}\n", line.map_or("refs/heads/none", |line| &line.name)).as_bytes())?;
        write("config", CONFIG.as_bytes())?;
        let mut packed = "# pack-refs with: sorted \n".to_owned();
        for named in names {
            packed.push_str(&format!("{} {}\n", named.object, named.name));
        }
        write("packed-refs", packed.as_bytes())?;
        let shallow = self.git_dir().join("shallow");
        match fs::read(&shallow) {
            Ok(text) => write("shallow", &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).doing_at(DOING, &shallow),
        }
        let wanted: String = names.iter().map(|named| format!("{}\n", named.object)).collect();
        let objects = Git::at(self.git_dir(), "rev-list")
            .args(["--objects", "--no-object-names", "--stdin"])
            .stdin(wanted.into_bytes())
            .run()
            .doing(DOING)?;
        // Sorted, by one thread, and nothing as it lies here: the pack depends on the history alone.
        let mut objects: Vec<&str> = std::str::from_utf8(&objects).unwrap_or_default().lines().collect();
        objects.sort_unstable();
        objects.dedup();
        Git::at(self.git_dir(), "pack-objects")
            .setting("pack.compression", 6)
            .setting("pack.writeReverseIndex", false)
            .args(["-q", "--threads=1", "--no-reuse-delta", "--no-reuse-object", "--window=10", "--depth=50"])
            .arg(to.join("objects/pack/pack"))
            .stdin(objects.iter().map(|name| format!("{name}\n")).collect::<String>().into_bytes())
            .run()
            .map(|_| ())
            .doing(DOING)
    }

    /// Writes the files of a line into `to`, which must not exist.
    ///
    /// # Errors
    /// [`Error::BranchMissing`] when there is no such line.
    pub fn line_write(&self, line: &str, to: &Path) -> Result<Commit, Error> {
        const DOING: &str = "write the files of a line";
        let head = self.line_head(line)?.ok_or_else(|| Error::BranchMissing { name: line.to_owned() })?;
        fs::create_dir(to).doing_at(DOING, to)?;
        let index = tempfile::Builder::new().prefix("index").tempdir_in(self.git_dir());
        let index = index.doing_at(DOING, self.git_dir())?;
        let index = index.path().join("index");
        let git = |name| Git::at(self.git_dir(), name).work_tree(to).index(&index);
        git("read-tree").arg(head.hex()).run().doing(DOING)?;
        git("checkout-index").args(["-a", "-q"]).run().doing(DOING)?;
        Ok(head)
    }

    /// Makes a tree at `to`, which must not exist, of a history that was written once, and holds the files in
    /// `files` against the line `line` of it. Every object is looked at: what is brought is somebody's files.
    ///
    /// # Errors
    /// [`Error::Corrupt`], which names what does not hold; nothing is left then.
    pub fn from_history(
        to: &Path,
        from: &Path,
        line: &str,
        files: &Path,
    ) -> Result<(Self, Vec<Named>), Error> {
        const DOING: &str = "read the history";
        let parent = to.parent().unwrap_or(to);
        fs::create_dir_all(parent).doing_at(DOING, parent)?;
        let draft = tempfile::Builder::new().prefix(".import-").tempdir_in(parent);
        let draft = draft.doing_at(DOING, parent)?;
        let tree = Self::open_or_create(&draft.path().join("tree"))?;
        let names = tree.fill(from)?;
        tree.hold_against(line, files)?;
        attributes::ignore_in_tree(tree.git_dir()).doing_at(DOING, to)?;
        if to.symlink_metadata().is_ok() {
            return Err(Error::Occupied { dir: to.to_owned() });
        }
        fs::rename(tree.git_dir(), to).doing_at(DOING, to)?;
        fs::File::open(parent).and_then(|dir| dir.sync_all()).doing_at(DOING, parent)?;
        Ok((Self::open_or_create(to)?, names))
    }

    /// Brings packs and names of an exported history into this tree, which is new.
    fn fill(&self, from: &Path) -> Result<Vec<Named>, Error> {
        const DOING: &str = "read the history";
        let corrupt = |path: &Path, why: &str| Error::Corrupt { path: path.to_owned(), why: why.to_owned() };
        let shallow = from.join("shallow");
        if let Some(text) = read_plain(&shallow)? {
            let is_fine = text.lines().all(|line| line.parse::<Commit>().is_ok());
            if !is_fine {
                return Err(corrupt(&shallow, "it names no commits"));
            }
            let at = self.git_dir().join("shallow");
            fs::write(&at, text).doing_at(DOING, &at)?;
        }
        let packs = from.join("objects/pack");
        let mut found: Vec<_> = fs::read_dir(&packs)
            .doing_at(DOING, &packs)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "pack"))
            .collect();
        found.sort();
        for pack in &found {
            if !pack.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                return Err(corrupt(pack, "it is no file"));
            }
            // Read through and written anew: what is brought may be changed by its owner later.
            let outcome = Git::at(self.git_dir(), "index-pack")
                .args(["--stdin"])
                .stdin_file(pack)
                .outcome()
                .doing(DOING)?;
            if outcome.code != 0 {
                return Err(corrupt(pack, &outcome.failure("index-pack").to_string()));
            }
        }
        let path = from.join("packed-refs");
        let text = read_plain(&path)?.ok_or_else(|| corrupt(&path, "since it is not there"))?;
        let mut names = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let named = line.split_once(' ').filter(|(object, name)| {
                object.parse::<Commit>().is_ok()
                    && name.starts_with("refs/")
                    && !name.contains(char::is_whitespace)
            });
            let (object, name) = named.ok_or_else(|| corrupt(&path, "a line of it names nothing"))?;
            names.push(Named { name: name.to_owned(), object: object.to_owned() });
        }
        let moves: String =
            names.iter().map(|named| format!("create {} {}\n", named.name, named.object)).collect();
        let outcome =
            Git::at(self.git_dir(), "update-ref").args(["--stdin"]).stdin(moves.into_bytes()).outcome();
        let outcome = outcome.doing(DOING)?;
        if outcome.code != 0 {
            return Err(corrupt(&path, &outcome.failure("update-ref").to_string()));
        }
        let whole = Git::at(self.git_dir(), "fsck")
            .args(["--connectivity-only", "--no-dangling", "--no-progress"])
            .outcome()
            .doing(DOING)?;
        if whole.code != 0 {
            return Err(corrupt(from, "objects of it are missing"));
        }
        names.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(names)
    }

    /// Refuses files that are not those of the line: nobody's changes are lost without a word.
    fn hold_against(&self, line: &str, files: &Path) -> Result<(), Error> {
        const DOING: &str = "compare the files with the history";
        let head = self.ref_head(&line_ref(line))?;
        let head = head.ok_or_else(|| Error::BranchMissing { name: line.to_owned() })?;
        let top = files.symlink_metadata().doing_at(DOING, files)?;
        if !top.is_dir() {
            return Err(Error::Corrupt { path: files.to_owned(), why: "it is no directory".into() });
        }
        let index = self.git_dir().join("import.index");
        let git = |name| Git::at(self.git_dir(), name).work_tree(files).index(&index);
        git("read-tree").arg(head.hex()).run().doing(DOING)?;
        // Its exit code says that something differs; what, the next one does.
        git("update-index").args(["-q", "--refresh"]).outcome().doing(DOING)?;
        let changed =
            git("diff-files").args(["-z", "--name-only", "--ignore-submodules=all"]).run().doing(DOING)?;
        let new = git("ls-files").args(["-o", "-z"]).run().doing(DOING)?;
        fs::remove_file(&index).doing_at(DOING, &index)?;
        match split_nul(&changed).chain(split_nul(&new)).next() {
            Some(name) => Err(Error::Corrupt {
                path: files.join(to_path(name)),
                why: "it is not what the history says".into(),
            }),
            None => Ok(()),
        }
    }
}

/// The SHA-256 of a file's bytes, in hexadecimal.
///
/// # Errors
/// When it cannot be read.
pub fn checksum(path: &Path) -> Result<String, Error> {
    const DOING: &str = "read the history";
    let mut file = fs::File::open(path).doing_at(DOING, path)?;
    Ok(crate::engine::plain::hash(&mut file, &mut io::sink()).doing_at(DOING, path)?.0)
}

/// The text of a file that may not be there; a link is none.
fn read_plain(path: &Path) -> Result<Option<String>, Error> {
    const DOING: &str = "read the history";
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).doing_at(DOING, path),
        Ok(meta) if meta.is_file() && meta.len() <= LONGEST => {
            fs::read_to_string(path).map(Some).doing_at(DOING, path)
        }
        Ok(_) => Err(Error::Corrupt { path: path.to_owned(), why: "it is no file of names".into() }),
    }
}
