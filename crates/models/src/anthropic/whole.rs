//! A whole message, told as the events of a stream.

use serde::Deserialize;
use serde_json::json;

use super::Fold;
use crate::RawJson;
use crate::http::Whole;

#[derive(Deserialize)]
struct Message {
    content: Vec<RawJson>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<serde_json::Value>,
}

impl Whole for Fold {
    fn events(body: &str) -> Option<Vec<String>> {
        let message: Message = serde_json::from_str(body).ok()?;
        let mut events = vec![
            json!({ "type": "message_start", "message": { "model": message.model, "usage": message.usage } })
                .to_string(),
        ];
        for (index, block) in message.content.iter().enumerate() {
            // A block goes back as it came, so it is not read and written anew.
            events.push(format!(
                r#"{{"type":"content_block_start","index":{index},"content_block":{}}}"#,
                block.as_str()
            ));
            events.push(format!(r#"{{"type":"content_block_stop","index":{index}}}"#));
        }
        events.push(
            json!({ "type": "message_delta", "delta": { "stop_reason": message.stop_reason } }).to_string(),
        );
        events.push(r#"{"type":"message_stop"}"#.to_owned());
        Some(events)
    }
}
