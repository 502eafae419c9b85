//! Authority on the command line: an agent under a narrow lease, what its owner takes back, and the halt.

use std::fs;

use serde_json::{Value, json};

use crate::world::{World, alive, until};

fn call(tool: &str, input: &Value) -> String {
    format!("[[turn]]\n[[turn.call]]\nname = \"{tool}\"\njson = {}\n", json!(input.to_string()))
}

fn last_run(world: &World) -> String {
    world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned()
}

/// What the model was told of each of its calls.
fn results(world: &World) -> Vec<String> {
    let told = |request: &Value| {
        let block = &request["messages"].as_array().unwrap().last().unwrap()["content"][0];
        match &block["content"] {
            Value::String(text) => text.clone(),
            blocks => blocks.as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect(),
        }
    };
    world.asked().iter().skip(1).map(told).collect()
}

#[test]
fn an_agent_under_a_narrow_lease_is_refused_outside_of_it_and_works_within_it() {
    let cheat = "echo true > check.sh; echo x > new; rm sum.sh; cat sum.sh";
    let scenario = [
        call("write", &json!({ "path": "check.sh", "content": "true\n" })),
        call("shell", &json!({ "command": cheat })),
        call("read", &json!({ "path": "sum.sh" })),
        call("edit", &json!({ "path": "sum.sh", "old": "$1 - $2", "new": "$1 + $2" })),
        "[[turn]]\ntext = \"The sum is right now.\"\n".to_owned(),
    ];
    let world = World::new(&scenario.concat());
    let check = fs::read_to_string(world.project().join("check.sh")).unwrap();
    let said = world.ask(&["run", "Mend the sum", "--done", "sh check.sh", "--write", "sum.sh", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("write sum.sh"), "{said:?}");
    let told = results(&world);
    assert!(told[0].contains("outside of the lease: `check.sh` is not writable, sum.sh is"), "{}", told[0]);
    assert!(
        told[1].matches("Read-only file system").count() >= 2 && told[1].contains("$1 - $2"),
        "{}",
        told[1]
    );
    let project = |file: &str| fs::read_to_string(world.project().join(file));
    assert_eq!(project("sum.sh").unwrap(), "echo $(($1 + $2))\n");
    assert_eq!(project("check.sh").unwrap(), check);
    assert!(project("new").is_err());

    // The refusal is on record, and the lease answers for what was decided under it.
    let run = last_run(&world);
    let denied = world.events(&run).iter().filter(|event| event["fact"]["fact"] == "step_denied").count();
    assert_eq!(denied, 1);
    until("the lease has ended with its run", || {
        world.ask(&["lease", "show", &run, "--json"]).json()["state"] == "expired"
    });
    let lease = world.ask(&["lease", "show", "last", "--json"]).json();
    assert_eq!(lease["refused"][0]["verdict"], "deny");
    assert!(lease["refused"][0]["rule"].as_str().unwrap().contains("`check.sh`"), "{lease}");
    assert_eq!((&lease["write"], &lease["run"]), (&json!(["sum.sh"]), &json!(run)));
    assert!(lease["allowed"].as_u64().unwrap() > 5);
    assert!(world.ask(&["lease", "show"]).out.contains("denied"));
    world.is_whole();
}

#[test]
fn a_run_that_goes_on_from_a_narrow_one_is_as_narrow() {
    let scenario = [
        call("shell", &json!({ "command": "cat secret; ls" })),
        "[[turn]]\ntext = \"I looked.\"\n".to_owned(),
        call("shell", &json!({ "command": "cat secret; ls" })),
        "[[turn]]\ntext = \"I looked.\"\n".to_owned(),
    ];
    let world = World::new(&scenario.concat());
    fs::write(world.project().join("secret"), "the secret\n").unwrap();
    for args in [&["add", "."][..], &["commit", "-q", "-m", "More"]] {
        assert!(world.git(args).status.success());
    }
    let lease = ["--read", "*.sh", "--tools", "shell,read"];
    let said = world.ask(&[&["run", "Look", "--done", "true"][..], &lease].concat());
    assert!(said.code.is_some(), "{said:?}");
    let first = last_run(&world);
    assert_eq!(world.ask(&["run", "Look again", "--done", "true", "--follow", &first]).code, said.code);
    let asked = world.asked();
    for request in &asked {
        let tools: Vec<_> = request["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(tools, ["read", "shell"]);
        assert!(!request.to_string().contains("the secret"), "{request}");
    }
    let told = asked.last().unwrap()["messages"].to_string();
    assert_eq!(told.matches("check.sh\\nsum.sh").count(), 2, "{told}");
    let lease = world.ask(&["lease", "show", "last", "--json"]).json();
    assert_eq!((&lease["read"], &lease["write"]), (&json!(["*.sh"]), &json!(["*.sh"])));
    assert_eq!(lease["tools"], json!(["read", "shell", "merge", "deliver"]));
}

#[test]
fn a_lease_that_is_taken_back_ends_what_runs_under_it_and_the_owner_can_grant_another() {
    let mark = "735186518";
    let scenario = [
        call("shell", &json!({ "command": format!("echo half > sum.sh; touch begun; sleep {mark}") })),
        call("shell", &json!({ "command": "echo 'echo 3' > sum.sh; echo x > new" })),
        "[[turn]]\ntext = \"Done.\"\n".to_owned(),
    ];
    let world = World::new(&scenario.concat());
    let write = ["--write", "sum.sh", "--write", "begun"];
    let done = ["--done", "sh check.sh", "--detach"];
    fs::write(world.project().join("begun"), "").unwrap();
    for args in [&["add", "."][..], &["commit", "-q", "-m", "More"]] {
        assert!(world.git(args).status.success());
    }
    let said = world.ask(&[&["run", "Mend the sum"][..], &write, &done].concat());
    let run = said.out.trim().to_owned();
    until("it is at work", || !alive(mark).is_empty());
    assert_eq!(world.ask(&["lease", "revoke", &run]).code, Some(0));
    until("nothing is at work", || alive(mark).is_empty());
    until("it rests", || world.ask(&["runs", "--json"]).json()[0]["status"] == "parked");
    let asked = world.asked().len();
    world.ask(&["resume", &run, "--detach"]);
    assert_ne!(world.ended(&run).end, "done");
    assert_eq!(world.asked().len(), asked, "it may not even ask its model");
    let roles = world.ask(&["roles", "--json"]).json();
    assert_eq!((&roles[0]["principal"], &roles[0]["runs"]), (&json!("agent:coder"), &json!(1)));
    assert_eq!((&roles[0]["leases"], &roles[0]["recent"][0]["run"]), (&json!([]), &json!(run)));
    let denied = world.ask(&["lease", "show", &run, "--json"]).json();
    assert!(denied["refused"].to_string().contains("was revoked"), "{denied}");

    // A fork with a lease of the owner's making goes on from there.
    let said = world.ask(&["fork", &run, "Go on", "--write", "**", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(fs::read_to_string(world.project().join("new")).unwrap(), "x\n");
    world.is_whole();
}

#[test]
fn a_repository_narrows_what_its_owner_says_and_widens_nothing() {
    let world = World::new("[[turn]]\ntext = \"No.\"\n");
    let file = "[lease]\ntools = [\"read\", \"edit\", \"shell\"]\nwrite = [\"src/**\"]\n";
    fs::write(world.project().join("regie.toml"), file).unwrap();
    let held = |args: &[&str]| {
        let said = world.ask(&[&["run", "Look", "--done", "true", "--detach"][..], args].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        let lease = world.ask(&["lease", "show", said.out.trim(), "--json"]).json();
        (lease["tools"].clone(), lease["read"].clone(), lease["write"].clone())
    };
    let all = json!(["**"]);
    let tools = |names: &[&str]| json!([names, &["merge", "deliver"]].concat());
    assert_eq!(held(&[]), (tools(&["read", "edit", "shell"]), all.clone(), json!(["src/**"])));
    assert_eq!(held(&["--write", "**"]), (tools(&["read", "edit", "shell"]), all.clone(), json!(["src/**"])));
    assert_eq!(
        held(&["--write", "src/a", "--tools", "edit,write"]),
        (tools(&["edit"]), all, json!(["src/a"]))
    );
    let said = world.ask(&["run", "Look", "--done", "true", "--write", "docs/**"]);
    assert!(said.code == Some(1) && said.err.contains("name files within both"), "{said:?}");
    fs::write(world.project().join("regie.toml"), "[lease]\nwrite = [\"../x\"]\n").unwrap();
    let said = world.ask(&["run", "Look", "--done", "true"]);
    assert!(said.code != Some(0) && said.err.contains("`..`"), "{said:?}");
}

#[test]
fn nonsense_is_refused_before_anything_begins() {
    let world = World::new("[[turn]]\ntext = \"No.\"\n");
    for (args, why) in [
        (&["--write", "/etc"][..], "relative to the root"),
        (&["--write", "a/../b"], "`..`"),
        (&["--read", "[a"], "not supported"),
        (&["--tools", "read,fly"], "there is no tool `fly`"),
        (&["--tools", "delete-snapshot"], "there is no tool"),
    ] {
        let said = world.ask(&[&["run", "Look", "--done", "true"][..], args].concat());
        assert_eq!(said.code, Some(1), "{args:?} {said:?}");
        assert!(said.err.contains(why), "{args:?} {said:?}");
    }
    for (args, why) in [
        (&["mint", "--as", "root:x"][..], "is no principal"),
        (&["mint", "--for", "9999h"], "up to 30 days"),
        (&["show", "lease_00000000000000000000000000"], "is not on record"),
        (&["revoke", "zzzz"], "there is no lease"),
    ] {
        let said = world.ask(&[&["lease"][..], args].concat());
        assert!(said.code == Some(1) && said.err.contains(why), "{args:?} {said:?}");
    }
    assert!(world.asked().is_empty());
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
}

#[test]
fn what_is_minted_is_narrower_and_goes_with_what_it_came_from() {
    let world = World::new("[[turn]]\ntext = \"No.\"\n");
    let lease = |args: &[&str]| {
        let said = world.ask(&[&["lease"][..], args, &["--json"]].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        said.json()
    };
    let root =
        lease(&["mint", "--tools", "read,edit", "--write", "src/**", "--for", "2h", "--purpose", "a review"]);
    let token = root["token"].as_str().unwrap();
    assert!(token.starts_with("regie-lease-") && token.len() == 76, "{token}");
    let id = root["lease"]["lease"].as_str().unwrap();
    let child = lease(&["narrow", id, "--tools", "read", "--read", "src/a", "--for", "9h"]);
    assert_eq!(
        child["lease"]["expires_at"], root["lease"]["expires_at"],
        "it does not outlive the other one"
    );
    let child = child["lease"]["lease"].as_str().unwrap();
    for wider in [&["--tools", "shell"][..], &["--write", "**"], &["--read", "src/**", "--write", "s*"]] {
        let said = world.ask(&[&["lease", "narrow", child][..], wider].concat());
        assert!(said.code == Some(1) && said.err.contains("only ever narrowed"), "{wider:?} {said:?}");
    }
    assert_eq!(lease(&["list"]).as_array().unwrap().len(), 2);
    assert_eq!(lease(&["revoke", id])["state"], "revoked");
    let shown = lease(&["show", child]);
    assert_eq!((&shown["state"], &shown["above"]), (&json!("revoked"), &json!([id])));
    assert!(lease(&["list"]).as_array().unwrap().is_empty());
    let acts = world.ask(&["audit", "acts", "--json"]).json();
    let acts: Vec<_> =
        acts.as_array().unwrap().iter().map(|act| (&act["what"], &act["outcome"], &act["by"])).collect();
    let owner = json!("human:owner");
    assert_eq!(acts[0], (&json!("lease.revoke"), &json!("revoked"), &owner));
    assert_eq!(acts.last().unwrap(), &(&json!("lease.mint"), &json!("granted"), &owner));
    // The token is nowhere in the home: neither in a record nor in a log.
    for entry in fs::read_dir(world.home()).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let bytes = fs::read(entry.path()).unwrap();
        let secret = token.trim_start_matches("regie-lease-").as_bytes();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{:?}", entry.path());
    }
}

#[test]
fn a_halt_ends_what_runs_lets_nothing_begin_and_outlives_the_daemon() {
    let mark = "735186517";
    let scenario = [call("shell", &json!({ "command": format!("touch begun; sleep {mark}") }))].concat();
    let world = World::new(&scenario);
    let runs: Vec<String> = (0..3)
        .map(|_| {
            let said = world.ask(&["run", "Wait", "--done", "true", "--detach"]);
            assert_eq!(said.code, Some(0), "{said:?}");
            said.out.trim().to_owned()
        })
        .collect();
    for run in &runs {
        until("it is at work", || world.workspace(run).join("begun").exists());
    }
    let halted = world.ask(&["halt", "--why", "enough", "--json"]);
    assert_eq!(halted.code, Some(0), "{halted:?}");
    let halted = halted.json();
    assert_eq!(
        (&halted["is_on"], &halted["revoked"], &halted["unstopped"]),
        (&json!(true), &json!(3), &json!([]))
    );
    until("nothing is at work", || alive(mark).is_empty());
    let stands = || world.ask(&["runs", "--json"]).json();
    until("all rest", || stands().as_array().unwrap().iter().all(|run| run["status"] == "parked"));
    let asked = world.asked().len();

    let refused = |args: &[&str]| {
        let said = world.ask(args);
        assert!(
            said.code == Some(1) && said.err.contains("everything is halted by human:owner (enough)"),
            "{said:?}"
        );
    };
    let nothing_begins = || {
        refused(&["run", "Another", "--done", "true"]);
        refused(&["resume", &runs[0]]);
        refused(&["fork", &runs[0], "On"]);
        refused(&["lease", "mint"]);
        assert!(world.ask(&["halt", "--show"]).out.contains("everything is halted"));
    };
    nothing_begins();
    let _ = rustix::process::kill_process(world.daemon().unwrap(), rustix::process::Signal::KILL);
    nothing_begins();
    assert!(world.ask(&["doctor"]).out.contains("everything is halted"));
    assert_eq!(world.asked().len(), asked, "no model was asked");

    assert!(world.ask(&["halt", "--lift"]).out.contains("nothing is halted"));
    // Its lease is gone for good: it can go on, and may do nothing.
    world.ask(&["resume", &runs[0], "--detach"]);
    let ended = world.ended(&runs[0]);
    assert_ne!(ended.end, "done", "{ended:?}");
    assert_eq!(world.asked().len(), asked);
    for run in &runs[1..] {
        assert_eq!(world.ask(&["cancel", run]).code, Some(0));
    }
    assert_eq!(world.ask(&["lease", "mint"]).code, Some(0));
}

/// The daemon that a halt has to start would otherwise take runs over first, and they would go on for a moment.
#[test]
fn a_halt_with_no_daemon_lets_no_run_go_on() {
    let scenario = [
        call(
            "shell",
            &json!({ "command": "touch begun; until [ -e go ]; do sleep 0.01; done; touch ended" }),
        ),
        "[[turn]]\ntext = \"I waited.\"\n".to_owned(),
    ];
    let world = World::new(&scenario.concat());
    let said = world.ask(&["run", "Wait", "--done", "true", "--detach"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let run = said.out.trim().to_owned();
    let work = world.workspace(&run);
    until("it is at work", || work.join("begun").exists());
    let _ = rustix::process::kill_process(world.daemon().unwrap(), rustix::process::Signal::KILL);
    fs::write(work.join("go"), "").unwrap();
    until("the step has ended by itself", || work.join("ended").exists());
    let asked = world.asked().len();
    let halted = world.ask(&["halt", "--json"]);
    assert_eq!(halted.code, Some(0), "{halted:?}");
    assert_eq!(halted.json()["is_on"], true);
    until("it rests", || world.ask(&["runs", "--json"]).json()[0]["status"] == "parked");
    assert_eq!(world.asked().len(), asked, "the model was asked on");
    let lease = world.ask(&["lease", "show", &run, "--json"]).json();
    assert_eq!(lease["state"], "revoked", "{lease}");
}
