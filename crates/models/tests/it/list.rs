//! Lists of models: of the scripted server on every wire, and of local servers as each of them says it.

use models::catalogue::{self, Kind, Listing, Model, Origin, known};
use models::{Adapter, Config, Wire, call};
use testkit::script::{self, Options, Server};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::canned::{self, answer};
use crate::{KEY, config, model, provider};

/// A server that knows these paths, each with its JSON; what is asked for without them is not there.
async fn routes(known: Vec<(&'static str, &'static str)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let known = known.clone();
            tokio::spawn(async move {
                let request = canned::read(&mut connection).await;
                let (line, body) =
                    (request.lines().next().unwrap(), request.split("\r\n\r\n").nth(1).unwrap());
                // `POST /api/show qwen3:8b` is known by what it asks for.
                let asked = format!("{} {body}", line.trim_end_matches(" HTTP/1.1"));
                let found = known.iter().find(|(path, _)| asked.starts_with(path) || asked.contains(path));
                let bytes = match found {
                    Some((_, json)) => answer("200 OK", "content-type: application/json\r\n", json),
                    None => answer("404 Not Found", "", r#"{"error":"no such page"}"#),
                };
                let _ = connection.write_all(&bytes).await;
            });
        }
    });
    base_url
}

async fn local(known: Vec<(&'static str, &'static str)>) -> Listing {
    provider(Wire::Chat, &routes(known).await).list().await.unwrap()
}

fn shown(model: &Model) -> String {
    let yes = |able: Option<bool>| able.map_or("?", |able| if able { "yes" } else { "no" });
    let number = |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
    format!(
        "{} {} of {} · tools {} images {} thinking {}{}",
        model.name,
        number(model.window),
        number(model.longest),
        yes(model.tools),
        yes(model.vision),
        yes(model.thinking),
        if model.is_other { " · other" } else { "" },
    )
}

fn all(listing: &Listing) -> Vec<String> {
    listing.models.iter().map(shown).collect()
}

#[tokio::test]
async fn every_wire_reads_the_list_of_its_endpoint() {
    for wire in Wire::ALL {
        let server = Server::start(script::parse("[[turn]]").unwrap(), Options::default()).await.unwrap();
        for version in ["", "/v1", "/v1/"] {
            let listing = provider(wire, &format!("{}{version}", server.base_url())).list().await.unwrap();
            let names: Vec<&str> = listing.models.iter().map(|model| model.name.as_str()).collect();
            let small = format!("{}-small", model(wire));
            assert_eq!(names, [model(wire), small.as_str()], "{wire:?}");
            let small = known(&small, Some(&listing));
            assert_eq!(small.terms().window, 16_000, "{wire:?}");
            // OpenAI's list says nothing of windows.
            let from = if wire == Wire::Responses { Origin::Default } else { Origin::Endpoint };
            assert_eq!(small.window.from, from, "{wire:?}");
        }
        assert!(server.served().is_empty(), "a list is no turn");
    }
}

#[tokio::test]
async fn a_refusal_of_the_list_is_typed_and_names_no_model() {
    for wire in Wire::ALL {
        let options = Options { key: Some("sk-other".into()), ..Options::default() };
        let server = Server::start(script::parse("[[turn]]").unwrap(), options).await.unwrap();
        let error = provider(wire, server.base_url()).list().await.unwrap_err();
        assert!(matches!(error, call::Error::Unauthorized(_)), "{wire:?}: {error:?}");
        let said = error.to_string();
        assert!(said.contains("/v1/models answered 401") && said.contains(wire.key_env()), "{said}");
        assert!(!said.contains(KEY), "{said}");

        let nothing = provider(wire, &routes(Vec::new()).await).list().await.unwrap_err();
        assert!(matches!(nothing, call::Error::NoSuchPath(_)), "{wire:?}: {nothing:?}");
        assert!(
            nothing.to_string().contains("404") && nothing.to_string().contains(wire.url_env()),
            "{nothing}"
        );
        for wrong in ["<html>", r#"{"data":{}}"#, r#"{"models":3}"#, r#"{"data":[{"name":"x"}]}"#] {
            let error = provider(wire, &routes(vec![("GET /v1/models", wrong)]).await).list().await;
            match (wire, wrong) {
                // A row without an id is passed over where servers differ.
                (Wire::Chat, r#"{"data":[{"name":"x"}]}"#) => assert!(error.unwrap().models.is_empty()),
                _ => {
                    assert!(matches!(error, Err(call::Error::NotAList { .. })), "{wire:?} {wrong}: {error:?}")
                }
            }
        }
        let dead = Adapter::connect(Config { wire, ..config("http://127.0.0.1:1") }).unwrap();
        assert!(matches!(dead.list().await, Err(call::Error::Connect { .. })));
    }
}

#[tokio::test]
async fn pages_are_read_to_the_last() {
    let first = r#"{"data":[{"type":"model","id":"claude-a","display_name":"A","created_at":"2026-11-10T00:00:00Z",
        "max_input_tokens":1000000,"max_tokens":128000,
        "capabilities":{"image_input":{"supported":true},"thinking":{"supported":false}}}],
        "has_more":true,"first_id":"claude-a","last_id":"claude-a"}"#;
    let second = r#"{"data":[{"id":"gpt-b","display_name":null,"max_input_tokens":null,"capabilities":null}],
        "has_more":false,"last_id":"gpt-b"}"#;
    let url = routes(vec![("after_id=claude-a", second), ("GET /v1/models?limit=1000", first)]).await;
    let listing = provider(Wire::Messages, &url).list().await.unwrap();
    assert_eq!(listing.models[0].adaptive, None);
    // A gateway may know another vendor's model, and that goes by this wire only with its prefix.
    assert_eq!(
        all(&listing),
        [
            "claude-a 1000000 of ? · tools ? images yes thinking no",
            "anthropic/gpt-b ? of ? · tools ? images ? thinking ?"
        ]
    );
    assert_eq!(listing.models[0].created, Some(1_794_268_800));
    assert!(!listing.is_complete, "a gateway may know more than it tells");
}

