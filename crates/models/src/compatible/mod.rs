//! Chat completions as local servers speak them: llama.cpp, Ollama, vLLM, LM Studio.
//!
//! They differ in what they leave out and what they repeat; what one of them does wrong is mended in the
//! fold, without asking which one it is.

mod calls;
mod compose;
mod fold;
mod whole;

pub(crate) use compose::{body as compose, scale};
pub(crate) use fold::Fold;
