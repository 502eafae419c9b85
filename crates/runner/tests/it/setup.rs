//! The setup: the one step with the machine's network, and with a place for what it fetches.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;

use domain::Outcome;
use runner::toolchains::{Cache, Machine, find};
use sandbox::{Access, Mount};
use serde_json::{Value, json};

use crate::bench::Bench;

fn setup(command: &str) -> Value {
    json!({ "command": command, "from": "regie.toml:3", "sees": [] })
}

/// A port that gives a line to whoever connects.
fn registry() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"the dependency\n");
        }
    });
    port
}

#[test]
fn it_alone_reaches_the_machines_network() {
    let mut bench = Bench::new();
    let fetch = format!("cat < /dev/tcp/127.0.0.1/{}", registry());
    bench.bad("shell", json!({ "command": fetch }));
    assert_eq!(bench.good("setup", setup(&fetch)), "the dependency\n");
    bench.bad("shell", json!({ "command": fetch }));
}

#[test]
fn it_is_not_told_that_there_is_no_network() {
    let mut bench = Bench::new();
    let env = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    bench.config.env = vec![env("UV_OFFLINE", "1"), env("GOPROXY", "off"), env("GOCACHE", "/x")];
    bench.config.setup_env = vec![env("SSL_CERT_FILE", "/certificates")];
    bench.restart_daemon();
    let look = "echo ${UV_OFFLINE:-online} ${GOPROXY:-direct} $GOCACHE ${SSL_CERT_FILE:-none}";
    assert_eq!(bench.good("setup", setup(look)), "online direct /x /certificates\n");
    assert_eq!(bench.good("shell", json!({ "command": look })), "1 off /x none\n");
}

#[test]
fn what_it_fetches_is_there_for_the_next_step_to_read() {
    let mut bench = Bench::new();
    let own = bench.home.path().join("fetched");
    std::fs::create_dir(&own).unwrap();
    let place = Path::new("/.regie/cache/cargo/registry/index");
    bench.config.setup_mounts =
        vec![Mount { source: own.clone(), target: place.into(), access: Access::Write }];
    bench.restart_daemon();
    let list = json!({ "command": format!("ls {}", place.display()) });
    bench.bad("shell", list.clone());
    bench.good("setup", setup(&format!("touch {}/crate", place.display())));
    assert_eq!(bench.good("shell", list), "crate\n");
    let write = json!({ "command": format!("touch {}/poison", place.display()) });
    assert!(bench.bad("shell", write).contains("Read-only"));
}

#[test]
fn a_blank_one_is_a_failure_and_no_refusal() {
    let mut bench = Bench::new();
    let (outcome, output) = bench.call("setup", setup("  "));
    assert_eq!((outcome, output.is_error), (Outcome::Failed, true), "{}", output.text);
}

#[test]
fn its_places_are_made_with_the_caches() {
    let home = tempfile::tempdir().unwrap();
    let cache = Cache::new(home.path().join("cache"));
    cache.prepare().unwrap();
    for mount in find(home.path(), &cache, &Machine).setup_mounts {
        assert!(mount.source.is_dir(), "{mount:?}");
    }
}
