//! Streams, event by event: what becomes of them, and what is told while they run.

use models::block::{InputError, View};
use models::{Block, Delta, Response, Stop, Usage, call};

use crate::canned::{Canned, events, stream};
use crate::{anthropic, ask, request, say};

const START: &str = r#"{"type":"message_start","message":{"model":"scripted-1","usage":{"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":5,"cache_creation_input_tokens":3}}}"#;
const END: &str = r#"{"type":"message_stop"}"#;

fn stop(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{"output_tokens":42}}}}"#
    )
}

async fn answer(body: &str) -> (Response, Vec<Delta>) {
    let server = Canned::start(vec![stream(body)]).await;
    let (result, seen) = ask(&anthropic(&server.base_url), &request(vec![say("Go.")])).await;
    (result.unwrap(), seen)
}

/// A whole answer around some block events.
async fn blocks(reason: &str, inner: &[&str]) -> Response {
    let stop = stop(reason);
    let all: Vec<&str> = [&[START], inner, &[stop.as_str(), END]].concat();
    answer(&events(&all)).await.0
}

fn raws(response: &Response) -> Vec<&str> {
    response.blocks.iter().map(|block| block.raw().as_str()).collect()
}

fn tool_start(index: u64, id: &str) -> String {
    format!(
        r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"{id}","name":"read","input":{{}}}}}}"#
    )
}

fn fragment(index: u64, json: &str) -> String {
    let json = serde_json::Value::from(json);
    format!(
        r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"input_json_delta","partial_json":{json}}}}}"#
    )
}

fn close(index: u64) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

#[tokio::test]
async fn case_01_signature_deltas_are_accumulated() {
    let response = blocks(
        "end_turn",
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m."}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"def=="}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
        ],
    )
    .await;
    assert_eq!(raws(&response), [r#"{"type":"thinking","thinking":"Hmm.","signature":"abcdef=="}"#]);
}

#[tokio::test]
async fn case_03_signed_reasoning_with_empty_text_is_kept() {
    let response = blocks(
        "end_turn",
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"xyz"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
        ],
    )
    .await;
    assert_eq!(raws(&response), [r#"{"type":"thinking","thinking":"","signature":"xyz"}"#]);
    assert!(response.blocks[0].is_reasoning());
}

#[tokio::test]
async fn fields_that_no_delta_touches_stay_as_they_came() {
    let response = blocks(
        "end_turn",
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"é=="}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"zeta":12345678901234567890123,"type":"text","text":"","alpha":1.0}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"hi"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"z":1,"a":1.50}}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
        ],
    )
    .await;
    assert_eq!(
        raws(&response),
        [
            r#"{"type":"redacted_thinking","data":"é=="}"#,
            r#"{"zeta":12345678901234567890123,"type":"text","text":"hi","alpha":1.0,"citations":[{"z":1,"a":1.50}]}"#,
        ]
    );
}

