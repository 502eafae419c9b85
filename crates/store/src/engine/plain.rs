//! The engine of small data: a directory with copies. A content is copied when it is first recorded and never
//! again; what there may be is bounded by a [`Quota`], and how long what nobody merged lives, by a time.
//!
//! | module | what lives there |
//! |---|---|
//! | `disk` | objects, the small files that name them, and what is on disk before what |
//! | `files` | lists of files, directories, and the merge of two |

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Binned, Change, Checkout, Engine, Record};
use crate::error::Error;
use crate::id::{Commit, TreeId, Treeish as _};
use crate::message::{Message, Provenance, Signature};
use crate::tree::branch_ref;

mod disk;
mod files;
#[cfg(test)]
mod killed;

pub(crate) use disk::hash;
use disk::{Disk, Drafts, escape, unescape};
use files::{Files, Top};

/// The first line of a commit.
const HEAD: &str = "regie commit 1\n";

/// What a tree may take: copies are for small data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all contents, lists and commits.
    pub bytes: u64,
    /// How many of them there may be.
    pub files: u64,
}

/// The terms of a plain tree. There is none without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What it may take.
    pub quota: Quota,
    /// How long a branch lives since it was last written, and a snapshot that no commit holds, in seconds.
    pub lives: i64,
    /// How long what has gone into the bin stays there, in seconds.
    pub binned: i64,
}

/// What [`Plain::lapse`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lapsed {
    /// Branches that went into the bin.
    pub recycled: Vec<String>,
    /// What the bin let go of.
    pub emptied: Vec<String>,
    /// Objects that nothing reaches any more and that are gone.
    pub objects: u64,
}

/// A tree in a directory with copies.
#[derive(Debug)]
pub struct Plain {
    disk: Disk,
    terms: Terms,
}

impl Plain {
    /// Opens the directory, created when it is not there.
    ///
    /// # Errors
    /// When it cannot be created, or holds something else.
    pub fn open_or_create(dir: &Path, terms: Terms) -> Result<Self, Error> {
        Ok(Self { disk: Disk::open_or_create(dir, terms.quota)?, terms })
    }

    /// Lets time pass: branches that have lived go into the bin, what lay there long enough goes, and so do the
    /// objects that nothing reaches then. Lines live for ever. When anything is damaged, nothing goes.
    ///
    /// # Errors
    /// [`Error::Corrupt`], or when something cannot be removed.
    pub fn lapse(&self, now: i64) -> Result<Lapsed, Error> {
        let mut lapsed = Lapsed::default();
        let heads = self.disk.words("heads")?;
        for (name, word) in heads {
            let (_, until) = self.read_word(&format!("heads/{name}"), &word)?;
            if until.is_some_and(|until| until <= now) {
                self.recycle(&name, now)?;
                lapsed.recycled.push(name);
            }
        }
        for binned in self.bin()? {
            if now.saturating_sub(binned.at) >= self.terms.binned {
                self.bin_empty(&binned.name)?;
                lapsed.emptied.push(binned.name);
            }
        }
        let _hold = self.disk.lock()?;
        for (id, word) in self.disk.words("snapshots")? {
            if word.parse::<i64>().is_ok_and(|until| until <= now) {
                self.disk.word_remove(&format!("snapshots/{id}"))?;
            }
        }
        let reached = self.reached()?;
        for name in self.disk.objects()?.difference(&reached) {
            self.disk.object_remove(name)?;
            lapsed.objects = lapsed.objects.saturating_add(1);
        }
        Ok(lapsed)
    }

    /// What the tree takes: bytes, and how many objects.
    ///
    /// # Errors
    /// When it cannot be looked through.
    pub fn usage(&self) -> Result<(u64, u64), Error> {
        self.disk.usage()
    }

