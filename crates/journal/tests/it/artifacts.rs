//! Artifacts: kept once, verified on every read, cleared of what a crash left.

use std::fs;

use domain::Digest;
use journal::FileArtifacts;
use kernel::port::{ArtifactError, Artifacts};

#[test]
fn bytes_come_back_and_are_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let artifacts = FileArtifacts::open(folder.path().join("artifacts")).unwrap();
    let digest = artifacts.put(b"report").unwrap();
    assert_eq!(digest, Digest::of(b"report"));
    assert_eq!(artifacts.put(b"report").unwrap(), digest);
    assert_eq!(artifacts.get(digest).unwrap(), b"report");
    let empty = artifacts.put(b"").unwrap();
    assert_eq!(artifacts.get(empty).unwrap(), b"");
    let text = digest.to_string();
    let place = folder.path().join("artifacts").join(&text[..2]).join(&text[2..]);
    assert_eq!(fs::read(place).unwrap(), b"report");
    assert_eq!(fs::read_dir(folder.path().join("artifacts/tmp")).unwrap().count(), 0);
    let artifacts = FileArtifacts::open(folder.path().join("artifacts")).unwrap();
    assert_eq!(artifacts.get(digest).unwrap(), b"report");
}

#[test]
fn a_damaged_or_missing_artifact_is_told_apart_and_mended_by_a_put() {
    let folder = tempfile::tempdir().unwrap();
    let artifacts = FileArtifacts::open(folder.path()).unwrap();
    let digest = artifacts.put(b"report").unwrap();
    let text = digest.to_string();
    let place = folder.path().join(&text[..2]).join(&text[2..]);
    fs::write(&place, b"rep0rt").unwrap();
    assert!(matches!(artifacts.get(digest), Err(ArtifactError::Damaged(of)) if of == digest));
    artifacts.put(b"report").unwrap();
    assert_eq!(artifacts.get(digest).unwrap(), b"report");
    fs::remove_file(&place).unwrap();
    assert!(matches!(artifacts.get(digest), Err(ArtifactError::Missing(of)) if of == digest));
}

#[test]
fn what_a_crash_left_unfinished_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    drop(FileArtifacts::open(folder.path()).unwrap());
    fs::write(folder.path().join("tmp/1-0"), b"half").unwrap();
    drop(FileArtifacts::open(folder.path()).unwrap());
    assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
}

#[test]
fn the_same_artifact_may_be_put_by_many_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let artifacts = FileArtifacts::open(folder.path()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let digest = artifacts.put(&[7; 100_000]).unwrap();
                assert_eq!(artifacts.get(digest).unwrap().len(), 100_000);
            });
        }
    });
}

#[test]
fn an_artifact_is_found_by_the_beginning_of_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    let artifacts = FileArtifacts::open(folder.path()).unwrap();
    let digest = artifacts.put(b"report").unwrap();
    let text = digest.to_string();
    for length in [2, 3, 12, 64] {
        assert_eq!(artifacts.find(&text[..length]).unwrap(), [digest]);
    }
    for nobody in ["", "a", "..", "../../etc", "zz", &text.to_uppercase(), &format!("{text}0")] {
        assert_eq!(artifacts.find(nobody).unwrap(), [], "`{nobody}`");
    }
}