#[tokio::test]
async fn case_11_parallel_fragments_are_routed_by_index() {
    let inner = [
        tool_start(0, "a"),
        tool_start(1, "b"),
        fragment(1, r#"{"path":"#),
        fragment(0, r#"{"path":"#),
        fragment(1, r#""two"}"#),
        fragment(0, r#""one"}"#),
        close(1),
        close(0),
    ];
    let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
    let response = blocks("tool_use", &inner).await;
    let calls: Vec<_> = response.calls().map(|call| (call.id, call.input.unwrap().as_str())).collect();
    assert_eq!(calls, [("a", r#"{"path":"one"}"#), ("b", r#"{"path":"two"}"#)]);
}

#[tokio::test]
async fn case_13_a_tool_without_arguments_has_an_empty_object() {
    let null =
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":null}}"#;
    let inner = [
        tool_start(0, "a"),
        fragment(0, ""),
        close(0),
        tool_start(1, "b"),
        close(1),
        tool_start(2, "c"),
        null.to_owned(),
        close(2),
        tool_start(3, "d"),
        fragment(3, "null"),
        close(3),
    ];
    let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
    let response = blocks("tool_use", &inner).await;
    let inputs: Vec<_> = response.calls().map(|call| call.input.unwrap().as_str()).collect();
    assert_eq!(inputs, ["{}", "{}", "{}", "{}"]);
}

#[tokio::test]
async fn case_14_a_call_cut_by_max_tokens_never_runs() {
    for (json, closed) in [(r#"{"path":"a"#, true), (r#"{"path":"a"#, false), (r#"{"path":"a"}"#, true)] {
        let mut inner = vec![tool_start(0, "whole"), fragment(0, "{}"), close(0)];
        inner.extend([tool_start(1, "cut"), fragment(1, json)]);
        inner.extend(closed.then(|| close(1)));
        let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
        let response = blocks("max_tokens", &inner).await;
        let calls: Vec<_> = response.calls().collect();
        assert!(calls[0].input.is_ok());
        assert_eq!(calls[1].input, Err(&InputError::Truncated(json.to_owned())));
        let View::ToolUse { input, .. } = response.blocks[1].view() else { panic!() };
        assert!(input.is_object(), "the vendor takes nothing else back");
    }
}

#[tokio::test]
async fn case_14_an_unclosed_call_never_runs_whatever_the_stop_reason_says() {
    let inner = [tool_start(0, "cut"), fragment(0, r#"{"path":"a"}"#)];
    let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
    let response = blocks("tool_use", &inner).await;
    assert!(matches!(response.calls().next().unwrap().input, Err(InputError::Truncated(_))));
}

#[tokio::test]
async fn invalid_tool_json_is_kept_for_an_error_result() {
    for json in [r#"{"path": oops}"#, "[1]", r#""text""#, "{} {}"] {
        let inner = [tool_start(0, "bad"), fragment(0, json), close(0)];
        let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
        let response = blocks("tool_use", &inner).await;
        let call = response.calls().next().unwrap();
        assert_eq!(call.input, Err(&InputError::Unreadable(json.to_owned())));
        let text = serde_json::Value::from(json);
        let raw =
            format!(r#"{{"type":"tool_use","id":"bad","name":"read","input":{{"INVALID_JSON":{text}}}}}"#);
        assert_eq!(raws(&response), [raw]);
    }
}

#[tokio::test]
async fn case_19_unknown_events_and_deltas_never_end_a_stream() {
    let mut body = events(&[START, r#"{"type":"sparkle","index":"x"}"#]);
    body.push_str("event: future\ndata: not json\n\nid: 7\n\ndata:\n\n");
    let stop = stop("end_turn");
    body.push_str(&events(&[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"glow_delta","text":{"x":1}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        &stop,
        END,
    ]));
    let (response, seen) = answer(&body).await;
    assert_eq!(response.text(), "ok");
    assert_eq!(seen, [Delta::Text("ok".to_owned())]);
}

#[tokio::test]
async fn case_20_usage_is_set_and_not_added() {
    let early = r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":30,"input_tokens":12}}"#;
    let response = blocks("end_turn", &[early]).await;
    let want = Usage { input: 12, output: 42, cache_read: 5, cache_write: 3 };
    assert_eq!(response.usage, want);
}

#[tokio::test]
async fn case_21_input_tokens_exclude_the_cache() {
    let response = blocks("end_turn", &[]).await;
    assert_eq!(response.usage.input, 10);
    assert_eq!(response.usage.total_input(), 18);
}

#[tokio::test]
async fn case_23_every_stop_reason_is_typed() {
    for (wire, stop) in [
        ("end_turn", Stop::EndTurn),
        ("tool_use", Stop::ToolUse),
        ("max_tokens", Stop::MaxTokens),
        ("refusal", Stop::Refusal),
        ("pause_turn", Stop::PauseTurn),
        ("model_context_window_exceeded", Stop::ContextExceeded),
        ("stop_sequence", Stop::StopSequence),
        ("novel", Stop::Other("novel".to_owned())),
    ] {
        assert_eq!(blocks(wire, &[]).await.stop, stop);
    }
}

#[tokio::test]
async fn case_23_tool_use_without_a_block_calls_nothing() {
    let response = blocks("tool_use", &[]).await;
    assert_eq!(response.calls().count(), 0);
}

#[tokio::test]
async fn case_23_a_refusal_takes_its_calls_back() {
    let inner = [tool_start(0, "a"), fragment(0, "{}"), close(0)];
    let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
    let response = blocks("refusal", &inner).await;
    assert_eq!(response.calls().next().unwrap().input, Err(&InputError::Refused));
}

#[tokio::test]
async fn carriage_returns_comments_and_split_data_lines_are_read() {
    let stop = stop("end_turn");
    let text = events(&[
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hé"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        &stop,
        END,
    ]);
    let split = text.replace(r#","content_block""#, "\ndata: ,\"content_block\"");
    for body in [text.replace('\n', "\r\n"), text.replace('\n', "\r"), split, format!(": hi\n\n{text}")] {
        assert_eq!(answer(&body).await.0.text(), "hé");
    }
}

#[tokio::test]
async fn a_stream_that_ends_after_its_stop_reason_is_whole() {
    let stop = stop("end_turn");
    let (response, _) = answer(&events(&[START, &stop])).await;
    assert_eq!(response.attempts, 1);
}

#[tokio::test]
async fn a_stream_that_ends_politely_but_early_is_cut() {
    let open = [START, &tool_start(0, "a"), &fragment(0, "{}")].map(str::to_owned);
    let text: Vec<&str> = open.iter().map(String::as_str).collect();
    let stop = stop("tool_use");
    // Before any event, inside a block, and with a stop reason but a block still open.
    let unclosed = [text.clone(), vec![stop.as_str()]].concat();
    for body in [String::new(), events(&text), events(&unclosed)] {
        let server = Canned::start(vec![stream(&body)]).await;
        let config = models::Config { max_attempts: 2, ..crate::config(&server.base_url) };
        let anthropic = models::Adapter::new(config).unwrap();
        let (result, _) = ask(&anthropic, &request(vec![say("Go.")])).await;
        assert!(matches!(result, Err(call::Error::Cut { source: None, .. })), "{body}: {result:?}");
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_stream_without_end_is_cut_off() {
    let server = Canned::start(vec![stream(&format!("data: {}", "x".repeat(5_000)))]).await;
    let config =
        models::Config { max_answer_bytes: 1_000, max_attempts: 1, ..crate::config(&server.base_url) };
    let anthropic = models::Adapter::new(config).unwrap();
    let (result, _) = ask(&anthropic, &request(vec![say("Go.")])).await;
    assert!(matches!(result, Err(call::Error::Malformed { .. })), "{result:?}");
}

#[tokio::test]
async fn malformed_streams_are_typed_and_never_panic() {
    let deep = format!(r#"{{"type":"content_block_start","index":0,"content_block":{}}}"#, "[".repeat(5_000));
    for body in [
        "event: message_start\ndata: {\n\n".to_owned(),
        "event: content_block_start\ndata: []\n\n".to_owned(),
        events(&[r#"{"type":"content_block_start","index":0,"content_block":{"no":"type"}}"#]),
        events(&[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            END,
        ]),
        events(&[r#"{"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"x"}}"#]),
        events(&[&tool_start(0, "a"), &tool_start(0, "b")]),
        events(&[&tool_start(0, "a"), &close(0), &close(0)]),
        format!("data: {deep}\n\n"),
    ] {
        let server = Canned::start(vec![stream(&body)]).await;
        let config = models::Config { max_attempts: 2, ..crate::config(&server.base_url) };
        let anthropic = models::Adapter::new(config).unwrap();
        let (result, _) = ask(&anthropic, &request(vec![say("Go.")])).await;
        assert!(matches!(result, Err(call::Error::Malformed { .. })), "{body}: {result:?}");
        assert_eq!(server.requests().len(), 2, "a garbled stream is asked for again");
    }
}

#[test]
fn a_block_that_is_no_object_is_refused() {
    for raw in ["[]", "1", r#"{"type":1}"#, r#"{"text":"x"}"#] {
        assert!(Block::from_raw(models::RawJson::parse(raw).unwrap()).is_err(), "{raw}");
    }
}

#[tokio::test]
async fn a_block_that_could_not_go_back_is_no_answer() {
    for block in [
        r#"{"type":"function","id":"i","function":{"name":"read"}}"#,
        r#"{"type":"reasoning","summary":[]}"#,
        r#"{"type":"message","content":[]}"#,
        r#"{"type":"tool_result","tool_use_id":"i"}"#,
    ] {
        let start = format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#);
        let body = events(&[START, &start, &close(0), &stop("end_turn"), END]);
        let server = Canned::start(vec![stream(&body)]).await;
        let config = models::Config { max_attempts: 1, ..crate::config(&server.base_url) };
        let anthropic = models::Adapter::new(config).unwrap();
        let (result, _) = ask(&anthropic, &request(vec![say("Go.")])).await;
        assert!(matches!(result, Err(call::Error::Malformed { .. })), "{block}: {result:?}");
    }
}
