//! OpenAI Responses, stateless: how it is composed and folded.
//!
//! <https://platform.openai.com/docs/api-reference/responses>

mod compose;
mod fold;
mod whole;

pub(crate) use compose::{body as compose, scale};
pub(crate) use fold::Fold;
