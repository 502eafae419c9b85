//! What every adapter must do, run against each of them with the same scenario.

use std::sync::Arc;
use std::time::Duration;

use models::block::InputError;
use models::{
    Adapter, Block, Config, Credential, Delta, Message, Provider, Request, Response, Secret, Stop, Usage,
    Wire, call, compose,
};
use testkit::script::{self, Line, Options, Server};

use crate::{KEY, ask, config, provider, request_on, say};

/// A wire, its adapter, and the server behind it.
struct Scene {
    wire: Wire,
    server: Server,
    provider: Arc<dyn Provider>,
}

impl Scene {
    async fn new(wire: Wire, scenario: &str) -> Self {
        let scenarios = script::parse(scenario).unwrap();
        let server = Server::start(scenarios, Options::default()).await.unwrap();
        let provider = provider(wire, server.base_url());
        Self { wire, server, provider }
    }

    fn with(mut self, change: impl FnOnce(Config) -> Config) -> Self {
        let config = change(Config { wire: self.wire, ..config(self.server.base_url()) });
        self.provider = Adapter::connect(config).unwrap();
        self
    }

    fn request(&self, messages: Vec<Message>) -> Request {
        request_on(self.wire, messages)
    }

    async fn ask(&self, messages: Vec<Message>) -> (Result<Response, call::Error>, Vec<Delta>) {
        ask(&*self.provider, &self.request(messages)).await
    }

    async fn answer(&self, messages: Vec<Message>) -> Response {
        self.ask(messages).await.0.unwrap_or_else(|error| panic!("{:?}: {error}", self.wire))
    }

    fn body(&self, messages: Vec<Message>) -> String {
        let body = self.provider.compose(&self.request(messages)).unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    fn outcomes(&self) -> Vec<String> {
        let outcome = |served: script::Served| match served.line {
            Line::Turn { outcome, .. } => outcome,
            Line::Entry { .. } | Line::Batch { .. } => unreachable!("only turns are served"),
        };
        self.server.served().into_iter().map(outcome).collect()
    }
}

const TALK: &str = r#"
    [[turn]]
    thinking = "Let me look at the file, and at the tést."
    text = "I read."
    [[turn.call]]
    name = "read"
    input = { path = "src/sum.js", from = 1 }
    [[turn.call]]
    name = "shell"

    [[turn]]
    thinking = ""
    text = "Done."
    expect = ["content of sum.js"]

