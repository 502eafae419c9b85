//! What an event costs to read: split off, folded, told to whoever watches; beside parsing its data once
//! into a tree of values.

use std::hint::black_box;

use anyhow::{Result, anyhow, ensure};
use bytes::Bytes;
use models::{Delta, Response, Wire, parsers};
use serde_json::Value;

use crate::clock::{Took, beside, took};
use crate::stream::Stream;
use crate::table::Table;

const DELTAS: usize = 12_000;
const ROUNDS: usize = 31;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    for wire in Wire::ALL {
        let stream = Stream::of(wire, DELTAS);
        let pieces = pieces(&stream);
        let answer = read(wire, pieces.clone())?;
        ensure!(
            answer.calls().filter(|call| call.input.is_ok()).count() == 2,
            "{wire:?}: an answer with two calls"
        );
        let [fold, parse] = beside(ROUNDS, || folded(wire, &pieces), || parsed(&stream));
        let what = format!("{wire:?}: processor time of an event, read and folded / parsed into a Value");
        table.row(&what, fold.cpu / parse.cpu, 3.0);
        let each = 1e9 / stream.events.len().max(1) as f64;
        table.note("  nanoseconds of an event, folded", fold.cpu * each);
    }
    for wire in Wire::ALL {
        let (short, long) = (Stream::of(wire, DELTAS), Stream::of(wire, 4 * DELTAS));
        let (few, many) = (pieces(&short), pieces(&long));
        let [few, many] = beside(ROUNDS / 2, || folded(wire, &few), || folded(wire, &many));
        let bytes = |stream: &Stream| stream.events.iter().map(String::len).sum::<usize>() as f64;
        let ratio = (many.cpu / bytes(&long)) / (few.cpu / bytes(&short));
        table.row(&format!("{wire:?}: processor time of a byte, a stream of 4n / of n"), ratio, 1.2);
    }
    Ok(())
}

/// An event a piece, as they arrive.
fn pieces(stream: &Stream) -> Vec<Bytes> {
    stream.events.iter().map(|event| Bytes::from(event.clone())).collect()
}

fn read(wire: Wire, pieces: Vec<Bytes>) -> Result<Response> {
    parsers::read(wire, pieces, "scripted", &mut |_| {}).map_err(|why| anyhow!(why))
}

fn folded(wire: Wire, pieces: &[Bytes]) -> Took {
    let pieces = pieces.to_vec();
    took(|| {
        let mut seen = 0_usize;
        let mut on_delta = |delta: Delta| {
            if let Delta::Text(text) = &delta {
                seen += text.len();
            }
        };
        let response = parsers::read(wire, pieces, "scripted", &mut on_delta);
        (response, seen)
    })
}

fn parsed(stream: &Stream) -> Took {
    took(|| {
        for data in &stream.data {
            let _ = black_box(serde_json::from_slice::<Value>(data.as_bytes()));
        }
    })
}
