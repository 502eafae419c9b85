//! Anthropic Messages: how it is composed and folded.
//!
//! <https://docs.anthropic.com/en/api/messages>; `anthropic-version: 2023-06-01`.

mod batch;
mod compose;
mod fold;
mod list;
mod whole;

pub(crate) use batch::Queue;
pub(crate) use compose::body as compose;
pub(crate) use fold::Fold;
pub(crate) use list::list;
