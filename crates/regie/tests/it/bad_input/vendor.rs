//! Keys that are missing or wrong, and a vendor that fails in every way it can.

use testkit::script::Options;

use crate::world::{MEND, World, finish, until};

use super::{RUN, mended, start, with};

/// The mending model, whose first answer fails like this before it comes.
fn failing(fault: &str) -> World {
    World::new(&MEND.replacen("[[turn.call]]", &format!("[[turn.fault]]\n{fault}\n[[turn.call]]"), 1))
}

/// How often the first turn was asked for.
fn first_asked(world: &World) -> usize {
    world.asked().iter().filter(|request| request["messages"].as_array().unwrap().len() == 1).count()
}

/// The fault is met `times`, and then the mission goes on as if it had not been.
#[track_caller]
fn check(fault: &str, times: usize) {
    let world = failing(fault);
    mended(&world);
    assert_eq!(first_asked(&world), times + 1);
}

#[test]
fn a_missing_key() {
    let world = World::new(MEND);
    let mut command = world.regie(&RUN);
    command.env_remove("ANTHROPIC_API_KEY");
    let said = finish(command);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.starts_with("error: ") && said.err.contains("set ANTHROPIC_API_KEY"), "{said:?}");
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
    assert!(world.asked().is_empty());
    world.is_whole();
}

#[test]
fn a_wrong_key_rests_the_run_until_a_good_one_comes() {
    let world = World::with(MEND, Options { key: Some("sk-good".into()), ..Options::default() });
    let mut command = world.regie(&with(&["--yes"]));
    command.env("ANTHROPIC_API_KEY", "sk-wrong");
    let said = finish(command);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.flat().contains("answered 401") && said.flat().contains("check ANTHROPIC_API_KEY"),
        "{said:?}"
    );
    assert!(said.err.contains("hint: regie resume"), "{said:?}");
    let run = world.ask(&["runs", "--json"]).json()[0].clone();
    assert_eq!((run["status"].as_str(), run["code"].as_str()), (Some("parked"), Some("model.unauthorized")));
    assert_eq!(run["spent"]["tokens"], 0, "a call that was refused costs nothing: {run}");

    let mut command = world.regie(&["resume", "last"]);
    command.env("ANTHROPIC_API_KEY", "sk-good");
    let resumed = finish(command);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    world.is_whole();
    for file in ["regie.db", "regie.db-wal", "log/daemon.log"] {
        let bytes = std::fs::read(world.home().join(file)).unwrap_or_default();
        for key in [&b"sk-wrong"[..], b"sk-good"] {
            assert!(!bytes.windows(key.len()).any(|window| window == key), "a key is in {file}");
        }
    }
}

#[test]
fn a_429_with_a_short_wait() {
    check("kind = \"status\"\nstatus = 429\nretry_after = \"0.2\"\nmessage = \"slow down\"\ntimes = 2", 2);
}

#[test]
fn a_429_with_a_long_wait_is_slept_through_and_can_be_cancelled() {
    let world = failing("kind = \"status\"\nstatus = 429\nretry_after = \"3600\"\nmessage = \"slow down\"");
    let run = start(&world, &[]);
    let timer =
        |events: Vec<serde_json::Value>| events.iter().any(|event| event["fact"]["fact"] == "timer_set");
    until("the run sleeps", || timer(world.events(&run)));
    assert_eq!(first_asked(&world), 1, "the vendor is not asked before its time");
    assert_eq!(world.ask(&["cancel", &run]).code, Some(0));
    assert_eq!(world.ended(&run).end, "cancelled");
    world.is_whole();
}

#[test]
fn a_529() {
    check("kind = \"status\"\nstatus = 529", 1);
}

#[test]
fn a_500() {
    check("kind = \"status\"\nstatus = 500", 1);
}

#[test]
fn a_stream_cut_in_the_middle() {
    check("kind = \"cut\"\nafter_events = 4", 1);
}

#[test]
fn a_stream_that_is_garbage() {
    check("kind = \"garbage\"\nafter_events = 3", 1);
}

#[test]
fn an_error_inside_the_stream() {
    check("kind = \"error\"\nerror = \"overloaded_error\"\nafter_events = 3", 1);
}

#[test]
fn silence_in_the_middle_of_a_stream() {
    let world = failing("kind = \"silence\"\nafter_events = 3");
    let mut command = world.regie(&with(&["--yes"]));
    command.env(models::config::IDLE_ENV, "1");
    let said = finish(command);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(first_asked(&world), 2);
    world.is_whole();
}