    /// Everything that branches, lines, the bin and living snapshots reach.
    fn reached(&self) -> Result<BTreeSet<String>, Error> {
        let (mut reached, mut commits) = (BTreeSet::new(), Vec::new());
        for kind in ["heads", "bin"] {
            for (name, word) in self.disk.words(kind)? {
                commits.push(self.read_word(&format!("{kind}/{name}"), &word)?.0);
            }
        }
        let mut lists: BTreeSet<TreeId> = BTreeSet::new();
        for id in self.disk.words("snapshots")?.into_keys() {
            lists.insert(id.parse().map_err(|_| Error::Corrupt {
                path: self.disk.root().join("snapshots").join(&id),
                why: "its name is none of a list".into(),
            })?);
        }
        while let Some(commit) = commits.pop() {
            if !reached.insert(commit.to_string()) {
                continue;
            }
            let record = self.record(&commit)?;
            commits.extend(record.parents);
            lists.insert(record.files);
        }
        for list in lists {
            let files = Files::read(&self.disk, &list)?;
            reached.insert(list.to_string());
            reached.extend(files.0.into_values().map(|entry| entry.object));
        }
        Ok(reached)
    }

    /// The commit of a small file and the time beside it; `-` stands for none.
    fn read_word(&self, path: &str, word: &str) -> Result<(Commit, Option<i64>), Error> {
        let read = || {
            let (commit, time) = word.split_once(' ')?;
            let time = if time == "-" { None } else { Some(time.parse().ok()?) };
            Some((commit.parse::<Commit>().ok().filter(|commit| commit.hex().len() == 64)?, time))
        };
        read().ok_or_else(|| Error::Corrupt {
            path: self.disk.root().join(path),
            why: "it names no commit".into(),
        })
    }

    fn found(&self, kind: &str, name: &str) -> Result<Option<(Commit, Option<i64>)>, Error> {
        checked(name)?;
        let path = format!("{kind}/{name}");
        self.disk.word(&path)?.map(|word| self.read_word(&path, &word)).transpose()
    }

    fn expect(&self, name: &str, expected: &Commit) -> Result<(), Error> {
        let found = self.head(name)?;
        if found == *expected {
            return Ok(());
        }
        Err(Error::Moved { name: name.to_owned(), expected: expected.clone(), found })
    }

    /// Moves a branch, which lives on from now. A line lives for ever.
    fn set(&self, name: &str, to: &Commit, now: i64) -> Result<(), Error> {
        let until = match name.starts_with("lines/") {
            true => "-".to_owned(),
            false => now.saturating_add(self.terms.lives).to_string(),
        };
        self.disk.word_write(&format!("heads/{name}"), &format!("{to} {until}\n"))
    }

    fn commit_write(
        &self,
        mut drafts: Drafts<'_>,
        files: &str,
        parents: &[&Commit],
        message: &Message,
        signature: &Signature,
    ) -> Result<Commit, Error> {
        let mut text = format!("{HEAD}files {files}\n");
        for parent in parents {
            text.push_str(&format!("parent {parent}\n"));
        }
        let [name, email, _] = signature.parts();
        let (name, email) = (escape(name.as_bytes()), escape(email.as_bytes()));
        text.push_str(&format!("by {name} {email} {}\n\n", signature.seconds.max(0)));
        let mut bytes = text.into_bytes();
        bytes.extend(message.text());
        let commit = drafts.put_bytes(&bytes)?;
        drafts.publish()?;
        self.id(&commit)
    }

    fn id<T: std::str::FromStr>(&self, name: &str) -> Result<T, Error> {
        name.parse()
            .map_err(|_| Error::Corrupt { path: self.disk.object(name), why: "it has no name".into() })
    }

    /// A commit that both come after, the first that is met.
    fn base(&self, ours: &Commit, theirs: &Commit) -> Result<Option<Commit>, Error> {
        let (mut known, mut next) = (BTreeSet::new(), vec![ours.clone()]);
        while let Some(commit) = next.pop() {
            if known.insert(commit.clone()) {
                next.extend(self.record(&commit)?.parents);
            }
        }
        let (mut seen, mut next) = (BTreeSet::new(), std::collections::VecDeque::from([theirs.clone()]));
        while let Some(commit) = next.pop_front() {
            if known.contains(&commit) {
                return Ok(Some(commit));
            }
            if seen.insert(commit.clone()) {
                next.extend(self.record(&commit)?.parents);
            }
        }
        Ok(None)
    }
}

