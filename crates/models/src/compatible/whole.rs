//! A whole completion: the chunk that has everything, and the end.

use serde::Deserialize;

use super::Fold;
use crate::RawJson;
use crate::http::Whole;

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(rename = "message")]
    _message: RawJson,
}

impl Whole for Fold {
    fn events(body: &str) -> Option<Vec<String>> {
        let completion: Completion = serde_json::from_str(body).ok()?;
        // Without a choice there is no answer in it, as in an error.
        (!completion.choices.is_empty()).then(|| vec![body.to_owned(), "[DONE]".to_owned()])
    }
}
