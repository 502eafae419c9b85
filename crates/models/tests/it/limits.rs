//! Many runs against a vendor that counts: none is turned away as long as what the vendor says is heeded,
//! and all come through.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use models::{Adapter, Config, Delta, Limits, Provider, Wire, call};
use testkit::script::{self, Options, Server};

use crate::canned::{self, Canned};
use crate::{ask, config, request, request_on, say};

async fn serve(limits: script::Limits) -> Server {
    let scenario = script::parse("[[turn]]\ntext = 'ok'\ndelay_ms = 20").unwrap();
    Server::start(scenario, Options { limits: Some(limits), ..Options::default() }).await.unwrap()
}

/// An adapter of each run, as the daemon has them: one account.
fn runs(wire: Wire, server: &Server, many: usize) -> Vec<Arc<dyn Provider>> {
    let limits = Limits::new();
    let adapter = |_| {
        let config = Config { wire, ..config(server.base_url()) };
        Arc::new(Adapter::within(config, &limits).unwrap()) as Arc<dyn Provider>
    };
    (0..many).map(adapter).collect()
}

async fn all_come_through(wire: Wire, server: &Server, many: usize) {
    let runs = runs(wire, server, many);
    let go = request_on(wire, vec![say("Go.")]);
    let answers = join_all(runs.iter().map(|run| ask(&**run, &go))).await;
    for (answer, _) in answers {
        assert_eq!(answer.unwrap().text(), "ok", "{wire:?}");
    }
    assert_eq!(server.served().len(), many, "{wire:?}");
}

#[tokio::test]
async fn many_runs_stay_within_a_vendors_requests() {
    for wire in [Wire::Messages, Wire::Responses] {
        let server =
            serve(script::Limits { requests: 6, tokens: 1_000_000, per: Duration::from_secs(2) }).await;
        all_come_through(wire, &server, 12).await;
        assert_eq!(server.limited(), 0, "{wire:?}");
    }
}

#[tokio::test]
async fn many_runs_stay_within_a_vendors_tokens() {
    for wire in [Wire::Messages, Wire::Responses] {
        let body = wire.compose(&request_on(wire, vec![say("Go.")])).unwrap().len();
        let each = match wire {
            Wire::Responses => 4_000,
            _ => u64::try_from(body).unwrap() / 3,
        };
        let server =
            serve(script::Limits { requests: 1_000, tokens: each * 5, per: Duration::from_secs(2) }).await;
        all_come_through(wire, &server, 12).await;
        assert_eq!(server.limited(), 0, "{wire:?}");
    }
}

#[tokio::test]
async fn a_server_of_ones_own_is_not_held_back_before_it_says_so_and_then_it_is() {
    let server = serve(script::Limits { requests: 6, tokens: 1_000_000, per: Duration::from_secs(2) }).await;
    all_come_through(Wire::Chat, &server, 12).await;
    assert!(server.limited() > 0, "nothing was known of it");
}

#[tokio::test]
async fn what_one_run_is_told_holds_for_all_of_its_account() {
    let shut = canned::answer("429 Slow", "retry-after: 3600\r\n", "{\"error\":{\"message\":\"too many\"}}");
    let server = Canned::start(vec![shut]).await;
    let limits = Limits::new();
    let run = || Adapter::within(config(&server.base_url), &limits).unwrap();
    let (first, second) = (run(), run());
    let go = request(vec![say("Go.")]);
    let (refused, _) = ask(&first, &go).await;
    assert!(matches!(refused, Err(call::Error::RateLimited { .. })), "{refused:?}");
    let (held, seen) = ask(&second, &go).await;
    let error = held.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("too many"), "{error}");
    let call::Error::RateLimited { retry_after: Some(wait), .. } = error else { panic!("{error:?}") };
    assert!(wait > Duration::from_secs(3_500) && wait <= Duration::from_secs(3_600), "{wait:?}");
    assert!(seen.is_empty());
    assert_eq!(server.requests().len(), 1, "the second was not sent");
    // Another account is another matter.
    let alone = Adapter::new(config(&server.base_url)).unwrap();
    assert!(ask(&alone, &go).await.0.is_err());
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_call_that_waits_says_so_once() {
    let server = serve(script::Limits { requests: 4, tokens: 1_000_000, per: Duration::from_secs(2) }).await;
    let runs = runs(Wire::Responses, &server, 9);
    let go = request_on(Wire::Responses, vec![say("Go.")]);
    let answers = join_all(runs.iter().map(|run| ask(&**run, &go))).await;
    let waits = answers.iter().map(|(answer, seen)| {
        assert!(answer.is_ok(), "{answer:?}");
        seen.iter().filter(|delta| matches!(delta, Delta::Waiting { .. })).count()
    });
    let waits: Vec<usize> = waits.collect();
    assert!(waits.iter().all(|waits| *waits <= 1) && waits.iter().sum::<usize>() >= 5, "{waits:?}");
}

#[tokio::test]
async fn what_anthropic_has_in_its_cache_needs_no_room() {
    let events = canned::events(&[
        r#"{"type":"message_start","message":{"usage":{"input_tokens":1,"cache_creation_input_tokens":900,"output_tokens":1}}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\
        anthropic-ratelimit-input-tokens-limit: 10000\r\nanthropic-ratelimit-input-tokens-remaining: 60\r\n\
        anthropic-ratelimit-input-tokens-reset: 2999-01-01T00:00:00Z\r\n\r\n";
    let server = Canned::start(vec![format!("{head}{events}").into_bytes()]).await;
    let limits = Limits::new();
    let run = || Adapter::within(config(&server.base_url), &limits).unwrap();
    let (warm, cold) = (run(), run());
    ask(&warm, &request(vec![say("Go.")])).await.0.unwrap();
    // A little longer than what was sent before: that little is all that counts.
    ask(&warm, &request(vec![say("Go."), say("On.")])).await.0.unwrap();
    let (held, _) = ask(&cold, &request(vec![say("Go.")])).await;
    assert!(matches!(held, Err(call::Error::RateLimited { .. })), "{held:?}");
    // Another conversation, as after a compaction, is none of what was sent.
    let (held, _) = ask(&warm, &request(vec![say("!")])).await;
    assert!(matches!(held, Err(call::Error::RateLimited { .. })), "{held:?}");
    assert_eq!(server.requests().len(), 2);
}
