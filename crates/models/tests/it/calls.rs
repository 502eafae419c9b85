//! Whole calls against the scripted model server: retries, errors, cancellation.

use std::time::Duration;

use models::Adapter;
use models::block::InputError;
use models::{Block, Config, Delta, Message, Provider, Stop, Usage, call};
use testkit::script::{self, Line, Options, Server};

use crate::canned::{self, Canned};
use crate::{anthropic, ask, config, request, say};

async fn serve(scenario: &str) -> Server {
    Server::start(script::parse(scenario).unwrap(), Options::default()).await.unwrap()
}

/// Outcomes of the requests that a server saw.
fn outcomes(server: &Server) -> Vec<String> {
    let outcome = |served: script::Served| match served.line {
        Line::Turn { outcome, .. } => outcome,
        Line::Entry { .. } | Line::Batch { .. } => unreachable!("only turns are served"),
    };
    server.served().into_iter().map(outcome).collect()
}

#[tokio::test]
async fn a_conversation_runs_turn_by_turn_and_the_vendor_takes_every_block_back() {
    let server = serve(
        r#"
        [[turn]]
        thinking = "Let me look at the file, and at the tést."
        text = "I read."
        raw = ['{"type":"redacted_thinking","data":"opaque"}']
        [[turn.call]]
        name = "read"
        input = { path = "src/sum.js", from = 1 }
        [[turn.call]]
        name = "shell"

        [[turn]]
        thinking = ""
        text = "Done."
        expect = ["content of sum.js"]
        "#,
    )
    .await;
    let anthropic = anthropic(server.base_url());
    let mut messages = vec![say("Mend it.")];
    let (first, seen) = ask(&anthropic, &request(messages.clone())).await;
    let first = first.unwrap();
    assert_eq!(first.stop, Stop::ToolUse);
    let calls: Vec<_> = first.calls().map(|call| (call.name, call.input.unwrap().as_str())).collect();
    assert_eq!(calls, [("read", r#"{"from":1,"path":"src/sum.js"}"#), ("shell", "{}")]);
    let live: String = seen
        .iter()
        .filter_map(|delta| match delta {
            Delta::Text(text) | Delta::Thinking(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(live, "Let me look at the file, and at the tést.I read.");
    assert!(first.request_id.as_ref().unwrap().starts_with("req_"));

    messages.push(Message::assistant(&first));
    let ids: Vec<String> = first.calls().map(|call| call.id.to_owned()).collect();
    messages.push(Message::user(vec![
        Block::tool_result(&ids[0], Ok("content of sum.js")),
        Block::tool_result(&ids[1], Ok("")),
    ]));
    let (second, _) = ask(&anthropic, &request(messages)).await;
    let second = second.unwrap();
    assert_eq!((second.text().as_str(), second.stop), ("Done.", Stop::EndTurn));
    assert_eq!(outcomes(&server), ["answer", "answer"]);
}

#[tokio::test]
async fn exactly_the_composed_bytes_are_sent() {
    let server = serve("[[turn]]\ntext = 'ok'").await;
    let anthropic = anthropic(server.base_url());
    let body = anthropic.compose(&request(vec![say("Go.")])).unwrap();
    anthropic.call(body.clone(), &mut |_| {}).await.unwrap();
    assert_eq!(server.served()[0].body, body);
}

#[tokio::test]
async fn case_17_an_error_event_after_200_is_retried_and_typed() {
    let server = serve(
        r#"
        [[turn]]
        text = "A text of some length."
        [[turn.fault]]
        kind = "error"
        error = "overloaded_error"
        message = "Overloaded"
        after_events = 3
        "#,
    )
    .await;
    let (result, seen) = ask(&anthropic(server.base_url()), &request(vec![say("Go.")])).await;
    let response = result.unwrap();
    assert_eq!((response.attempts, response.text().as_str()), (2, "A text of some length."));
    let retry = seen.iter().position(|delta| matches!(delta, Delta::Retrying { attempt: 1, .. }));
    assert!(retry.is_some_and(|place| place > 0), "the view is told to drop what it showed: {seen:?}");

    let server = serve(
        "[[turn]]\n[[turn.fault]]\nkind = 'error'\nerror = 'invalid_request_error'\nmessage = 'bad words'",
    )
    .await;
    let (result, _) = ask(&anthropic(server.base_url()), &request(vec![say("Go.")])).await;
    assert!(matches!(result, Err(call::Error::BadRequest(answer)) if answer.message == "bad words"));
    assert_eq!(server.served().len(), 1);
}

#[tokio::test]
async fn case_22_a_paused_turn_is_sent_back_unchanged() {
    let server = serve(
        r#"
        [[turn]]
        text = "Half"
        stop = "pause_turn"
        [[turn]]
        text = "whole"
        "#,
    )
    .await;
    let anthropic = anthropic(server.base_url());
    let (first, _) = ask(&anthropic, &request(vec![say("Go.")])).await;
    let first = first.unwrap();
    assert_eq!(first.stop, Stop::PauseTurn);
    let again = request(vec![say("Go."), Message::assistant(&first)]);
    let body = anthropic.compose(&again).unwrap();
    let tail = format!(r#",{{"role":"assistant","content":[{}]}}]}}"#, first.blocks[0].raw().as_str());
    assert!(String::from_utf8_lossy(&body).ends_with(&tail));
    assert_eq!(ask(&anthropic, &again).await.0.unwrap().text(), "whole");
}

#[tokio::test]
async fn case_24_characters_split_across_chunks_are_whole() {
    let text = "Zoë naïve 漢字 🦀🦀 — fin";
    for chunk_bytes in [1, 2, 3, 7] {
        let server =
            serve(&format!("[[turn]]\ntext = '{text}'\nchunk_bytes = {chunk_bytes}\nping = true")).await;
        let (result, _) = ask(&anthropic(server.base_url()), &request(vec![say("Go.")])).await;
        assert_eq!(result.unwrap().text(), text);
    }
}

#[tokio::test]
async fn case_25_limits_and_overload_are_retried_after_what_the_vendor_asks() {
    let server = serve(
        r#"
        [[turn]]
        text = "ok"
        [[turn.fault]]
        kind = "status"
        status = 429
        retry_after = "0"
        [[turn.fault]]
        kind = "status"
        status = 429
        retry_after = "Tue, 10 Nov 2020 10:00:00 GMT"
        [[turn.fault]]
        kind = "status"
        status = 529
        times = 2
        [[turn.fault]]
        kind = "status"
        status = 500
        "#,
    )
    .await;
    let (result, _) = ask(&anthropic(server.base_url()), &request(vec![say("Go.")])).await;
    assert_eq!(result.unwrap().attempts, 6);
    let want = ["status 429", "status 429", "status 529", "status 529", "status 500", "answer"];
    assert_eq!(outcomes(&server), want);
}

#[tokio::test]
async fn case_25_a_long_retry_after_is_left_to_the_caller() {
    let fault = "[[turn]]\n[[turn.fault]]\nkind = 'status'\nstatus = 429\nretry_after = '3600'\ntimes = 0";
    let server = serve(fault).await;
    let (result, _) = ask(&anthropic(server.base_url()), &request(vec![say("Go.")])).await;
    let error = result.unwrap_err();
    assert!(error.is_retryable());
    assert!(error.to_string().contains("wait 3600 s"), "{error}");
    let call::Error::RateLimited { retry_after, .. } = error else { panic!("{error:?}") };
    assert_eq!(retry_after, Some(Duration::from_secs(3600)));
    assert_eq!(server.served().len(), 1);
}

#[tokio::test]
async fn case_29_a_silent_stream_is_given_up_and_asked_for_again() {
    let fault = "[[turn]]\ntext = 'once only'\nusage = { input = 9, output = 3 }\n\
                 [[turn.fault]]\nkind = 'silence'\nafter_events = 3";
    let server = serve(fault).await;
    let short =
        Config { idle_timeout: Duration::from_millis(400), max_attempts: 20, ..config(server.base_url()) };
    let (result, _) = ask(&Adapter::new(short).unwrap(), &request(vec![say("Go.")])).await;
    let response = result.unwrap();
    assert!(response.attempts >= 2);
    assert_eq!(response.text(), "once only", "the retry does not double the answer");
    assert!(response.lost.input >= 9, "what the lost attempt took is not forgotten");
}

#[tokio::test]
async fn case_29_a_silent_stream_ends_with_a_typed_error() {
    let server = serve("[[turn]]\ntext = 'x'\n[[turn.fault]]\nkind = 'silence'\ntimes = 0").await;
    let short =
        Config { idle_timeout: Duration::from_millis(50), max_attempts: 2, ..config(server.base_url()) };
    let (result, _) = ask(&Adapter::new(short).unwrap(), &request(vec![say("Go.")])).await;
    let error = result.unwrap_err();
    assert!(matches!(error, call::Error::Idle { .. }) && error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn a_stream_cut_anywhere_is_asked_for_again_as_a_whole() {
    for after in 0..8 {
        let fault = format!(
            "[[turn]]\ntext = 'one two three four'\nusage = {{ input = 5, output = 2 }}\n\
             [[turn.fault]]\nkind = 'cut'\nafter_events = {after}"
        );
        let server = serve(&fault).await;
        let (result, _) = ask(&anthropic(server.base_url()), &request(vec![say("Go.")])).await;
        let response = result.unwrap();
        assert_eq!(response.text(), "one two three four");
        assert_eq!(usize::try_from(response.attempts).unwrap(), server.served().len());
    }
}

#[tokio::test]
async fn a_stream_that_is_always_cut_ends_typed_after_the_last_attempt() {
    let server =
        serve("[[turn]]\ntext = 'x'\n[[turn.fault]]\nkind = 'cut'\nafter_events = 2\ntimes = 0").await;
    let few = Config { max_attempts: 3, ..config(server.base_url()) };
    let (result, _) = ask(&Adapter::new(few).unwrap(), &request(vec![say("Go.")])).await;
    assert!(matches!(result, Err(call::Error::Cut { .. })), "{result:?}");
    assert_eq!(server.served().len(), 3);
}

#[tokio::test]
async fn a_garbage_frame_is_asked_for_again() {
    let server = serve("[[turn]]\ntext = 'fine'\n[[turn.fault]]\nkind = 'garbage'\nafter_events = 2").await;
    let (result, _) = ask(&anthropic(server.base_url()), &request(vec![say("Go.")])).await;
    assert_eq!(result.unwrap().attempts, 2);
}

#[tokio::test]
async fn invalid_tool_json_from_the_wire_can_be_answered() {
    let server = serve(
        r#"
        [[turn]]
        [[turn.call]]
        name = "read"
        json = '{"path": '
        [[turn]]
        text = "sorry"
        expect = ["not a valid JSON object"]
        "#,
    )
    .await;
    let anthropic = anthropic(server.base_url());
    let (first, _) = ask(&anthropic, &request(vec![say("Go.")])).await;
    let first = first.unwrap();
    let bad = first.calls().next().unwrap();
    assert!(matches!(bad.input, Err(InputError::Unreadable(_))));
    let why = bad.input.unwrap_err().to_string();
    let result = Block::tool_result(bad.id, Err(&why));
    let next = request(vec![say("Go."), Message::assistant(&first), Message::user(vec![result])]);
    assert_eq!(ask(&anthropic, &next).await.0.unwrap().text(), "sorry");
}

#[tokio::test]
async fn answers_that_will_not_change_are_not_asked_for_again() {
    for (status, name) in [
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (403, "Unauthorized"),
        (404, "NotFound"),
        (413, "ContextTooLong"),
        (402, "NoCredit"),
        (302, "Status"),
    ] {
        let fault = format!(
            "[[turn]]\n[[turn.fault]]\nkind = 'status'\nstatus = {status}\nmessage = 'because of {KEY} it is so'",
            KEY = crate::KEY
        );
        let server = serve(&fault).await;
        let (result, _) = ask(&anthropic(server.base_url()), &request(vec![say("Go.")])).await;
        let error = result.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(format!("{error:?}").starts_with(name), "{status}: {error:?}");
        assert!(shown.contains(&status.to_string()) && shown.contains("because of *** it is so"), "{shown}");
        assert!(!shown.contains(crate::KEY) && shown.contains("127.0.0.1"), "{shown}");
        assert_eq!(server.served().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_conversation_too_long_is_told_from_other_bad_requests() {
    let fault = "[[turn]]\n[[turn.fault]]\nkind = 'status'\nstatus = 400\nmessage = 'prompt is too long: 210000 tokens > 200000 maximum'";
    let server = serve(fault).await;
    let (result, _) = ask(&anthropic(server.base_url()), &request(vec![say("Go.")])).await;
    assert!(matches!(result, Err(call::Error::ContextTooLong(_))), "{result:?}");
}

#[tokio::test]
async fn the_vendor_may_forbid_or_demand_another_attempt() {
    let refuse = canned::answer("500 Oops", "x-should-retry: false\r\n", "{}");
    let server = Canned::start(vec![refuse]).await;
    let (result, _) = ask(&anthropic(&server.base_url), &request(vec![say("Go.")])).await;
    assert!(matches!(result, Err(call::Error::Status(_))));
    assert_eq!(server.requests().len(), 1);

    let demand = canned::answer("400 Bad", "x-should-retry: true\r\n", "{}");
    let good = canned::stream(&canned::events(&[
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        r#"{"type":"message_stop"}"#,
    ]));
    let server = Canned::start(vec![demand, good]).await;
    let (result, _) = ask(&anthropic(&server.base_url), &request(vec![say("Go.")])).await;
    assert_eq!(result.unwrap().attempts, 2);
}

#[tokio::test]
async fn the_headers_are_the_vendors_and_a_redirect_never_carries_the_key() {
    let thief = Canned::start(vec![canned::answer("200 OK", "", "")]).await;
    let to = format!("location: {}/v1/messages\r\n", thief.base_url);
    let server = Canned::start(vec![canned::answer("307 Elsewhere", &to, "")]).await;
    let (result, _) = ask(&anthropic(&server.base_url), &request(vec![say("Go.")])).await;
    assert!(matches!(result, Err(call::Error::Redirected { status: 307, .. })));
    assert!(thief.requests().is_empty());
    let sent = server.requests().remove(0).to_lowercase();
    assert!(sent.starts_with("post /v1/messages http/1.1\r\n"), "{sent}");
    for header in [
        format!("x-api-key: {}", crate::KEY),
        "anthropic-version: 2023-06-01".to_owned(),
        "content-type: application/json".to_owned(),
    ] {
        assert!(sent.contains(&format!("{header}\r\n")), "{sent}");
    }
}

#[tokio::test]
async fn a_page_instead_of_a_stream_is_typed_and_not_asked_for_again() {
    let page = canned::answer("200 OK", "content-type: text/html\r\n", "<html>sign in</html>");
    let server = Canned::start(vec![page]).await;
    let (result, _) = ask(&anthropic(&server.base_url), &request(vec![say("Go.")])).await;
    let error = result.unwrap_err();
    assert!(matches!(error, call::Error::NotAStream { .. }), "{error:?}");
    assert!(error.to_string().contains("text/html"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_typed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let few = Config { max_attempts: 2, ..config(&url) };
    let (result, seen) = ask(&Adapter::new(few).unwrap(), &request(vec![say("Go.")])).await;
    let error = result.unwrap_err();
    assert!(matches!(error, call::Error::Connect { .. }) && error.is_retryable(), "{error:?}");
    assert_eq!(seen.len(), 1, "one retry: {seen:?}");
}

#[tokio::test]
async fn bytes_that_are_no_request_are_not_sent() {
    let server = serve("[[turn]]\ntext = 'x'").await;
    let result = anthropic(server.base_url()).call("{}".into(), &mut |_| {}).await;
    assert!(matches!(result, Err(call::Error::NotARequest { .. })));
    assert!(server.served().is_empty());
}

#[tokio::test]
async fn dropping_a_call_cancels_it() {
    let server =
        serve("[[turn]]\ntext = 'x'\n[[turn.fault]]\nkind = 'silence'\nafter_events = 4\ntimes = 0").await;
    let anthropic = anthropic(server.base_url());
    let body = anthropic.compose(&request(vec![say("Go.")])).unwrap();
    let (told, mut first) = tokio::sync::mpsc::unbounded_channel();
    let mut on_delta = move |delta| drop(told.send(delta));
    let call = anthropic.call(body, &mut on_delta);
    tokio::select! {
        result = call => panic!("a silent call ended: {result:?}"),
        delta = first.recv() => assert_eq!(delta, Some(Delta::Text("x".to_owned()))),
    }
    assert_eq!(server.served().len(), 1);
}

#[tokio::test]
async fn usage_and_model_are_the_vendors() {
    let server =
        serve("[[turn]]\ntext = 'x'\nusage = { input = 1, output = 2, cache_read = 3, cache_write = 4 }")
            .await;
    let (result, _) = ask(&anthropic(server.base_url()), &request(vec![say("Go.")])).await;
    let response = result.unwrap();
    assert_eq!(response.usage, Usage { input: 1, output: 2, cache_read: 3, cache_write: 4 });
    assert_eq!((response.model.as_str(), response.asked.as_str()), ("scripted", "scripted"));
}

#[tokio::test]
async fn a_key_that_comes_back_as_the_id_of_a_request_is_not_shown() {
    let body = format!(r#"{{"error":{{"type":"api_error","message":"no"}},"request_id":"{}"}}"#, crate::KEY);
    let server = Canned::start(vec![canned::answer("400 Bad Request", "", &body)]).await;
    let (result, _) = ask(&anthropic(&server.base_url), &request(vec![say("Go.")])).await;
    let shown = format!("{result:?}");
    assert!(shown.contains("***") && !shown.contains(crate::KEY), "{shown}");
}
