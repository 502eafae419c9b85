//! Which model does what: by the keys that are there, by the files, by who answers; and how much work it puts
//! in.

use std::os::unix::fs::DirBuilderExt as _;
use std::process::Command;

use models::Wire;
use serde_json::Value;
use testkit::script::{self, Options, Server};

use crate::world::{MEND, Said, World, finish, until};

const RUN: [&str; 5] = ["run", "Make the check pass", "--done", "sh check.sh", "--yes"];

/// The mending model, whose first answer fails like this before it comes.
fn failing(fault: &str) -> String {
    MEND.replacen("[[turn.call]]", &format!("[[turn.fault]]\n{fault}\n[[turn.call]]"), 1)
}

/// A second vendor.
struct Other {
    server: Server,
    _runtime: tokio::runtime::Runtime,
}

impl Other {
    fn new(scenario: &str) -> Self {
        Self::at(0, scenario)
    }

    fn at(port: u16, scenario: &str) -> Self {
        let mut build = tokio::runtime::Builder::new_multi_thread();
        let runtime = build.worker_threads(1).enable_all().build().unwrap();
        let scenarios = script::parse(scenario).unwrap();
        let server =
            runtime.block_on(Server::start(scenarios, Options { port, ..Options::default() })).unwrap();
        Self { server, _runtime: runtime }
    }

    fn asked(&self) -> Vec<Value> {
        self.server.served().iter().map(|served| serde_json::from_slice(&served.body).unwrap()).collect()
    }

    /// The same command where this one's key is there as well, as OpenAI's.
    fn beside(&self, mut command: Command) -> Command {
        command.env("OPENAI_API_KEY", "sk-other").env("OPENAI_BASE_URL", self.server.base_url());
        command
    }
}

fn owners_file(world: &World, text: &str) {
    if !world.home().exists() {
        std::fs::DirBuilder::new().mode(0o700).create(world.home()).unwrap();
    }
    std::fs::write(world.home().join("config.toml"), text).unwrap();
}

const EITHER: &str = "[roles.worker]\nmodel = \"claude-opus-5-5\"\nor = [\"gpt-6.1-sol\"]\n";

/// What a start says as data.
fn started(said: &Said) -> Value {
    assert_eq!(said.code, Some(0), "{said:?}");
    said.json()
}

#[test]
fn the_default_model_is_that_of_the_key_that_is_there() {
    let world = World::new(MEND);
    let said = finish(world.regie_on(Wire::Responses, "", &RUN));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("gpt-6.1-sol"), "{}", said.err);
    assert!(world.asked().iter().all(|request| request["model"] == "gpt-6.1-sol"), "{:?}", world.asked());
    world.is_whole();
}

#[test]
fn without_any_key_both_are_named() {
    let world = World::new(MEND);
    let mut command = world.regie(&RUN);
    command.env_remove("ANTHROPIC_API_KEY");
    let said = finish(command);
    assert_eq!(said.code, Some(1), "{said:?}");
    let line = "error: no key for Anthropic or OpenAI\nhint: set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) or \
                OPENAI_API_KEY, or name a model of your own server: --model local/NAME\n";
    assert_eq!(said.err, line);
}

#[test]
fn each_role_is_explained_with_whose_word_it_is() {
    let world = World::new(MEND);
    owners_file(&world, "[roles.worker]\neffort = \"high\"\n\n[roles.planner]\nmodel = \"local/big\"\n");
    let roles = |command: Command| -> Vec<String> {
        let said = finish(command).json();
        let row = |role: &Value| {
            format!("{} {} {} {}", role["role"], role["model"], role["effort"], role["from"]["kind"])
        };
        said["roles"].as_array().unwrap().iter().map(|role| row(role).replace('"', "")).collect()
    };
    let mut both = world.regie(&["config", "explain", "--json"]);
    both.env("OPENAI_API_KEY", "sk-x");
    assert_eq!(
        roles(both),
        [
            "planner local/big null installation",
            "worker claude-opus-5-5 high built_in",
            "evaluator gpt-6.1-terra null built_in",
            "consolidator claude-haiku-5-5 null built_in",
            "classifier claude-haiku-5-5 null built_in",
        ]
    );
    let shown = world.ask(&["config", "explain"]).flat();
    for row in [
        "mission.model claude-opus-5-5 built in",
        "mission.effort high config.toml:2",
        "roles.planner local/big config.toml:5",
        "roles.evaluator claude-sonnet-5-5 built in · the default of Anthropic, as the worker: no other can be asked",
    ] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
}

