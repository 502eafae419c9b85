//! Answers that are no answer, on each wire: what is wrong, where, and how to mend it.

use models::block::View;
use models::call::Error;
use models::{Config, Delta, Message, Response, Stop, Usage, Wire, wire};

use crate::canned::{Canned, answer, stream};
use crate::{ask, request_on, say};

/// One call that is answered like this for ever; at most two attempts.
async fn call(wire: Wire, bytes: Vec<u8>) -> (Result<Response, Error>, Vec<Delta>, usize) {
    let server = Canned::start(vec![bytes]).await;
    let config = Config { wire, max_attempts: 2, ..crate::config(&server.base_url) };
    let provider = models::Adapter::connect(config).unwrap();
    let (result, seen) = ask(&*provider, &request_on(wire, vec![say("Go.")])).await;
    (result, seen, server.requests().len())
}

/// What never changes by itself: named in one line with where and how to mend it, and asked once.
#[track_caller]
fn check(what: &str, found: (Result<Response, Error>, Vec<Delta>, usize), words: &[&str]) -> Error {
    let error = found.0.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("http://127.0.0.1:") && said.lines().count() == 1, "{what}: {said}");
    for words in words {
        assert!(said.contains(words), "{what}: no `{words}` in: {said}");
    }
    assert_eq!((found.2, error.is_retryable()), (1, false), "{what}: {said}");
    error
}

fn json(message: &str) -> String {
    serde_json::json!({ "error": { "message": message } }).to_string()
}