impl Engine for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn begin(&self, name: &str, message: &Message, signature: &Signature) -> Result<Commit, Error> {
        let _hold = self.disk.lock()?;
        if self.found("heads", name)?.is_some() {
            return Err(Error::BranchExists { name: name.to_owned() });
        }
        let mut drafts = self.disk.drafts()?;
        let files = drafts.put_bytes(Files::default().text().as_bytes())?;
        let commit = self.commit_write(drafts, &files, &[], message, signature)?;
        self.set(name, &commit, signature.seconds)?;
        Ok(commit)
    }

    fn fork(&self, name: &str, at: &Commit, now: i64) -> Result<(), Error> {
        branch_ref(name)?;
        let _hold = self.disk.lock()?;
        self.record(at)?;
        match self.found("heads", name)? {
            Some((head, _)) if head == *at => Ok(()),
            Some(_) => Err(Error::BranchExists { name: name.to_owned() }),
            None => self.set(name, at, now),
        }
    }

    fn head(&self, name: &str) -> Result<Commit, Error> {
        let found = self.found("heads", name)?;
        found.map(|(commit, _)| commit).ok_or_else(|| Error::BranchMissing { name: name.to_owned() })
    }

    fn heads(&self) -> Result<BTreeMap<String, Commit>, Error> {
        let words = self.disk.words("heads")?.into_iter();
        let read = |(name, word): (String, String)| {
            let (commit, _) = self.read_word(&format!("heads/{name}"), &word)?;
            Ok((name, commit))
        };
        words.map(read).collect()
    }

    fn checkout(&self, at: Checkout<'_>) -> Result<(), Error> {
        use crate::error::DoingAt as _;
        let files = Files::read(&self.disk, &self.record(&self.head(at.branch)?)?.files)?;
        std::fs::create_dir_all(at.dir).doing_at("create the workspace", at.dir)?;
        let mut entries = std::fs::read_dir(at.dir).doing_at("look into the workspace", at.dir)?;
        if entries.next().is_some() {
            return Err(Error::Occupied { dir: at.dir.to_owned() });
        }
        Top::open(at.dir)?.write(&self.disk, &files)
    }

    fn snapshot(&self, at: Checkout<'_>) -> Result<TreeId, Error> {
        self.head(at.branch)?;
        let _hold = self.disk.lock()?;
        let mut drafts = self.disk.drafts()?;
        let files = Top::open(at.dir)?.record(&mut drafts)?;
        let id = disk::name_of(files.text().as_bytes());
        drafts.publish()?;
        let until = at.now.saturating_add(self.terms.lives);
        self.disk.word_write(&format!("snapshots/{id}"), &format!("{until}\n"))?;
        self.id(&id)
    }

    fn restore(&self, at: Checkout<'_>, files: &TreeId) -> Result<(), Error> {
        Top::open(at.dir)?.write(&self.disk, &Files::read(&self.disk, files)?)
    }

    fn commit(
        &self,
        at: Checkout<'_>,
        expected: &Commit,
        message: &Message,
        signature: &Signature,
    ) -> Result<Option<Commit>, Error> {
        branch_ref(at.branch)?;
        let _hold = self.disk.lock()?;
        self.expect(at.branch, expected)?;
        let mut drafts = self.disk.drafts()?;
        let files = Top::open(at.dir)?.record(&mut drafts)?;
        let list = disk::name_of(files.text().as_bytes());
        if list == self.record(expected)?.files.hex() {
            return Ok(None);
        }
        let commit = self.commit_write(drafts, &list, &[expected], message, signature)?;
        self.set(at.branch, &commit, at.now)?;
        Ok(Some(commit))
    }

    fn record(&self, commit: &Commit) -> Result<Record, Error> {
        let bytes = self.disk.read(commit.hex())?;
        read(&bytes).ok_or_else(|| Error::Corrupt {
            path: self.disk.object(commit.hex()),
            why: "it is no commit".into(),
        })
    }

    fn diff(&self, from: &TreeId, to: &TreeId) -> Result<Vec<Change>, Error> {
        Ok(Files::read(&self.disk, from)?.diff(&Files::read(&self.disk, to)?))
    }

    fn merge(
        &self,
        from: &Commit,
        into: &str,
        expected: &Commit,
        message: &Message,
        signature: &Signature,
    ) -> Result<Commit, Error> {
        let _hold = self.disk.lock()?;
        self.expect(into, expected)?;
        let base = self.base(expected, from)?;
        if base.as_ref() == Some(from) {
            return Err(Error::NothingToMerge { name: from.to_string() });
        }
        let list = |commit: &Commit| Files::read(&self.disk, &self.record(commit)?.files);
        let base = base.map_or(Ok(Files::default()), |base| list(&base))?;
        let merged = Files::merge(&base, &list(expected)?, &list(from)?);
        let merged = merged.map_err(|paths| Error::Conflict { paths })?;
        let mut drafts = self.disk.drafts()?;
        let files = drafts.put_bytes(merged.text().as_bytes())?;
        let merge = self.commit_write(drafts, &files, &[expected, from], message, signature)?;
        self.set(into, &merge, signature.seconds)?;
        Ok(merge)
    }

    fn verify(&self) -> Result<(), Error> {
        self.reached()?.iter().try_for_each(|name| self.disk.check(name))
    }

    fn recycle(&self, name: &str, now: i64) -> Result<(), Error> {
        branch_ref(name)?;
        let _hold = self.disk.lock()?;
        let Some((head, _)) = self.found("heads", name)? else {
            return match self.found("bin", name)? {
                Some(_) => Ok(()),
                None => Err(Error::BranchMissing { name: name.to_owned() }),
            };
        };
        if let Some((before, _)) = self.found("bin", name)?.filter(|(before, _)| *before != head) {
            let now_head = before.to_string();
            let kept = format!("{name}-{}", now_head.get(..12).unwrap_or_default());
            self.disk.word_write(&format!("bin/{kept}"), &format!("{before} {now}\n"))?;
        }
        self.disk.word_write(&format!("bin/{name}"), &format!("{head} {now}\n"))?;
        self.disk.word_remove(&format!("heads/{name}"))
    }

    fn bin(&self) -> Result<Vec<Binned>, Error> {
        let words = self.disk.words("bin")?.into_iter();
        let read = |(name, word): (String, String)| {
            let path = format!("bin/{name}");
            let (head, at) = self.read_word(&path, &word)?;
            // Without a time it would seem to have lain there for ever, and go.
            let at = at.ok_or_else(|| Error::Corrupt {
                path: self.disk.root().join(path),
                why: "it says no time".into(),
            })?;
            Ok(Binned { files: self.record(&head)?.files, name, head, at })
        };
        words.map(read).collect()
    }

    fn bin_restore(&self, name: &str, to: &str, now: i64) -> Result<Commit, Error> {
        branch_ref(to)?;
        let _hold = self.disk.lock()?;
        let found = self.found("bin", name)?;
        let (head, _) = found.ok_or_else(|| Error::BranchMissing { name: name.to_owned() })?;
        match self.found("heads", to)? {
            // A restoration that was cut short between its two writes is finished.
            Some((there, _)) if there == head && name == to => {}
            Some(_) => return Err(Error::BranchExists { name: to.to_owned() }),
            None => self.set(to, &head, now)?,
        }
        self.disk.word_remove(&format!("bin/{name}"))?;
        Ok(head)
    }

    fn bin_empty(&self, name: &str) -> Result<(), Error> {
        let _hold = self.disk.lock()?;
        if self.found("bin", name)?.is_none() {
            return Err(Error::BranchMissing { name: name.to_owned() });
        }
        self.disk.word_remove(&format!("bin/{name}"))
    }
}

/// Refuses what is neither the name of a branch nor that of a line.
fn checked(name: &str) -> Result<(), Error> {
    match name.strip_prefix("lines/") {
        Some(line) if super::is_line(line) => Ok(()),
        _ => branch_ref(name).map(|_| ()),
    }
}

/// Reads a commit.
fn read(bytes: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(bytes).ok()?.strip_prefix(HEAD)?;
    let (head, message) = text.split_once("\n\n")?;
    let (mut parents, mut files, mut signed) = (Vec::new(), None, None);
    for line in head.lines() {
        match line.split_once(' ')? {
            ("files", id) => files = Some(id.parse().ok()?),
            ("parent", id) => parents.push(id.parse().ok()?),
            ("by", by) => {
                let mut fields = by.split(' ');
                let (name, email) = (fields.next()?, fields.next()?);
                unescape(email)?;
                let name = String::from_utf8(unescape(name)?).ok()?;
                signed = Some((name, fields.next()?.parse().ok()?));
            }
            _ => return None,
        }
    }
    let (by, seconds) = signed?;
    Some(Record {
        parents,
        files: files?,
        subject: message.lines().next().unwrap_or_default().to_owned(),
        provenance: Provenance::of(message),
        by,
        seconds,
    })
}
