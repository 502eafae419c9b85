//! A whole response, told as the event that ends a stream.

use serde::Deserialize;

use super::Fold;
use crate::RawJson;
use crate::http::Whole;

#[derive(Deserialize)]
struct Response {
    #[serde(rename = "output")]
    _output: Vec<RawJson>,
    #[serde(default)]
    status: Option<String>,
}

impl Whole for Fold {
    fn events(body: &str) -> Option<Vec<String>> {
        let response: Response = serde_json::from_str(body).ok()?;
        let kind = match response.status.as_deref() {
            Some("incomplete") => "response.incomplete",
            Some("failed") => "response.failed",
            _ => "response.completed",
        };
        Some(vec![format!(r#"{{"type":"{kind}","response":{body}}}"#)])
    }
}
