//! What runs of earlier drivers send, byte for byte: a run that is on record must be asked for with the very
//! bytes that it was asked for with.

use domain::Digest;
use models::Wire;

use crate::story::{config_of, mission_of, requests, told};

/// Digest and length of each request, and the last one whole.
fn account(driver: &str, wire: Wire) -> String {
    let world = told(driver, wire, config_of(wire), mission_of(wire));
    let sent = requests(&world);
    let mut lines: Vec<String> = sent
        .iter()
        .map(|(step, body)| format!("{:?} {} {} bytes", step.kind, Digest::of(body.as_bytes()), body.len()))
        .collect();
    lines.push(sent.last().unwrap().1.clone());
    lines.join("\n")
}

#[test]
fn what_runs_of_native_3_send() {
    for wire in Wire::ALL {
        insta::assert_snapshot!(format!("native_3_{wire:?}"), account("native/3", wire));
    }
}

#[test]
fn what_runs_of_native_2_and_1_send() {
    for wire in Wire::ALL {
        insta::assert_snapshot!(format!("native_2_{wire:?}"), account("native/2", wire));
        insta::assert_snapshot!(format!("native_1_{wire:?}"), account("native/1", wire));
    }
}