#[tokio::test]
async fn a_model_without_tools_says_what_it_takes() {
    for (status, body, mend) in [
        ("400 Bad Request", json("registry.ollama.ai/library/gemma:2b does not support tools"), "another model"),
        (
            "400 Bad Request",
            r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}"#.to_owned(),
            "start vLLM with --enable-auto-tool-choice and --tool-call-parser",
        ),
        ("500 Internal Server Error", json("tools param requires --jinja flag"), "start llama.cpp with --jinja"),
        ("400 Bad Request", json("Unsupported parameter: 'tools' is not supported with this model."), "another model"),
        ("404 Not Found", json("No endpoints found that support tool use."), "another model"),
        ("422 Unprocessable Entity", r#"{"detail":"this model does not support function calling"}"#.to_owned(), "another model"),
    ] {
        for wire in Wire::ALL {
            let error = check(&body, call(wire, answer(status, "", &body)).await, &[mend, "resume"]);
            assert!(matches!(error, Error::NoTools { .. }), "{wire:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn an_account_without_credit() {
    let quota = r#"{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let low = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#;
    let billing = r#"{"type":"error","error":{"type":"billing_error","message":"Unpaid."}}"#;
    for (status, body) in [
        ("429 Too Many Requests", quota),
        ("400 Bad Request", low),
        ("402 Payment Required", billing),
        ("402 Payment Required", ""),
        ("403 Forbidden", billing),
    ] {
        for wire in Wire::ALL {
            let words = [&status[..3], "no credit left", "resume"];
            let error = check(status, call(wire, answer(status, "", body)).await, &words);
            assert!(matches!(error, Error::NoCredit(_)), "{wire:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn a_model_that_is_not_there_is_told_from_a_path_that_is_not() {
    for wire in Wire::ALL {
        let url = wire.url_env();
        for body in [
            r#"{"error":{"message":"The model `x` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
            r#"{"error":"model 'x' not found, try pulling it first"}"#,
        ] {
            let found = call(wire, answer("404 Not Found", "", body)).await;
            let error = check(body, found, &["404", "check the model name", url]);
            assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
        }
        for (status, body) in [
            ("404 Not Found", "404 page not found"),
            ("404 Not Found", r#"{"detail":"Not Found"}"#),
            ("404 Not Found", ""),
            ("405 Method Not Allowed", r#"{"detail":"Method Not Allowed"}"#),
            ("501 Not Implemented", "Unsupported method"),
        ] {
            let found = call(wire, answer(status, "", body)).await;
            let error = check(body, found, &[&status[..3], "nothing takes calls at this path", url]);
            assert!(matches!(error, Error::NoSuchPath(_)), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_web_page_is_no_vendor() {
    let page = "\u{feff}\n<!DOCTYPE html>\n<html><head><style>b{}</style><title>Sign in |\n Corp</title></head><body><b>Hi</b></body></html>";
    for wire in Wire::ALL {
        for status in
            ["401 Unauthorized", "403 Forbidden", "404 Not Found", "405 Method Not Allowed", "302 Found"]
        {
            let found = call(wire, answer(status, "content-type: text/html\r\n", page)).await;
            let error = check(status, found, &["Sign in | Corp", "a web page", wire.url_env(), "proxy"]);
            assert!(matches!(error, Error::Page(_)) && !error.to_string().contains('<'), "{error:?}");
        }
        let found = call(wire, answer("200 OK", "content-type: text/html\r\n", page)).await;
        let error = check("200", found, &["text/html", wire.url_env()]);
        assert!(matches!(error, Error::NotAStream { .. }), "{error:?}");
    }
    // One that may pass is asked again, and its page is told as words too.
    let (result, _, asked) =
        call(Wire::Messages, answer("502 Bad Gateway", "", "<html><body><h1>502</h1>nginx</body></html>"))
            .await;
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::Status(answer) if answer.message == "502nginx"), "{error:?}");
    assert_eq!(asked, 2);
}

#[tokio::test]
async fn a_redirect_says_where_to_and_is_not_followed() {
    for (location, to) in [
        ("https://login.example/sso?token=abc", "https://login.example"),
        ("/v2/elsewhere", "http://127.0.0.1:"),
    ] {
        for (status, wire) in
            [("301 Moved", Wire::Messages), ("307 Temporary", Wire::Responses), ("308 P", Wire::Chat)]
        {
            let head = format!("location: {location}\r\n");
            let error = check(
                location,
                call(wire, answer(status, &head, "")).await,
                &[&status[..3], to, wire.url_env()],
            );
            assert!(matches!(&error, Error::Redirected { .. }), "{error:?}");
            assert!(!error.to_string().contains("token"), "{error}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_packed_unasked() {
    let head = "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n";
    for wire in Wire::ALL {
        let error =
            check("gzip", call(wire, answer("200 OK", head, "\u{1f}\u{8b}…")).await, &["`gzip`", "plain"]);
        assert!(matches!(error, Error::Encoded { .. }), "{error:?}");
    }
    let refused = answer("401 Unauthorized", "content-encoding: gzip\r\n", "\u{1f}\u{8b}…");
    let error = check("401", call(Wire::Messages, refused).await, &["answered 401; check ANTHROPIC_API_KEY"]);
    assert!(matches!(error, Error::Unauthorized(_)), "{error:?}");
}

/// A whole answer of each wire: reasoning, words and a call.
fn whole(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => {
            r#"{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"text","text":"I read."},{"type":"tool_use","id":"c1","name":"read","input":{"n":1.50}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":3,"cache_read_input_tokens":2}}"#
        }
        Wire::Responses => {
            r#"{"id":"resp_1","object":"response","status":"completed","error":null,"model":"m-1","output":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},{"type":"message","id":"m1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I read.","annotations":[]}]},{"type":"function_call","id":"f1","call_id":"c1","name":"read","arguments":"{\"n\":1.50}","status":"completed"}],"usage":{"input_tokens":9,"output_tokens":3,"input_tokens_details":{"cached_tokens":2}}}"#
        }
        Wire::Chat => {
            r#"{"id":"c","object":"chat.completion","model":"m-1","choices":[{"index":0,"message":{"role":"assistant","reasoning_content":"hm","content":"I read.","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\":1.50}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}}"#
        }
    }
}

#[tokio::test]
async fn a_whole_answer_in_place_of_a_stream_is_taken() {
    for wire in Wire::ALL {
        for (head, bom) in [("content-type: application/json; charset=utf-8\r\n", ""), ("", "\u{feff}\r\n")] {
            let body = format!("{bom}{}\n", whole(wire));
            let (result, seen, asked) = call(wire, answer("200 OK", head, &body)).await;
            let first = result.unwrap();
            assert_eq!(
                (first.text().as_str(), &first.stop, asked),
                ("I read.", &Stop::ToolUse, 1),
                "{wire:?}"
            );
            let calls: Vec<_> =
                first.calls().map(|call| (call.id, call.name, call.input.unwrap().as_str())).collect();
            assert_eq!(calls, [("c1", "read", r#"{"n":1.50}"#)], "{wire:?}");
            assert_eq!(first.usage, Usage { input: 7, output: 3, cache_read: 2, cache_write: 0 }, "{wire:?}");
            assert_eq!(first.model, "m-1", "{wire:?}");
            assert!(first.blocks[0].is_reasoning(), "{wire:?}: {:?}", first.blocks);
            assert_eq!(seen, [Delta::Text("I read.".to_owned())], "{wire:?}");
            // It goes back as it came.
            let results = Message::user(vec![models::Block::tool_result("c1", Ok("x"))]);
            let next = request_on(wire, vec![say("Go."), Message::assistant(&first), results]);
            let sent = String::from_utf8(wire::compose(&next).unwrap().to_vec()).unwrap();
            let kept = match wire {
                Wire::Messages => r#"{"type":"thinking","thinking":"hm","signature":"sig"}"#,
                Wire::Responses => r#""encrypted_content":"x""#,
                Wire::Chat => r#""reasoning_content":"hm""#,
            };
            assert!(sent.contains(kept), "{sent}");
        }
    }
}

#[tokio::test]
async fn a_whole_answer_that_was_cut_or_refused_is_no_other_than_a_stream() {
    let cut = whole(Wire::Messages).replace(r#""stop_reason":"tool_use""#, r#""stop_reason":"max_tokens""#);
    let (result, ..) =
        call(Wire::Messages, answer("200 OK", "content-type: application/json\r\n", &cut)).await;
    let first = result.unwrap();
    assert!(first.stop == Stop::MaxTokens && first.calls().next().unwrap().input.is_err());
    assert!(matches!(first.blocks[2].view(), View::ToolUse { .. }));
    for wire in Wire::ALL {
        let head = "content-type: application/json\r\n";
        let refused =
            r#"{"error":{"type":"invalid_request_error","code":"invalid_prompt","message":"because"}}"#;
        let error = check("error", call(wire, answer("200 OK", head, refused)).await, &["because"]);
        assert!(matches!(error, Error::BadRequest(_)), "{wire:?}: {error:?}");
        for body in [r#"{"hello":"world"}"#, "{", "[]", "", "ok"] {
            let error = check(
                body,
                call(wire, answer("200 OK", head, body)).await,
                &["application/json", wire.url_env()],
            );
            assert!(matches!(error, Error::NotAStream { .. }), "{wire:?} {body}: {error:?}");
        }
    }
}

/// A stream of each wire that says `ok`.
fn events(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => {
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\n\
             data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"ok\"}}\n\n\
             data: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
             data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
             data: {\"type\":\"message_stop\"}\n\n"
        }
        Wire::Responses => {
            "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"ok\"}]}]}}\n\n"
        }
        Wire::Chat => {
            "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
        }
    }
}

#[tokio::test]
async fn a_stream_by_another_name_with_a_mark_before_and_garbage_after_is_taken() {
    for wire in Wire::ALL {
        let named = |name: &str, body: &str| answer("200 OK", name, body);
        for (what, bytes) in [
            ("text/plain", named("content-type: text/plain\r\n", events(wire))),
            ("no type", named("", events(wire))),
            ("comment first", named("", &format!(": hi\n\n{}", events(wire)))),
            ("mark", stream(&format!("\u{feff}{}", events(wire)))),
            ("mark, no type", named("", &format!("\u{feff}{}", events(wire)))),
            ("garbage after", stream(&format!("{}data: {{]\n\n\u{0}\u{7f}<html>", events(wire)))),
        ] {
            let (result, _, asked) = call(wire, bytes).await;
            assert_eq!((result.unwrap().text().as_str(), asked), ("ok", 1), "{wire:?} {what}");
        }
    }
}

#[tokio::test]
async fn an_answer_cut_in_its_head_is_asked_for_again() {
    for wire in Wire::ALL {
        for head in ["HTTP/1.1 200 OK\r\ncontent-ty", "HTTP/1.1 200", ""] {
            let good = stream(events(wire));
            let server = Canned::start(vec![head.as_bytes().to_vec(), good]).await;
            let provider = crate::provider(wire, &server.base_url);
            let (result, _) = ask(&*provider, &request_on(wire, vec![say("Go.")])).await;
            let response = result.unwrap();
            assert_eq!((response.text().as_str(), response.attempts), ("ok", 2), "{wire:?} `{head}`");
        }
    }
}

#[tokio::test]
async fn an_unknown_stop_reason_is_kept() {
    let known = [
        (Wire::Messages, events(Wire::Messages).replace("end_turn", "tired")),
        (Wire::Chat, events(Wire::Chat).replace("\"stop\"", "\"tired\"")),
    ];
    for (wire, body) in known {
        let response = call(wire, stream(&body)).await.0.unwrap();
        assert_eq!((response.stop.clone(), response.text().as_str()), (Stop::Other("tired".into()), "ok"));
        let again: Response = serde_json::from_slice(&serde_json::to_vec(&response).unwrap()).unwrap();
        assert_eq!(again, response);
    }
}
