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
