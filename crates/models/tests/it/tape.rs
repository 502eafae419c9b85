//! What came over the wire, played again: after every call of the other modules, and by itself.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use models::tape::{Attempt, End, Head, Heard, Tap, play};
use models::{Adapter, Config, Credential, Provider, Response, Secret, Wire, call};
use testkit::script::{self, Options, Server};

use crate::canned::{Canned, answer};
use crate::{KEY, ask, config, provider, request, request_on, say};

/// Keeps what it hears.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Vec<Attempt>>);

impl Tap for Kept {
    fn heard(&self, attempt: u32, heard: Heard<'_>) {
        let mut attempts = self.0.lock().unwrap();
        attempts.resize(attempt as usize, Attempt::default());
        let kept = attempts.last_mut().unwrap();
        match heard {
            Heard::Head(head) => kept.head = Some(head.clone()),
            Heard::Bytes(bytes) => kept.body = [&kept.body[..], bytes].concat().into(),
            Heard::End(end) => kept.end = Some(end.clone()),
        }
    }
}

fn at(provider: &dyn Provider) -> call::Endpoint {
    let wire = match provider.name() {
        "openai" => Wire::Responses,
        "compatible" => Wire::Chat,
        _ => Wire::Messages,
    };
    call::Endpoint {
        proxy: provider.proxy().map(Into::into),
        ..call::Endpoint::new(wire, provider.endpoint())
    }
}

/// Holds a call against the same call from its tape. Where a test allows fewer attempts than there are by
/// default, the tape is short and says nothing, nor does it of what was wrong outside of HTTP.
pub(crate) async fn plays_the_same(
    provider: &dyn Provider,
    kept: Kept,
    body: Bytes,
    result: &Result<Response, call::Error>,
) {
    let attempts = kept.0.into_inner().unwrap();
    assert!(attempts.iter().all(|attempt| attempt.end.is_some()), "{attempts:?}");
    let echo = Some(Secret::new(KEY));
    let played = play(at(provider), echo, attempts, body).await.unwrap();
    if played.is_short || played.is_outside {
        return;
    }
    assert_eq!(played.left, 0);
    let told = |error: &call::Error| (error.to_string(), error.is_retryable());
    match (result, &played.result) {
        (Ok(response), Ok(again)) => {
            assert_eq!(serde_json::to_string(response).unwrap(), serde_json::to_string(again).unwrap());
        }
        (Err(error), Err(again)) => assert_eq!(told(error), told(again)),
        (first, again) => panic!("{first:?} and then {again:?}"),
    }
}

const FAULTS: &str = r#"
    [[turn]]
    thinking = "Hm."
    text = "I read the tést."
    chunk_bytes = 3
    [[turn.call]]
    name = "read"
    [[turn.fault]]
    kind = "status"
    status = 503
    retry_after = "0"
    message = "busy, sk-test-1234567890"
    [[turn.fault]]
    kind = "cut"
    after_events = 2
    [[turn.fault]]
    kind = "garbage"
    after_events = 2
    [[turn.fault]]
    kind = "truncated"
    after_events = 3
    [[turn.fault]]
    kind = "silence"
    after_events = 1
"#;

#[tokio::test]
async fn every_attempt_is_heard_as_it_came_and_plays_again_without_waiting() {
    for wire in Wire::ALL {
        let server = Server::start(script::parse(FAULTS).unwrap(), Options::default()).await.unwrap();
        let config = Config { wire, idle_timeout: Duration::from_millis(700), ..config(server.base_url()) };
        let provider = Adapter::connect(config).unwrap();
        let body = provider.compose(&request_on(wire, vec![say("Go.")])).unwrap();
        let kept = Kept::default();
        let result = provider.call_tapped(body.clone(), &mut |_| {}, &kept).await;
        assert_eq!(result.as_ref().unwrap().attempts, 6, "{wire:?}");
        let attempts = kept.0.lock().unwrap().clone();
        let status: Vec<u16> = attempts.iter().map(|kept| kept.head.as_ref().unwrap().status).collect();
        assert_eq!(status, [503, 200, 200, 200, 200, 200], "{wire:?}");
        assert!(matches!(attempts[1].end, Some(End::Broken { .. })), "{:?}", attempts[1].end);
        assert_eq!(attempts[4].end, Some(End::Silent { after: 700 }));
        assert_eq!(attempts[5].end, Some(End::Read));
        let played =
            play(at(&*provider), Some(Secret::new(KEY)), attempts.clone(), body.clone()).await.unwrap();
        assert_eq!((played.left, played.is_short), (0, false), "{wire:?}");
        plays_the_same(&*provider, kept, body.clone(), &result).await;
        // One that is missing is missed, and one too many is left.
        let short = play(at(&*provider), None, attempts[..3].to_vec(), body.clone()).await.unwrap();
        assert!(short.is_short && short.result.is_err());
        let more = [attempts.clone(), attempts].concat();
        assert_eq!(play(at(&*provider), None, more, body).await.unwrap().left, 6);
    }
}

#[tokio::test]
async fn of_the_headers_only_those_that_matter_are_heard() {
    let headers = "content-type: application/json\r\nset-cookie: secret=1\r\nopenai-organization: acme\r\n\
                   anthropic-organization-id: acme\r\nanthropic-ratelimit-requests-remaining: 9\r\n\
                   x-ratelimit-reset-tokens: 6m0s\r\nretry-after: 1\r\nrequest-id: req_1\r\n";
    let server = Canned::start(vec![answer("401 Unauthorized", headers, "{}")]).await;
    let provider = provider(Wire::Messages, &server.base_url);
    let kept = Kept::default();
    let body = provider.compose(&request(vec![say("Go.")])).unwrap();
    let result = provider.call_tapped(body, &mut |_| {}, &kept).await;
    assert!(matches!(result, Err(call::Error::Unauthorized(_))), "{result:?}");
    let Head { status, headers } = kept.0.lock().unwrap()[0].head.clone().unwrap();
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let kept = [
        "content-type",
        "anthropic-ratelimit-requests-remaining",
        "x-ratelimit-reset-tokens",
        "retry-after",
        "request-id",
    ];
    assert_eq!((status, names.as_slice()), (401, kept.as_slice()));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_heard_as_such() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let config = Config::new(Wire::Messages, Credential::Key(Secret::new(KEY)), base);
    let provider = Adapter::new(Config { backoff: Duration::from_millis(1), ..config }).unwrap();
    let (result, _) = ask(&provider, &request(vec![say("Go.")])).await;
    assert!(matches!(result, Err(call::Error::Connect { .. })), "{result:?}");
}
