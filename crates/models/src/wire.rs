//! The wires: which protocol a model's name stands for, and what its vendor's variables are called.
//!
//! The name alone decides. It is on record with the run, so a run that is resumed composes the
//! very bytes that it composed before, whatever the environment has become.

use std::fmt;

use bytes::Bytes;

use crate::{Effort, Request, anthropic, compatible, compose, openai};

/// The protocol that a model is spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
    /// Chat completions, as llama.cpp, Ollama, vLLM and LM Studio speak them.
    Chat,
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Messages, Self::Responses, Self::Chat];

    /// The wire of a model: by its prefix (`anthropic/`, `openai/`, `local/`), else by its
    /// family; a name that says nothing is Anthropic's.
    #[must_use]
    pub fn of(model: &str) -> Self {
        match split(model) {
            (Some(wire), _) => wire,
            (None, name) if is_openai(name) => Self::Responses,
            (None, _) => Self::Messages,
        }
    }

    /// The exact bytes of a request; pure, and needs no key.
    ///
    /// # Errors
    /// When the vendor would refuse the request for its form.
    pub fn compose(self, request: &Request) -> Result<Bytes, compose::Error> {
        match self {
            Self::Messages => anthropic::compose(request),
            Self::Responses => openai::compose(request),
            Self::Chat => compatible::compose(request),
        }
    }

    /// The step of the vendor's own scale that an effort is sent as: not every scale is as long as the other.
    #[must_use]
    pub const fn scale(self, effort: Effort) -> &'static str {
        match self {
            Self::Messages => effort.name(),
            Self::Responses => openai::scale(effort),
            Self::Chat => compatible::scale(effort),
        }
    }

    /// Its short name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Messages => "anthropic",
            Self::Responses => "openai",
            Self::Chat => "compatible",
        }
    }

    /// The variable of the key.
    #[must_use]
    pub const fn key_env(self) -> &'static str {
        match self {
            Self::Messages => "ANTHROPIC_API_KEY",
            Self::Responses => "OPENAI_API_KEY",
            Self::Chat => "REGIE_LOCAL_API_KEY",
        }
    }

    /// The variable of the base URL.
    #[must_use]
    pub const fn url_env(self) -> &'static str {
        match self {
            Self::Messages => "ANTHROPIC_BASE_URL",
            Self::Responses => "OPENAI_BASE_URL",
            Self::Chat => "REGIE_LOCAL_BASE_URL",
        }
    }

    /// Where calls go unless the owner says otherwise.
    #[must_use]
    pub const fn default_url(self) -> &'static str {
        match self {
            Self::Messages => "https://api.anthropic.com",
            Self::Responses => "https://api.openai.com",
            Self::Chat => "http://127.0.0.1:11434",
        }
    }

    /// The path below the base URL and its version.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Responses => "responses",
            Self::Chat => "chat/completions",
        }
    }
}

impl fmt::Display for Wire {
    /// Who is at the other end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Messages => "Anthropic",
            Self::Responses => "OpenAI",
            Self::Chat => "the local model server",
        })
    }
}

/// The exact bytes of a request on the wire of its model.
///
/// # Errors
/// When the vendor would refuse the request for its form.
pub fn compose(request: &Request) -> Result<Bytes, compose::Error> {
    Wire::of(&request.model).compose(request)
}

/// Whether two names are one model at one vendor: what it wrote can go back to it.
#[must_use]
pub fn is_same(one: &str, other: &str) -> bool {
    Wire::of(one) == Wire::of(other) && bare(one) == bare(other)
}

/// The name that the vendor knows a model under: without the prefix that chose the wire.
#[must_use]
pub fn bare(model: &str) -> &str {
    split(model).1
}

fn split(model: &str) -> (Option<Wire>, &str) {
    let prefixes = [("anthropic/", Wire::Messages), ("openai/", Wire::Responses), ("local/", Wire::Chat)];
    let found = prefixes.into_iter().find_map(|(prefix, wire)| Some((wire, model.strip_prefix(prefix)?)));
    match found {
        Some((wire, name)) => (Some(wire), name),
        None => (None, model),
    }
}

/// `gpt-…`, and the reasoning series `o1`, `o3-mini` and so on.
fn is_openai(name: &str) -> bool {
    let mut letters = name.chars();
    let series = letters.next() == Some('o') && letters.next().is_some_and(|c| c.is_ascii_digit());
    name.starts_with("gpt-") || series
}
