//! The scripted model server over plain sockets, as any client would see it.

use std::path::Path;

use serde_json::{Value, json};
use testkit::script::{self, Ledger, Line, Options, ParseError, Scenario, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TWO_TURNS: &str = r#"
name = "two"
[[turn]]
text = "first"
[[turn.call]]
name = "read"
input = { path = "a" }
[[turn]]
text = "second"
expect = ["the content"]
"#;

async fn serve(scenario: &str, options: Options) -> Server {
    Server::start(script::parse(scenario).unwrap(), options).await.unwrap()
}

/// One request on a connection of its own: status, head, body.
async fn http(
    server: &Server,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> (u16, String, String) {
    let address = server.base_url().strip_prefix("http://").unwrap();
    let mut connection = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

async fn ask(server: &Server, request: &Value) -> (u16, String) {
    let headers = "x-api-key: k\r\nanthropic-version: 2023-06-01\r\n";
    let (status, _, body) =
        http(server, "POST", "/v1/messages", headers, request.to_string().as_bytes()).await;
    (status, body)
}

fn request(messages: Value) -> Value {
    json!({ "model": "scripted", "max_tokens": 100, "messages": messages })
}

fn go() -> Value {
    request(json!([{ "role": "user", "content": "Go." }]))
}

fn call_id(answer: &str) -> String {
    let answer: Value = serde_json::from_str(answer).unwrap();
    let content = answer["content"].as_array().unwrap();
    content.last().unwrap()["id"].as_str().unwrap().to_owned()
}

fn next(id: &str, result: &str) -> Value {
    request(json!([
        { "role": "user", "content": "Go." },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": id, "name": "read", "input": {} }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id, "content": result }] },
    ]))
}

#[tokio::test]
async fn a_repeated_request_gets_the_same_answer_even_after_a_restart() {
    let (first, second) =
        (serve(TWO_TURNS, Options::default()).await, serve(TWO_TURNS, Options::default()).await);
    let (status, answer) = ask(&first, &go()).await;
    assert_eq!(status, 200);
    assert_eq!(ask(&first, &go()).await.1, answer);
    assert_eq!(ask(&second, &go()).await.1, answer);
    let (_, last) = ask(&second, &next(&call_id(&answer), "the content")).await;
    assert!(last.contains("second"), "{last}");
}

#[tokio::test]
async fn what_a_turn_does_not_expect_is_refused_in_clear_words() {
    let server = serve(TWO_TURNS, Options::default()).await;
    let id = call_id(&ask(&server, &go()).await.1);
    let (status, body) = ask(&server, &next(&id, "other")).await;
    assert_eq!(status, 400);
    assert!(body.contains("turn 1 of scenario `two` expects"), "{body}");
    let mut over = next(&id, "the content");
    for text in [json!({ "role": "assistant", "content": "x" }), json!({ "role": "user", "content": "y" })] {
        over["messages"].as_array_mut().unwrap().push(text);
    }
    let (status, body) = ask(&server, &over).await;
    assert_eq!(status, 400);
    assert!(body.contains("has 2 turns"), "{body}");
}

#[tokio::test]
async fn the_first_user_message_chooses_the_scenario() {
    let both = r#"
        [[scenario]]
        match = "red"
        [[scenario.turn]]
        text = "R"
        [[scenario]]
        match = "blue"
        [[scenario.turn]]
        text = "B"
    "#;
    let server = serve(both, Options::default()).await;
    for (word, status, want) in
        [("a red one", 200, "\"R\""), ("blue", 200, "\"B\""), ("green", 400, "no scenario")]
    {
        let asked = request(json!([{ "role": "user", "content": [{ "type": "text", "text": word }] }]));
        let (got, body) = ask(&server, &asked).await;
        assert_eq!(got, status);
        assert!(body.contains(want), "{body}");
    }
}

#[tokio::test]
async fn faults_hit_the_first_attempts_of_each_conversation() {
    let server = serve(
        "[[turn]]\ntext = 'x'\n[[turn.fault]]\nkind = 'status'\nstatus = 429\ntimes = 2\nretry_after = '7'",
        Options::default(),
    )
    .await;
    let other = request(json!([{ "role": "user", "content": "Another." }]));
    let mut statuses = Vec::new();
    for asked in [&go(), &go(), &other, &go(), &other, &other] {
        statuses.push(ask(&server, asked).await.0);
    }
    assert_eq!(statuses, [429, 429, 429, 200, 429, 200]);
    let fresh = request(json!([{ "role": "user", "content": "Third." }]));
    let headers = "authorization: Bearer t\r\nanthropic-version: x\r\n";
    let (_, head, _) = http(&server, "POST", "/v1/messages", headers, fresh.to_string().as_bytes()).await;
    assert!(head.contains("retry-after: 7"), "{head}");
}

#[tokio::test]
async fn the_vendors_rules_are_kept() {
    let server =
        serve("[[turn]]\ntext='x'\n[[turn]]\ntext='y'\n[[turn]]\ntext='z'", Options::default()).await;
    let user = |content: Value| json!({ "role": "user", "content": content });
    let assistant = |content: Value| json!({ "role": "assistant", "content": content });
    let call = || assistant(json!([{ "type": "tool_use", "id": "a", "name": "n", "input": {} }]));
    let result = |id: &str, text: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": text });
    let mark = || json!({ "type": "text", "text": "x", "cache_control": { "type": "ephemeral" } });
    for (messages, want) in [
        (json!([]), "first message"),
        (json!([assistant(json!("x"))]), "first message"),
        (json!([user(json!(""))]), "non-empty"),
        (json!([user(json!([{ "type": "text", "text": " " }]))]), "non-empty"),
        (json!([user(json!("x")), call()]), "without `tool_result`"),
        (json!([user(json!("x")), call(), user(json!("y"))]), "without `tool_result`"),
        (json!([user(json!("x")), call(), user(json!([result("b", "y")]))]), "unexpected `tool_use_id`"),
        (json!([user(json!("x")), call(), user(json!([result("a", "")]))]), "must be non-empty"),
        (
            json!([
                user(json!("x")),
                call(),
                user(json!([{ "type": "text", "text": "y" }, result("a", "y")]))
            ]),
            "come first",
        ),
        (json!([user(json!([mark(), mark(), mark(), mark(), mark()]))]), "maximum of 4"),
        (
            json!([
                user(json!("x")),
                assistant(json!([{ "type": "thinking", "thinking": "t" }])),
                user(json!("y"))
            ]),
            "signature",
        ),
        (
            json!([
                user(json!("x")),
                assistant(json!([{ "type": "thinking", "thinking": "t", "signature": "sig_0" }])),
                user(json!("y"))
            ]),
            "Invalid `signature`",
        ),
    ] {
        let (status, body) = ask(&server, &request(messages.clone())).await;
        assert_eq!(status, 400, "{messages}");
        assert!(body.contains(want), "{messages}: {body}");
    }
    let good =
        json!([user(json!("x")), call(), user(json!([result("a", "y"), { "type": "text", "text": "z" }]))]);
    assert_eq!(ask(&server, &request(good)).await.0, 200);
}

#[tokio::test]
async fn callers_without_the_vendors_headers_are_refused() {
    let only = Options { key: Some("right".to_owned()), ..Options::default() };
    let server = serve("[[turn]]\ntext = 'x'", only).await;
    let body = go().to_string();
    let mut counted = go();
    counted.as_object_mut().unwrap().remove("max_tokens");
    let counted = counted.to_string();
    for (headers, want) in [
        ("", 401),
        ("x-api-key: wrong\r\nanthropic-version: 2023-06-01\r\n", 401),
        ("x-api-key: right\r\n", 400),
        ("x-api-key: right\r\nanthropic-version: 2023-06-01\r\n", 200),
        ("authorization: Bearer right\r\nanthropic-version: 2023-06-01\r\n", 200),
    ] {
        for (path, body) in [("/v1/messages", &body), ("/v1/messages/count_tokens", &counted)] {
            assert_eq!(http(&server, "POST", path, headers, body.as_bytes()).await.0, want, "{headers}");
        }
    }
    // A counter takes nothing that is no input.
    let headers = "x-api-key: right\r\nanthropic-version: 2023-06-01\r\n";
    assert_eq!(http(&server, "POST", "/v1/messages/count_tokens", headers, body.as_bytes()).await.0, 400);
    assert_eq!(http(&server, "GET", "/v1/nothing", "", b"").await.0, 404);
}

#[tokio::test]
async fn every_request_is_in_the_ledger_and_on_record_before_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, record) = (folder.path().join("ledger.jsonl"), folder.path().join("bodies"));
    let options =
        Options { ledger: Some(ledger.clone()), record: Some(record.clone()), ..Options::default() };
    let scenario = "[[turn]]\ntext = 'x'\n[[turn.fault]]\nkind = 'status'\nstatus = 529";
    let server = serve(scenario, options).await;
    ask(&server, &go()).await;
    ask(&server, &go()).await;
    let lines = Ledger::read(&ledger).unwrap();
    let seen: Vec<(u32, &str)> = lines
        .iter()
        .map(|line| match line {
            Line::Turn { turn: 0, attempt, outcome, .. } => (*attempt, outcome.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, [(1, "status 529"), (2, "answer")]);
    let mut bodies: Vec<_> = std::fs::read_dir(record).unwrap().map(|entry| entry.unwrap().path()).collect();
    bodies.sort();
    assert_eq!(bodies.len(), 2);
    assert_eq!(std::fs::read_to_string(&bodies[0]).unwrap(), go().to_string());
}

#[tokio::test]
async fn a_ledger_entry_is_appended_each_time_and_counted_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger.jsonl");
    let options = || Options { ledger: Some(ledger.clone()), ..Options::default() };
    let count = async |server: &Server, key: &str| {
        let (_, _, body) = http(server, "GET", &format!("/ledger?key={key}"), "", b"").await;
        let value: Value = serde_json::from_str(&body).unwrap();
        (value["found"].as_bool().unwrap(), value["count"].as_u64().unwrap())
    };
    let server = serve("[[turn]]\ntext = 'x'", options()).await;
    assert_eq!(count(&server, "k1").await, (false, 0));
    for _ in 0..2 {
        let (status, ..) = http(&server, "POST", "/ledger", "", br#"{"key":"k1","text":"paid"}"#).await;
        assert_eq!(status, 200);
    }
    assert_eq!(count(&server, "k1").await, (true, 2));
    drop(server);
    tear(&ledger);
    let server = serve("[[turn]]\ntext = 'x'", options()).await;
    http(&server, "POST", "/ledger", "", br#"{"key":"k1","text":"paid"}"#).await;
    assert_eq!(count(&server, "k1").await, (true, 3));
    assert_eq!(count(&server, "k2").await, (false, 0));
}

/// As a crash in the middle of a write leaves it.
fn tear(ledger: &Path) {
    let mut text = std::fs::read_to_string(ledger).unwrap();
    text.push_str(r#"{"kind":"entry","key":"k1","te"#);
    std::fs::write(ledger, text).unwrap();
}

#[tokio::test]
async fn without_a_file_entries_are_counted_in_memory() {
    let server = serve("[[turn]]\ntext = 'x'", Options::default()).await;
    let (_, _, body) = http(&server, "POST", "/ledger", "", br#"{"key":"k","text":"t"}"#).await;
    assert!(body.contains(r#""count":1"#), "{body}");
    assert_eq!(http(&server, "POST", "/ledger", "", b"{}").await.0, 400);
}

#[tokio::test]
async fn a_port_that_is_taken_is_told() {
    let first = serve("[[turn]]\ntext = 'x'", Options::default()).await;
    let port = first.base_url().rsplit_once(':').unwrap().1.parse().unwrap();
    let options = Options { port, ..Options::default() };
    let error = Server::start(script::parse("[[turn]]").unwrap(), options).await.unwrap_err();
    assert!(error.to_string().contains(&format!("port {port}")), "{error}");
}

#[tokio::test]
async fn dropping_the_server_ends_the_streams_it_holds() {
    let server =
        serve("[[turn]]\ntext = 'x'\n[[turn.fault]]\nkind = 'silence'\nafter_events = 1", Options::default())
            .await;
    let address = server.base_url().strip_prefix("http://").unwrap().to_owned();
    let mut streamed = go();
    streamed["stream"] = json!(true);
    let body = streamed.to_string();
    let mut connection = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("message_start") {
        assert_ne!(connection.read_buf(&mut seen).await.unwrap(), 0);
    }
    drop(server);
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest).await.unwrap();
}

#[test]
fn scenario_files_with_mistakes_are_refused() {
    let check = |text: &str| script::parse(text).unwrap_err();
    assert!(matches!(check("["), ParseError::Form(_)));
    assert!(matches!(check("[[turn]]\ntexd = 'x'"), ParseError::Form(_)));
    assert!(matches!(check("name = 'x'"), ParseError::Empty));
    assert!(matches!(check("[[turn]]\n[[scenario]]\n[[scenario.turn]]"), ParseError::Mixed));
    for turn in [
        "raw = ['[]']",
        "call = [{ name = 'x', input = {}, json = '{}' }]",
        "chunk_bytes = 0",
        "fault = [{ kind = 'status' }]",
        "fault = [{ kind = 'cut', status = 500 }]",
        "fault = [{ kind = 'status', status = 200 }]",
    ] {
        let error = check(&format!("[[turn]]\n{turn}"));
        assert!(matches!(error, ParseError::Turn { turn: 0, .. }), "{turn}: {error:?}");
    }
    let two = "[[scenario]]\n[[scenario.turn]]\n[[scenario]]\n[[scenario.turn]]";
    assert!(matches!(Scenario::parse(two), Err(ParseError::NotOne { count: 2 })));
    assert_eq!(Scenario::parse(TWO_TURNS).unwrap().turns.len(), 2);
}
