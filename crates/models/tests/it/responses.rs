//! The Responses wire, event by event: what is its own.

use models::block::InputError;
use models::{Adapter, Block, Config, Delta, Message, Response, Stop, Usage, Wire, call, wire};

use crate::canned::{Canned, answer, events, stream};
use crate::{ask, config, provider, request_on, say};

const CREATED: &str = r#"{"type":"response.created","response":{"id":"resp_1","model":"gpt-x"}}"#;

fn end(kind: &str, more: &str) -> String {
    format!(r#"{{"type":"response.{kind}","response":{{"id":"resp_1","model":"gpt-x"{more}}}}}"#)
}

fn done(index: u64, item: &str) -> String {
    format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{item}}}"#)
}

fn added(index: u64, item: &str) -> String {
    format!(r#"{{"type":"response.output_item.added","output_index":{index},"item":{item}}}"#)
}

fn call_item(id: &str, arguments: &str, status: &str) -> String {
    let arguments = serde_json::Value::from(arguments);
    format!(
        r#"{{"type":"function_call","id":"fc_{id}","call_id":"{id}","name":"read","arguments":{arguments},"status":"{status}"}}"#
    )
}

async fn told(all: &[String]) -> (Result<Response, call::Error>, Vec<Delta>) {
    let all: Vec<&str> = [CREATED].into_iter().chain(all.iter().map(String::as_str)).collect();
    let server = Canned::start(vec![stream(&events(&all))]).await;
    let once = Config { wire: Wire::Responses, max_attempts: 1, ..config(&server.base_url) };
    ask(&*Adapter::connect(once).unwrap(), &request_on(Wire::Responses, vec![say("Go.")])).await
}

async fn response(all: &[String]) -> Response {
    told(all).await.0.unwrap()
}

#[test]
fn case_10_nothing_is_stored_and_reasoning_comes_encrypted() {
    let request = request_on(Wire::Responses, vec![say("Go.")]);
    let body: serde_json::Value = serde_json::from_slice(&wire::compose(&request).unwrap()).unwrap();
    assert_eq!(body["store"], false);
    assert_eq!(body["include"], serde_json::json!(["reasoning.encrypted_content"]));
    assert_eq!(body["model"], "scripted", "the prefix is Regie's own");
    assert_eq!(body["parallel_tool_calls"], true);
    assert_eq!(body["instructions"], "You mend bugs.");
    assert_eq!(body["tools"][0]["type"], "function");
    assert_eq!(body["tools"][0]["parameters"]["type"], "object");
}

#[tokio::test]
async fn case_10_reasoning_goes_back_byte_for_byte_and_what_nobody_kept_is_left_out() {
    let sealed =
        r#"{"id":"rs_1", "type":"reasoning","summary":[],"encrypted_content":"gAAA\u002f==","status":null}"#;
    let bare = r#"{"id":"rs_2","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]}"#;
    let open =
        r#"{"id":"rs_3","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"x"}]}"#;
    let said = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi"}]}"#;
    let all = [done(0, sealed), done(1, bare), done(2, open), done(3, said), end("completed", "")];
    let first = response(&all).await;
    assert_eq!(
        first.blocks.iter().map(|block| block.raw().as_str()).collect::<Vec<_>>(),
        [sealed, bare, open, said]
    );
    assert_eq!(first.text(), "Hi");
    let next = request_on(Wire::Responses, vec![say("Go."), Message::assistant(&first), say("On.")]);
    let body = String::from_utf8(wire::compose(&next).unwrap().to_vec()).unwrap();
    assert!(body.contains(&format!("{sealed},{open},{said}")), "{body}");
    assert!(!body.contains("rs_2"), "{body}");
}

#[tokio::test]
async fn case_11_parallel_calls_keep_their_places() {
    let grow = |index: u64, text: &str| {
        let text = serde_json::Value::from(text);
        format!(
            r#"{{"type":"response.function_call_arguments.delta","output_index":{index},"delta":{text}}}"#
        )
    };
    let all = [
        added(0, &call_item("a", "", "in_progress")),
        added(1, &call_item("b", "", "in_progress")),
        grow(1, r#"{"path":"two"}"#),
        grow(0, r#"{"path":"one"}"#),
        done(1, &call_item("b", r#"{"path":"two"}"#, "completed")),
        done(0, &call_item("a", r#"{"path":"one"}"#, "completed")),
        end("completed", ""),
    ];
    let (response, seen) = told(&all).await;
    let response = response.unwrap();
    let calls: Vec<_> = response.calls().map(|call| (call.id, call.input.unwrap().as_str())).collect();
    assert_eq!(calls, [("a", r#"{"path":"one"}"#), ("b", r#"{"path":"two"}"#)]);
    assert_eq!(response.stop, Stop::ToolUse);
    assert_eq!(seen, vec![Delta::ToolUse { name: "read".into() }; 2]);
}

#[tokio::test]
async fn case_13_arguments_may_be_empty_null_or_an_object() {
    let calls = ["\"\"", "null", "\"null\"", "{}"].map(|arguments| {
        format!(
            r#"{{"type":"function_call","call_id":"c{}","name":"n","arguments":{arguments}}}"#,
            arguments.len()
        )
    });
    let mut all: Vec<String> = (0..).zip(&calls).map(|(index, item)| done(index, item)).collect();
    all.push(end("completed", ""));
    let response = response(&all).await;
    assert!(response.calls().all(|call| call.input.unwrap().as_str() == "{}"));
    assert_eq!(response.calls().count(), 4);
}

#[tokio::test]
async fn case_14_an_incomplete_call_never_runs() {
    let reason = r#","incomplete_details":{"reason":"max_output_tokens"}"#;
    let cut = r#"{"path":"a"#;
    let grown = format!(
        r#"{{"type":"response.function_call_arguments.delta","output_index":0,"delta":{}}}"#,
        serde_json::Value::from(cut)
    );
    let never_done = [added(0, &call_item("a", "", "in_progress")), grown, end("incomplete", reason)];
    let half = call_item("a", cut, "incomplete");
    let in_the_end = [end("incomplete", &format!(r#"{reason},"output":[{half}]"#))];
    let a_lie = [done(0, &call_item("a", r#"{"path":"a"}"#, "incomplete")), end("completed", "")];
    for (all, written, stop) in [
        (&never_done[..], cut, Stop::MaxTokens),
        (&in_the_end, cut, Stop::MaxTokens),
        (&a_lie, r#"{"path":"a"}"#, Stop::ToolUse),
    ] {
        let response = response(all).await;
        assert_eq!(response.stop, stop);
        let call = response.calls().next().unwrap();
        assert_eq!(call.input, Err(&InputError::Truncated(written.to_owned())));
        let result = Message::user(vec![Block::tool_result(call.id, Err("cut"))]);
        let next = request_on(Wire::Responses, vec![say("Go."), Message::assistant(&response), result]);
        let body: serde_json::Value = serde_json::from_slice(&wire::compose(&next).unwrap()).unwrap();
        let arguments = body["input"][1]["arguments"].as_str().unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(arguments).unwrap().is_object(), "{arguments}");
    }
}

#[tokio::test]
async fn case_17_failed_responses_and_error_events_are_typed() {
    let failed = |code: &str| {
        end("failed", &format!(r#","status":"failed","error":{{"code":"{code}","message":"so it is"}}"#))
    };
    let error =
        |code: &str| format!(r#"{{"type":"error","code":"{code}","message":"so it is","param":null}}"#);
    let nested =
        r#"{"type":"error","error":{"type":"invalid_request_error","code":null,"message":"so it is"}}"#
            .to_owned();
    for (event, name, again) in [
        (failed("server_error"), "Status", true),
        (failed("rate_limit_exceeded"), "RateLimited", true),
        (failed("invalid_prompt"), "BadRequest", false),
        (failed("context_length_exceeded"), "ContextTooLong", false),
        (failed("server_is_overloaded"), "Overloaded", true),
        (error("server_error"), "Status", true),
        (error("model_not_found"), "NotFound", false),
        (error("insufficient_quota"), "NoCredit", false),
        (nested, "BadRequest", false),
    ] {
        let error = told(&[event]).await.0.unwrap_err();
        assert!(format!("{error:?}").starts_with(name), "{name}: {error:?}");
        assert!(error.to_string().contains("so it is"), "{error}");
        assert_eq!(error.is_retryable(), again, "{error:?}");
    }
}

#[tokio::test]
async fn case_25_a_limit_inside_the_stream_says_how_long_to_wait() {
    let limit = end(
        "failed",
        r#","error":{"code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 600s."}"#,
    );
    let error = told(&[limit]).await.0.unwrap_err();
    let call::Error::RateLimited { retry_after, .. } = error else { panic!("{error:?}") };
    assert_eq!(retry_after, Some(std::time::Duration::from_secs(600)));
}

#[tokio::test]
async fn case_20_usage_is_the_whole_and_the_cached_part_is_taken_out() {
    let usage =
        r#","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":7}"#;
    let response = response(&[end("in_progress", usage), end("completed", usage)]).await;
    assert_eq!(response.usage, Usage { input: 36, output: 7, cache_read: 64, cache_write: 0 });
}

#[tokio::test]
async fn case_23_refusals_and_filters_are_typed() {
    let refused = r#"{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"No."}]}"#;
    let response_1 = response(&[done(0, refused), end("completed", "")]).await;
    assert_eq!((response_1.stop.clone(), response_1.text().as_str()), (Stop::Refusal, "No."));
    let filtered = end("incomplete", r#","incomplete_details":{"reason":"content_filter"}"#);
    assert_eq!(response(&[filtered]).await.stop, Stop::Refusal);
}

#[tokio::test]
async fn an_answer_without_items_of_its_own_is_read_from_the_last_event() {
    let said = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"late"}]}"#;
    assert_eq!(response(&[end("completed", &format!(r#","output":[{said}]"#))]).await.text(), "late");
}

#[tokio::test]
async fn text_that_came_before_a_limit_is_kept() {
    let open = added(0, r#"{"type":"message","role":"assistant","content":[],"status":"in_progress"}"#);
    let half = r#"{"type":"response.output_text.delta","output_index":0,"delta":"half a "}"#.to_owned();
    let all = [open, half, end("incomplete", r#","incomplete_details":{"reason":"max_output_tokens"}"#)];
    let response = response(&all).await;
    assert_eq!((response.text().as_str(), response.stop), ("half a ", Stop::MaxTokens));
}

#[tokio::test]
async fn a_stream_without_its_last_event_is_cut() {
    let said = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}"#;
    let (result, _) = told(&[done(0, said)]).await;
    assert!(matches!(result, Err(call::Error::Cut { source: None, .. })), "{result:?}");
}

#[tokio::test]
async fn an_account_without_credit_is_not_asked_again() {
    let body = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let server = Canned::start(vec![answer("429 Too Many", "", body)]).await;
    let (result, _) =
        ask(&*provider(Wire::Responses, &server.base_url), &request_on(Wire::Responses, vec![say("Go.")]))
            .await;
    let error = result.unwrap_err();
    assert!(error.to_string().contains("no credit left"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_item_that_could_not_go_back_is_no_answer() {
    for item in [
        r#"{"type":"tool_use","id":"i","name":"read","input":{}}"#,
        r#"{"type":"thinking","thinking":"hm"}"#,
        r#"{"type":"tool_result","tool_use_id":"i"}"#,
    ] {
        let (result, _) = told(&[done(0, item), end("completed", "")]).await;
        assert!(matches!(result, Err(call::Error::Malformed { .. })), "{item}: {result:?}");
    }
}
