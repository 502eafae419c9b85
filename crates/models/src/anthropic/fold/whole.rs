//! A message that was not streamed.

use serde::Deserialize;

use super::{BlockStart, Fold, Tokens, decode};
use crate::http::{Fault, Whole};
use crate::json::Fields;
use crate::{RawJson, Stop};

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    model: Option<String>,
    content: Vec<Fields>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<Tokens>,
}

impl Whole for Fold {
    fn whole(answer: &RawJson) -> Result<Self, Fault> {
        let Message { model, content, stop_reason, usage } = decode("message", answer.as_str())?;
        let mut fold = Self { model, stop: stop_reason.map(Stop::from), ended: true, ..Self::default() };
        fold.count(usage);
        for (index, fields) in (0..).zip(content) {
            let input = fields.get("input").map(|input| input.as_str().to_owned());
            fold.start(BlockStart { index, content_block: fields }, &mut |_| {})?;
            let block = fold.block(index)?;
            block.input = input.unwrap_or_default();
            block.closed = true;
        }
        Ok(fold)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::Fold as _;

    proptest! {
        #[test]
        fn no_whole_answer_panics(
            fields in prop::collection::vec((prop::sample::select(vec!["content","stop_reason","usage","model","type"]), value()), 0..5)
        ) {
            let all: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let answer = RawJson::parse(format!("{{{}}}", all.join(","))).unwrap();
            if let Ok(response) = Fold::whole(&answer).and_then(|fold| fold.finish("asked".to_owned())) {
                let bytes = serde_json::to_vec(&response).unwrap();
                prop_assert_eq!(serde_json::from_slice::<crate::Response>(&bytes).unwrap(), response);
            }
        }
    }

    /// Values of the right form and of others.
    fn value() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "null",
            "7",
            "\"completed\"",
            "\"incomplete\"",
            "\"tool_use\"",
            "[]",
            "[7]",
            "{}",
            "[{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\",\"input\":7}]",
            "[{\"type\":\"text\",\"text\":\"x\"},{\"type\":7}]",
            "[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"b\",\"arguments\":\"{\"}]",
            "[{\"type\":\"message\",\"content\":[]}]",
        ])
        .prop_map(str::to_owned)
    }
}
