//! What was written to the journal, or ought to have been: what can be read is written back as it was, and
//! a conversation of it is composed or refused, on every wire.

use models::{Block, Message, RawJson, Request, Response, Role, ToolSpec, Wire};
use serde_json::value::RawValue;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(response) = serde_json::from_str::<Response>(text) {
        round(&response);
        compose(&response.blocks);
    }
    if let Ok(message) = serde_json::from_str::<Message>(text) {
        round(&message);
        compose(&message.blocks);
    }
    if let Ok(block) = serde_json::from_str::<Block>(text) {
        round(&block);
        compose(&[block]);
    }
    if let Ok(block) = RawJson::parse(text).map_err(drop).and_then(|raw| Block::from_raw(raw).map_err(drop)) {
        round(&block);
        compose(&[block]);
    }
}

fn round<T>(value: &T)
where
    T: serde::Serialize + for<'de> serde::Deserialize<'de> + PartialEq + std::fmt::Debug,
{
    let written = serde_json::to_vec(value).expect("what was read can be written");
    let again: T = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(&again, value);
    assert_eq!(serde_json::to_vec(&again).expect("as before"), written);
}

/// The blocks as the model's, and as the owner's.
fn compose(blocks: &[Block]) {
    for wire in Wire::ALL {
        for role in [Role::User, Role::Assistant] {
            let first = Message::user(vec![Block::text("Go.")]);
            let said = Message { role, blocks: blocks.to_vec(), made_by: None };
            let schema = RawJson::parse("{}").expect("JSON");
            let request = Request {
                model: "scripted".to_owned(),
                max_tokens: 1,
                system: String::new(),
                tools: vec![ToolSpec { name: "a".into(), description: "b".into(), input_schema: schema }],
                messages: vec![first, said],
                effort: None,
                extras: models::Extras { cache_key: true, reasoning: true },
            };
            if let Ok(body) = wire.compose(&request) {
                serde_json::from_slice::<&RawValue>(&body).expect("a request is JSON");
            }
        }
    }
}
