//! An answer written to the journal and read back is the same answer, byte for byte.

use models::block::{InputError, View};
use models::{Block, Message, RawJson, Response, Stop, Usage};
use proptest::prelude::*;

use crate::block;

fn response(blocks: Vec<Block>) -> Response {
    Response {
        blocks,
        stop: Stop::Other("novel".to_owned()),
        usage: Usage { input: 1, output: 2, cache_read: 3, cache_write: 4 },
        lost: Usage::default(),
        asked: "scripted".to_owned(),
        model: "scripted".to_owned(),
        request_id: None,
        attempts: 3,
    }
}

#[test]
fn raw_blocks_survive_the_journal_unchanged() {
    let raws = [
        r#"{ "type":"text" ,"text":"é\u00e9","n":1.50e1}"#,
        r#"{"type":"tool_use","id":"a","name":"read","input":{"z":12345678901234567890123,"a":[1.0]}}"#,
        r#"{"type":"novelty","x":{}}"#,
    ];
    let before = response(raws.iter().map(|raw| block(raw)).collect());
    let bytes = serde_json::to_vec(&before).unwrap();
    let after: Response = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(after, before);
    assert_eq!(serde_json::to_vec(&after).unwrap(), bytes);
    let kept: Vec<&str> = after.blocks.iter().map(|block| block.raw().as_str()).collect();
    assert_eq!(kept, raws);
    let message = Message::assistant(&after);
    let again: Message = serde_json::from_slice(&serde_json::to_vec(&message).unwrap()).unwrap();
    assert_eq!(again, message);
}

#[test]
fn a_call_that_must_not_run_stays_so_after_the_journal() {
    for error in
        [r#"{"why":"unreadable","text":"{"}"#, r#"{"why":"truncated","text":"{"}"#, r#"{"why":"refused"}"#]
    {
        let stored = format!(
            r#"{{"raw":{{"type":"tool_use","id":"a","name":"read","input":{{}}}},"input_error":{error}}}"#
        );
        let block: Block = serde_json::from_str(&stored).unwrap();
        let want: InputError = serde_json::from_str(error).unwrap();
        assert_eq!(block.input_error(), Some(&want));
        assert_eq!(serde_json::to_string(&block).unwrap(), stored);
        let response = response(vec![block]);
        assert_eq!(response.calls().next().unwrap().input, Err(&want));
    }
}

proptest! {
    #[test]
    fn any_tool_result_is_read_back(id in "\\PC{0,20}", text in "\\PC{0,40}", failed: bool) {
        let outcome = if failed { Err(text.as_str()) } else { Ok(text.as_str()) };
        let block = Block::tool_result(id.clone(), outcome);
        let bytes = serde_json::to_vec(&block).unwrap();
        let again: Block = serde_json::from_slice(&bytes).unwrap();
        prop_assert_eq!(&again, &block);
        let content = Some(RawJson::encode(&text).unwrap());
        let view = View::ToolResult { tool_use_id: id, content, is_error: failed };
        prop_assert_eq!(again.view(), &view);
    }
}
