//! What the driver and the timeline read of a jailed step's payload. Narrower than what the runner
//! writes, so that a journal stays readable when the runner learns to say more.

use domain::{Millis, Payload};
use serde::Deserialize;

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Output {
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) exit_code: Option<i32>,
    #[serde(default)]
    pub(crate) is_error: bool,
    #[serde(default)]
    pub(crate) duration_ms: Option<Millis>,
    /// Where steps can read the whole.
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) instructions: Option<Instructions>,
}

/// A directory's own instructions, told with the first of its files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Instructions {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// `None` for a payload that the kernel itself left empty, or that is no result.
pub(crate) fn read(payload: Option<&Payload>) -> Option<Output> {
    serde_json::from_slice(&payload?.0).ok()
}