/// Answers everybody with the same bytes: an endpoint is asked for its models too.
fn always(base: std::net::TcpListener, bytes: Vec<u8>) {
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for mut stream in base.incoming().flatten() {
            let _ = stream.read(&mut [0; 65536]);
            let _ = stream.write_all(&bytes);
        }
    });
}

#[test]
fn an_address_that_is_no_vendor() {
    let world = World::new(MEND);
    let base = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let page =
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi";
    always(base.try_clone().unwrap(), page.into());
    let mut command = world.regie(&RUN);
    command.env("ANTHROPIC_BASE_URL", format!("http://{}", base.local_addr().unwrap()));
    let said = finish(command);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("text/html") && said.flat().contains("check ANTHROPIC_BASE_URL"), "{said:?}");
    assert_eq!(world.ask(&["runs", "--json"]).json()[0]["code"], "model.not_a_stream");
    assert_eq!(world.ask(&["cancel"]).code, Some(0));
    world.is_whole();
}

/// The first answer is refused once with this; the run rests with the code, and the same run goes on.
#[track_caller]
fn rests(status: u16, message: &str, code: &str, words: &[&str]) {
    let world = failing(&format!("kind = \"status\"\nstatus = {status}\nmessage = {message:?}"));
    let said = world.ask(&with(&["--yes"]));
    assert_eq!(said.code, Some(1), "{said:?}");
    for words in [message, "http://127.0.0.1:", &status.to_string()].iter().chain(words) {
        assert!(said.flat().contains(words), "no `{words}`: {said:?}");
    }
    assert!(said.err.contains("hint: regie resume"), "{said:?}");
    let run = world.ask(&["runs", "--json"]).json()[0].clone();
    assert_eq!((run["status"].as_str(), run["code"].as_str()), (Some("parked"), Some(code)), "{run}");
    assert_eq!(run["spent"]["tokens"], 0, "{run}");
    let resumed = world.ask(&["resume", "last"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(first_asked(&world), 2, "it is asked for once, and once more when it is mended");
    world.is_whole();
}

#[test]
fn a_model_without_tools_rests_the_run_until_its_server_takes_them() {
    let says = "registry.ollama.ai/library/gemma:2b does not support tools";
    rests(400, says, "model.no_tools", &["another model"]);
    let says = "tools param requires --jinja flag";
    rests(500, says, "model.no_tools", &["start llama.cpp with --jinja"]);
}

#[test]
fn a_model_that_is_not_there_rests_the_run_until_it_is() {
    rests(404, "model: scripted", "model.not_found", &["check the model name", "ANTHROPIC_BASE_URL"]);
}

#[test]
fn an_account_without_credit_rests_the_run_until_there_is_some() {
    let says = "Your credit balance is too low to access the Anthropic API";
    rests(400, says, "model.no_credit", &["add some and resume"]);
    rests(402, "Unpaid", "model.no_credit", &["add some and resume"]);
}

#[test]
fn a_path_that_nothing_answers_at_and_a_redirect_rest_the_run() {
    let world = World::new(MEND);
    for (answer, code, words) in [
        ("HTTP/1.1 404 Not Found\r\n", "model.no_such_path", "nothing takes calls at this path"),
        ("HTTP/1.1 405 No\r\n", "model.no_such_path", "nothing takes calls at this path"),
        (
            "HTTP/1.1 302 Found\r\nlocation: https://login.example/?key=1\r\n",
            "model.redirected",
            "https://login.example",
        ),
    ] {
        let base = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = format!("http://{}", base.local_addr().unwrap());
        let head = format!("{answer}content-length: 0\r\nconnection: close\r\n\r\n");
        always(base, head.into_bytes());
        let mut command = world.regie(&with(&["--yes"]));
        command.env("ANTHROPIC_BASE_URL", at);
        let said = finish(command);
        assert!(said.code == Some(1) && said.flat().contains(words), "{said:?}");
        assert!(said.flat().contains("ANTHROPIC_BASE_URL") && !said.flat().contains("key=1"), "{said:?}");
        assert_eq!(world.ask(&["runs", "--json"]).json()[0]["code"], code);
        assert_eq!(world.ask(&["cancel", "last"]).code, Some(0));
    }
    assert!(world.asked().is_empty());
    world.is_whole();
}
