//! What a request asks beyond the conversation, and how a refusal of it is told apart.

use models::{Effort, Extras, Parameter, Request, Wire, call, catalogue};

use crate::canned::{self, Canned};
use crate::{ask, provider, request_on, say};

const ALL: Extras = Extras { cache_key: true, reasoning: true };

fn body(request: &Request) -> String {
    String::from_utf8(models::wire::compose(request).unwrap().to_vec()).unwrap()
}

#[test]
fn what_a_wire_does_not_have_is_not_sent() {
    let with = |wire| Request { extras: ALL, ..request_on(wire, vec![say("Go.")]) };
    let plain = |wire| body(&request_on(wire, vec![say("Go.")]));
    assert_eq!(body(&with(Wire::Chat)), plain(Wire::Chat));
    let messages = body(&with(Wire::Messages));
    let thinking = r#""thinking":{"type":"adaptive","display":"summarized"},"#;
    assert_eq!(messages.replacen(thinking, "", 1), plain(Wire::Messages));
    let responses = body(&with(Wire::Responses));
    let start = responses.find(r#""prompt_cache_key":"regie-"#).unwrap();
    let end = responses.find(r#""reasoning":{"summary":"auto"},"#).unwrap() + 31;
    assert_eq!(format!("{}{}", &responses[..start], &responses[end..]), plain(Wire::Responses));
    let effort = Request { effort: Some(Effort::Low), ..with(Wire::Responses) };
    assert!(body(&effort).contains(r#""reasoning":{"effort":"low","summary":"auto"},"#));
}

#[test]
fn the_cache_key_follows_model_system_and_tools_alone() {
    let key = |request: &Request| {
        let value: serde_json::Value = serde_json::from_str(&body(request)).unwrap();
        value["prompt_cache_key"].as_str().unwrap().to_owned()
    };
    let go = Request { extras: ALL, ..request_on(Wire::Responses, vec![say("Go.")]) };
    assert_eq!(
        key(&go),
        key(&Request { messages: vec![say("Stay.")], effort: Some(Effort::Low), ..go.clone() })
    );
    let others = [
        Request { system: "You break bugs.".into(), ..go.clone() },
        Request { model: "openai/other".into(), ..go.clone() },
        Request { tools: vec![crate::tool("read")], ..go.clone() },
    ];
    assert!(others.iter().all(|other| key(other) != key(&go) && key(other).len() <= 64));
}

/// What vendors and gateways have answered, word for word, or nearly.
#[tokio::test]
async fn a_refused_parameter_is_told_apart_from_a_bad_request() {
    let openai = |param: &str, message: &str| {
        serde_json::json!({"error": {"message": message, "type": "invalid_request_error", "param": param,
            "code": "unsupported_value"}})
        .to_string()
    };
    let anthropic = |message: &str| {
        serde_json::json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
            .to_string()
    };
    let unverified = "Your organization must be verified to generate reasoning summaries.";
    for (wire, body, expected) in [
        (Wire::Responses, openai("reasoning.summary", unverified), Some(Parameter::Reasoning)),
        (
            Wire::Responses,
            openai("reasoning", "Unsupported parameter: 'reasoning' is not supported with this model."),
            Some(Parameter::Reasoning),
        ),
        (
            Wire::Responses,
            openai("", "Unrecognized request argument supplied: prompt_cache_key"),
            Some(Parameter::CacheKey),
        ),
        (
            Wire::Responses,
            openai("reasoning.effort", "Unsupported value: 'xhigh' is not supported with this model."),
            Some(Parameter::Effort),
        ),
        (
            Wire::Responses,
            openai("", "The encrypted content for item rs_1 could not be verified."),
            Some(Parameter::Recall),
        ),
        (Wire::Responses, openai("input[2]", "Invalid value: 'x'."), None),
        (
            Wire::Messages,
            anthropic("adaptive thinking is not supported on this model"),
            Some(Parameter::Reasoning),
        ),
        (
            Wire::Messages,
            anthropic("thinking.adaptive.display: Extra inputs are not permitted"),
            Some(Parameter::Reasoning),
        ),
        (
            Wire::Messages,
            anthropic("This model does not support the effort parameter."),
            Some(Parameter::Effort),
        ),
        (
            Wire::Messages,
            anthropic("messages.3.content.0: Invalid `signature` in `thinking` block"),
            Some(Parameter::Recall),
        ),
        (
            Wire::Messages,
            anthropic(
                "messages.5.content.1: `thinking` blocks in the latest assistant message cannot be modified.",
            ),
            Some(Parameter::Recall),
        ),
        (Wire::Messages, anthropic("messages.0.content: Field required"), None),
        (Wire::Chat, openai("", "unknown parameter: reasoning_effort"), Some(Parameter::Effort)),
        (Wire::Chat, openai("", "thinking of something"), None),
    ] {
        let answer = canned::answer("400 Bad Request", "content-type: application/json\r\n", &body);
        let server = Canned::start(vec![answer]).await;
        let provider = provider(wire, &server.base_url);
        let (result, _) = ask(&*provider, &request_on(wire, vec![say("Go.")])).await;
        match (result.unwrap_err(), expected) {
            (call::Error::Unsupported { parameter, answer }, Some(expected)) => {
                assert_eq!((parameter, answer.status), (expected, 400), "{body}");
            }
            (call::Error::BadRequest(_), None) => {}
            (other, expected) => panic!("{body}: {other} instead of {expected:?}"),
        }
        assert_eq!(server.requests().len(), 1, "it is not sent again unchanged");
    }
}

#[test]
fn models_that_are_known_to_reason_say_so_in_their_terms() {
    for (model, expected) in [
        ("claude-opus-5-5", true),
        ("claude-haiku-5-5-20261001", true),
        ("openai/gpt-6.1-sol", true),
        ("gpt-4o", false),
        ("anthropic/kimi-k3", false),
        ("local/gpt-6-luna", false),
        ("scripted", true),
        ("local/scripted", false),
    ] {
        assert_eq!(catalogue::terms(model).reasoning, expected, "{model}");
    }
}
