//! The chat completions wire, chunk by chunk: what local servers leave out, repeat and get wrong.

use models::block::InputError;
use models::{Adapter, Block, Config, Delta, Message, Response, Stop, Usage, Wire, call, wire};

use crate::canned::{Canned, answer, stream};
use crate::{ask, config, provider, request_on, say};

fn delta(delta: &str) -> String {
    format!(r#"{{"model":"qwen","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
}

fn finish(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

fn calls(fragments: &str) -> String {
    delta(&format!(r#"{{"tool_calls":[{fragments}]}}"#))
}

fn frames(all: &[String]) -> String {
    all.iter().map(|data| format!("data: {data}\n\n")).collect()
}

async fn told(body: &str) -> (Result<Response, call::Error>, Vec<Delta>) {
    let server = Canned::start(vec![stream(body)]).await;
    let once = Config { wire: Wire::Chat, max_attempts: 1, ..config(&server.base_url) };
    ask(&*Adapter::connect(once).unwrap(), &request_on(Wire::Chat, vec![say("Go.")])).await
}

async fn response(all: &[String]) -> Response {
    told(&frames(all)).await.0.unwrap()
}

/// Ids and inputs.
fn made(response: &Response) -> Vec<(&str, &str)> {
    response.calls().map(|call| (call.id, call.input.unwrap().as_str())).collect()
}

const DONE: &str = "[DONE]";
const TWO: [(&str, &str); 2] = [("a", r#"{"n":1}"#), ("b", r#"{"n":2}"#)];

#[tokio::test]
async fn case_11_parallel_fragments_are_routed_by_index() {
    let all = [
        calls(r#"{"index":0,"id":"a","type":"function","function":{"name":"read","arguments":""}}"#),
        calls(r#"{"index":1,"id":"b","type":"function","function":{"name":"read","arguments":""}}"#),
        calls(r#"{"index":1,"function":{"arguments":"{\"n\":"}}"#),
        calls(r#"{"index":0,"function":{"arguments":"{\"n\":"}},{"index":1,"function":{"arguments":"2}"}}"#),
        calls(r#"{"index":0,"function":{"arguments":"1}"}}"#),
        finish("tool_calls"),
        DONE.to_owned(),
    ];
    let response = response(&all).await;
    assert_eq!((made(&response), response.stop.clone()), (TWO.to_vec(), Stop::ToolUse));
}

#[tokio::test]
async fn case_12_an_index_may_be_missing_or_always_the_same() {
    let whole = |head: &str, id: &str, n: u8| {
        calls(&format!(r#"{{{head}"id":"{id}","function":{{"name":"read","arguments":"{{\"n\":{n}}}"}}}}"#))
    };
    // No index at all; zero for every call; both with fragments after the first.
    for head in ["", r#""index":0,"#] {
        let all = [whole(head, "a", 1), whole(head, "b", 2), finish("tool_calls")];
        assert_eq!(made(&response(&all).await), TWO, "{head}");
        let more = |text: &str| calls(&format!(r#"{{{head}"function":{{"arguments":"{text}"}}}}"#));
        let begin = |id: &str| {
            calls(&format!(r#"{{{head}"id":"{id}","function":{{"name":"read","arguments":""}}}}"#))
        };
        let all = [
            begin("a"),
            more(r#"{\"n\":"#),
            more("1}"),
            begin("b"),
            more(r#"{\"n\":"#),
            more("2}"),
            finish("stop"),
        ];
        assert_eq!(made(&response(&all).await), TWO, "{head}");
    }
    // Id and name in every fragment.
    let again = |text: &str| {
        calls(&format!(r#"{{"index":0,"id":"a","function":{{"name":"read","arguments":"{text}"}}}}"#))
    };
    let all = [again(r#"{\"n\":"#), again("1}"), finish("tool_calls")];
    let response = response(&all).await;
    assert_eq!(made(&response), TWO[..1]);
    assert_eq!(response.calls().next().unwrap().name, "read");
}

#[tokio::test]
async fn case_12_ids_that_are_missing_or_given_twice_are_made_distinct() {
    let call = |head: &str| calls(&format!(r#"{{{head}"function":{{"name":"read","arguments":"{{}}"}}}}"#));
    for (head, want) in [("", ["call_0", "call_1"]), (r#""id":"","#, ["call_0", "call_1"])] {
        let response = response(&[call(head), call(head), finish("tool_calls")]).await;
        assert_eq!(response.calls().map(|call| call.id).collect::<Vec<_>>(), want);
    }
    let all = [call(r#""index":0,"id":"x","#), call(r#""index":1,"id":"x","#), finish("tool_calls")];
    let response = response(&all).await;
    assert_eq!(response.calls().map(|call| call.id).collect::<Vec<_>>(), ["x", "x_1"]);
}

#[tokio::test]
async fn case_13_arguments_may_be_empty_null_absent_or_an_object() {
    let call = |n: u8, arguments: &str| {
        calls(&format!(r#"{{"index":{n},"id":"c{n}","function":{{"name":"read"{arguments}}}}}"#))
    };
    let all = [
        call(0, r#","arguments":"""#),
        call(1, r#","arguments":null"#),
        call(2, ""),
        call(3, r#","arguments":{}"#),
        call(4, r#","arguments":"null""#),
        finish("tool_calls"),
    ];
    let response = response(&all).await;
    assert_eq!(response.calls().count(), 5);
    assert!(made(&response).iter().all(|(_, input)| *input == "{}"), "{response:?}");
}

#[tokio::test]
async fn case_14_a_finish_reason_may_lie() {
    let call = |arguments: &str| {
        let arguments = serde_json::Value::from(arguments);
        calls(&format!(r#"{{"index":0,"id":"a","function":{{"name":"read","arguments":{arguments}}}}}"#))
    };
    // Calls under `stop` are calls.
    let said = response(&[call("{}"), finish("stop")]).await;
    assert_eq!((said.stop.clone(), made(&said)), (Stop::ToolUse, vec![("a", "{}")]));
    // Cut calls under `tool_calls` are no calls.
    let said = response(&[call(r#"{"path":"#), finish("tool_calls")]).await;
    assert_eq!(said.calls().next().unwrap().input, Err(&InputError::Unreadable(r#"{"path":"#.to_owned())));
    // `tool_calls` without a call calls nothing.
    let said = response(&[delta(r#"{"content":"x"}"#), finish("tool_calls")]).await;
    assert_eq!((said.stop.clone(), said.calls().count()), (Stop::ToolUse, 0));
    // The last call under `length` may be incomplete even where it can be read.
    let said = response(&[call("{}"), finish("length")]).await;
    assert_eq!(said.calls().next().unwrap().input, Err(&InputError::Truncated("{}".to_owned())));
}

/// Found by fuzzing: the word of another vendor was one thing in the answer and another on record.
#[tokio::test]
async fn case_23_the_words_of_the_vendor_behind_a_gateway_are_known() {
    for (word, stop) in [
        ("pause_turn", Stop::PauseTurn),
        ("max_tokens", Stop::MaxTokens),
        ("model_context_window_exceeded", Stop::ContextExceeded),
        ("moon_phase", Stop::Other("moon_phase".into())),
    ] {
        let answer = response(&[delta(r#"{"content":"Hm."}"#), finish(word), DONE.to_owned()]).await;
        assert_eq!(answer.stop, stop);
        let stored = serde_json::to_vec(&answer).unwrap();
        assert_eq!(serde_json::from_slice::<Response>(&stored).unwrap(), answer, "{word}");
    }
}

#[tokio::test]
async fn case_15_usage_may_come_in_a_chunk_of_its_own_after_the_finish_reason() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":30}}}"#;
    let early =
        r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":50,"completion_tokens":1}}"#;
    let all = [early.to_owned(), finish("stop"), usage.to_owned(), DONE.to_owned()];
    let want = Usage { input: 20, output: 7, cache_read: 30, cache_write: 0 };
    assert_eq!(response(&all).await.usage, want);
    let none = [delta(r#"{"content":"a"}"#), finish("stop"), r#"{"choices":[],"usage":null}"#.to_owned()];
    assert_eq!(response(&none).await.usage, Usage::default());
}

#[tokio::test]
async fn case_16_choices_and_delta_may_be_empty_missing_or_null() {
    let odd = [
        r#"{"choices":[]}"#,
        r#"{"choices":null}"#,
        r#"{"id":"x"}"#,
        r#"{"choices":[{"index":0}]}"#,
        r#"{"choices":[{"index":0,"delta":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":null,"tool_calls":null}}]}"#,
    ];
    let mut all: Vec<String> = odd.map(str::to_owned).to_vec();
    all.extend([delta(r#"{"content":"ok"}"#), finish("stop")]);
    let (result, seen) = told(&frames(&all)).await;
    assert_eq!(result.unwrap().text(), "ok");
    assert_eq!(seen, [Delta::Text("ok".to_owned())]);
    // Some send the whole message at once.
    let whole = r#"{"choices":[{"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}"#;
    assert_eq!(response(&[whole.to_owned()]).await.text(), "whole");
}

#[tokio::test]
async fn case_18_an_error_in_the_data_is_typed_in_whatever_form() {
    for (error, name) in [
        (r#"{"error":{"message":"so it is","type":"invalid_request_error","code":400}}"#, "BadRequest"),
        (r#"{"error":{"message":"so it is","code":500}}"#, "Status"),
        (r#"{"error":"so it is"}"#, "Status"),
        (r#"{"object":"error","message":"so it is","type":"BadRequestError","code":400}"#, "BadRequest"),
        (
            r#"{"error":{"message":"so it is","type":"exceed_context_size_error","code":400}}"#,
            "ContextTooLong",
        ),
    ] {
        let (result, _) = told(&frames(&[delta(r#"{"content":"a"}"#), error.to_owned()])).await;
        let error = result.unwrap_err();
        assert!(format!("{error:?}").starts_with(name), "{name}: {error:?}");
        assert!(error.to_string().contains("so it is"), "{error}");
    }
    let (result, _) = told("event: error\ndata: out of memory\n\n").await;
    assert!(result.unwrap_err().to_string().contains("out of memory"));
    // llama.cpp's name for its own field.
    let (result, _) = told("error: {\"code\":500}\n\n").await;
    assert!(matches!(result, Err(call::Error::Cut { .. })), "{result:?}");
}

#[tokio::test]
async fn case_26_reasoning_is_echoed_under_the_name_that_it_came_with() {
    for field in ["reasoning_content", "reasoning"] {
        let all = [
            delta(&format!(r#"{{"{field}":"Hm"}}"#)),
            delta(&format!(r#"{{"{field}":"m.","content":""}}"#)),
            delta(r#"{"content":"Hi."}"#),
            finish("stop"),
        ];
        let (first, seen) = told(&frames(&all)).await;
        let first = first.unwrap();
        assert_eq!(seen[..2], [Delta::Thinking("Hm".to_owned()), Delta::Thinking("m.".to_owned())]);
        assert!(first.blocks[0].is_reasoning());
        let next = request_on(Wire::Chat, vec![say("Go."), Message::assistant(&first), say("On.")]);
        let body: serde_json::Value = serde_json::from_slice(&wire::compose(&next).unwrap()).unwrap();
        let want = serde_json::json!({ "role": "assistant", "content": "Hi.", field: "Hmm." });
        assert_eq!(body["messages"][2], want);
    }
    // One of two equal texts.
    let both = [delta(r#"{"reasoning":"Hm","reasoning_content":"Hm"}"#), finish("stop")];
    assert_eq!(told(&frames(&both)).await.1, [Delta::Thinking("Hm".to_owned())]);
}

#[tokio::test]
async fn the_last_mark_may_be_absent_but_not_together_with_the_finish_reason() {
    let text = delta(r#"{"content":"x"}"#);
    assert_eq!(response(&[text.clone(), finish("stop")]).await.stop, Stop::EndTurn);
    assert_eq!(response(&[text.clone(), DONE.to_owned()]).await.stop, Stop::EndTurn);
    let (result, _) = told(&frames(&[text])).await;
    assert!(matches!(result, Err(call::Error::Cut { source: None, .. })), "{result:?}");
}

#[tokio::test]
async fn fields_of_a_call_that_nobody_knows_go_back_with_it() {
    let all = [
        calls(
            r#"{"index":0,"id":"a","type":"function","extra_content":{"z":1.50,"a":"sig"},"function":{"name":"read","arguments":"{\"n\":1}"}}"#,
        ),
        finish("tool_calls"),
    ];
    let first = response(&all).await;
    let result = Message::user(vec![Block::tool_result("a", Ok("x"))]);
    let next = request_on(Wire::Chat, vec![say("Go."), Message::assistant(&first), result]);
    let body = String::from_utf8(wire::compose(&next).unwrap().to_vec()).unwrap();
    assert!(body.contains(r#""extra_content":{"z":1.50,"a":"sig"}"#), "{body}");
    assert!(body.contains(r#""arguments":"{\"n\":1}""#), "{body}");
}

#[tokio::test]
async fn content_may_come_in_parts() {
    let all =
        [delta(r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#), finish("stop")];
    assert_eq!(response(&all).await.text(), "ab");
}

#[tokio::test]
async fn a_local_server_needs_no_key_and_a_model_of_its_own_has_no_price() {
    let server =
        Canned::start(vec![answer("404 Not Found", "", r#"{"error":{"message":"model 'x' not found"}}"#)])
            .await;
    let nobody = Config::from_lookup(Wire::Chat, |name| {
        (name == Wire::Chat.url_env()).then(|| server.base_url.clone())
    })
    .unwrap();
    let request =
        models::Request { model: "local/gpt-6-luna".into(), ..request_on(Wire::Chat, vec![say("Go.")]) };
    let (result, _) = ask(&*Adapter::connect(nobody).unwrap(), &request).await;
    let error = result.unwrap_err();
    assert!(
        matches!(&error, call::Error::NotFound { model, .. } if model == "local/gpt-6-luna"),
        "{error:?}"
    );
    assert!(error.to_string().contains("REGIE_LOCAL_BASE_URL"), "{error}");
    let sent = server.requests().remove(0).to_lowercase();
    assert!(!sent.contains("authorization") && sent.contains(r#""model":"gpt-6-luna""#), "{sent}");

    let keyed = provider(Wire::Chat, &server.base_url);
    let _ = ask(&*keyed, &request).await;
    assert!(server.requests()[1].to_lowercase().contains(&format!("authorization: bearer {}", crate::KEY)));
}
