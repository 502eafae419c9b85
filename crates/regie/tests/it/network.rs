//! Missions over TLS and through proxies, and what lies in between when it does not work: each is one clear
//! line, the run rests at once, and the same run goes on when the owner has mended it.

use std::net::SocketAddr;
use std::process::Command;

use models::Wire;
use models::network::CERT_FILE_ENV;
use testkit::network::{Authority, Certificate, Front, Mode, Proxy};

use crate::world::{MEND, Said, World, finish};

const RUN: [&str; 5] = ["run", "Make the check pass", "--done", "sh check.sh", "--yes"];

/// A world, and what is put between it and its model.
struct Between {
    world: World,
    runtime: tokio::runtime::Runtime,
    model: SocketAddr,
}

impl Between {
    fn new(scenario: &str) -> Self {
        let world = World::new(scenario);
        let command = world.regie(&[]);
        let url = command.get_envs().find(|(name, _)| *name == Wire::Messages.url_env()).unwrap().1.unwrap();
        let model = url.to_str().unwrap().trim_start_matches("http://").parse().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { world, runtime, model }
    }

    fn front(&self, authority: &Authority, certificate: Certificate<'_>) -> Front {
        self.runtime.block_on(Front::start(authority, certificate, self.model)).unwrap()
    }

    fn proxy(&self, mode: Mode) -> Proxy {
        self.runtime.block_on(Proxy::start(mode, self.model)).unwrap()
    }

    /// The binary, told that the model is here.
    fn regie(&self, url: &str, args: &[&str]) -> Command {
        let mut command = self.world.regie(args);
        command.env(Wire::Messages.url_env(), url);
        command
    }

    /// The run rests with this code, has spent nothing, and its owner reads these words.
    #[track_caller]
    fn rests(&self, said: &Said, code: &str, words: &[&str]) {
        assert_eq!(said.code, Some(1), "{said:?}");
        for words in words {
            assert!(said.flat().contains(words), "no `{words}`: {said:?}");
        }
        assert!(said.err.contains("hint: regie resume"), "{said:?}");
        let run = self.world.ask(&["runs", "--json"]).json()[0].clone();
        assert_eq!((run["status"].as_str(), run["code"].as_str()), (Some("parked"), Some(code)), "{run}");
        assert_eq!(run["spent"]["tokens"], 0, "{run}");
    }

    /// The same run goes on to its end.
    #[track_caller]
    fn goes_on(&self, mut command: Command) {
        command.args(["resume", "last"]);
        let said = finish(command);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(self.world.ended("last").end, "done");
        self.world.is_whole();
    }

    /// Nothing that the home holds, nor what a command said, has this in it.
    #[track_caller]
    fn hides(&self, secret: &str, said: &Said) {
        assert!(!format!("{said:?}").contains(secret), "{said:?}");
        for file in ["regie.db", "regie.db-wal", "index.db", "log/daemon.log"] {
            let bytes = std::fs::read(self.world.home().join(file)).unwrap_or_default();
            assert!(
                !bytes.windows(secret.len()).any(|window| window == secret.as_bytes()),
                "it is in {file}"
            );
        }
    }
}

#[test]
fn a_mission_over_https_by_an_authority_of_ones_own_in_a_daemon_that_did_not_know_it() {
    let between = Between::new(MEND);
    let authority = Authority::new().unwrap();
    let front = between.front(&authority, Certificate::Of("localhost"));
    std::fs::write(between.world.scratch().join("ca.pem"), authority.pem()).unwrap();
    assert_eq!(between.world.ask(&["runs"]).code, Some(0), "a daemon starts without it");
    let mut command = between.regie(&format!("https://localhost:{}", front.address().port()), &RUN);
    // As a shell has it: seen from the repository.
    command.env(CERT_FILE_ENV, "../ca.pem");
    let said = finish(command);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(front.protocols().iter().all(|protocol| protocol == "h2") && !front.protocols().is_empty());
    between.world.is_whole();
}

#[test]
fn a_certificate_of_an_unknown_authority_rests_the_run_until_it_is_named() {
    let between = Between::new(MEND);
    let authority = Authority::new().unwrap();
    let front = between.front(&authority, Certificate::Of("localhost"));
    let ca = between.world.scratch().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let url = format!("https://localhost:{}", front.address().port());
    let said = finish(between.regie(&url, &RUN));
    let words = [url.as_str(), "signed by nobody whom this machine believes", "set SSL_CERT_FILE"];
    between.rests(&said, "model.tls", &words);
    assert!(between.world.asked().is_empty());
    let mut again = between.regie(&url, &[]);
    again.env(CERT_FILE_ENV, &ca);
    between.goes_on(again);
}

