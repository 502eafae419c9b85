//! Typed identifiers.
//!
//! An identifier is a UUIDv7 (RFC 9562): its first 48 bits are the Unix time in milliseconds, so that
//! keys sort by creation. It is shown as a prefix and 26 characters of Crockford's base 32 in lower
//! case, the form of TypeID. Domain makes none: time and randomness are handed in.

use std::fmt;
use std::str::FromStr;

/// Crockford's alphabet: no `i`, `l`, `o`, `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 26 characters of 5 bits hold the 128 bits.
const TEXT_LEN: usize = 26;

/// Why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {prefix} id: expected `{prefix}_` and 26 characters, as `regie runs` prints them")]
pub struct ParseError {
    text: String,
    prefix: &'static str,
}

fn encode(bytes: [u8; 16]) -> String {
    let mut value = u128::from_be_bytes(bytes);
    let mut text = [0u8; TEXT_LEN];
    for slot in text.iter_mut().rev() {
        *slot = ALPHABET[(value & 31) as usize];
        value >>= 5;
    }
    text.iter().map(|&byte| char::from(byte)).collect()
}

fn decode(text: &str) -> Option<[u8; 16]> {
    if text.len() != TEXT_LEN {
        return None;
    }
    let mut value: u128 = 0;
    for (position, byte) in text.bytes().enumerate() {
        let digit = ALPHABET.iter().position(|&letter| letter == byte)? as u128;
        // 26 × 5 = 130 bits: the first digit may use three of its five.
        if position == 0 && digit > 7 {
            return None;
        }
        value = (value << 5) | digit;
    }
    Some(value.to_be_bytes())
}

/// A UUIDv7 from a time (Unix milliseconds) and ten random bytes.
pub fn uuid_v7(unix_millis: u64, random: [u8; 10]) -> [u8; 16] {
    *uuid::Builder::from_unix_timestamp_millis(unix_millis, &random).as_uuid().as_bytes()
}

macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// The prefix that the text form carries.
            pub const PREFIX: &'static str = $prefix;

            /// From the 16 bytes of the key.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// A new identifier from a time (Unix milliseconds) and ten random bytes.
            pub fn new(unix_millis: u64, random: [u8; 10]) -> Self {
                Self(uuid_v7(unix_millis, random))
            }

            /// The 16 bytes of the key, in the order in which keys sort.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}_{}", $prefix, encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                text.strip_prefix($prefix)
                    .and_then(|rest| rest.strip_prefix('_'))
                    .and_then(decode)
                    .map(Self)
                    .ok_or_else(|| ParseError { text: text.into(), prefix: $prefix })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl<C> minicbor::Encode<C> for $name {
            fn encode<W: minicbor::encode::Write>(
                &self,
                e: &mut minicbor::Encoder<W>,
                _: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                e.bytes(&self.0)?.ok()
            }
        }

        impl<'b, C> minicbor::Decode<'b, C> for $name {
            fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
                d.bytes()?
                    .try_into()
                    .map(Self)
                    .map_err(|_| minicbor::decode::Error::message("an id has 16 bytes"))
            }
        }
    };
}

typed_id!(
    /// One execution of an agent in a mission.
    RunId, "run"
);
typed_id!(
    /// An owner's goal with a budget and a definition of done.
    MissionId, "mission"
);
typed_id!(
    /// A tree with instructions, criteria and default policy.
    ProjectId, "project"
);
typed_id!(
    /// A durable question to a human.
    GateId, "gate"
);
typed_id!(
    /// A run's authority.
    LeaseId, "lease"
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_round_trips(bytes: [u8; 16]) {
            let id = RunId::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse::<RunId>().unwrap(), id);
        }

        #[test]
        fn text_sorts_as_the_key_does(a: [u8; 16], b: [u8; 16]) {
            let (x, y) = (RunId::from_bytes(a), RunId::from_bytes(b));
            prop_assert_eq!(x.cmp(&y), x.to_string().cmp(&y.to_string()));
        }
    }

    #[test]
    fn refuses_what_is_not_an_id() {
        for text in [
            "",
            "run_",
            "gate_00000000000000000000000000",
            "run_8zzzzzzzzzzzzzzzzzzzzzzzzz",
            "run_0000000000000000000000000u",
        ] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }
}