    [[turn]]
    text = "Bye."
    expect = ["Thanks."]
"#;

fn results(response: &Response, texts: &[&str]) -> Message {
    let blocks = response.calls().zip(texts).map(|(call, text)| Block::tool_result(call.id, Ok(text)));
    Message::user(blocks.collect())
}

#[tokio::test]
async fn case_02_a_conversation_runs_turn_by_turn_and_every_block_goes_back_verbatim() {
    for wire in Wire::ALL {
        let scene = Scene::new(wire, TALK).await;
        let mut messages = vec![say("Mend it.")];
        let (first, seen) = scene.ask(messages.clone()).await;
        let first = first.unwrap();
        assert_eq!(first.stop, Stop::ToolUse, "{wire:?}");
        let calls: Vec<_> = first.calls().map(|call| (call.name, call.input.unwrap().as_str())).collect();
        assert_eq!(calls, [("read", r#"{"from":1,"path":"src/sum.js"}"#), ("shell", "{}")], "{wire:?}");
        let live: String = seen
            .iter()
            .filter_map(|delta| match delta {
                Delta::Text(text) | Delta::Thinking(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(live, "Let me look at the file, and at the tést.I read.", "{wire:?}");
        let begun: Vec<_> = seen
            .iter()
            .filter_map(|delta| match delta {
                Delta::ToolUse { name } => Some(name.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(begun, ["read", "shell"], "{wire:?}");
        assert!(first.request_id.as_ref().unwrap().starts_with("req_"), "{wire:?}");
        assert!(first.blocks[0].is_reasoning(), "{wire:?}");

        messages.push(Message::assistant(&first));
        messages.push(results(&first, &["content of sum.js", ""]));
        let body = scene.body(messages.clone());
        let sent = |block: &Block| body.find(block.raw().as_str());
        // The chat wire has one message for what are several blocks.
        let whole: Vec<&Block> = if wire == Wire::Chat {
            first.blocks[2..].iter().collect()
        } else {
            first.blocks.iter().collect()
        };
        let places: Vec<usize> = whole.into_iter().map(|block| sent(block).unwrap()).collect();
        assert!(places.is_sorted(), "{wire:?}: {body}");

        let second = scene.answer(messages.clone()).await;
        assert_eq!((second.text().as_str(), second.stop.clone()), ("Done.", Stop::EndTurn), "{wire:?}");
        messages.push(Message::assistant(&second));
        messages.push(say("Thanks."));
        assert_eq!(scene.answer(messages).await.text(), "Bye.", "{wire:?}");
        assert_eq!(scene.outcomes(), ["answer", "answer", "answer"], "{wire:?}");
    }
}

#[tokio::test]
async fn exactly_the_composed_bytes_are_sent_and_need_no_key_to_be_made() {
    for wire in Wire::ALL {
        let scene = Scene::new(wire, "[[turn]]\ntext = 'ok'").await;
        let request = scene.request(vec![say("Go.")]);
        let body = scene.provider.compose(&request).unwrap();
        scene.provider.call(body.clone(), &mut |_| {}).await.unwrap();
        assert_eq!(scene.server.served()[0].body, body);
        assert_eq!(models::wire::compose(&request).unwrap(), body);
    }
}

#[tokio::test]
async fn a_longer_conversation_keeps_the_bytes_of_the_shorter_one() {
    for wire in Wire::ALL {
        let scene = Scene::new(wire, TALK).await;
        let mut messages = vec![say("Mend it.")];
        let mut before = scene.body(messages.clone());
        for texts in [&["content of sum.js", "x"][..], &[]] {
            let answer = scene.answer(messages.clone()).await;
            messages.push(Message::assistant(&answer));
            messages.push(if texts.is_empty() { say("Thanks.") } else { results(&answer, texts) });
            let now = scene.body(messages.clone());
            // The mark of the Messages wire moves with the end.
            let plain = |body: &str| body.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
            let (old, new) = (plain(&before), plain(&now));
            let kept = old.trim_end_matches(['}', ']']);
            let first = kept.bytes().zip(new.bytes()).position(|(one, other)| one != other);
            assert_eq!(first, None, "{wire:?} differs at {first:?}:\n{kept}\n{new}");
            before = now;
        }
    }
}

#[tokio::test]
async fn case_03_reasoning_with_empty_text_is_valid() {
    for wire in [Wire::Messages, Wire::Responses] {
        let scene = Scene::new(wire, "[[turn]]\nthinking = ''\ntext = 'a'\n[[turn]]\ntext = 'b'").await;
        let first = scene.answer(vec![say("Go.")]).await;
        assert!(first.blocks[0].is_reasoning(), "{wire:?}");
        let next = vec![say("Go."), Message::assistant(&first), say("On.")];
        assert_eq!(scene.answer(next).await.text(), "b", "{wire:?}");
    }
}

#[tokio::test]
async fn case_04_reasoning_is_bound_to_its_model() {
    for wire in Wire::ALL {
        let scene = Scene::new(wire, TALK).await;
        let first = scene.answer(vec![say("Go.")]).await;
        let messages =
            vec![say("Go."), Message::assistant(&first), results(&first, &["content of sum.js", "x"])];
        let other = Request { model: format!("{}-2", crate::model(wire)), ..scene.request(messages) };
        let refused = scene.provider.compose(&other);
        assert!(
            matches!(refused, Err(compose::Error::ForeignReasoning { at: 1, .. })),
            "{wire:?}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn case_05_nothing_of_one_vendor_is_ever_sent_to_another() {
    for wire in Wire::ALL {
        let scene = Scene::new(wire, TALK).await;
        let first = scene.answer(vec![say("Go.")]).await;
        // Not even where nobody noted who made it.
        let said = Message { made_by: None, ..Message::assistant(&first) };
        let messages = vec![say("Go."), said, results(&first, &["content of sum.js", "x"])];
        for other in Wire::ALL.into_iter().filter(|other| *other != wire) {
            let refused = models::wire::compose(&request_on(other, messages.clone()));
            assert!(
                matches!(refused, Err(compose::Error::ForeignBlock { at: 1, .. })),
                "{wire:?} to {other:?}: {refused:?}"
            );
        }
    }
}

#[tokio::test]
async fn case_06_blank_text_is_left_out() {
    for wire in Wire::ALL {
        let scene = Scene::new(wire, "[[turn]]\ntext = 'ok'\n[[turn]]\ntext = 'still ok'").await;
        let blank = Message::user(vec![Block::text(" \n"), Block::text("Go."), Block::text("")]);
        let first = scene.answer(vec![blank]).await;
        assert_eq!(first.text(), "ok", "{wire:?}");
        let silent = Response { blocks: vec![], ..first };
        let next = vec![say("Go."), Message::assistant(&silent), Message::user(vec![Block::text(" ")])];
        assert_eq!(scene.answer(next).await.text(), "still ok", "{wire:?}");
    }
}

#[tokio::test]
async fn case_07_an_empty_result_says_that_it_is_one() {
    for wire in Wire::ALL {
        let scene =
            Scene::new(wire, "[[turn]]\n[[turn.call]]\nname = 'read'\n[[turn]]\nexpect = ['(no output)']")
                .await;
        let first = scene.answer(vec![say("Go.")]).await;
        let id = first.calls().next().unwrap().id.to_owned();
        for empty in ["", " \n"] {
            let results = Message::user(vec![Block::tool_result(&id, Ok(empty))]);
            scene.answer(vec![say("Go."), Message::assistant(&first), results]).await;
        }
    }
}

#[tokio::test]
async fn case_08_all_results_of_a_turn_come_before_any_text() {
    for wire in Wire::ALL {
        let scene = Scene::new(wire, TALK).await;
        let first = scene.answer(vec![say("Go.")]).await;
        let ids: Vec<String> = first.calls().map(|call| call.id.to_owned()).collect();
        let messages = vec![
            say("Go."),
            Message::assistant(&first),
            say("And hurry."),
            Message::user(vec![
                Block::text("Mind the gap."),
                Block::tool_result(&ids[1], Err("no such command")),
                Block::tool_result(&ids[0], Ok("content of sum.js")),
            ]),
        ];
        let body = scene.body(messages.clone());
        let place = |text: &str| body.find(text).unwrap_or_else(|| panic!("{wire:?}: no {text} in {body}"));
        assert!(place("content of sum.js") < place("And hurry."), "{wire:?}: {body}");
        assert!(place("no such command") < place("Mind the gap."), "{wire:?}: {body}");
        scene.answer(messages).await;
    }
}

#[tokio::test]
async fn case_09_an_orphaned_call_is_found_before_it_is_sent_and_refused_when_it_is() {
    for wire in Wire::ALL {
        let scene = Scene::new(wire, TALK).await;
        let first = scene.answer(vec![say("Go.")]).await;
        let half = vec![say("Go."), Message::assistant(&first), results(&first, &["one result"])];
        let refused = scene.provider.compose(&scene.request(half));
        assert!(matches!(refused, Err(compose::Error::Unanswered { at: 1, .. })), "{wire:?}: {refused:?}");

        let whole =
            vec![say("Go."), Message::assistant(&first), results(&first, &["content of sum.js", "SECOND"])];
        let mut body: serde_json::Value = serde_json::from_str(&scene.body(whole)).unwrap();
        match wire {
            Wire::Messages => drop(body["messages"][2]["content"].as_array_mut().unwrap().pop()),
            Wire::Responses => drop(body["input"].as_array_mut().unwrap().pop()),
            Wire::Chat => drop(body["messages"].as_array_mut().unwrap().pop()),
        }
        let sent = scene.provider.call(body.to_string().into(), &mut |_| {}).await;
        assert!(matches!(sent, Err(call::Error::BadRequest(_))), "{wire:?}: {sent:?}");

        let ids: Vec<&str> = first.calls().map(|call| call.id).collect();
        let interrupted = Message::user(vec![
            Block::tool_result(ids[0], Ok("content of sum.js")),
            Block::tool_result(ids[1], Err("interrupted")),
        ]);
        let mended = vec![say("Go."), Message::assistant(&first), interrupted];
        assert_eq!(scene.answer(mended).await.text(), "Done.", "{wire:?}");
    }
}

#[tokio::test]
async fn case_13_broken_input_is_answered_and_the_vendor_takes_it_back() {
    for wire in Wire::ALL {
        let scene = Scene::new(
            wire,
            r#"
            [[turn]]
            [[turn.call]]
            name = "read"
            json = '{"path": '
            [[turn.call]]
            name = "list"
            json = "null"
            [[turn]]
            text = "sorry"
            expect = ["not a valid JSON object"]
            "#,
        )
        .await;
        let first = scene.answer(vec![say("Go.")]).await;
        let calls: Vec<_> = first.calls().collect();
        assert_eq!(calls[0].input, Err(&InputError::Unreadable(r#"{"path": "#.to_owned())), "{wire:?}");
        assert_eq!(calls[1].input.unwrap().as_str(), "{}", "{wire:?}");
        let why = calls[0].input.unwrap_err().to_string();
        let answers = Message::user(vec![
            Block::tool_result(calls[0].id, Err(&why)),
            Block::tool_result(calls[1].id, Ok("-")),
        ]);
        // What was written to the journal is what goes back.
        let stored = serde_json::to_vec(&first).unwrap();
        let again: Response = serde_json::from_slice(&stored).unwrap();
        assert_eq!(again, first, "{wire:?}");
        let next = vec![say("Go."), Message::assistant(&again), answers];
        assert_eq!(scene.answer(next).await.text(), "sorry", "{wire:?}");
    }
}

#[tokio::test]
async fn case_14_a_call_cut_by_the_output_limit_never_runs() {
    for wire in Wire::ALL {
        for json in [r#"{"path":"a"#, r#"{"path":"a"}"#] {
            let scenario = format!(
                "[[turn]]\nstop = 'max_tokens'\n[[turn.call]]\nname = 'read'\ninput = {{ path = 'b' }}\n\
                 [[turn.call]]\nname = 'write'\njson = '{json}'"
            );
            let scene = Scene::new(wire, &scenario).await;
            let first = scene.answer(vec![say("Go.")]).await;
            assert_eq!(first.stop, Stop::MaxTokens, "{wire:?}");
            let calls: Vec<_> = first.calls().collect();
            assert!(calls[0].input.is_ok(), "{wire:?}");
            assert_eq!(calls[1].input, Err(&InputError::Truncated(json.to_owned())), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn case_17_an_error_inside_the_stream_is_retried_and_typed() {
    for wire in Wire::ALL {
        let scene = Scene::new(
            wire,
            r#"
            [[turn]]
            text = "A text of some length."
            [[turn.fault]]
            kind = "error"
            error = "overloaded_error"
            message = "Overloaded"
            after_events = 4
            "#,
        )
        .await;
        let (result, seen) = scene.ask(vec![say("Go.")]).await;
        let response = result.unwrap();
        assert_eq!((response.attempts, response.text().as_str()), (2, "A text of some length."), "{wire:?}");
        let retry = seen.iter().position(|delta| matches!(delta, Delta::Retrying { attempt: 1, .. }));
        assert!(retry.is_some_and(|place| place > 0) || wire == Wire::Responses, "{wire:?}: {seen:?}");

        let fault = "[[turn]]\n[[turn.fault]]\nkind = 'error'\nerror = 'invalid_request_error'\nmessage = 'bad words'";
        let scene = Scene::new(wire, fault).await;
        let (result, _) = scene.ask(vec![say("Go.")]).await;
        assert!(
            matches!(&result, Err(call::Error::BadRequest(answer)) if answer.message == "bad words"),
            "{wire:?}: {result:?}"
        );
        assert_eq!(scene.server.served().len(), 1);
    }
}

#[tokio::test]
async fn case_19_unknown_events_pings_and_comments_never_end_a_stream() {
    for wire in Wire::ALL {
        let scenario = "[[turn]]\nthinking = 'hm'\ntext = 'ok'\nping = true\nunknown = true";
        let scene = Scene::new(wire, scenario).await;
        let (result, seen) = scene.ask(vec![say("Go.")]).await;
        assert_eq!(result.unwrap().text(), "ok", "{wire:?}");
        assert_eq!(seen, [Delta::Thinking("hm".to_owned()), Delta::Text("ok".to_owned())], "{wire:?}");
    }
}

#[tokio::test]
async fn case_21_the_kinds_of_input_are_counted_apart() {
    for wire in Wire::ALL {
        let scenario = "[[turn]]\ntext = 'ok'\nusage = { input = 10, output = 42, cache_read = 5 }";
        let usage = Scene::new(wire, scenario).await.answer(vec![say("Go.")]).await.usage;
        assert_eq!(usage, Usage { input: 10, output: 42, cache_read: 5, cache_write: 0 }, "{wire:?}");
    }
}

#[tokio::test]
async fn case_23_a_refusal_is_typed_and_its_calls_do_not_count() {
    for wire in Wire::ALL {
        let scenario = "[[turn]]\ntext = 'I will not.'\nstop = 'refusal'\n[[turn.call]]\nname = 'read'";
        let first = Scene::new(wire, scenario).await.answer(vec![say("Go.")]).await;
        assert_eq!((first.stop.clone(), first.text().as_str()), (Stop::Refusal, "I will not."), "{wire:?}");
        assert_eq!(first.calls().next().unwrap().input, Err(&InputError::Refused), "{wire:?}");
    }
}

#[tokio::test]
async fn case_23_an_unknown_stop_reason_is_kept_and_a_call_without_one_is_none() {
    for wire in Wire::ALL {
        let first =
            Scene::new(wire, "[[turn]]\ntext = 'x'\nstop = 'novel'").await.answer(vec![say("Go.")]).await;
        assert_eq!(first.stop, Stop::Other("novel".to_owned()), "{wire:?}");
        let first =
            Scene::new(wire, "[[turn]]\ntext = 'x'\nstop = 'tool_use'").await.answer(vec![say("Go.")]).await;
        assert_eq!(first.calls().count(), 0, "{wire:?}");
    }
}

#[tokio::test]
async fn case_24_characters_split_across_chunks_are_whole() {
    let text = "Zoë naïve 漢字 🦀🦀 — fin";
    for wire in Wire::ALL {
        for chunk_bytes in [1, 2, 3, 7] {
            let scenario = format!("[[turn]]\ntext = '{text}'\nchunk_bytes = {chunk_bytes}\nping = true");
            let scene = Scene::new(wire, &scenario).await;
            assert_eq!(scene.answer(vec![say("Go.")]).await.text(), text, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn case_25_limits_and_overload_are_retried_after_what_the_vendor_asks() {
    for wire in Wire::ALL {
        let scene = Scene::new(
            wire,
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
            [[turn.fault]]
            kind = "status"
            status = 503
            "#,
        )
        .await;
        assert_eq!(scene.answer(vec![say("Go.")]).await.attempts, 5, "{wire:?}");
        let want = ["status 429", "status 429", "status 529", "status 503", "answer"];
        assert_eq!(scene.outcomes(), want, "{wire:?}");

        let long = "[[turn]]\n[[turn.fault]]\nkind = 'status'\nstatus = 429\nretry_after = '3600'\ntimes = 0";
        let scene = Scene::new(wire, long).await;
        let error = scene.ask(vec![say("Go.")]).await.0.unwrap_err();
        let call::Error::RateLimited { retry_after, .. } = error else { panic!("{wire:?}: {error:?}") };
        assert_eq!((retry_after, scene.outcomes().len()), (Some(Duration::from_secs(3600)), 1));
    }
}

#[tokio::test]
async fn case_27_a_tool_name_that_the_wire_does_not_take_is_found_before_it_is_sent() {
    for (wire, most) in [(Wire::Messages, 128), (Wire::Responses, 64), (Wire::Chat, 64)] {
        let with = |name: String| {
            let tools = vec![crate::tool(&name)];
            models::wire::compose(&Request { tools, ..request_on(wire, vec![say("Go.")]) })
        };
        assert!(with("a".repeat(most)).is_ok(), "{wire:?}");
        for name in ["mcp.server.tool".to_owned(), String::new(), "a".repeat(most + 1), "größe".to_owned()]
        {
            let refused = with(name);
            assert!(matches!(refused, Err(compose::Error::ToolName { .. })), "{wire:?}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn case_29_a_silent_stream_is_given_up_and_asked_for_again() {
    for wire in Wire::ALL {
        let fault = "[[turn]]\ntext = 'once only'\n[[turn.fault]]\nkind = 'silence'\nafter_events = 4";
        let scene = Scene::new(wire, fault).await.with(|config| Config {
            idle_timeout: Duration::from_millis(400),
            max_attempts: 20,
            ..config
        });
        let response = scene.answer(vec![say("Go.")]).await;
        assert!(response.attempts >= 2);
        assert_eq!(response.text(), "once only", "{wire:?}: the retry does not double the answer");

        let fault = "[[turn]]\ntext = 'x'\n[[turn.fault]]\nkind = 'silence'\ntimes = 0";
        let scene = Scene::new(wire, fault).await.with(|config| Config {
            idle_timeout: Duration::from_millis(50),
            max_attempts: 2,
            ..config
        });
        let error = scene.ask(vec![say("Go.")]).await.0.unwrap_err();
        assert!(matches!(error, call::Error::Idle { .. }) && error.is_retryable(), "{wire:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_anywhere_is_asked_for_again_as_a_whole() {
    for wire in Wire::ALL {
        for kind in ["cut", "truncated", "garbage"] {
            for after in 0..5 {
                let fault = format!(
                    "[[turn]]\ntext = 'one two three four'\n[[turn.fault]]\nkind = '{kind}'\nafter_events = {after}"
                );
                let scene = Scene::new(wire, &fault).await;
                let response = scene.answer(vec![say("Go.")]).await;
                let what = format!("{wire:?} {kind} after {after}");
                assert_eq!(response.text(), "one two three four", "{what}");
                assert_eq!(
                    usize::try_from(response.attempts).unwrap(),
                    scene.server.served().len(),
                    "{what}"
                );
            }
        }
        let always = "[[turn]]\ntext = 'x'\n[[turn.fault]]\nkind = 'cut'\nafter_events = 2\ntimes = 0";
        let scene = Scene::new(wire, always).await.with(|config| Config { max_attempts: 3, ..config });
        let (result, _) = scene.ask(vec![say("Go.")]).await;
        assert!(matches!(result, Err(call::Error::Cut { .. })), "{wire:?}: {result:?}");
        assert_eq!(scene.server.served().len(), 3);
    }
}

#[tokio::test]
async fn answers_that_will_not_change_are_typed_and_name_the_variables_of_their_vendor() {
    for wire in Wire::ALL {
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
                "[[turn]]\n[[turn.fault]]\nkind = 'status'\nstatus = {status}\nmessage = 'because of {KEY} it is so'"
            );
            let scene = Scene::new(wire, &fault).await;
            let error = scene.ask(vec![say("Go.")]).await.0.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(format!("{error:?}").starts_with(name), "{wire:?} {status}: {error:?}");
            assert!(
                shown.contains(&status.to_string()) && shown.contains("because of *** it is so"),
                "{shown}"
            );
            assert!(!shown.contains(KEY) && shown.contains("127.0.0.1"), "{shown}");
            assert_eq!(scene.server.served().len(), 1, "{wire:?} {status}");
            for other in Wire::ALL.into_iter().filter(|other| *other != wire) {
                assert!(!shown.contains(other.key_env()) && !shown.contains(other.url_env()), "{shown}");
            }
            let said = error.to_string();
            match status {
                401 => assert!(said.contains(wire.key_env()), "{said}"),
                404 => assert!(said.contains(wire.url_env()), "{said}"),
                _ => {}
            }
        }
    }
}

#[test]
fn a_base_url_may_have_a_slash_a_version_or_a_path() {
    for (wire, path) in
        [(Wire::Messages, "messages"), (Wire::Responses, "responses"), (Wire::Chat, "chat/completions")]
    {
        let endpoint = |base: &str| {
            let config = Config::new(wire, Credential::Key(Secret::new("k")), base);
            Adapter::connect(config).unwrap().endpoint().to_owned()
        };
        for base in
            ["http://[::1]:80/x", "http://[::1]:80/x/", "http://[::1]:80/x/v1", "http://[::1]:80/x/v1/"]
        {
            assert_eq!(endpoint(base), format!("http://[::1]/x/v1/{path}"), "{base}");
        }
        assert_eq!(endpoint("https://a.example"), format!("https://a.example/v1/{path}"));
        assert_eq!(endpoint("https://a.example/api/v3"), format!("https://a.example/api/v3/{path}"));
        assert_eq!(endpoint("https://a.example/v1beta/x"), format!("https://a.example/v1beta/x/{path}"));
    }
}
