//! What is known of a content's origin and worth, and what a run has taken in so far.
//!
//! Labels are a set that only grows: what is made of two contents has the labels of both. So the taint of a run is
//! the union of the labels of all that it has read, and a rule that speaks of a label holds from the first content
//! that has it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode, Encoder};
use serde::{Deserialize, Serialize};

/// The longest name of a label, in bytes.
const LONGEST: usize = 32;

/// One label: up to 32 lower-case letters, digits and `-`, the first a letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(String);

/// A text that names no label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no label: expected up to 32 lower-case letters, digits and `-`, the first a letter")]
pub struct NotALabel(pub String);

impl Label {
    /// Content from outside the house: the web, mail, an import, a document that somebody else wrote. Whoever wrote
    /// it may want something of the agent.
    pub const EXTERNAL: &'static str = "external";
    /// Content that must not leave the house: secrets, personal and protected data.
    pub const SENSITIVE: &'static str = "sensitive";

    /// The content is from outside the house.
    #[must_use]
    pub fn external() -> Self {
        Self(Self::EXTERNAL.into())
    }

    /// The content must not leave the house.
    #[must_use]
    pub fn sensitive() -> Self {
        Self(Self::SENSITIVE.into())
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Label {
    type Error = NotALabel;

    fn try_from(text: String) -> Result<Self, NotALabel> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_label = text.len() <= LONGEST
            && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
            && text.bytes().all(fits);
        if is_label { Ok(Self(text)) } else { Err(NotALabel(text)) }
    }
}

impl FromStr for Label {
    type Err = NotALabel;

    fn from_str(text: &str) -> Result<Self, NotALabel> {
        Self::try_from(text.to_owned())
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A set of labels, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeSet<Label>);

impl Labels {
    /// No label: content of the owner's or the project's own.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a label of this name is among them.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|label| label.0 == name)
    }

    /// Takes in those of another content.
    pub fn join(&mut self, others: &Self) {
        self.0.extend(others.0.iter().cloned());
    }

    /// Whether all of these are among `others`.
    #[must_use]
    pub fn is_within(&self, others: &Self) -> bool {
        self.0.is_subset(&others.0)
    }

    /// They, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }
}

impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Self {
        Self(labels.into_iter().collect())
    }
}

impl<C> Encode<C> for Labels {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.array(self.0.len() as u64)?;
        self.0.iter().try_for_each(|label| encoder.str(&label.0).map(|_| ()))
    }
}

impl<'b, C> Decode<'b, C> for Labels {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let texts = decoder.array_iter::<&str>()?;
        let label = |text: Result<&str, _>| {
            text?.parse::<Label>().map_err(|error| minicbor::decode::Error::message(error.to_string()))
        };
        texts.map(label).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn labels(names: &[&str]) -> Labels {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn what_a_label_may_be_called() {
        for good in ["external", "sensitive", "a", "pii-2", &"x".repeat(32)] {
            assert_eq!(good.parse::<Label>().unwrap().as_str(), good);
        }
        for bad in ["", "A", "2a", "-a", "a b", "a\n", "é", "a_b", &"x".repeat(33)] {
            assert!(bad.parse::<Label>().unwrap_err().to_string().contains("is no label"), "{bad:?}");
        }
    }

    #[test]
    fn a_set_only_grows() {
        let mut taint = Labels::none();
        assert!(taint.is_empty());
        taint.join(&labels(&["sensitive", "external"]));
        taint.join(&labels(&["external"]));
        assert_eq!(taint.iter().map(Label::as_str).collect::<Vec<_>>(), ["external", "sensitive"]);
        assert!(labels(&["external"]).is_within(&taint) && !taint.is_within(&labels(&["external"])));
        assert!(taint.has(Label::EXTERNAL) && !taint.has("extern"));
    }

    #[test]
    fn its_bytes_are_texts_in_order_and_are_held_against_the_rules() {
        let bytes = minicbor::to_vec(labels(&["b", "a"])).unwrap();
        assert_eq!(bytes, [0x82, 0x61, b'a', 0x61, b'b']);
        assert_eq!(minicbor::decode::<Labels>(&bytes).unwrap(), labels(&["a", "b"]));
        assert!(minicbor::decode::<Labels>(&[0x81, 0x61, b'A']).is_err());
        assert_eq!(serde_json::to_string(&labels(&["b", "a"])).unwrap(), r#"["a","b"]"#);
        assert!(serde_json::from_str::<Labels>(r#"["Not a label"]"#).is_err());
    }
}
