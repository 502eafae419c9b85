//! The index: words are found as they stand, and a damaged file is made again.

use std::fs;

use domain::{Digest, RunId, StepNo, Timestamp};
use journal::SearchIndex;
use kernel::port::{Found, Index, Mark, Text};

fn text(seq: u64, text: &str) -> Text {
    Text {
        run: RunId::from_bytes([1; 16]),
        seq,
        at: Timestamp(seq),
        step: Some(StepNo(seq)),
        kind: "output",
        text: text.into(),
    }
}

fn mark(position: u64) -> Mark {
    Mark { position, hash: Digest::of(&position.to_be_bytes()) }
}

fn index(texts: &[&str]) -> (tempfile::TempDir, SearchIndex) {
    let scratch = tempfile::tempdir().unwrap();
    let index = SearchIndex::new(scratch.path().join("index.db"));
    let texts: Vec<_> = (1..).zip(texts).map(|(seq, words)| text(seq, words)).collect();
    index.add(&texts, mark(texts.len() as u64)).unwrap();
    (scratch, index)
}

fn seqs(found: &[Found]) -> Vec<u64> {
    let mut seqs: Vec<_> = found.iter().map(|found| found.seq).collect();
    seqs.sort_unstable();
    seqs
}

#[test]
fn words_are_found_wherever_they_stand() {
    let (_scratch, index) = index(&[
        "thread 'main' panicked at src/cart.rs:12: index_out_of_range",
        "The café is open. NEAR AND OR NOT \"quoted\" text* (in: parentheses)",
        "nothing to see",
    ]);
    for (words, expected) in [
        ("panicked", &[1][..]),
        ("MAIN thread", &[1]),
        ("src/cart.rs:12", &[1]),
        ("index_out", &[1]),
        ("panic", &[1]),
        ("cafe", &[2]),
        ("NEAR AND OR NOT", &[2]),
        ("\"quoted\"", &[2]),
        ("text*", &[2]),
        ("(in: parentheses)", &[2]),
        ("kwyjibo", &[]),
        ("panicked nothing", &[]),
        ("  ", &[]),
        ("\"", &[]),
        ("* ^ : - (", &[]),
        ("\0", &[]),
    ] {
        assert_eq!(seqs(&index.find(words, 10).unwrap()), expected, "`{words}`");
    }
}

#[test]
fn an_excerpt_shows_where_it_matches() {
    let long = format!("{} needle {}", "hay ".repeat(500), "straw ".repeat(500));
    let (_scratch, index) = index(&[&long, "no \u{2}needles\u{3} here"]);
    let found = index.find("needle", 10).unwrap();
    assert_eq!(found.len(), 2);
    for one in found {
        let matches: Vec<_> = one.excerpt.iter().filter(|piece| piece.is_match).collect();
        assert_eq!(matches.len(), 1, "{:?}", one.excerpt);
        assert!(matches[0].text.starts_with("needle"));
        assert!(one.excerpt.iter().map(|piece| piece.text.len()).sum::<usize>() < 200);
        assert!(one.excerpt.iter().all(|piece| !piece.text.contains(['\u{2}', '\u{3}'])));
    }
}

#[test]
fn it_knows_how_far_it_has_come() {
    let (scratch, index) = index(&["one"]);
    assert_eq!(index.mark().unwrap(), Some(mark(1)));
    drop(index);
    let again = SearchIndex::new(scratch.path().join("index.db"));
    assert_eq!(again.mark().unwrap(), Some(mark(1)));
    again.clear().unwrap();
    assert_eq!(again.mark().unwrap(), None);
    assert_eq!(again.find("one", 10).unwrap(), []);
}

#[test]
fn a_damaged_or_foreign_file_is_made_again() {
    let (scratch, index) = index(&["one two three"]);
    drop(index);
    let path = scratch.path().join("index.db");
    for bytes in [&b"this is no database at all, only some text that is long enough"[..], b""] {
        fs::write(&path, bytes).unwrap();
        let index = SearchIndex::new(&path);
        assert_eq!(index.mark().unwrap(), None);
        index.add(&[text(1, "four")], mark(1)).unwrap();
        assert_eq!(index.find("four", 10).unwrap().len(), 1);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_that_says_so() {
    let scratch = tempfile::tempdir().unwrap();
    let index = SearchIndex::new(scratch.path().join("nowhere/index.db"));
    assert!(index.mark().unwrap_err().to_string().contains("can be deleted"));
}
