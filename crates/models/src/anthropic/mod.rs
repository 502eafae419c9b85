//! Anthropic Messages: how it is composed and folded.
//!
//! <https://docs.anthropic.com/en/api/messages>; `anthropic-version: 2023-06-01`.

mod compose;
mod fold;
mod whole;

pub(crate) use compose::body as compose;
pub(crate) use fold::Fold;
