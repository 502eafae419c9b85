//! What every engine of a tree does, asked of each in the same words.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use store::engine::plain::{Quota, Terms};
use store::engine::{Change, Checkout, Git, Mode};
use store::{Commit, Engine, Error, Message, Plain, Provenance, Signature, Tree};

use crate::world::put;

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;
const TERMS: Terms =
    Terms { quota: Quota { bytes: 8 << 20, files: 2_000 }, lives: 30 * DAY, binned: 60 * DAY };

/// A tree on one of the engines, whose line `lines/main` has four files.
struct World {
    home: tempfile::TempDir,
    tree: Box<dyn Engine>,
    base: Commit,
}

type Open = fn(&Path) -> Box<dyn Engine>;

/// Each engine, in a directory of its own.
const ENGINES: [Open; 2] = [
    |dir| Box::new(Git::new(Tree::open_or_create(&dir.join("tree")).unwrap())),
    |dir| Box::new(Plain::open_or_create(&dir.join("tree"), TERMS).unwrap()),
];

fn both(check: impl Fn(World)) {
    for engine in ENGINES {
        let home = tempfile::tempdir().unwrap();
        check(begin(home, engine));
    }
}

fn begin(home: tempfile::TempDir, engine: Open) -> World {
    let tree = engine(home.path());
    let empty = tree.begin("lines/main", &message("Begin"), &signature()).unwrap();
    tree.fork("owner/first", &empty, NOW).unwrap();
    let mut world = World { home, tree, base: empty.clone() };
    let dir = world.checkout("owner/first");
    put(&dir, "README", "hello\n");
    put(&dir, "src/run.sh", "#!/bin/sh\n");
    fs::set_permissions(dir.join("src/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    put(&dir, "src/a", "1\n2\n3\n");
    symlink("README", dir.join("link")).unwrap();
    let head = world.commit("owner/first", &empty, "First").unwrap().unwrap();
    world.base = world.merge(&head, &empty).unwrap();
    world
}

impl World {
    fn dir(&self, branch: &str) -> PathBuf {
        self.home.path().join("work").join(branch.replace('/', "-"))
    }

    fn checkout(&self, branch: &str) -> PathBuf {
        let dir = self.dir(branch);
        self.tree.checkout(Checkout { branch, dir: &dir, now: NOW }).unwrap();
        dir
    }

    /// A branch at the line's head with its files.
    fn branch(&self, branch: &str) -> PathBuf {
        self.tree.fork(branch, &self.base, NOW).unwrap();
        self.checkout(branch)
    }

    fn commit(&self, branch: &str, from: &Commit, subject: &str) -> Result<Option<Commit>, Error> {
        let at = Checkout { branch, dir: &self.dir(branch), now: NOW };
        self.tree.commit(at, from, &message(subject), &signature())
    }

    fn merge(&self, from: &Commit, expected: &Commit) -> Result<Commit, Error> {
        self.tree.merge(from, "lines/main", expected, &message("Merge"), &signature())
    }

    fn snapshot(&self, branch: &str) -> store::TreeId {
        self.tree.snapshot(Checkout { branch, dir: &self.dir(branch), now: NOW }).unwrap()
    }

    fn files(&self, commit: &Commit) -> store::TreeId {
        self.tree.record(commit).unwrap().files
    }

    /// What differs between the files of two commits.
    fn diff(&self, from: &Commit, to: &Commit) -> Vec<Change> {
        self.tree.diff(&self.files(from), &self.files(to)).unwrap()
    }
}

fn provenance() -> Provenance {
    Provenance {
        principal: "agent:mender".into(),
        on_behalf_of: "human:owner".into(),
        run: "run_1".into(),
        lease: "lease_1".into(),
    }
}

fn message(subject: &str) -> Message {
    Message { subject: subject.into(), body: "Because.".into(), trailers: provenance().trailers() }
}

fn signature() -> Signature {
    Signature { name: "agent:mender".into(), email: "mender@regie.local".into(), seconds: NOW }
}

fn change(path: &str, before: Option<Mode>, after: Option<Mode>) -> Change {
    Change { path: path.into(), before, after }
}

/// Everything below a directory: what it is and what is in it.
fn content(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let (mut found, mut next) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(at) = next.pop() {
        for entry in fs::read_dir(&at).unwrap().map(Result::unwrap) {
            let (path, meta) = (entry.path(), entry.path().symlink_metadata().unwrap());
            let name = path.strip_prefix(dir).unwrap().to_owned();
            if meta.is_dir() {
                next.push(path);
            } else if meta.is_symlink() {
                found.insert(name, (0, fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()));
            } else {
                found.insert(name, (meta.permissions().mode() & 0o100, fs::read(&path).unwrap()));
            }
        }
    }
    found
}

#[test]
fn a_checkout_is_what_was_committed() {
    both(|world| {
        let (first, again) = (world.dir("owner/first"), world.branch("a/run"));
        assert_eq!(content(&first), content(&again));
        assert_eq!(content(&again).len(), 4);
        assert_eq!(fs::read_link(again.join("link")).unwrap(), Path::new("README"));
        let at = Checkout { branch: "a/run", dir: &again, now: NOW };
        assert!(matches!(world.tree.checkout(at), Err(Error::Occupied { .. })));
    });
}

#[test]
fn a_fork_is_seen_by_nobody_else_and_can_be_repeated() {
    both(|world| {
        let (one, other) = (world.branch("a/one"), world.branch("a/other"));
        put(&one, "mine", "x");
        let head = world.commit("a/one", &world.base, "Mine").unwrap().unwrap();
        assert!(!other.join("mine").exists());
        assert_eq!(world.tree.head("a/other").unwrap(), world.base);
        world.tree.fork("a/other", &world.base, NOW).unwrap();
        assert!(matches!(world.tree.fork("a/one", &world.base, NOW), Err(Error::BranchExists { .. })));
        let heads = world.tree.heads().unwrap();
        assert_eq!(heads.get("a/one"), Some(&head));
        assert_eq!(heads.get("lines/main"), Some(&world.base));
        assert!(matches!(world.tree.head("a/none"), Err(Error::BranchMissing { .. })));
    });
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    both(|world| {
        for name in
            ["", "a", "../x", "a/../../x", "a/b/c", "/a", "a/.b", "lines/x", "-a/b", "a/b\n", "a/b.lock"]
        {
            let refused = world.tree.fork(name, &world.base, NOW);
            assert!(matches!(refused, Err(Error::BranchName { .. })), "{name:?}: {refused:?}");
        }
        for name in ["lines/../x", "lines/.x", "lines/a/b", "lines/", "lines/x.lock"] {
            let refused = world.tree.begin(name, &message("x"), &signature());
            assert!(matches!(refused, Err(Error::BranchName { .. })), "{name:?}: {refused:?}");
        }
        assert!(world.tree.recycle("lines/main", NOW).is_err(), "a line is no branch");
    });
}

#[test]
fn differences_name_modes_links_and_any_bytes() {
    both(|world| {
        let dir = world.branch("a/run");
        fs::set_permissions(dir.join("src/run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::remove_file(dir.join("link")).unwrap();
        put(&dir, "link", "a file now");
        fs::remove_file(dir.join("README")).unwrap();
        fs::write(dir.join("binary"), [0, 255, 10, 0, 13]).unwrap();
        let odd = OsStr::from_bytes(b"od\xff d\n%41");
        fs::write(dir.join(odd), "x").unwrap();
        fs::create_dir_all(dir.join("empty/dirs")).unwrap();
        fs::write(dir.join("src/a"), "").unwrap();
        let head = world.commit("a/run", &world.base, "All").unwrap().unwrap();
        let mut wanted = vec![
            change("README", Some(Mode::File), None),
            change("binary", None, Some(Mode::File)),
            change("link", Some(Mode::Link), Some(Mode::File)),
            Change { path: odd.into(), before: None, after: Some(Mode::File) },
            change("src/a", Some(Mode::File), Some(Mode::File)),
            change("src/run.sh", Some(Mode::Program), Some(Mode::File)),
        ];
        assert_eq!(world.diff(&world.base, &head), wanted);
        for change in &mut wanted {
            std::mem::swap(&mut change.before, &mut change.after);
        }
        assert_eq!(world.diff(&head, &world.base), wanted);
        world.tree.fork("a/again", &head, NOW).unwrap();
        assert_eq!(content(&world.checkout("a/again")), content(&dir));
    });
}

#[test]
fn what_changed_is_told_and_rolled_back() {
    both(|world| {
        let dir = world.branch("a/run");
        let at = Checkout { branch: "a/run", dir: &dir, now: NOW };
        let before = world.snapshot("a/run");
        let whole = content(&dir);
        assert_eq!(world.tree.changed(at, &before).unwrap(), []);
        put(&dir, "new/file", "x");
        put(&dir, "README", "other\n");
        fs::remove_file(dir.join("src/a")).unwrap();
        fs::create_dir(dir.join("src/a")).unwrap();
        put(&dir, "src/a/b", "a directory now");
        fs::remove_file(dir.join("link")).unwrap();
        symlink("/etc", dir.join("link")).unwrap();
        fs::set_permissions(dir.join("src/run.sh"), fs::Permissions::from_mode(0o600)).unwrap();
        let names: Vec<_> = world.tree.changed(at, &before).unwrap().into_iter().map(|c| c.path).collect();
        let wanted = ["README", "link", "new/file", "src/a", "src/a/b", "src/run.sh"].map(PathBuf::from);
        assert_eq!(names, wanted);
        let after = world.snapshot("a/run");
        world.tree.restore(at, &before).unwrap();
        assert_eq!(content(&dir), whole);
        assert!(!dir.join("new").exists());
        assert_eq!(world.tree.head("a/run").unwrap(), world.base, "no branch moves");
        // And forth again: a snapshot stays what it was.
        world.tree.restore(at, &after).unwrap();
        assert_eq!(world.tree.changed(at, &after).unwrap(), []);
        assert_eq!(world.snapshot("a/run"), after);
    });
}

#[test]
fn a_directory_that_became_a_link_leads_nowhere() {
    both(|world| {
        let dir = world.branch("a/run");
        let at = Checkout { branch: "a/run", dir: &dir, now: NOW };
        let before = world.snapshot("a/run");
        let outside = world.home.path().join("outside");
        put(&outside, "a", "not yours\n");
        fs::remove_dir_all(dir.join("src")).unwrap();
        symlink(&outside, dir.join("src")).unwrap();
        let changed = world.tree.changed(at, &before).unwrap();
        assert!(changed.contains(&change("src", None, Some(Mode::Link))), "{changed:?}");
        assert!(changed.contains(&change("src/a", Some(Mode::File), None)), "{changed:?}");
        world.tree.restore(at, &before).unwrap();
        assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "not yours\n");
        assert_eq!(fs::read_to_string(dir.join("src/a")).unwrap(), "1\n2\n3\n");
    });
}

#[test]
fn special_files_and_git_dirs_are_not_recorded() {
    both(|world| {
        let dir = world.branch("a/run");
        let before = world.snapshot("a/run");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.join("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        put(&dir, "nested/.git/config", "[core]\n");
        put(&dir, "nested/.GIT/hooks/x", "x");
        put(&dir, "nested/file", "x");
        let at = Checkout { branch: "a/run", dir: &dir, now: NOW };
        let changed = world.tree.changed(at, &before).unwrap();
        assert_eq!(changed, [change("nested/file", None, Some(Mode::File))]);
    });
}

#[test]
fn of_two_writers_on_one_branch_the_second_is_refused() {
    both(|world| {
        let dir = world.branch("a/run");
        put(&dir, "README", "one\n");
        let head = world.commit("a/run", &world.base, "One").unwrap().unwrap();
        put(&dir, "README", "two\n");
        match world.commit("a/run", &world.base, "Two") {
            Err(Error::Moved { name, expected, found }) => {
                assert_eq!((name.as_str(), &expected, &found), ("a/run", &world.base, &head));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(world.tree.head("a/run").unwrap(), head);
        assert_eq!(
            world.commit("a/run", &head, "Two").unwrap().map(|two| world.diff(&head, &two).len()),
            Some(1)
        );
    });
}

#[test]
fn writers_at_the_same_moment_lose_nothing() {
    both(|world| {
        for number in 0..4 {
            put(&world.branch(&format!("a/run{number}")), &format!("file{number}"), "x");
        }
        std::thread::scope(|scope| {
            for number in 0..4 {
                let world = &world;
                scope.spawn(move || {
                    let name = format!("a/run{number}");
                    let head = world.commit(&name, &world.base, "Mine").unwrap().unwrap();
                    while let Err(error) = world.merge(&head, &world.tree.head("lines/main").unwrap()) {
                        assert!(matches!(error, Error::Moved { .. }), "{error:?}");
                    }
                });
            }
        });
        let head = world.tree.head("lines/main").unwrap();
        assert_eq!(world.diff(&world.base, &head).len(), 4);
        world.tree.verify().unwrap();
    });
}

#[test]
fn a_commit_of_nothing_is_none() {
    both(|world| {
        world.branch("a/run");
        assert_eq!(world.commit("a/run", &world.base, "Nothing").unwrap(), None);
        assert_eq!(world.tree.head("a/run").unwrap(), world.base);
        assert!(matches!(world.merge(&world.base, &world.base), Err(Error::NothingToMerge { .. })));
    });
}

#[test]
fn a_merge_joins_both_sides_and_says_where_it_comes_from() {
    both(|world| {
        let (one, other) = (world.branch("a/one"), world.branch("a/other"));
        put(&one, "one", "1");
        fs::remove_file(other.join("README")).unwrap();
        let one = world.commit("a/one", &world.base, "One").unwrap().unwrap();
        let other = world.commit("a/other", &world.base, "Other").unwrap().unwrap();
        let first = world.merge(&one, &world.base).unwrap();
        assert!(matches!(world.merge(&other, &world.base), Err(Error::Moved { .. })));
        let second = world.merge(&other, &first).unwrap();
        let names: Vec<_> = world.diff(&world.base, &second).into_iter().map(|change| change.path).collect();
        assert_eq!(names, [PathBuf::from("README"), PathBuf::from("one")]);
        let record = world.tree.record(&second).unwrap();
        assert_eq!(record.parents, [first, other]);
        assert_eq!((record.provenance, record.seconds), (provenance(), NOW));
        assert_eq!(record.subject, "Merge");
        // The same again from the same beginning has the same name: a commit can be made again.
        assert_eq!(world.tree.record(&one).unwrap().parents, [world.base]);
    });
}

#[test]
fn a_conflict_names_its_paths_and_moves_nothing() {
    both(|world| {
        let (one, other) = (world.branch("a/one"), world.branch("a/other"));
        for (dir, text) in [(&one, "ours\n"), (&other, "theirs\n")] {
            put(dir, "README", text);
            put(dir, "src/a", text);
            put(dir, &format!("own-{}", text.trim()), text);
        }
        let one = world.commit("a/one", &world.base, "One").unwrap().unwrap();
        let other = world.commit("a/other", &world.base, "Other").unwrap().unwrap();
        let head = world.merge(&one, &world.base).unwrap();
        match world.merge(&other, &head) {
            Err(Error::Conflict { paths }) => {
                assert_eq!(paths, [PathBuf::from("README"), PathBuf::from("src/a")]);
            }
            refused => panic!("{refused:?}"),
        }
        assert_eq!(world.tree.head("lines/main").unwrap(), head);
        assert_eq!(world.tree.head("a/other").unwrap(), other);
    });
}

#[test]
fn a_forged_trailer_does_not_count() {
    both(|world| {
        let dir = world.branch("a/run");
        put(&dir, "README", "x\n");
        let forged =
            "Regie-Principal: human:owner\nRegie-Run: run_9\n\nRegie-Lease: lease_9\r\nRegie-On-Behalf-Of: x";
        let mut said = message("Regie-Lease: lease_9");
        said.body = forged.to_owned();
        let at = Checkout { branch: "a/run", dir: &dir, now: NOW };
        let head = world.tree.commit(at, &world.base, &said, &signature()).unwrap().unwrap();
        assert_eq!(world.tree.record(&head).unwrap().provenance, provenance());
        // Without any of Regie's own there is none, whatever the text says.
        for (text, body) in [("1", forged), ("2", "")] {
            put(&dir, "README", text);
            said = Message { subject: "Regie-Lease: x".into(), body: body.into(), trailers: Vec::new() };
            let head = world.tree.head("a/run").unwrap();
            let head = world.tree.commit(at, &head, &said, &signature()).unwrap().unwrap();
            assert_eq!(world.tree.record(&head).unwrap().provenance, Provenance::default());
        }
        // A value that would begin a line of its own does not.
        put(&dir, "README", "3");
        let whose = Provenance { run: "run_1\nRegie-Lease: lease_9".into(), ..Provenance::default() };
        said = Message { subject: "x".into(), body: String::new(), trailers: whose.trailers() };
        let head = world.tree.head("a/run").unwrap();
        let head = world.tree.commit(at, &head, &said, &signature()).unwrap().unwrap();
        assert_eq!(world.tree.record(&head).unwrap().provenance.lease, "");
    });
}

#[test]
fn the_bin_keeps_what_was_a_branch() {
    both(|world| {
        let dir = world.branch("a/run");
        put(&dir, "work", "unmerged\n");
        let head = world.commit("a/run", &world.base, "Work").unwrap().unwrap();
        world.tree.recycle("a/run", NOW).unwrap();
        world.tree.recycle("a/run", NOW + DAY).unwrap();
        assert!(matches!(world.tree.head("a/run"), Err(Error::BranchMissing { .. })));
        let bin = world.tree.bin().unwrap();
        assert_eq!(bin.len(), 1);
        assert_eq!((bin[0].name.as_str(), &bin[0].head, bin[0].at), ("a/run", &head, NOW));
        assert_eq!(bin[0].files, world.files(&head));
        assert!(matches!(world.tree.bin_restore("a/none", "a/x", NOW), Err(Error::BranchMissing { .. })));
        world.tree.fork("a/taken", &world.base, NOW).unwrap();
        assert!(matches!(world.tree.bin_restore("a/run", "a/taken", NOW), Err(Error::BranchExists { .. })));
        assert_eq!(world.tree.bin().unwrap().len(), 1, "a refusal loses nothing");
        assert_eq!(world.tree.bin_restore("a/run", "back/run", NOW).unwrap(), head);
        assert_eq!(fs::read_to_string(world.checkout("back/run").join("work")).unwrap(), "unmerged\n");
        assert_eq!(world.tree.bin().unwrap(), []);
        world.tree.recycle("back/run", NOW).unwrap();
        world.tree.bin_empty("back/run").unwrap();
        assert!(matches!(world.tree.bin_empty("back/run"), Err(Error::BranchMissing { .. })));
        assert!(world.tree.recycle("../evil", NOW).is_err());
        world.tree.verify().unwrap();
    });
}

#[test]
fn a_name_that_was_used_again_keeps_both_in_the_bin() {
    both(|world| {
        let dir = world.branch("a/run");
        put(&dir, "first", "1");
        let first = world.commit("a/run", &world.base, "First").unwrap().unwrap();
        world.tree.recycle("a/run", NOW).unwrap();
        world.tree.fork("a/run", &world.base, NOW).unwrap();
        world.tree.recycle("a/run", NOW + DAY).unwrap();
        let bin = world.tree.bin().unwrap();
        let reached = bin.iter().any(|binned| binned.head == first) || {
            // Git keeps it below the later one.
            let below = world.tree.bin_restore("a/run", "back/run", NOW).unwrap();
            let all = world.tree.record(&below).unwrap();
            assert_eq!(all.parents.len(), 2, "{all:?}");
            true
        };
        assert!(reached);
    });
}

#[test]
fn damage_is_named() {
    both(|world| {
        let dir = world.branch("a/run");
        put(&dir, "big", &"content ".repeat(1000));
        let head = world.commit("a/run", &world.base, "Big").unwrap().unwrap();
        world.tree.verify().unwrap();
        let objects = world.home.path().join("tree/objects");
        let largest =
            files_below(&objects).into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
        fs::set_permissions(&largest, fs::Permissions::from_mode(0o644)).unwrap();
        let mut bytes = fs::read(&largest).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 0x55;
        fs::write(&largest, &bytes).unwrap();
        let refused = world.tree.verify().unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. }), "{refused:?}");
        fs::remove_file(&largest).unwrap();
        let refused = world.tree.verify().unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. }), "{refused:?}");
        assert_eq!(world.tree.head("a/run").unwrap(), head, "nothing moved");
    });
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    content(dir).into_keys().map(|name| dir.join(name)).collect()
}

