//! An answer of one wire, as a stream or whole: however it is split it gives the same, and an answer that it gives can be
//! recorded, read back, and answered in a next request.

use bytes::Bytes;
use models::{Block, Delta, Message, Request, Response, Wire, parsers};

use crate::must_be_json;

/// The model that is asked.
fn asked(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "scripted",
        Wire::Responses => "openai/scripted",
        Wire::Chat => "local/scripted",
    }
}

pub fn check(wire: Wire, data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let whole = read(wire, vec![bytes.clone()]);
    assert_eq!(read(wire, split(&bytes)), whole, "another split, another answer");
    if bytes.len() < 1_500 {
        let single = (0..bytes.len()).map(|at| bytes.slice(at..=at)).collect();
        assert_eq!(read(wire, single), whole, "byte by byte, another answer");
    }
    if let Ok(response) = whole.0 {
        goes_on(wire, &response);
    }
}

/// The same answer as a body that came whole.
pub fn check_whole(wire: Wire, data: &[u8]) {
    let answer = parsers::whole(wire, &Bytes::copy_from_slice(data), asked(wire));
    if let Some(Ok(response)) = answer {
        goes_on(wire, &response);
    }
}

fn goes_on(wire: Wire, response: &Response) {
    let stored = serde_json::to_vec(response).expect("an answer can be recorded");
    let again: Response = serde_json::from_slice(&stored).expect("a record can be read");
    assert_eq!(&again, response, "the record says something else");
    assert_eq!(serde_json::to_vec(&again).expect("as before"), stored, "the record changes");
    let body = next(wire, response);
    assert_eq!(next(wire, &again), body, "the record composes to another request");
    must_be_json(&body);
}

fn read(wire: Wire, pieces: Vec<Bytes>) -> (Result<Response, String>, Vec<Delta>) {
    let mut seen = Vec::new();
    // Pieces of prose may come in other portions; what they say may not.
    let mut on_delta = |delta| match (seen.last_mut(), delta) {
        (Some(Delta::Text(so_far)), Delta::Text(more)) => so_far.push_str(&more),
        (_, delta) => seen.push(delta),
    };
    let answer = parsers::read(wire, pieces, asked(wire), &mut on_delta);
    (answer, seen)
}

/// The request that goes on after an answer: each call has its result.
fn next(wire: Wire, response: &Response) -> Bytes {
    let mut blocks: Vec<Block> = Vec::new();
    for call in response.calls() {
        let why = call.input.map(|_| ()).map_err(ToString::to_string);
        blocks.push(Block::tool_result(call.id, why.as_ref().map(|()| "done").map_err(String::as_str)));
    }
    blocks.push(Block::text("Go on."));
    let first = Message::user(vec![Block::text("Go.")]);
    let request = Request {
        model: asked(wire).to_owned(),
        max_tokens: 1_000,
        system: "You mend bugs.".to_owned(),
        tools: Vec::new(),
        messages: vec![first, Message::assistant(response), Message::user(blocks)],
        effort: None,
        extras: models::Extras { cache_key: true, reasoning: true },
    };
    models::wire::compose(&request).expect("an answer can be gone on from")
}

/// Places to cut that follow from the bytes, so that the input is the stream alone.
fn split(bytes: &Bytes) -> Vec<Bytes> {
    let mut state = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let (mut pieces, mut rest) = (Vec::new(), bytes.clone());
    while !rest.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let most = usize::try_from(state % 48).unwrap_or(0);
        pieces.push(rest.split_to(most.min(rest.len())));
    }
    pieces
}
