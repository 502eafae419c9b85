//! Requests as bytes: the vendor's rules kept, the prefix stable.

use std::sync::LazyLock;

use models::Adapter;
use models::compose::Error;
use models::{Block, Effort, Message, Provider, Request, Role, ToolSpec};
use proptest::prelude::*;
use serde_json::Value;

use crate::{anthropic, block, request, say, tool};

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn compose(request: &Request) -> Result<String, Error> {
    // Composing needs no connection, and building a client reads the system's certificates.
    static ADAPTER: LazyLock<Adapter> = LazyLock::new(|| anthropic("http://127.0.0.1:1"));
    let body = ADAPTER.compose(request)?;
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

fn contents(request: &Request) -> Vec<Value> {
    let body: Value = serde_json::from_str(&compose(request).unwrap()).unwrap();
    body["messages"].as_array().unwrap().iter().map(|message| message["content"].clone()).collect()
}

fn assistant(raws: &[&str]) -> Message {
    Message {
        role: Role::Assistant,
        blocks: raws.iter().map(|raw| block(raw)).collect(),
        made_by: Some("scripted".to_owned()),
    }
}

fn call(id: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"read","input":{{}}}}"#)
}

#[test]
fn the_whole_form_is_as_the_vendor_documents_it() {
    let request = Request { effort: Some(Effort::High), ..request(vec![say("Go \"now\".")]) };
    let schema = r#"{"type":"object","properties":{"b":{},"a":{}}}"#;
    let want = format!(
        concat!(
            r#"{{"model":"scripted","max_tokens":4000,"stream":true,"output_config":{{"effort":"high"}},"#,
            r#""tools":[{{"name":"read","description":"The read tool.","input_schema":{schema}}},"#,
            r#"{{"name":"shell","description":"The shell tool.","input_schema":{schema}{mark}}}],"#,
            r#""system":[{{"type":"text","text":"You mend bugs."{mark}}}],"#,
            r#""messages":[{{"role":"user","content":[{{"type":"text","text":"Go \"now\"."{mark}}}]}}]}}"#,
        ),
        schema = schema,
        mark = MARK,
    );
    assert_eq!(compose(&request).unwrap(), want);
    assert_eq!(compose(&request).unwrap(), want, "the same request gives the same bytes");
}

