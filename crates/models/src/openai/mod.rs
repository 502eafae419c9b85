//! OpenAI Responses, stateless: how it is composed and folded.
//!
//! <https://platform.openai.com/docs/api-reference/responses>

mod batch;
mod compose;
mod fold;
mod list;
mod whole;

pub(crate) use batch::Queue;
pub(crate) use compose::{body as compose, scale};
pub(crate) use fold::Fold;
pub(crate) use list::list;
