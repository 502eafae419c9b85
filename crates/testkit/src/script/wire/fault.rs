//! A fault that comes in place of an answer: the error of a status, in the words of the wire.

use serde_json::{Value, json};

use super::{Wire, messages, responses};
use crate::script::scenario::{Fault, FaultKind, Said};

impl Wire {
    /// The status and body of a fault that is an HTTP error; `None` for one inside the stream.
    pub(in crate::script) fn fault(self, fault: &Fault, body_bytes: usize) -> Option<(u16, Value)> {
        match fault.kind {
            FaultKind::Overflow => {
                Some((400, self.overflow(u64::try_from(body_bytes / 4).unwrap_or(u64::MAX))))
            }
            FaultKind::Status => {
                let message = fault.message.as_deref().unwrap_or("scripted fault");
                let status = fault.status.unwrap_or(500);
                let wait = fault.retry_after.as_ref().filter(|_| fault.said == Said::InBody);
                let Some(wait) = wait else { return Some((status, self.refusal(status, message))) };
                if self == Self::Responses {
                    let message = format!("{message}. Please try again in {wait}s.");
                    return Some((status, self.refusal(status, &message)));
                }
                let mut body = self.refusal(status, message);
                body["error"]["retry_after"] = wait.parse::<f64>().unwrap_or_default().into();
                Some((status, body))
            }
            FaultKind::Cut
            | FaultKind::Silence
            | FaultKind::Garbage
            | FaultKind::Truncated
            | FaultKind::Error => None,
        }
    }

    /// What is said of a conversation of so many tokens, of which half would fit: Anthropic's words, OpenAI's,
    /// llama.cpp's.
    fn overflow(self, tokens: u64) -> Value {
        let most = tokens / 2;
        match self {
            Self::Messages => messages::error_body(
                "invalid_request_error",
                &format!("prompt is too long: {tokens} tokens > {most} maximum"),
            ),
            Self::Responses => {
                let message = "Your input exceeds the context window of this model. Please adjust your input and \
                               try again.";
                let mut body = responses::error_body(400, message);
                body["error"]["param"] = "input".into();
                body["error"]["code"] = "context_length_exceeded".into();
                body
            }
            Self::Chat => json!({ "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": tokens,
                "n_ctx": most,
            } }),
        }
    }
}