#[test]
fn a_mission_begins_elsewhere_while_the_first_choice_is_out() {
    let world = World::new(&failing("kind = \"status\"\nstatus = 429\nretry_after = \"3600\""));
    let other = Other::new(MEND);
    owners_file(&world, EITHER);
    let start = |args: &[&str]| {
        let all = [&RUN[..], &["--detach", "--json"], args].concat();
        finish(other.beside(world.regie(&all)))
    };
    let first = started(&start(&[]));
    assert_eq!(first["model"], "claude-opus-5-5");
    let first = first["run"].as_str().unwrap().to_owned();
    until("the first one sleeps", || {
        world.events(&first).iter().any(|event| event["fact"]["fact"] == "timer_set")
    });

    let said = finish(other.beside(world.regie(&RUN)));
    assert_eq!(said.code, Some(0), "{said:?}");
    let warned = said.err.split_whitespace().collect::<Vec<_>>().join(" ");
    let because = "/v1/messages answered 429: too many requests (counted as out for 60 min more)";
    assert!(
        warned.contains("warning: this mission is on `gpt-6.1-sol`, not on `claude-opus-5-5`: http://127")
            && warned.contains(because),
        "{warned}"
    );
    assert!(other.asked().iter().all(|request| request["model"] == "gpt-6.1-sol"));
    assert_eq!(other.asked().len(), 4);
    let shown = world.ask(&["show", "last", "--json"]).json();
    assert_eq!(shown["run"]["instead_of"]["model"], "claude-opus-5-5");
    assert!(shown["events"][0]["content"]["terms"]["instead_of"]["why"].as_str().unwrap().contains("429"));
    assert!(world.ask(&["show", "last"]).flat().contains("not on claude-opus-5-5: http"), "{shown}");

    // An option is taken at its word.
    let named = started(&start(&["--model", "claude-opus-5-5"]));
    assert_eq!(named["model"], "claude-opus-5-5");
    assert!(named["warnings"].to_string().contains("begins with `claude-opus-5-5` all the same"), "{named}");
    assert_eq!(named["warnings"].as_array().unwrap().len(), 1, "{named}");
    // The run that waits was never asked elsewhere.
    assert_eq!(world.ask(&["show", &first, "--json"]).json()["run"]["model"], "claude-opus-5-5");
    for run in [&first, &named["run"].as_str().unwrap().to_owned()] {
        let _ = world.ask(&["cancel", run]);
        world.ask(&["log", run, "--follow", "--json"]);
    }
    world.is_whole();
}

#[test]
fn a_server_that_is_down_is_known_before_the_call_gives_up_and_one_answer_brings_it_back() {
    let world = World::new(MEND);
    let other = Other::new(MEND);
    owners_file(&world, EITHER);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let start = || {
        let mut command = world.regie(&[&RUN[..], &["--detach", "--json"]].concat());
        command.env("ANTHROPIC_BASE_URL", format!("http://{closed}"));
        started(&finish(other.beside(command)))
    };
    let first = start();
    assert_eq!(first["model"], "claude-opus-5-5");
    let log = world.home().join("log/daemon.log");
    until("the daemon knows", || {
        std::fs::read_to_string(&log).unwrap_or_default().contains("a model vendor is out")
    });
    let second = start();
    assert_eq!(second["model"], "gpt-6.1-sol", "{second}");
    assert!(second["warnings"].to_string().contains("failed 3 times in a row"), "{second}");
    assert_eq!(world.ended(second["run"].as_str().unwrap()).end, "done");

    let _up = Other::at(closed.port(), MEND);
    let first = first["run"].as_str().unwrap();
    until("the first one is answered", || {
        world.events(first).iter().any(|event| event["line"]["kind"] == "model")
    });
    let third = start();
    assert_eq!((&third["model"], &third["warnings"]), (&"claude-opus-5-5".into(), &Value::Array(vec![])));
    for run in [first, third["run"].as_str().unwrap()] {
        let _ = world.ask(&["cancel", run]);
        world.ask(&["log", run, "--follow", "--json"]);
    }
    world.is_whole();
}