#[test]
fn an_expired_certificate_and_a_wrong_scheme_rest_the_run() {
    let between = Between::new(MEND);
    let authority = Authority::new().unwrap();
    let front = between.front(&authority, Certificate::Expired("localhost"));
    let ca = between.world.scratch().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let port = front.address().port();
    let plain = format!("http://{}", between.model);
    for (url, words) in [
        (format!("https://localhost:{port}"), ["has expired", "check this machine's clock"]),
        (format!("http://localhost:{port}"), ["does not answer in HTTP", "to an https:// address"]),
        (plain.replace("http:", "https:"), ["answers without TLS", "to an http:// address"]),
    ] {
        let mut command = between.regie(&url, &RUN);
        command.env(CERT_FILE_ENV, &ca);
        between.rests(&finish(command), "model.tls", &words);
        assert_eq!(between.world.ask(&["cancel", "last"]).code, Some(0));
    }
    between.world.is_whole();
}

#[test]
fn a_mission_through_a_proxy_whose_password_is_written_nowhere() {
    let between = Between::new(MEND);
    let proxy = between.proxy(Mode::Keyed("Basic dXNlcjpodW50ZXIy".into()));
    assert_eq!(between.world.ask(&["runs"]).code, Some(0), "a daemon starts without it");
    let wrong = format!("http://user:wrong-one@{}", proxy.address());
    let mut command = between.regie("http://model.test", &RUN);
    command.env("HTTP_PROXY", &wrong);
    let said = finish(command);
    let named = format!("the proxy http://{} answered 407", proxy.address());
    between.rests(&said, "model.proxy", &[&named, "http://NAME:PASSWORD@HOST:PORT"]);
    between.hides("wrong-one", &said);

    let mut again = between.regie("http://model.test", &[]);
    again.env("http_proxy", format!("http://user:hunter2@{}", proxy.address()));
    between.goes_on(again);
    between.hides("hunter2", &between.world.ask(&["log", "last", "--json"]));
    assert!(between.world.asked().len() >= 4 && !proxy.heads().is_empty());
}

#[test]
fn a_tunnel_that_the_proxy_refuses_rests_the_run_until_the_proxy_is_left_out() {
    let between = Between::new(MEND);
    let page = "<html><title>Blocked</title></html>";
    let proxy = between.proxy(Mode::Refuse("403 Forbidden".into(), page.into()));
    let at = format!("http://{}", proxy.address());
    // The daemon is started with it, and goes by what each client has.
    let mut command = between.regie("https://model.test", &RUN);
    command.env("ALL_PROXY", &at);
    let said = finish(command);
    let named = format!("the proxy {at} opened no connection");
    between.rests(&said, "model.proxy", &[&named, "https://model.test", "NO_PROXY"]);

    let mut command = between.regie("http://model.test", &["resume", "last"]);
    command.env("ALL_PROXY", &at);
    let said = finish(command);
    between.rests(&said, "model.web_page", &["answered 403: Blocked", &at, "web page"]);

    let open = between.proxy(Mode::Open);
    let mut again = between.regie("http://model.test", &[]);
    again.env("HTTP_PROXY", open.address().to_string()).env("ALL_PROXY", &at);
    between.goes_on(again);
}

#[test]
fn settings_that_make_no_sense_start_nothing() {
    let between = Between::new(MEND);
    for (name, value, words) in [
        ("HTTPS_PROXY", "socks5://user:hunter2@127.0.0.1:1080", "HTTPS_PROXY names no proxy"),
        ("https_proxy", "http://user:hunter2@:", "https_proxy names no proxy"),
        (CERT_FILE_ENV, "/nowhere/ca.pem", "SSL_CERT_FILE names /nowhere/ca.pem, which cannot be read"),
    ] {
        let mut command = between.regie("https://model.test", &RUN);
        command.env(name, value);
        let said = finish(command);
        assert_eq!(said.code, Some(1), "{said:?}");
        let lines: Vec<&str> = said.err.lines().collect();
        assert_eq!(lines.len(), 2, "{said:?}");
        assert!(
            lines[0].starts_with(&format!("error: {words}")) && lines[1].starts_with("hint: "),
            "{said:?}"
        );
        between.hides("hunter2", &said);
    }
    assert_eq!(between.world.ask(&["runs", "--json"]).out, "[]\n");
    // The daemon that was started meanwhile does not go by them.
    let said = between.world.ask(&RUN);
    assert_eq!(said.code, Some(0), "{said:?}");
    between.world.is_whole();
}
