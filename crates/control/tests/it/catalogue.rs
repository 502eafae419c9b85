//! What a mission makes of the catalogue: it waits a moment for a list, goes on without one, and begins on
//! nothing that certainly cannot serve.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use control::api::{ReadModels, StartMission, Vendor};
use serde_json::Value;

use crate::world::World;

/// A server that answers these paths with JSON, and others with 404.
fn serve(known: &'static [(&'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || answer(connection, known));
        }
    });
    url
}

fn answer(connection: TcpStream, known: &[(&str, &str)]) {
    let mut reader = BufReader::new(connection);
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).unwrap();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if let Some(said) = line.to_lowercase().strip_prefix("content-length: ") {
            length = said.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let found = known.iter().find(|(path, _)| first.contains(path));
    let (status, body) = found.map_or(("404 Not Found", "{}"), |(_, json)| ("200 OK", *json));
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = reader.get_mut().write_all(format!("{head}{body}").as_bytes());
}

fn at(world: &World, model: &str, url: &str) -> StartMission {
    let vendor = Vendor { local_base_url: Some(url.into()), ..Vendor::default() };
    StartMission { model: Some(model.into()), vendor, ..world.mission() }
}

/// The terms that are on record of a run.
fn terms(world: &World, run: &str) -> Value {
    let events = world.block(world.control().run_events(run, 0, 1)).unwrap();
    events[0].content["terms"].clone()
}

const OLLAMA: &[(&str, &str)] = &[
    ("GET /v1/models", r#"{"data":[]}"#),
    ("GET /api/tags", r#"{"models":[{"name":"mute:1b"},{"name":"able:1b"}]}"#),
    ("POST /api/show", r#"{"capabilities":["completion"],"model_info":{"x.context_length":8192}}"#),
];

#[test]
fn a_model_that_is_not_there_or_calls_no_tools_begins_nothing() {
    let world = World::new();
    let url = serve(OLLAMA);
    let mute = world.start(at(&world, "local/mute:1b", &url)).unwrap_err();
    assert_eq!((mute.status(), mute.code), (422, "model.no_tools"), "{mute:?}");
    let absent = world.start(at(&world, "local/able:2b", &url)).unwrap_err();
    assert_eq!((absent.status(), absent.code), (422, "model.not_found"), "{absent:?}");
    assert!(absent.detail.contains("the nearest are `local/able:1b`"), "{}", absent.detail);
    assert!(absent.hint.unwrap().contains("regie models"));
    assert_eq!(world.block(world.control().run_list(false)).unwrap(), []);
}

#[test]
fn a_server_that_says_nothing_delays_a_mission_and_does_not_stop_it() {
    let world = World::new();
    // The system takes the connections, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let started = world.start(at(&world, "local/qwen3", &url)).unwrap();
    assert_eq!(terms(&world, &started.run)["window"], models::catalogue::LOCAL_WINDOW);
}

#[test]
fn a_list_that_is_old_serves_while_there_is_no_other() {
    let world = World::new();
    let listing = r#"{"models":[{"name":"local/kept","window":20000}],"is_complete":true,"kind":"plain"}"#;
    let dead = "http://127.0.0.1:1/v1/chat/completions";
    let kept =
        format!(r#"{{"version":1,"endpoints":{{"{dead}":{{"wire":"local","at":0,"listing":{listing}}}}}}}"#);
    std::fs::write(world.layout().home.join("models.json"), kept).unwrap();
    let started = world.start(at(&world, "local/kept", "http://127.0.0.1:1")).unwrap();
    assert_eq!(terms(&world, &started.run)["window"], 20_000);
    // What it does not have is not refused by it.
    let started = world.start(at(&world, "local/other", "http://127.0.0.1:1")).unwrap();
    assert_eq!(terms(&world, &started.run)["window"], models::catalogue::LOCAL_WINDOW);
    let listed = world.block(world.control().model_list()).unwrap().endpoints;
    assert_eq!((listed.len(), listed[0].url.as_deref()), (1, Some("http://127.0.0.1:1")));
    assert_eq!((listed[0].as_of, listed[0].models[0].window), (Some(0), 20_000));
}

#[test]
fn the_lists_of_the_endpoints_are_read_and_what_is_wrong_with_one_is_said() {
    let world = World::new();
    let vendor = Vendor { local_base_url: Some("http://127.0.0.1:1".into()), ..world.vendor() };
    let read = |refresh| {
        let wanted = ReadModels { vendor: vendor.clone(), refresh };
        world.block(world.control().model_read(wanted)).unwrap().endpoints
    };
    let endpoints = read(false);
    let problem = |at: usize| endpoints[at].problem.as_ref().map(|problem| problem.code.as_str());
    let wires: Vec<&str> = endpoints.iter().map(|endpoint| endpoint.wire.as_str()).collect();
    assert_eq!(wires, ["anthropic", "openai", "local"]);
    assert_eq!(
        [problem(0), problem(1), problem(2)],
        [None, Some("model.key_missing"), Some("model.unreachable")]
    );
    assert_eq!(endpoints[0].models.len(), 2);
    assert!(endpoints[2].problem.as_ref().unwrap().hint.is_some());
    let kept = std::fs::read_to_string(world.layout().home.join("models.json")).unwrap();
    assert!(kept.contains("scripted-small") && !kept.contains("sk-scripted"), "{kept}");
    assert_eq!(read(false)[0], endpoints[0], "a fresh list is not read again");
}