/// A file system of its own that is full but for a little, where this process may mount one.
#[test]
fn a_full_disk_moves_nothing() {
    for engine in ENGINES {
        let home = tempfile::tempdir().unwrap();
        let tmpfs = rustix::mount::mount(
            "tmpfs",
            home.path(),
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            c"size=3m",
        );
        if let Err(error) = tmpfs {
            eprintln!("SKIPPED a_full_disk_moves_nothing: no tmpfs can be mounted here ({error})");
            return;
        }
        let mounted = Mounted(home.path().to_owned());
        let world = begin(home, engine);
        let dir = world.branch("a/run");
        put(&dir, "README", "mine\n");
        let head = world.commit("a/run", &world.base, "Mine").unwrap().unwrap();
        // Content that does not compress, so that it takes its room in any store.
        let mut seed = 88_172_645_463_325_252_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed.to_le_bytes()
        })
        .take(100_000)
        .flatten()
        .collect();
        fs::write(dir.join("noise"), &noise).unwrap();
        let ballast = world.home.path().join("ballast");
        fill(&ballast);
        world.commit("a/run", &head, "Noise").unwrap_err();
        world.merge(&head, &world.base).unwrap_err();
        assert_eq!(world.tree.head("a/run").unwrap(), head);
        assert_eq!(world.tree.head("lines/main").unwrap(), world.base);
        fs::remove_file(&ballast).unwrap();
        world.tree.verify().unwrap();
        let noisy = world.commit("a/run", &head, "Noise").unwrap().unwrap();
        world.merge(&noisy, &world.base).unwrap();
        world.tree.verify().unwrap();
        drop(mounted);
    }
}

