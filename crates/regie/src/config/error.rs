//! What makes no sense in a configuration, with its place and its mend.

use std::io;
use std::path::PathBuf;

use super::key::Level;
use crate::failure::Failure;
use crate::screen::text;

/// Why a configuration is refused. Nothing starts on one that is only half understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is a directory, a link or a device, or larger than any configuration.
    #[error("{} is not a plain file of at most 64 KiB", path.display())]
    NotPlain {
        /// The file.
        path: PathBuf,
    },
    /// It is not TOML.
    #[error("{}:{line}: {why}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser said, one line.
        why: String,
    },
    /// A key that Regie does not know.
    #[error("{}:{line}: there is no key `{key}`", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key, as it was written.
        key: String,
        /// The known one that is nearest.
        nearest: Option<String>,
    },
    /// A key that belongs in the other file.
    #[error("{}:{line}: `{key}` does not belong here", path.display())]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// Whose file this is.
        level: Level,
    },
    /// A value that its key does not take.
    #[error("{}:{line}: `{key}`: {why}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// What was expected.
        why: String,
    },
    /// A variable with a value that its key does not take.
    #[error("{name} in the environment: {why}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What was expected.
        why: String,
    },
    /// A repository names a model on which no cap in dollars could hold.
    #[error("{}:{line}: the price of the model `{model}` is unknown", path.display())]
    Unpriced {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The model.
        model: String,
    },
}

impl Error {
    /// How to mend it, one line.
    pub(crate) fn mend(&self) -> String {
        match self {
            Self::Read { source, .. } => format!("the system says: {source}; check the file's permissions"),
            Self::NotPlain { .. } => "replace it by a plain file, or remove it".into(),
            Self::Syntax { .. } => {
                "a text needs quotes, a list brackets; `regie init` writes a sample".into()
            }
            Self::Unknown { nearest: Some(nearest), .. } => {
                format!("did you mean `{nearest}`? `regie config explain` lists all keys")
            }
            Self::Unknown { nearest: None, .. } => {
                "remove the line; `regie config explain` lists all keys".into()
            }
            Self::Misplaced { level: Level::Project, .. } => {
                "move it to config.toml in Regie's home: it is for the owner alone to say".into()
            }
            Self::Misplaced { level: Level::Installation, .. } => {
                "move it to the regie.toml at the root of a project".into()
            }
            Self::Value { .. } => "write the value in that form, or remove the line for the default".into(),
            Self::Environment { name, .. } => format!("set {name} in that form, or unset it"),
            Self::Unpriced { .. } => "no cap in dollars could hold: the owner may name such a model, with \
                                      --model, REGIE_MODEL or in config.toml in Regie's home"
                .into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::usage(text::line(&error.to_string())).hint(text::line(&error.mend()))
    }
}
