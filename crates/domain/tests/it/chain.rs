//! The chain: whatever is changed in a journal, some link does not fit any more.

use domain::event::{Head, Sealed, content_digest, link, seal};
use domain::{Digest, Event, Payload, RunId, Source, Timestamp};
use proptest::prelude::*;

use crate::samples;

fn chain() -> Vec<Sealed> {
    let events = samples::facts().into_iter().enumerate().map(|(place, fact)| Event {
        at: Timestamp(place as u64),
        source: Source::Agent,
        fact,
        payload: Payload(format!("payload {place}").into_bytes()),
    });
    let mut salt = 0_u8;
    seal(RunId::from_bytes([9; 16]), Head::EMPTY, events.collect(), || {
        salt += 1;
        [salt; 16]
    })
}

/// Verifies as an auditor does, from stored bytes alone. The first event that does not fit.
fn broken_at(events: &[Sealed]) -> Option<usize> {
    let mut previous = Digest::ZERO;
    events.iter().position(|event| {
        let content = content_digest(&event.salt, &event.payload);
        let fits = content == event.content && link(previous, content, &event.bytes) == event.hash;
        previous = event.hash;
        !fits
    })
}

#[test]
fn an_untouched_chain_verifies() {
    assert_eq!(broken_at(&chain()), None);
}

#[test]
fn numbers_follow_each_other_over_several_batches() {
    let events = chain();
    assert!(events.iter().map(|event| event.header.seq).eq(1..=events.len() as u64));
    let last = events.last().unwrap();
    let head = Head { seq: last.header.seq, hash: last.hash };
    let event = Event {
        at: Timestamp(0),
        source: Source::Kernel,
        fact: samples::facts().remove(1),
        payload: Payload::EMPTY,
    };
    let next = seal(last.header.run, head, vec![event], || [0; 16]);
    assert_eq!(next.first().unwrap().header.seq, last.header.seq + 1);
    assert_eq!(broken_at(&[events, next].concat()), None);
}

proptest! {
    #[test]
    fn a_changed_bit_is_found_where_it_is(event in 0..23_usize, part in 0..5_u8, place: usize, bit in 0..8_u8) {
        let mut events = chain();
        let at = event % events.len();
        let sealed = &mut events[at];
        let flip = |byte: &mut u8| *byte ^= 1 << bit;
        let digest = |digest: &mut Digest| {
            let mut bytes = *digest.as_bytes();
            flip(&mut bytes[place % 32]);
            *digest = Digest::from_bytes(bytes);
        };
        match part {
            0 => digest(&mut sealed.hash),
            1 => digest(&mut sealed.content),
            2 => { let len = sealed.bytes.len(); flip(&mut sealed.bytes[place % len]); }
            3 => flip(&mut sealed.salt[place % 16]),
            _ => { let len = sealed.payload.0.len(); flip(&mut sealed.payload.0[place % len]); }
        }
        prop_assert_eq!(broken_at(&events), Some(at));
    }

    #[test]
    fn events_cannot_be_left_out_or_swapped(first in 0..22_usize, swap: bool) {
        let mut events = chain();
        if swap { events.swap(first, first + 1); } else { events.remove(first); }
        prop_assert_eq!(broken_at(&events), Some(first));
    }
}
