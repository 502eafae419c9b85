//! A process that is killed at every point at which anything of a plain tree changes.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::{Plain, Quota, Terms};
use crate::engine::{Checkout, Engine as _};
use crate::error::Error;
use crate::id::Commit;
use crate::message::{Message, Signature};

const TERMS: Terms = Terms { quota: Quota { bytes: 1 << 20, files: 1000 }, lives: 100, binned: 100 };
/// More points than anything here passes.
const MANY: usize = 200;

fn open(home: &Path) -> Plain {
    Plain::open_or_create(&home.join("tree"), TERMS).unwrap()
}

fn words(subject: &str) -> (Message, Signature) {
    let signature = Signature { name: "agent:a".into(), email: "a@b".into(), seconds: 7 };
    (Message { subject: subject.into(), ..Message::default() }, signature)
}

/// A tree with a line, a branch with a commit on it, and its workspace with something more.
fn begun(home: &Path) -> (Plain, Commit, Commit) {
    let tree = open(home);
    let (message, signature) = words("Begin");
    let line = tree.begin("lines/main", &message, &signature).unwrap();
    tree.fork("a/run", &line, 7).unwrap();
    let dir = home.join("work");
    let at = Checkout { branch: "a/run", dir: &dir, now: 7 };
    tree.checkout(at).unwrap();
    fs::write(dir.join("one"), "1").unwrap();
    let head = tree.commit(at, &line, &message, &signature).unwrap().unwrap();
    fs::write(dir.join("two"), "2").unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("sub/three"), "3").unwrap();
    (tree, line, head)
}

/// Cuts `act` at its first point, then at its second, and so on, until it comes to its end. After each cut
/// `look` sees the tree as the next process finds it.
fn cut(
    act: impl Fn(&Plain, &Path, &Commit, &Commit) -> Result<(), Error>,
    look: impl Fn(&Plain, &Commit, &Commit),
) {
    for points in 0..MANY {
        let home = tempfile::tempdir().unwrap();
        let (tree, line, head) = begun(home.path());
        tree.disk.fuse.store(points, Ordering::Relaxed);
        let outcome = act(&tree, &home.path().join("work"), &line, &head);
        drop(tree);
        let tree = open(home.path());
        tree.verify().unwrap();
        look(&tree, &line, &head);
        if outcome.is_ok() {
            assert!(points > 2, "it was cut {points} times only");
            return;
        }
        // Whoever comes next does it.
        act(&tree, &home.path().join("work"), &line, &head).map_or_else(
            |error| assert!(matches!(error, Error::Moved { .. } | Error::NothingToMerge { .. }), "{error:?}"),
            |()| tree.verify().unwrap(),
        );
        assert_eq!(fs::read_dir(home.path().join("tree/drafts")).unwrap().count(), 0);
    }
    panic!("it never came to its end");
}

#[test]
fn a_commit_is_there_whole_or_not_at_all() {
    cut(
        |tree, dir, _, head| {
            let (message, signature) = words("Second");
            tree.commit(Checkout { branch: "a/run", dir, now: 8 }, head, &message, &signature).map(|_| ())
        },
        |tree, _, head| {
            let now = tree.head("a/run").unwrap();
            let record = tree.record(&now).unwrap();
            assert!(now == *head || record.parents == [head.clone()]);
            let files = super::Files::read(&tree.disk, &record.files).unwrap();
            assert_eq!(files.0.len(), if now == *head { 1 } else { 3 });
        },
    );
}

#[test]
fn a_merge_moves_the_line_or_leaves_it() {
    cut(
        |tree, _, line, head| {
            let (message, signature) = words("Merge");
            tree.merge(head, "lines/main", line, &message, &signature).map(|_| ())
        },
        |tree, line, head| {
            let now = tree.head("lines/main").unwrap();
            assert!(now == *line || tree.record(&now).unwrap().parents == [line.clone(), head.clone()]);
        },
    );
}

#[test]
fn a_branch_is_in_its_place_or_in_the_bin() {
    cut(
        |tree, _, _, _| tree.recycle("a/run", 9),
        |tree, _, head| {
            let there = tree.head("a/run").is_ok_and(|now| now == *head);
            let binned = tree.bin().unwrap().iter().any(|binned| binned.head == *head);
            assert!(there || binned);
        },
    );
}
