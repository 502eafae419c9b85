//! By what the steps of a run were held, as their results say it: a step without a jail is never passed over.

use control::api;

use crate::screen::text;

/// How many steps ran in a jail, and how many did not.
#[derive(Debug, Default)]
pub(crate) struct Held {
    enforced: u64,
    degraded: u64,
    /// Why those did not, as the last of them says it.
    reason: String,
}

impl Held {
    /// What these events tell.
    pub(crate) fn of(events: &[api::Event]) -> Self {
        let mut held = Self::default();
        let ends = events.iter().filter(|event| event.fact["fact"] == "step_completed");
        for jail in ends.map(|event| &event.content["jail"]) {
            match jail["state"].as_str() {
                None => {}
                Some("enforced") => held.enforced += 1,
                Some(_) => {
                    held.degraded += 1;
                    held.reason = text::line(jail["reason"].as_str().unwrap_or_default());
                }
            }
        }
        held
    }

    /// In words; `None` when nothing has run yet.
    pub(crate) fn said(&self) -> Option<String> {
        let steps = |count| text::of(count, "step", "steps");
        match (self.enforced, self.degraded) {
            (0, 0) => None,
            (enforced, 0) => Some(format!("held {}", steps(enforced))),
            (enforced, degraded) => Some(format!(
                "did NOT hold {} of {}: {}",
                degraded,
                steps(enforced.saturating_add(degraded)),
                self.reason
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(contents: &[Value]) -> Option<String> {
        let events: Vec<api::Event> = contents
            .iter()
            .map(|content| {
                serde_json::from_value(json!({
                    "position": 1, "run": "r", "seq": 1, "at": 0, "source": "s", "hash": "h", "line": null,
                    "fact": {"fact": "step_completed"}, "content": content,
                }))
                .unwrap()
            })
            .collect();
        Held::of(&events).said()
    }

    #[test]
    fn steps_without_a_jail_are_counted_and_explained() {
        let held = json!({"jail": {"state": "enforced"}});
        let bare = json!({"jail": {"state": "degraded", "reason": "no jail: no Landlock"}});
        let model = json!({"text": "a model's answer"});
        assert_eq!(said(&[model.clone(), Value::Null]), None);
        assert_eq!(said(&[held.clone(), model.clone(), held.clone()]).unwrap(), "held 2 steps");
        let mixed = said(&[held, bare, model]).unwrap();
        assert_eq!(mixed, "did NOT hold 1 of 2 steps: no jail: no Landlock");
    }
}
