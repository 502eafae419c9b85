//! The vendors' rules on what is asked beside the conversation: reasoning, effort, cache key.

use serde_json::Value;

/// What the Messages wire does not take.
pub(super) fn messages(request: &Value) -> Result<(), String> {
    let thinking = &request["thinking"];
    let most = request["max_tokens"].as_u64().unwrap_or_default();
    match (thinking["type"].as_str(), thinking["budget_tokens"].as_u64()) {
        (Some("adaptive" | "disabled" | "between_tools"), None) => {}
        (Some("enabled"), Some(budget)) if (1024..most).contains(&budget) => {}
        (None, _) if thinking.is_null() => {}
        _ => return Err(format!("thinking: Input should be a valid configuration, not {thinking}")),
    }
    one_of("thinking.display", &thinking["display"], &["summarized", "omitted"])?;
    let efforts = ["low", "medium", "high", "xhigh", "max"];
    one_of("output_config.effort", &request["output_config"]["effort"], &efforts)
}

/// What the Responses wire does not take.
pub(super) fn responses(request: &Value) -> Result<(), String> {
    let reasoning = &request["reasoning"];
    one_of("reasoning.summary", &reasoning["summary"], &["auto", "concise", "detailed"])?;
    let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    one_of("reasoning.effort", &reasoning["effort"], &efforts)?;
    match &request["prompt_cache_key"] {
        Value::Null => Ok(()),
        Value::String(key) if (1..=64).contains(&key.len()) => Ok(()),
        _ => Err("Invalid 'prompt_cache_key': expected a string with maximum length 64.".to_owned()),
    }
}

fn one_of(name: &str, value: &Value, all: &[&str]) -> Result<(), String> {
    match value.as_str() {
        None if value.is_null() => Ok(()),
        Some(value) if all.contains(&value) => Ok(()),
        _ => Err(format!("{name}: Input should be one of {}, not {value}", all.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_forms_that_vendors_take() {
        for (asked, fits) in [
            (json!({}), true),
            (json!({"thinking": {"type": "adaptive", "display": "summarized"}}), true),
            (json!({"thinking": {"type": "adaptive", "display": "whole"}}), false),
            (json!({"thinking": {"type": "adaptive", "budget_tokens": 2000}}), false),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000}), true),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 4000}, "max_tokens": 4000}), false),
            (json!({"thinking": {"type": "always"}}), false),
            (json!({"thinking": true}), false),
            (json!({"output_config": {"effort": "max"}}), true),
            (json!({"output_config": {"effort": "none"}}), false),
        ] {
            assert_eq!(messages(&asked).is_ok(), fits, "{asked}");
        }
        for (asked, fits) in [
            (json!({}), true),
            (json!({"reasoning": {"summary": "auto", "effort": "xhigh"}, "prompt_cache_key": "k"}), true),
            (json!({"reasoning": {"summary": "long"}}), false),
            (json!({"reasoning": {"effort": 3}}), false),
            (json!({"prompt_cache_key": "k".repeat(65)}), false),
            (json!({"prompt_cache_key": 7}), false),
        ] {
            assert_eq!(responses(&asked).is_ok(), fits, "{asked}");
        }
    }
}
