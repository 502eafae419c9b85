//! The event format: it round-trips, and no byte of it changes unnoticed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use domain::event::{DEFAULT_DOMAIN, NO_KEY, VERSION};
use domain::{Fact, Header, RunId, Source, Timestamp};
use proptest::prelude::*;

use crate::samples;

fn header(fact: Fact, seq: u64, at: u64) -> Header {
    Header {
        version: VERSION,
        run: RunId::from_bytes([9; 16]),
        seq,
        at: Timestamp(at),
        source: Source::Tool,
        domain: DEFAULT_DOMAIN.into(),
        key_id: NO_KEY.into(),
        fact,
    }
}

/// When this fails, events that are already written cannot be read any more: mend the code, and only
/// add lines here.
#[test]
fn the_bytes_of_every_fact_stay_what_they_are() {
    let mut golden = String::new();
    for fact in samples::facts() {
        let name = fact.name();
        let bytes = header(fact, 1, 2).to_bytes();
        writeln!(golden, "{name} {}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            .unwrap();
    }
    insta::assert_snapshot!("golden_bytes", golden);
}

#[test]
fn there_is_a_sample_of_every_fact() {
    let names: BTreeSet<_> = samples::facts().iter().map(Fact::name).collect();
    assert_eq!(names.len(), 21, "a new fact needs a sample and a golden line");
}

#[test]
fn a_header_of_another_version_is_not_read() {
    let mut other = header(samples::facts().remove(0), 1, 2);
    other.version = VERSION + 1;
    assert!(Header::from_bytes(&other.to_bytes()).is_err());
}

#[test]
fn bytes_after_a_header_are_not_overlooked() {
    let mut bytes = header(samples::facts().remove(0), 1, 2).to_bytes();
    bytes.push(0);
    assert!(Header::from_bytes(&bytes).is_err());
}

proptest! {
    #[test]
    fn headers_round_trip(index in 0..samples::facts().len(), seq: u64, at: u64) {
        let header = header(samples::facts().remove(index), seq, at);
        let bytes = header.to_bytes();
        let read = Header::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&read, &header);
        prop_assert_eq!(read.to_bytes(), bytes);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(index in 0..samples::facts().len(), place: usize, byte: u8, cut: usize) {
        let mut bytes = header(samples::facts().remove(index), 1, 2).to_bytes();
        let len = bytes.len();
        bytes[place % len] = byte;
        let _ = Header::from_bytes(&bytes);
        bytes.truncate(cut % len);
        prop_assert!(Header::from_bytes(&bytes).is_err());
    }
}