#[tokio::test]
async fn reasoning_is_asked_for_where_the_list_says_that_it_may_be() {
    let row =
        |id: &str, thinking: &str| format!(r#"{{"id":"{id}","capabilities":{{"thinking":{thinking}}}}}"#);
    let types = |is: bool| {
        format!(
            r#"{{"supported":true,"types":{{"adaptive":{{"supported":{is}}},"enabled":{{"supported":true}}}}}}"#
        )
    };
    let rows = [
        row("claude-new", &types(true)),
        row("claude-opus-5-5", &types(false)),
        row("claude-sonnet-5-5", r#"{"supported":true}"#),
        row("claude-haiku-5-5", r#"{"supported":false}"#),
    ];
    let list = format!(r#"{{"data":[{}],"has_more":false}}"#, rows.join(","));
    let url = routes(vec![("GET /v1/models", list.leak())]).await;
    let listing = provider(Wire::Messages, &url).list().await.unwrap();
    let asked = |model: &str| known(model, Some(&listing)).terms().reasoning;
    let models =
        ["claude-new", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-unlisted"];
    assert_eq!(models.map(asked), [true, false, true, false, false]);
}

#[tokio::test]
async fn what_is_for_something_else_is_told_apart() {
    let rows = r#"{"object":"list","data":[{"id":"gpt-6.1-sol","created":1},{"id":"gpt-realtime-2"},
        {"id":"text-embedding-3-small"},{"id":"o3"},{"id":"whisper-1"},{"id":"ft:gpt-4.1:me::x"}]}"#;
    let url = routes(vec![("GET /v1/models", rows)]).await;
    let listing = provider(Wire::Responses, &url).list().await.unwrap();
    let talk: Vec<&str> =
        listing.models.iter().filter(|model| !model.is_other).map(|model| model.name.as_str()).collect();
    assert_eq!(talk, ["gpt-6.1-sol", "o3", "openai/ft:gpt-4.1:me::x"]);
}

#[tokio::test]
async fn ollama_says_the_window_that_it_gives_and_not_the_one_that_could_be() {
    let listing = local(vec![
        ("GET /v1/models", r#"{"object":"list","data":[{"id":"qwen3:14b","owned_by":"library"}]}"#),
        (
            "GET /api/tags",
            r#"{"models":[{"name":"qwen3:14b","model":"qwen3:14b"},{"name":"small:latest"},{"name":"idle:1b"},{"name":"nomic"}]}"#,
        ),
        ("GET /api/ps", r#"{"models":[{"name":"qwen3:14b","model":"qwen3:14b","context_length":4096}]}"#),
        (
            r#"{"model":"qwen3:14b"}"#,
            r#"{"capabilities":["completion","tools","thinking"],"model_info":{"qwen3.context_length":40960}}"#,
        ),
        (
            r#"{"model":"small:latest"}"#,
            r#"{"capabilities":["completion","vision"],"parameters":"stop   \"<x>\"\nnum_ctx     8192","model_info":{"llama.context_length":131072}}"#,
        ),
        (r#"{"model":"idle:1b"}"#, r#"{"capabilities":["completion","tools"],"model_info":{"x.context_length":131072}}"#),
        (r#"{"model":"nomic"}"#, r#"{"capabilities":["embedding"]}"#),
    ])
    .await;
    assert_eq!(
        all(&listing),
        [
            "local/qwen3:14b 4096 of 40960 · tools yes images no thinking yes",
            "local/small:latest 8192 of 131072 · tools no images yes thinking no",
            "local/idle:1b ? of 131072 · tools yes images no thinking no",
            "local/nomic ? of ? · tools no images no thinking no · other",
        ]
    );
    assert_eq!((listing.kind, listing.is_complete), (Kind::Ollama, true));
    let loaded = known("local/qwen3:14b", Some(&listing));
    assert_eq!((loaded.terms().window, loaded.terms().max_output), (4_096, 1_024));
    let warning = loaded.warning().unwrap();
    assert!(warning.contains("4096 tokens of the 40960") && warning.contains("num_ctx"), "{warning}");
    let idle = known("local/idle:1b", Some(&listing));
    assert_eq!((idle.window.tokens, idle.window.from), (catalogue::LOCAL_WINDOW, Origin::Default));
    assert!(idle.warning().unwrap().contains("before it is loaded"));
    // A tag may be left out, as Ollama itself allows; a model that was never pulled is not there.
    assert!(listing.find("local/small").is_some() && listing.lacks("local/qwen3:8b"));
    assert_eq!(listing.nearest("local/qwen3:8b")[0], "local/qwen3:14b");
}

#[tokio::test]
async fn llama_cpp_says_the_window_that_it_was_started_with() {
    let rows = r#"{"object":"list","data":[{"id":"/models/q.gguf","owned_by":"llamacpp","meta":{"n_ctx_train":262144}}]}"#;
    let props = r#"{"default_generation_settings":{"n_ctx":65536},"modalities":{"vision":true},
        "chat_template_caps":{"supports_tools":true}}"#;
    let listing = local(vec![("GET /v1/models", rows), ("GET /props", props)]).await;
    assert_eq!(all(&listing), ["local//models/q.gguf 65536 of 262144 · tools yes images yes thinking ?"]);
    assert_eq!((listing.kind, listing.is_complete), (Kind::LlamaCpp, false));
    // It answers for any name, and with the one model that it has.
    let any = known("local/anything", Some(&listing));
    assert_eq!(
        (any.window.tokens, any.window.from, any.model.name.as_str()),
        (65_536, Origin::Endpoint, "local/anything")
    );
    assert_eq!(any.warning(), None);
}

#[tokio::test]
async fn lm_studio_says_what_is_loaded() {
    let rows = r#"{"data":[
        {"id":"a","type":"llm","state":"loaded","max_context_length":131072,"loaded_context_length":8192,"capabilities":["tool_use"]},
        {"id":"b","type":"vlm","state":"not-loaded","max_context_length":32768},
        {"id":"c","type":"embeddings","state":"not-loaded","max_context_length":2048}]}"#;
    let listing = local(vec![("GET /v1/models", r#"{"data":[]}"#), ("GET /api/v0/models", rows)]).await;
    assert_eq!(
        all(&listing),
        [
            "local/a 8192 of 131072 · tools yes images no thinking ?",
            "local/b ? of 32768 · tools ? images yes thinking ?",
            "local/c ? of 2048 · tools ? images no thinking ? · other",
        ]
    );
    assert!(known("local/a", Some(&listing)).warning().unwrap().contains("longer context in LM Studio"));
}

#[tokio::test]
async fn vllm_says_its_window_and_another_server_nothing() {
    let vllm = r#"{"data":[{"id":"q/Qwen3","created":7,"max_model_len":40960}]}"#;
    let listing = local(vec![("GET /v1/models", vllm)]).await;
    assert_eq!(all(&listing), ["local/q/Qwen3 40960 of ? · tools ? images ? thinking ?"]);
    assert!(listing.is_complete);
    let other = local(vec![("GET /v1/models", r#"{"data":[{"id":"x"}]}"#)]).await;
    assert!(!other.is_complete && !other.lacks("local/y"));
    let known = known("local/x", Some(&other));
    assert_eq!((known.window.tokens, known.window.from), (catalogue::LOCAL_WINDOW, Origin::Default));
}

#[test]
fn the_endpoint_goes_before_the_table_and_the_table_before_the_default() {
    let says = |name: &str, window, max_output| Listing {
        models: vec![Model { name: name.into(), window, max_output, ..Model::default() }],
        is_complete: true,
        kind: Kind::Plain,
    };
    let name = "claude-opus-5-5";
    let told = known(name, Some(&says("claude-opus-5-5-20261101", Some(500_000), Some(8_000))));
    assert_eq!((told.window.tokens, told.window.from), (500_000, Origin::Endpoint));
    assert_eq!((told.terms().max_output, told.model.name.as_str()), (8_000, name));
    let silent = known(name, Some(&says(name, None, None)));
    assert_eq!((silent.window.tokens, silent.window.from), (1_000_000, Origin::Table));
    assert_eq!(silent.terms().max_output, 16_000);
    let unknown = known("claude-of-tomorrow", None);
    assert_eq!((unknown.window.tokens, unknown.window.from), (catalogue::DEFAULT_WINDOW, Origin::Default));
    assert_eq!(unknown.price, None);
    // Names that the vendor itself takes for others.
    let dated = says("claude-opus-4-20250514", None, None);
    for name in ["claude-opus-4", "claude-opus-4-0", "claude-opus-4-20250514"] {
        assert!(!dated.lacks(name), "{name}");
    }
    for name in ["claude-opus-4-1", "gpt-claude-opus-4", "local/claude-opus-4"] {
        assert!(dated.lacks(name), "{name}");
    }
    // A longer request would cost more than the price that is on record.
    let haiku = known("claude-haiku-5-5", Some(&says("claude-haiku-5-5", Some(1_000_000), None)));
    assert_eq!((haiku.window.tokens, haiku.terms().window), (1_000_000, 100_000));
}
