//! Services beside the steps: reached by commands, out of the machine's sight, gone with the runner.

use std::net::TcpListener;

use domain::{Outcome, Service};
use serde_json::{Value, json};

use crate::bench::{Bench, assert_gone, until};

fn service(name: &str, command: &str, ready: Option<&str>) -> Service {
    Service {
        name: name.into(),
        command: command.into(),
        ready: ready.map(Into::into),
        ready_timeout: 60_000,
    }
}

fn bench(services: Vec<Service>) -> Bench {
    let mut bench = Bench::new();
    bench.config.services = services;
    bench.restart_daemon();
    bench
}

fn command(text: &str) -> Value {
    json!({ "command": text })
}

const SERVE: &str = "echo starting; exec python3 -u -m http.server 4711 --bind 127.0.0.1";
const READY: &str = "true < /dev/tcp/127.0.0.1/4711";
const GET: &str =
    "exec 3<>/dev/tcp/127.0.0.1/4711 && printf 'GET /hello HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3";

#[test]
fn a_command_reaches_a_service_that_is_ready() {
    let mut bench = bench(vec![service("web", SERVE, Some(READY))]);
    std::fs::write(bench.config.workspace.join("hello"), "from the workspace\n").unwrap();
    assert!(bench.good("shell", command(GET)).contains("from the workspace"));
    // The same one all along, whatever a step ends with itself.
    bench.call("shell", command("kill -9 -1"));
    assert!(bench.good("shell", command(GET)).contains("from the workspace"));
    assert!(bench.good("shell", command("grep -c starting /outputs/services/web.log")).contains('1'));
    let log = bench.good("read", json!({ "path": "/outputs/services/web.log" }));
    assert!(log.contains("GET /hello"), "{log}");
}

#[test]
fn services_see_the_workspace_and_write_elsewhere() {
    let ready = "true < /dev/tcp/127.0.0.1/4712";
    let write = "touch planted; touch /tmp/own && echo own is there; exec python3 -m http.server 4712 --bind 127.0.0.1";
    let mut bench = bench(vec![service("web", SERVE, Some(READY)), service("other", write, Some(ready))]);
    bench.good("shell", command("true < /dev/tcp/127.0.0.1/4711 && true < /dev/tcp/127.0.0.1/4712"));
    assert!(!bench.config.workspace.join("planted").exists());
    let log = bench.good("shell", command("cat /outputs/services/other.log; ls /tmp"));
    assert!(log.contains("own is there") && log.contains("Read-only file system"), "{log}");
}

#[test]
fn the_machine_is_as_far_away_as_ever() {
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let ask = format!("true < /dev/tcp/127.0.0.1/{port}");
    let look = format!("{ask} && echo reached || echo not reached; {SERVE}");
    let mut bench = bench(vec![service("web", &look, Some(READY))]);
    bench.bad("shell", command(&ask));
    assert!(bench.good("shell", command("cat /outputs/services/web.log")).contains("not reached"));
    assert!(std::net::TcpStream::connect("127.0.0.1:4711").is_err(), "nor is it seen from outside");
}

#[test]
fn without_services_each_step_has_a_network_of_its_own() {
    let mut bench = bench(Vec::new());
    bench.good("shell", command("python3 -m http.server 4711 --bind 127.0.0.1 & sleep 0.2"));
    bench.bad("shell", command(READY));
}

#[test]
fn one_that_ends_or_never_is_ready_is_told_and_the_commands_run() {
    let never =
        Service { ready_timeout: 300, ..service("slow", "echo thinking; exec sleep 1000", Some("false")) };
    let mut bench = bench(vec![service("db", "echo no space left; exit 3", Some("true")), never]);
    let text = bench.good("shell", command("echo it runs"));
    assert!(text.contains("it runs"), "{text}");
    assert!(text.contains("service `slow` is not ready after 0.3 s: `false` does not exit with 0"), "{text}");
    assert!(text.contains("thinking"), "{text}");
    until("the end of the service is seen", || {
        std::fs::read_to_string(bench.spool_file("outputs/services/db.log"))
            .is_ok_and(|log| log.contains("no space"))
    });
    let mut text = bench.good("shell", command("echo again"));
    while !text.contains("`db` has ended") {
        text = bench.good("shell", command("echo again"));
    }
    assert!(text.contains("/outputs/services/db.log") && text.contains("again"), "{text}");
    assert!(text.contains("service `slow`") && !text.contains("thinking"), "told in full once: {text}");
}

#[test]
fn one_that_is_late_is_told_until_it_is_ready() {
    let late = Service {
        ready_timeout: 200,
        ..service("web", &format!("while ! test -e open; do sleep 0.05; done; {SERVE}"), Some(READY))
    };
    let mut bench = bench(vec![late]);
    assert!(bench.good("shell", command("echo one")).contains("service `web` is not ready after 0.2 s"));
    std::fs::write(bench.config.workspace.join("open"), "").unwrap();
    let mut text = bench.good("shell", command("echo two"));
    while text.contains("is not ready") {
        text = bench.good("shell", command("echo two"));
    }
    assert_eq!(text, "two\n");
}

#[test]
fn what_is_looked_at_has_no_services() {
    let mut bench = bench(vec![service("web", SERVE, Some(READY))]);
    bench.good("list", json!({}));
    assert!(!bench.spool_file("outputs/services/web.log").exists(), "nothing was started for it");
}

#[test]
fn a_step_that_is_killed_does_not_wait_for_services() {
    let never = Service { ready_timeout: 600_000, ..service("slow", "exec sleep 1000", Some("false")) };
    let mut bench = bench(vec![never]);
    let work = bench.work("shell", command("echo never; exec sleep 1000"));
    bench.start(&work);
    until("the service has begun", || bench.spool_file("outputs/services/slow.log").exists());
    bench.kill(&work);
    assert_eq!(bench.finished(&work).outcome, Outcome::Cancelled);
}

#[test]
fn nothing_of_it_outlives_its_runner() {
    let mark = format!("10{}", std::process::id());
    let mut bench = bench(vec![service("slow", &format!("sleep {mark} & exec sleep {mark}"), None)]);
    bench.good("shell", command("true"));
    let pid = bench.runner_pid().unwrap();
    bench.kill_runner();
    until("the runner is gone", || {
        !std::path::Path::new(&format!("/proc/{pid}/cmdline")).exists()
            || std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.is_empty())
    });
    // The next runner waits for what the last one has left, and starts its own.
    bench.restart_daemon();
    bench.fence += 1;
    assert!(bench.good("shell", command("grep -c . /outputs/services/slow.log || true")).contains('0'));
    bench.executor().close(bench.config.run);
    until("the runner has left", || {
        std::fs::read_to_string(bench.spool_file("lock")).is_ok_and(|lock| {
            let pid: i32 = lock.trim().parse().unwrap_or(0);
            !std::path::Path::new(&format!("/proc/{pid}/exe")).exists()
        })
    });
    assert_gone(&format!("sleep {mark}"));
}
