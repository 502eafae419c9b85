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
