//! A response that was not streamed.

use super::{Event, Fold, failure};
use crate::RawJson;
use crate::http::{Fault, Whole};

impl Whole for Fold {
    fn whole(answer: &RawJson) -> Result<Self, Fault> {
        let malformed = |_| Fault::Malformed("the response is not in the wire's form".to_owned());
        let status = super::text(answer, "status");
        let response = Some(answer.decode().map_err(malformed)?);
        let event = Event { response, ..Event::default() };
        let mut fold = Self::default();
        match status.as_str() {
            "completed" | "incomplete" => fold.end(&format!("response.{status}"), event)?,
            "failed" => return Err(Fault::Vendor(failure(event))),
            _ => return Err(Fault::Malformed("the response is not at its end".to_owned())),
        }
        Ok(fold)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::Fold as _;

    proptest! {
        #[test]
        fn no_whole_answer_panics(
            fields in prop::collection::vec((prop::sample::select(vec!["output","status","usage","error","incomplete_details"]), value()), 0..5)
        ) {
            let all: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let answer = RawJson::parse(format!("{{{}}}", all.join(","))).unwrap();
            if let Ok(response) = Fold::whole(&answer).and_then(|fold| fold.finish("asked".to_owned())) {
                let bytes = serde_json::to_vec(&response).unwrap();
                prop_assert_eq!(serde_json::from_slice::<crate::Response>(&bytes).unwrap(), response);
            }
        }
    }

    /// Values of the right form and of others.
    fn value() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "null",
            "7",
            "\"completed\"",
            "\"incomplete\"",
            "\"tool_use\"",
            "[]",
            "[7]",
            "{}",
            "[{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\",\"input\":7}]",
            "[{\"type\":\"text\",\"text\":\"x\"},{\"type\":7}]",
            "[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"b\",\"arguments\":\"{\"}]",
            "[{\"type\":\"message\",\"content\":[]}]",
        ])
        .prop_map(str::to_owned)
    }
}