#[test]
fn case_02_a_reasoning_turn_is_echoed_verbatim_and_in_order() {
    let raws = [
        r#"{"type":"thinking","thinking":"a","signature":"s1"}"#,
        r#"{"type":"text","text":"b", "extra":1.0}"#,
        r#"{"signature":"s2","type":"thinking","thinking":""}"#,
        r#"{"type":"redacted_thinking","data":"c"}"#,
        r#"{"type":"server_tool_use","id":"x","name":"search","input":{"z":1,"a":12345678901234567890}}"#,
    ];
    let body = compose(&request(vec![say("Go."), assistant(&raws), say("On.")])).unwrap();
    assert!(body.contains(&format!(r#"{{"role":"assistant","content":[{}]}}"#, raws.join(","))), "{body}");
}

#[test]
fn case_04_reasoning_of_another_model_is_refused() {
    let signed = r#"{"type":"thinking","thinking":"a","signature":"s1"}"#;
    let mut foreign = assistant(&[signed]);
    foreign.made_by = Some("claude-haiku-5-5".to_owned());
    let error = compose(&request(vec![say("Go."), foreign, say("On.")])).unwrap_err();
    assert!(matches!(error, Error::ForeignReasoning { at: 1, .. }), "{error:?}");
    let mut plain = assistant(&[r#"{"type":"text","text":"a"}"#]);
    plain.made_by = Some("claude-haiku-5-5".to_owned());
    assert!(compose(&request(vec![say("Go."), plain, say("On.")])).is_ok());
}

#[test]
fn case_04_a_longer_conversation_keeps_the_bytes_of_its_prefix() {
    let mut messages = vec![say("Go.")];
    let mut bodies = Vec::new();
    for turn in 0..6 {
        bodies.push(compose(&request(messages.clone())).unwrap().replace(MARK, ""));
        messages.push(assistant(&[
            r#"{"type":"thinking","thinking":"","signature":"s"}"#,
            &call(&format!("c{turn}")),
        ]));
        messages.push(Message::user(vec![Block::tool_result(format!("c{turn}"), Ok("out"))]));
    }
    for pair in bodies.windows(2) {
        let shorter = pair[0].strip_suffix("]}").unwrap();
        assert!(pair[1].starts_with(shorter));
    }
}

#[test]
fn case_06_blank_text_blocks_are_left_out() {
    let contents = contents(&request(vec![
        Message::user(vec![Block::text(""), Block::text("Go."), Block::text(" \n")]),
        assistant(&[r#"{"type":"text","text":""}"#, r#"{"type":"text","text":"b"}"#]),
        say("On."),
        assistant(&[r#"{"type":"text","text":"\n"}"#]),
        say(""),
    ]));
    let texts: Vec<Vec<&str>> = contents
        .iter()
        .map(|content| content.as_array().unwrap().iter().map(|b| b["text"].as_str().unwrap()).collect())
        .collect();
    let empty = vec!["(no content)"];
    assert_eq!(texts, [vec!["Go."], vec!["b"], vec!["On."], empty.clone(), empty]);
}

#[test]
fn case_07_empty_tool_results_say_so() {
    let content = |content: &str| {
        let result =
            block(&format!(r#"{{"type":"tool_result","tool_use_id":"a"{content},"is_error":true}}"#));
        let all = contents(&request(vec![say("Go."), assistant(&[&call("a")]), Message::user(vec![result])]));
        assert_eq!(all[2][0]["is_error"], true);
        all[2][0]["content"].clone()
    };
    for empty in [
        "",
        r#","content":null"#,
        r#","content":"""#,
        r#","content":" \n""#,
        r#","content":[]"#,
        r#","content":[{"type":"text","text":""}]"#,
    ] {
        assert_eq!(content(empty), "(no output)", "{empty}");
    }
    assert_eq!(content(r#","content":"x""#), "x");
    let mixed = content(r#","content":[{"type":"text","text":""},{"type":"text","text":"y"}]"#);
    assert_eq!(mixed, serde_json::json!([{ "type": "text", "text": "y" }]));
}

#[test]
fn case_08_all_results_are_in_one_message_before_any_text() {
    let contents = contents(&request(vec![
        say("Go."),
        assistant(&[&call("a"), &call("b")]),
        Message::user(vec![Block::text("By the way"), Block::tool_result("b", Ok("2"))]),
        Message::user(vec![Block::tool_result("a", Err("1"))]),
        say("and so on."),
    ]));
    assert_eq!(contents.len(), 3);
    let kinds: Vec<&str> =
        contents[2].as_array().unwrap().iter().map(|b| b["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["tool_result", "tool_result", "text", "text"]);
}

#[test]
fn case_09_a_call_without_its_result_is_found_before_it_is_sent() {
    let unanswered = |messages| match compose(&request(messages)) {
        Err(Error::Unanswered { at, id }) => (at, id),
        other => panic!("{other:?}"),
    };
    let calls = || assistant(&[&call("a"), &call("b")]);
    let answer = |id: &str| Message::user(vec![Block::tool_result(id, Ok("x"))]);
    assert_eq!(unanswered(vec![say("Go."), calls(), answer("a")]), (1, "b".to_owned()));
    assert_eq!(unanswered(vec![say("Go."), calls()]), (1, "a".to_owned()));
    let late = vec![say("Go."), calls(), answer("a"), assistant(&[&call("c")]), answer("b")];
    assert_eq!(unanswered(late), (1, "b".to_owned()));
    let twice = vec![say("Go."), assistant(&[&call("a")]), answer("a"), answer("a")];
    assert!(matches!(compose(&request(twice)), Err(Error::AnswersNothing { at: 3, .. })));
    assert!(matches!(compose(&request(vec![answer("z")])), Err(Error::AnswersNothing { at: 0, .. })));
}

#[test]
fn case_28_there_are_never_more_than_four_cache_marks() {
    let marked = || block(r#"{"type":"text","text":"mine","cache_control":{"type":"ephemeral"}}"#);
    let mut messages = vec![Message::user(vec![marked(), marked()])];
    for _ in 0..8 {
        messages.push(assistant(&[r#"{"type":"text","text":"b"}"#]));
        messages.push(Message::user(vec![marked(), say("On.").blocks.remove(0)]));
    }
    let body = compose(&request(messages)).unwrap();
    assert_eq!(body.matches("cache_control").count(), 4);
    assert!(body.ends_with(&format!("{MARK}}}]}}]}}")), "the newest block is marked: {body}");
}

#[test]
fn requests_that_the_vendor_would_refuse_are_refused_here() {
    let go = || request(vec![say("Go.")]);
    let named = |name: &str| Request { tools: vec![tool(name)], ..go() };
    let schema = ToolSpec { input_schema: models::RawJson::parse("[]").unwrap(), ..tool("x") };
    assert!(matches!(compose(&Request { model: " ".to_owned(), ..go() }), Err(Error::NoModel)));
    assert!(matches!(compose(&Request { max_tokens: 0, ..go() }), Err(Error::NoOutput)));
    assert!(matches!(compose(&request(vec![])), Err(Error::NoMessages)));
    let first = request(vec![assistant(&[r#"{"type":"text","text":"b"}"#])]);
    assert!(matches!(compose(&first), Err(Error::FirstIsAssistant)));
    for name in ["", "a.b", "é", &"x".repeat(129)] {
        assert!(matches!(compose(&named(name)), Err(Error::ToolName { .. })), "{name}");
    }
    let twice = Request { tools: vec![tool("x"), tool("x")], ..go() };
    assert!(matches!(compose(&twice), Err(Error::ToolTwice { .. })));
    assert!(matches!(compose(&Request { tools: vec![schema], ..go() }), Err(Error::ToolSchema { .. })));
}

#[test]
fn a_bare_request_has_neither_tools_nor_system() {
    let bare = Request { tools: vec![], system: " ".to_owned(), ..request(vec![say("Go.")]) };
    let body = compose(&bare).unwrap();
    assert!(!body.contains("tools") && !body.contains("system") && !body.contains("output_config"));
}

proptest! {
    #[test]
    fn any_text_comes_through_as_it_is(text in "\\PC{1,40}|[\\x00-\\x1f\"\\\\]{1,10}x") {
        prop_assume!(!text.trim().is_empty());
        let contents = contents(&request(vec![say(&text)]));
        prop_assert_eq!(contents[0][0]["text"].as_str(), Some(text.as_str()));
    }
}
