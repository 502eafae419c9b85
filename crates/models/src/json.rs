//! Raw JSON that is never re-encoded: numbers, key order and spacing stay as they came.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value as its exact text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Takes a text that must be one JSON value.
    ///
    /// # Errors
    /// When the text is not JSON.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self)
    }

    /// Encodes a value, keeping the order of its fields.
    ///
    /// # Errors
    /// When the value cannot be JSON (a map with keys that are not text).
    pub fn encode(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The exact text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as a type.
    ///
    /// # Errors
    /// When the value has another shape.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.as_str().trim_start().starts_with('{')
    }

    /// Whether every text in it is one: JSON's grammar also takes escapes of half a character, and whoever
    /// reads them does not.
    pub(crate) fn is_readable(&self) -> bool {
        let mut rest = self.as_str();
        let mut high = false;
        while let Some(at) = rest.find('\\') {
            let unit = rest
                .get(at + 2..at + 6)
                .filter(|_| rest.get(at..).is_some_and(|from| from.starts_with("\\u")));
            let unit = unit.and_then(|hex| u16::from_str_radix(hex, 16).ok());
            let is_low = unit.is_some_and(|unit| (0xDC00..0xE000).contains(&unit));
            if is_low != (high && at == 0) || (high && at > 0) {
                return false;
            }
            high = unit.is_some_and(|unit| (0xD800..0xDC00).contains(&unit));
            let length = if unit.is_some() { 6 } else { 2 };
            rest = rest.get(at + length..).unwrap_or_default();
        }
        !high
    }

    /// For text that this crate wrote itself and knows to be JSON.
    pub(crate) fn known(text: String) -> Self {
        Self(RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// A JSON string.
    pub(crate) fn string(text: &str) -> Self {
        Self::known(serde_json::Value::from(text).to_string())
    }
}

impl From<&RawValue> for RawJson {
    fn from(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An object whose fields keep their order and their raw values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, RawJson)>);

impl Fields {
    pub(crate) fn get(&self, name: &str) -> Option<&RawJson> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The field as text; `None` when absent, null or of another type.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.decode().ok()
    }

    pub(crate) fn set(&mut self, name: &str, value: RawJson) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key != name);
    }

    /// Drops all fields but these.
    pub(crate) fn keep(&mut self, names: &[&str]) {
        self.0.retain(|(key, _)| names.contains(&key.as_str()));
    }

    pub(crate) fn to_raw(&self) -> RawJson {
        RawJson::encode(self).unwrap_or_else(|_| RawJson::known("{}".to_owned()))
    }
}

/// A text that is borrowed from the JSON around it where it holds no escape.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// The same object as [`Fields`], only looked at: what arrives by the thousand is not copied to be read.
#[derive(Debug, Default)]
pub(crate) struct Glance<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Glance<'a> {
    /// Looks at a value; `None` when it is no object.
    pub(crate) fn of(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The field as text; `None` when absent, null or of another type.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.get(name)?)
    }

    /// The object, to be kept.
    pub(crate) fn to_fields(&self) -> Fields {
        let own =
            |(key, value): &(Cow<'a, str>, &'a RawValue)| (key.clone().into_owned(), RawJson::from(*value));
        Fields(self.0.iter().map(own).collect())
    }
}

/// A value as text; `None` when it is of another type.
pub(crate) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

impl<'de: 'a, 'a> Deserialize<'de> for Glance<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Glance<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Glance<'de>, A::Error> {
                let mut fields = Vec::with_capacity(4);
                while let Some((key, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    fields.push((key.0, value));
                }
                Ok(Glance(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some((key, value)) = map.next_entry::<String, RawJson>()? {
                    fields.0.push((key, value));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_is_no_text() {
        for (json, readable) in [
            (r#""\ud83d\udd25 \u00e9 \n \\ud83d""#, true),
            (r#"{"\uD83D\uDD25":["\u0000"]}"#, true),
            (r#""\ud83d""#, false),
            (r#""\ud83d\n""#, false),
            (r#""\ud83d \udd25""#, false),
            (r#""\ud83d\ud83d\udd25""#, false),
            (r#""\udd25""#, false),
            (r#""\\\udd25""#, false),
        ] {
            assert_eq!(RawJson::parse(json).unwrap().is_readable(), readable, "{json}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(json).is_ok(), readable, "{json}");
        }
    }
}
