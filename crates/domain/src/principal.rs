//! Who acts: a human, an agent in a role, a service of the house, or a node.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name, in bytes.
const LONGEST: usize = 32;

/// Who acts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Principal {
    /// A person, as `human:owner`.
    Human(String),
    /// An agent by its role, as `agent:coder`: the role acts, not one run.
    Agent(String),
    /// A service of the house itself, as `svc:keeper`.
    Service(String),
    /// A machine that belongs to the house, as `node:desk`.
    Node(String),
}

/// A text that names no principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no principal: expected `human:`, `agent:`, `svc:` or `node:` and a name of up to 32 lower-case letters, \
     digits, `-` and `_`, the first a letter"
)]
pub struct NotAPrincipal(String);

impl Principal {
    /// What kind it is, as it is written.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Human(_) => "human",
            Self::Agent(_) => "agent",
            Self::Service(_) => "svc",
            Self::Node(_) => "node",
        }
    }

    /// Its name, without the kind.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Human(name) | Self::Agent(name) | Self::Service(name) | Self::Node(name) => name,
        }
    }
}

impl FromStr for Principal {
    type Err = NotAPrincipal;

    fn from_str(text: &str) -> Result<Self, NotAPrincipal> {
        let refused = || NotAPrincipal(text.chars().take(80).collect());
        let (kind, name) = text.split_once(':').ok_or_else(refused)?;
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        let is_name = name.len() <= LONGEST
            && name.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
            && name.bytes().all(fits);
        if !is_name {
            return Err(refused());
        }
        let name = name.to_owned();
        match kind {
            "human" => Ok(Self::Human(name)),
            "agent" => Ok(Self::Agent(name)),
            "svc" => Ok(Self::Service(name)),
            "node" => Ok(Self::Node(name)),
            _ => Err(refused()),
        }
    }
}

impl TryFrom<String> for Principal {
    type Error = NotAPrincipal;

    fn try_from(text: String) -> Result<Self, NotAPrincipal> {
        text.parse()
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> Self {
        principal.to_string()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_a_principal() {
        for good in ["human:owner", "agent:coder", "svc:keeper", "node:desk-2"] {
            assert_eq!(good.parse::<Principal>().unwrap().to_string(), good);
        }
        for bad in
            ["", "owner", "human:", "root:x", "agent:Coder", "agent:2", "svc:a b", "human:a:b", "node:\n"]
        {
            assert!(bad.parse::<Principal>().unwrap_err().to_string().contains("is no principal"), "{bad:?}");
        }
    }
}