/// Takes all the room that is left.
fn fill(path: &Path) {
    use std::io::Write as _;
    let mut file = fs::File::create(path).unwrap();
    for size in [64 << 10, 4 << 10, 512, 1] {
        while file.write(&vec![7; size]).is_ok_and(|written| written == size) {}
    }
}

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// The terms of a plain tree: what only that engine has.
mod plain {
    use super::*;

    fn with(terms: Terms) -> (World, Plain) {
        let home = tempfile::tempdir().unwrap();
        let world = begin(home, ENGINES[1]);
        let tree = Plain::open_or_create(&world.home.path().join("tree"), terms).unwrap();
        (world, tree)
    }

    #[test]
    fn what_the_quota_has_no_room_for_is_refused_before_it_is_written() {
        let quota = Quota { bytes: 20_000, files: 40 };
        let (world, tree) = with(Terms { quota, ..TERMS });
        let dir = world.branch("a/run");
        let at = Checkout { branch: "a/run", dir: &dir, now: NOW };
        let before = tree.usage().unwrap();
        fs::write(dir.join("large"), vec![1; 30_000]).unwrap();
        let refused = tree.commit(at, &world.base, &message("Large"), &signature()).unwrap_err();
        assert!(matches!(refused, Error::Quota { what: "bytes", limit: 20_000, .. }), "{refused:?}");
        assert!(matches!(tree.snapshot(at), Err(Error::Quota { .. })));
        fs::remove_file(dir.join("large")).unwrap();
        for number in 0..60 {
            put(&dir, &format!("many/{number}"), &number.to_string());
        }
        let refused = tree.commit(at, &world.base, &message("Many"), &signature()).unwrap_err();
        assert!(matches!(refused, Error::Quota { what: "files", limit: 40, .. }), "{refused:?}");
        assert_eq!(tree.usage().unwrap(), before, "nothing half written");
        assert_eq!(tree.head("a/run").unwrap(), world.base);
        // What fits goes in, and the same content never counts twice.
        fs::remove_dir_all(dir.join("many")).unwrap();
        put(&dir, "one", &"x".repeat(2_000));
        let head = tree.commit(at, &world.base, &message("One"), &signature()).unwrap().unwrap();
        let one = tree.usage().unwrap();
        put(&dir, "two", &"x".repeat(2_000));
        tree.commit(at, &head, &message("Two"), &signature()).unwrap().unwrap();
        let two = tree.usage().unwrap();
        assert_eq!(two.1, one.1 + 2, "a list and a commit");
        assert!(two.0 < one.0 + 2_000);
    }

