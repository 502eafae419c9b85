//! Names of commits and trees as an engine has given them, so that no free text reaches a command line.

use std::fmt;
use std::str::FromStr;

/// The text is not the full lower-case hexadecimal name of an object.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a full object name: give the 40 hexadecimal digits, or 64 in a plain tree")]
pub struct NotAnObject {
    text: String,
}

mod sealed {
    pub trait Sealed {}
}

/// Something that names a tree: a [`Commit`] or a [`TreeId`].
pub trait Treeish: sealed::Sealed {
    /// The 40 hexadecimal digits of git, or the 64 of a plain tree.
    fn hex(&self) -> &str;
}

macro_rules! object_name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl sealed::Sealed for $name {}

        impl Treeish for $name {
            fn hex(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NotAnObject;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
                if matches!(text.len(), 40 | 64) && digits {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(NotAnObject { text: text.chars().take(60).collect() })
                }
            }
        }
    };
}

object_name! {
    /// The name of a commit.
    Commit
}
object_name! {
    /// The name of a tree: the files of a moment, without history.
    TreeId
}