#[test]
fn effort_goes_over_each_wire_as_its_scale_has_it_and_a_fork_keeps_it() {
    for (wire, model, at, sent) in [
        (Wire::Messages, "scripted", "/output_config/effort", "max"),
        (Wire::Responses, "openai/scripted", "/reasoning/effort", "xhigh"),
        (Wire::Chat, "local/scripted", "/reasoning_effort", "high"),
    ] {
        let world = World::new(MEND);
        let args = [&RUN[..], &["--model", model, "--effort", "max"]].concat();
        let said = finish(world.regie_on(wire, "", &args));
        assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
        let asked = world.asked();
        assert_eq!(asked.len(), 4);
        assert!(asked.iter().all(|request| request.pointer(at) == Some(&sent.into())), "{wire:?}: {asked:?}");
        let header = if sent == "max" { "effort max".into() } else { format!("effort max, sent as {sent}") };
        let shown = world.ask(&["show", "last"]).flat();
        for text in [&said.err, &shown] {
            assert!(text.contains(&format!("{model} · {header}")), "{wire:?}: {text}");
        }
        let costs = world.ask(&["costs", "--by", "model", "--json"]).json();
        assert_eq!(costs["rows"][0]["key"], format!("{model} · max"));
        let fork = finish(world.regie_on(wire, "", &["fork", "last", "--at", "1", "--detach", "--json"]));
        let fork = started(&fork);
        assert_eq!(fork["effort"], "max");
        let run = fork["run"].as_str().unwrap();
        let _ = world.ask(&["cancel", run]);
        world.ask(&["log", run, "--follow", "--json"]);
        world.is_whole();
    }
}

#[test]
fn an_effort_from_the_environment_holds_and_an_unknown_one_is_one_line() {
    let world = World::new(MEND);
    let mut command = world.regie(&RUN);
    command.env("REGIE_EFFORT", "low");
    let said = finish(command);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(world.asked().iter().all(|request| request["output_config"]["effort"] == "low"));
    let costs = world.ask(&["costs", "--by", "mission"]);
    assert!(costs.out.contains("cost per finished mission: $"), "{costs:?}");
    assert!(costs.out.contains("(1 mission is done;"), "{costs:?}");

    let mut command = world.regie(&RUN);
    command.env("REGIE_EFFORT", "hgih");
    let said = finish(command);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.starts_with("error: REGIE_EFFORT in the environment: expected \"low\""), "{said:?}");
    assert!(said.err.contains("did you mean high?"), "{said:?}");
    let said = world.ask(&[&RUN[..], &["--effort", "mximum"]].concat());
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("\"xhigh\" or \"max\""), "{said:?}");
}

#[test]
fn a_mission_that_follows_on_another_vendor_gets_the_record_as_text() {
    let world = World::new(MEND);
    let other = Other::new(
        "name = \"note\"\n[[turn]]\ntext = \"A note.\"\n[[turn.call]]\nname = \"write\"\n\
         input = { path = \"NOTE\", content = \"noted\\n\" }\n[[turn]]\ntext = \"It is noted.\"\n",
    );
    assert_eq!(world.ask(&RUN).code, Some(0));
    let theirs = world.asked().len();
    let args = ["run", "--follow", "last", "Now a note", "--yes", "--model", "gpt-6.1-sol"];
    let said = finish(other.beside(world.regie(&args)));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("which alone can read it"), "{}", said.err);
    assert_eq!(world.asked().len(), theirs, "the vendor before is not asked again");
    let asked = other.asked();
    let first = asked[0]["input"].as_array().unwrap();
    assert!(first.iter().all(|item| item["role"] == "user"), "{first:?}");
    let text = asked[0].to_string();
    for part in ["Make the check pass", "[Handed over by Regie]", "sh check.sh", "sum.sh", "Now a note"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("signature") && !text.contains("tool_use"), "{text}");
    assert_eq!(std::fs::read_to_string(world.project().join("NOTE")).unwrap(), "noted\n");
    // Without a model of its own it stays with the vendor that knows the conversation.
    let kept = other.beside(world.regie(&["run", "--follow", "last", "Once more", "--detach", "--json"]));
    let kept = started(&finish(kept));
    assert_eq!(kept["model"], "gpt-6.1-sol");
    let run = kept["run"].as_str().unwrap();
    let _ = world.ask(&["cancel", run]);
    world.ask(&["log", run, "--follow", "--json"]);
    world.is_whole();
}