    #[test]
    fn time_passes_for_branches_and_snapshots_and_not_for_lines() {
        let (world, tree) = with(TERMS);
        let dir = world.branch("a/run");
        put(&dir, "work", "unmerged\n");
        let head = world.commit("a/run", &world.base, "Work").unwrap().unwrap();
        put(&dir, "more", "only in a snapshot\n");
        let snapshot = world.snapshot("a/run");
        assert_eq!(tree.lapse(NOW + DAY).unwrap(), store::engine::plain::Lapsed::default());
        let lapsed = tree.lapse(NOW + 31 * DAY).unwrap();
        assert_eq!(lapsed.recycled, ["a/run", "owner/first"]);
        assert!(tree.diff(&snapshot, &snapshot).is_err(), "what no commit holds went with its time");
        assert_eq!(lapsed.objects, 2, "its list, and its one file that was nowhere else");
        assert_eq!(tree.bin().unwrap().len(), 2);
        let lapsed = tree.lapse(NOW + 90 * DAY).unwrap();
        assert_eq!(lapsed.emptied, Vec::<String>::new());
        assert_eq!(tree.bin_restore("a/run", "a/run", NOW + 90 * DAY).unwrap(), head);
        let lapsed = tree.lapse(NOW + 91 * DAY).unwrap();
        assert_eq!(lapsed.emptied, ["owner/first"]);
        assert_eq!(tree.head("a/run").unwrap(), head, "a branch that came back lives anew");
        assert_eq!(tree.head("lines/main").unwrap(), world.base);
        tree.verify().unwrap();
    }

    #[test]
    fn when_anything_is_damaged_nothing_goes() {
        let (world, tree) = with(TERMS);
        world.branch("a/run");
        let path = world.home.path().join("tree/heads/lines/main");
        let before = fs::read_to_string(&path).unwrap();
        for bad in ["", "\n", "0123 -\n", "no newline", "\u{0}\n", &before.trim_end().replace('-', "x")] {
            fs::write(&path, bad).unwrap();
            let objects = tree.usage().unwrap();
            let refused = tree.lapse(NOW + 365 * DAY).unwrap_err();
            assert!(
                matches!(&refused, Error::Corrupt { path, .. } if path.ends_with("lines/main")),
                "{refused:?}"
            );
            assert_eq!(tree.usage().unwrap(), objects, "{bad:?}");
        }
        fs::write(&path, before).unwrap();
        tree.verify().unwrap();
    }

    #[test]
    fn a_directory_of_something_else_is_refused() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("format"), "regie plain 2\n").unwrap();
        let refused = Plain::open_or_create(home.path(), TERMS).unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. }), "{refused:?}");
    }
}
