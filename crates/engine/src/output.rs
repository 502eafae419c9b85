//! What the driver and the timeline read of a jailed step's payload. Narrower than what the runner
//! writes, so that a journal stays readable when the runner learns to say more.

use domain::{Digest, Image, Millis, Payload};
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
    #[serde(default)]
    pub(crate) artifact: Option<Digest>,
    /// The image that it gave to look at; its bytes are the artifact.
    #[serde(default)]
    pub(crate) image: Option<Image>,
    /// How it was confined.
    #[serde(default)]
    pub(crate) jail: Option<Jail>,
}

impl Output {
    /// Whether it says of itself that nothing held it.
    pub(crate) fn is_unheld(&self) -> bool {
        self.jail.as_ref().is_some_and(|jail| jail.state != "enforced")
    }
}

/// The jail of a step, in one word.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Jail {
    state: String,
}

/// A directory's own instructions, told with the first of its files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Instructions {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The image that the result of a step gave to look at, if its bytes are kept.
pub fn image_of(payload: Option<&Payload>) -> Option<Image> {
    let output = read(payload)?;
    // What could not be kept cannot be shown.
    output.image.filter(|image| output.artifact == Some(image.digest))
}

/// `None` for a payload that the kernel itself left empty, or that is no result.
pub(crate) fn read(payload: Option<&Payload>) -> Option<Output> {
    serde_json::from_slice(&payload?.0).ok()
}
