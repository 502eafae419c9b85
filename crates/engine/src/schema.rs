//! Whether the input of a tool fits its schema, as far as a call must be right before it is made: types,
//! required and unknown fields, choices. What a schema says beyond that is left to the tool.
//!
//! The verdict decides which calls of runs on record became steps: changing it takes a new
//! [`NAME`](crate::native::NAME).

use serde_json::{Map, Value};

/// How many faults are told.
const MOST: usize = 6;
/// How deep a schema is followed, and how many places are looked at in all: a schema may refer to itself.
const DEEPEST: usize = 48;
const PLACES: usize = 10_000;

/// What is wrong with `input`, in words; empty when it fits.
pub(crate) fn faults(schema: &Value, input: &Value) -> Vec<String> {
    let mut check = Check { root: schema, places: 0, faults: Vec::new() };
    check.visit(schema, input, "input", 0);
    check.faults
}

struct Check<'a> {
    root: &'a Value,
    places: usize,
    faults: Vec<String>,
}

impl<'a> Check<'a> {
    fn visit(&mut self, schema: &'a Value, value: &Value, path: &str, depth: usize) {
        self.places = self.places.saturating_add(1);
        if depth > DEEPEST || self.places > PLACES || self.faults.len() >= MOST {
            return;
        }
        let schema = match schema {
            Value::Bool(false) => return self.fault(format!("{path} is not allowed")),
            Value::Object(schema) => schema,
            _ => return,
        };
        if let Some(target) = self.target(schema) {
            self.visit(target, value, path, depth + 1);
        }
        if let Some(types) = schema.get("type").map(types)
            && !types.is_empty()
            && !types.iter().any(|kind| is_of(kind, value))
        {
            return self.fault(format!("{path} must be of type {}, not {}", types.join(" or "), kind(value)));
        }
        self.choices(schema, value, path);
        self.forms(schema, value, path, depth);
        match value {
            Value::Object(fields) => self.object(schema, fields, path, depth),
            Value::Array(items) => self.array(schema, items, path, depth),
            _ => {}
        }
    }

    fn target(&self, schema: &Map<String, Value>) -> Option<&'a Value> {
        self.root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
    }

    fn choices(&mut self, schema: &Map<String, Value>, value: &Value, path: &str) {
        let all = match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(all)), _) => all.clone(),
            (_, Some(only)) => vec![only.clone()],
            _ => return,
        };
        if !all.contains(value) {
            let all: Vec<String> = all.iter().take(12).map(Value::to_string).collect();
            self.fault(format!("{path} must be one of {}", all.join(", ")));
        }
    }

    fn forms(&mut self, schema: &'a Map<String, Value>, value: &Value, path: &str, depth: usize) {
        for all in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.visit(all, value, path, depth + 1);
        }
        for name in ["anyOf", "oneOf"] {
            let Some(forms) = schema.get(name).and_then(Value::as_array) else { continue };
            let fits = forms.iter().any(|form| {
                let mut check = Check { root: self.root, places: self.places, faults: Vec::new() };
                check.visit(form, value, path, depth + 1);
                self.places = check.places;
                check.faults.is_empty()
            });
            if !fits && !forms.is_empty() {
                self.fault(format!("{path} fits none of the {} forms it may have", forms.len()));
            }
        }
    }

    fn object(
        &mut self,
        schema: &'a Map<String, Value>,
        fields: &Map<String, Value>,
        path: &str,
        depth: usize,
    ) {
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            if let Some(name) = name.as_str()
                && !fields.contains_key(name)
            {
                self.fault(format!("{path}.{name} is missing"));
            }
        }
        let known = schema.get("properties").and_then(Value::as_object);
        for (name, value) in fields {
            let path = format!("{path}.{}", crate::prompt::cut(name, 60));
            match (known.and_then(|known| known.get(name)), schema.get("additionalProperties")) {
                (Some(schema), _) => self.visit(schema, value, &path, depth + 1),
                (None, _) if schema.contains_key("patternProperties") => {}
                (None, Some(Value::Bool(false))) => self.fault(format!("{path} is not known")),
                (None, Some(schema)) => self.visit(schema, value, &path, depth + 1),
                (None, None) => {}
            }
        }
    }

    fn array(&mut self, schema: &'a Map<String, Value>, items: &[Value], path: &str, depth: usize) {
        if schema.contains_key("prefixItems") {
            return;
        }
        let Some(schema) = schema.get("items") else { return };
        for (place, item) in items.iter().enumerate() {
            self.visit(schema, item, &format!("{path}[{place}]"), depth + 1);
        }
    }

    fn fault(&mut self, what: String) {
        if self.faults.len() < MOST {
            self.faults.push(what);
        }
    }
}

fn types(value: &Value) -> Vec<&str> {
    match value {
        Value::String(one) => vec![one.as_str()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Whether a value is of a type; a type that nobody knows holds for all.
fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(schema: Value, input: Value, expected: &[&str]) {
        assert_eq!(faults(&schema, &input), expected, "{schema} {input}");
    }

    #[test]
    fn fields_types_and_choices() {
        let schema = || {
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "count": {"type": ["integer", "null"]},
                    "mode": {"enum": ["fast", "slow"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["path"],
                "additionalProperties": false,
            })
        };
        check(schema(), json!({"path": "a", "count": 2.0, "mode": "fast", "tags": ["x"]}), &[]);
        check(schema(), json!({"path": "a", "count": null}), &[]);
        check(schema(), json!({}), &["input.path is missing"]);
        check(schema(), json!([]), &["input must be of type object, not array"]);
        check(
            schema(),
            json!({"path": 1, "count": 2.5, "mode": "x", "tags": ["x", 2], "more": 1}),
            &[
                "input.path must be of type string, not number",
                "input.count must be of type integer or null, not number",
                r#"input.mode must be one of "fast", "slow""#,
                "input.tags[1] must be of type string, not number",
                "input.more is not known",
            ],
        );
    }

    #[test]
    fn forms_and_references() {
        let schema = || {
            json!({
                "properties": {
                    "to": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/place"}]},
                    "tree": {"$ref": "#/$defs/node"},
                },
                "$defs": {
                    "place": {"type": "object", "required": ["x"]},
                    "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
                },
            })
        };
        check(schema(), json!({"to": "here", "tree": {"next": {"next": {}}}}), &[]);
        check(schema(), json!({"to": {"x": 1}}), &[]);
        check(schema(), json!({"to": {"y": 1}}), &["input.to fits none of the 2 forms it may have"]);
        check(
            schema(),
            json!({"tree": {"next": 1}}),
            &["input.tree.next must be of type object, not number"],
        );
    }

    #[test]
    fn a_schema_that_goes_round_or_makes_no_sense_ends() {
        check(json!({"$ref": "#"}), json!({}), &[]);
        let wide = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}, false]});
        let _ = faults(&wide, &json!({}));
        for schema in [json!(null), json!(true), json!({"type": 7, "required": "x", "properties": [1]})] {
            check(schema, json!({"a": 1}), &[]);
        }
        check(json!(false), json!({}), &["input is not allowed"]);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let words = ["type", "object", "$ref", "#", "#/a", "anyOf", "items", "properties", "enum", "a"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            prop::sample::select(words.to_vec()).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((prop::sample::select(words.to_vec()), inner), 0..4).prop_map(|all| {
                    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Value>()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_panics_and_the_faults_are_few(schema in any_json(), input in any_json()) {
            prop_assert!(faults(&schema, &input).len() <= MOST);
        }
    }
}
