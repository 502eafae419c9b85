//! Counting tokens: who is asked, what is sent, and what is left when nobody answers.

use bytes::Bytes;
use models::Wire;
use models::count::{self, Count, How};
use serde_json::{Value, json};
use testkit::script::{self, Options, Server};

use crate::canned::{self, Canned};
use crate::{provider, request_on, say};

fn body(wire: Wire) -> Bytes {
    wire.compose(&request_on(wire, vec![say("Mend the sum, please.")])).unwrap()
}

fn told(answer: &Value) -> Vec<u8> {
    canned::answer("200 OK", "content-type: application/json\r\n", &answer.to_string())
}

#[tokio::test]
async fn each_wires_own_counter_is_asked_with_what_it_takes() {
    let scenario = script::parse("[[turn]]\ntext = 'ok'").unwrap();
    let server = Server::start(scenario, Options::default()).await.unwrap();
    for wire in Wire::ALL {
        let body = body(wire);
        let count = provider(wire, server.base_url()).count(&body).await;
        assert_eq!(count.how, How::Vendor, "{wire:?}");
        assert!(
            count.tokens > 50 && count.tokens <= u64::try_from(body.len()).unwrap(),
            "{wire:?}: {count:?}"
        );
    }
    assert!(server.served().is_empty(), "no turn was asked for");
}

#[tokio::test]
async fn nothing_that_is_no_input_is_sent_to_a_counter() {
    for (wire, path) in
        [(Wire::Messages, "/v1/messages/count_tokens"), (Wire::Responses, "/v1/responses/input_tokens")]
    {
        let server = Canned::start(vec![told(&json!({ "input_tokens": 321 }))]).await;
        let count = provider(wire, &server.base_url).count(&body(wire)).await;
        assert_eq!(count, Count { tokens: 321, how: How::Vendor });
        let sent = server.requests().remove(0);
        let (head, sent) = sent.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("POST {path} ")), "{head}");
        let sent: Value = serde_json::from_str(sent).unwrap();
        for field in ["stream", "max_tokens", "max_output_tokens", "store", "include"] {
            assert!(sent[field].is_null(), "{wire:?} {field}");
        }
        assert_eq!(sent["model"], "scripted");
        assert_eq!(sent["tools"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn llama_cpp_is_asked_for_its_template_and_then_for_tokens() {
    let empty = told(&json!({ "tokens": [] }));
    let template = told(&json!({ "prompt": "<|user|>Mend" }));
    let tokens = told(&json!({ "tokens": [1, 2, { "id": 3, "piece": "x" }] }));
    let server = Canned::start(vec![empty.clone(), template, tokens.clone()]).await;
    let count = provider(Wire::Chat, &format!("{}/v1", server.base_url)).count(&body(Wire::Chat)).await;
    assert_eq!(count, Count { tokens: 3, how: How::Vendor });
    let sent = server.requests();
    assert!(
        sent[1].starts_with("POST /apply-template ") && sent[2].starts_with("POST /tokenize "),
        "{sent:?}"
    );
    assert!(sent[2].contains("<|user|>Mend"));

    let gone = canned::answer("404 Not Found", "", "{}");
    let server = Canned::start(vec![empty, gone, tokens]).await;
    let count = provider(Wire::Chat, &server.base_url).count(&body(Wire::Chat)).await;
    assert_eq!(count, Count { tokens: 3, how: How::Tokenizer });
    assert!(server.requests()[2].contains("Mend the sum, please."));
}

#[tokio::test]
async fn a_counter_that_fails_is_no_failure() {
    let page = canned::answer("200 OK", "content-type: text/html\r\n", "<html>sign in</html>");
    let bad = [canned::answer("404 Not Found", "", "{}"), canned::answer("500 Oops", "", ""), page];
    for answer in bad {
        for wire in [Wire::Messages, Wire::Chat] {
            let server = Canned::start(vec![answer.clone()]).await;
            let body = body(wire);
            let count = provider(wire, &server.base_url).count(&body).await;
            assert_eq!(count, count::estimate(&body), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn openais_tokenizer_counts_where_its_counter_is_not() {
    let server = Canned::start(vec![canned::answer("404 Not Found", "", "{}")]).await;
    let body = body(Wire::Responses);
    let count = provider(Wire::Responses, &server.base_url).count(&body).await;
    assert_eq!(count.how, How::Tokenizer);
    let bytes = u64::try_from(body.len()).unwrap();
    assert!((bytes / 8..bytes / 2).contains(&count.tokens), "{count:?} of {bytes}");
}
