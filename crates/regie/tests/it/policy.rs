//! The owner's rules, from the file to the record: what they deny, what they ask, and what is allowed from then on.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::world::{Said, World, until};

fn shell(command: &str) -> String {
    let input = json!({ "command": command }).to_string();
    format!("[[turn]]\n[[turn.call]]\nname = \"shell\"\njson = {}\n", json!(input))
}

fn done() -> String {
    "[[turn]]\ntext = \"I have looked.\"\n".into()
}

/// Writes a file of the home.
fn owner(world: &World, file: &str, text: &str) {
    fs::create_dir_all(world.home()).unwrap();
    fs::set_permissions(world.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(world.home().join(file), text).unwrap();
}

fn commit(world: &World, file: &str, text: &str) {
    fs::write(world.project().join(file), text).unwrap();
    for args in [&["add", "."][..], &["commit", "-q", "-m", "A project"]] {
        assert!(world.git(args).status.success());
    }
}

fn run(world: &World) -> Said {
    world.ask(&["run", "Look around", "--yes"])
}

/// All that the model was sent in the last request.
fn seen(world: &World) -> String {
    world.asked().last().map(|request| request["messages"].to_string()).unwrap_or_default()
}

fn gates(world: &World) -> Vec<Value> {
    world.ask(&["gate", "list", "--json"]).json().as_array().unwrap().clone()
}

const RULES: &str = r#"
[[rule]]
name = "no-push"
verdict = "deny"
command = "git push *"
reason = "Pushing is for me alone"
match = ["shell git push", "shell sh -c 'make && git push -f origin'"]
not_match = ["shell git status"]

[[rule]]
name = "ask-publish"
verdict = "ask"
command = "sh publish.sh *"
"#;

#[test]
fn what_a_rule_denies_is_refused_wherever_it_hides_and_says_why() {
    let world = World::new(&[shell("sh -c \"true && git push origin main\" || echo done"), done()].concat());
    owner(&world, "policy.toml", RULES);
    let said = run(&world);
    assert_eq!(said.code, Some(0), "{said:?}");
    let told = seen(&world);
    assert!(told.contains("Pushing is for me alone"), "the agent is told which rule it was: {told}");

    let events = world.events("last");
    let denied = events.iter().find(|event| event["fact"]["fact"] == "step_denied").unwrap();
    let rule = denied["fact"]["reason"]["decision"]["rule"].as_str().unwrap();
    assert_eq!(rule, "Pushing is for me alone (rule \"no-push\" in policy.toml:2)");
    let (step, seq) = (denied["fact"]["step"].to_string(), format!("@{}", denied["seq"]));
    for of in [&step, &seq] {
        let why = world.ask(&["policy", "why", of, "--json"]).json();
        assert_eq!((&why["step"], &why["tool"]), (&denied["fact"]["step"], &json!("shell")), "{why}");
        assert_eq!(why["decisions"][0]["verdict"], "deny");
        assert_eq!(why["decisions"][0]["epoch"], 1);
        assert_eq!((&why["today"]["verdict"], why["today"]["rule"].as_str()), (&json!("deny"), Some(rule)));
    }
    // What the rules say now is another thing than what they said.
    owner(&world, "policy.toml", "");
    let why = world.ask(&["policy", "why", &step]);
    assert_eq!(why.code, Some(0), "{why:?}");
    let flat = why.flat();
    assert!(flat.contains("deny Pushing is for me alone") && flat.contains("today allow writing"), "{flat}");
    assert_eq!(world.ask(&["policy", "why", "999"]).code, Some(1));
    world.is_whole();
}

#[test]
fn what_is_asked_can_be_allowed_always_and_is_then_on_record_as_that() {
    let world = World::new(&[shell("echo published && sh publish.sh now"), done()].concat());
    commit(&world, "publish.sh", "echo it is out: $1\n");
    owner(&world, "policy.toml", RULES);
    let said = run(&world);
    assert_eq!(said.code, Some(3), "{said:?}");
    let gate = gates(&world)[0]["gate"].as_str().unwrap().to_owned();
    let card = world.ask(&["gate", "show", &gate]).flat();
    for shown in
        ["rule \"ask-publish\" in policy.toml:10", "always name = \"always-", "lifts = [\"ask-publish\"]"]
    {
        assert!(card.contains(shown), "{shown}: {card}");
    }
    let answered = world.ask(&["gate", "approve", &gate, "--always"]);
    let acts = world.ask(&["audit", "acts", "--json"]).json();
    assert_eq!((&acts[0]["what"], &acts[0]["outcome"]), (&json!("policy.always"), &json!("done")), "{acts}");
    assert_eq!(answered.code, Some(0), "{answered:?}");
    assert_eq!(world.ended("last").end, "done");
    assert!(seen(&world).contains("it is out: now"), "{}", seen(&world));

    let written = fs::read_dir(world.home().join("policy")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&written).unwrap();
    assert!(
        text.contains(&format!("# Always allow this in this project: approved at {gate} on 20")),
        "{text}"
    );
    assert!(text.contains("line = \"echo published && sh publish.sh now\""), "{text}");

    let again = run(&world);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(gates(&world).is_empty());
    let events = world.events("last");
    let rule = events.iter().find_map(|event| {
        let rule = event["fact"]["decision"]["rule"].as_str()?;
        rule.starts_with("rule \"always-").then(|| rule.to_owned())
    });
    assert!(rule.is_some_and(|rule| rule.contains("in policy/project_")), "it names the rule and its file");

    // Another line is another thing, and a deny is never lifted.
    let explain = |action: &str| world.ask(&["policy", "explain", "--json", "shell", action]).json();
    assert_eq!(explain("echo published && sh publish.sh now")["verdict"], "allow");
    assert_eq!(explain("sh publish.sh later")["verdict"], "ask");
    fs::write(
        &written,
        format!("{text}\n[[rule]]\nname = \"x\"\nverdict = \"allow\"\nlifts = [\"no-push\"]\n"),
    )
    .unwrap();
    assert_eq!(explain("git push")["verdict"], "deny");
    let lines = explain("X=1; eval \"$X\"");
    assert_eq!(
        (&lines["verdict"], lines["unclear"][0].as_str().unwrap().contains("eval")),
        (&json!("deny"), true)
    );
    let shown = world.ask(&["policy", "explain", "shell", "nohup", "git", "push"]).flat();
    assert!(
        shown.starts_with("deny Pushing is for me alone") && shown.contains("starts nohup git push"),
        "{shown}"
    );
    let list = world.ask(&["policy", "list"]).flat();
    assert!(
        list.contains("deny \"no-push\" in policy.toml:2 Pushing is for me alone")
            && list.contains("a merge needs the owner's approval"),
        "{list}"
    );
    world.is_whole();
}

#[test]
fn a_setup_that_is_allowed_always_is_not_asked_again_and_a_merge_is_always_asked() {
    let world = World::new(&[shell("cat deps/lib; echo x > made"), done()].concat());
    let config = "[run]\nsetup = \"mkdir -p deps && cp package-lock.json deps/lib\"\n";
    commit(&world, ".gitignore", "deps/\n");
    commit(&world, "package-lock.json", "one\n");
    commit(&world, "regie.toml", config);
    assert_eq!(world.ask(&["run", "Look around", "--done", "true"]).code, Some(3));
    let gate = gates(&world)[0]["gate"].as_str().unwrap().to_owned();
    assert_eq!(world.ask(&["gate", "approve", &gate, "--always"]).code, Some(0));
    until("the merge is asked", || gates(&world).iter().any(|gate| gate["tool"] == "merge"));

    // The merge is next: nothing allows that always.
    let gate = gates(&world)[0].clone();
    let shown = world.ask(&["gate", "show", gate["gate"].as_str().unwrap(), "--json"]).json();
    assert_eq!(shown.get("always"), None, "{shown}");
    let refused = world.ask(&["gate", "approve", gate["gate"].as_str().unwrap(), "--always"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("cannot be allowed always"), "{}", refused.err);
    assert_eq!(world.ask(&["gate", "refuse", gate["gate"].as_str().unwrap()]).code, Some(0));
    world.ended("last");

    commit(&world, "package-lock.json", "two\n");
    assert_eq!(world.ask(&["run", "Look around", "--done", "true"]).code, Some(3));
    assert_eq!(gates(&world)[0]["tool"], "merge", "the setup of other files was not asked");
    assert!(seen(&world).contains("two"), "{}", seen(&world));
    assert_eq!(world.ask(&["gate", "refuse", gates(&world)[0]["gate"].as_str().unwrap()]).code, Some(0));
    world.ended("last");
    world.is_whole();
}

#[test]
fn rules_that_make_no_sense_deny_and_are_named_with_their_line() {
    let world = World::new(&[shell("echo hello"), done()].concat());
    let none = world.ask(&["policy", "test"]);
    assert_eq!((none.code, none.err.contains("policy.toml")), (Some(0), true), "{none:?}");
    owner(&world, "policy.toml", RULES);
    let sound = world.ask(&["policy", "test"]);
    assert_eq!((sound.code, sound.flat().as_str()), (Some(0), "✓ policy.toml 2 rules"));

    let wrong = RULES.replace("not_match = [\"shell git status\"]", "not_match = [\"shell git push\"]");
    for (text, what) in [
        (wrong.as_str(), "policy.toml:8: the rule \"no-push\" contradicts its example \"shell git push\""),
        ("[[rule]]\nnam = \"x\"", "policy.toml:2: there is no key `nam`"),
        (
            "[[rule]]\nname = \"x\"\nverdict = \"deny\"\npaths = \"a[\"",
            "policy.toml:4: `paths`: `a[` is no pattern",
        ),
        ("x", "policy.toml:1: "),
    ] {
        owner(&world, "policy.toml", text);
        let test = world.ask(&["policy", "test"]);
        assert_eq!(test.code, Some(1), "{test:?}");
        assert!(test.out.contains(what), "{what}: {test:?}");
        let said = run(&world);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(seen(&world).contains("the rules cannot be read: policy.toml:"), "{}", seen(&world));
        assert!(!seen(&world).contains("hello\\n"), "nothing was run");
    }
    fs::remove_file(world.home().join("policy.toml")).unwrap();
    fs::create_dir(world.home().join("policy.toml")).unwrap();
    assert!(world.ask(&["policy", "test"]).out.contains("policy.toml is not a plain file"));
    fs::remove_dir(world.home().join("policy.toml")).unwrap();

    // A repository's own rules are heard, and only make things stricter.
    let denies =
        "[[rule]]\nname = \"quiet\"\nverdict = \"deny\"\ncommand = \"echo *\"\nreason = \"Be quiet\"\n";
    fs::write(world.project().join("regie-policy.toml"), denies).unwrap();
    assert_eq!(run(&world).code, Some(0));
    assert!(seen(&world).contains("Be quiet (rule"), "{}", seen(&world));
    fs::write(world.project().join("regie-policy.toml"), denies.replace("deny", "allow")).unwrap();
    let test = world.ask(&["policy", "test"]);
    assert_eq!(test.code, Some(1), "{test:?}");
    assert!(
        test.out.contains("regie-policy.toml:3: the rule \"quiet\" allows, and a repository's own"),
        "{test:?}"
    );
    world.is_whole();
}

#[test]
fn a_criterion_is_asked_like_any_command() {
    let world = World::new(&done());
    owner(&world, "policy.toml", "[[rule]]\nname = \"look\"\nverdict = \"ask\"\nkind = \"verdict\"\n");
    let said = world.ask(&["run", "Look around", "--yes", "--done", "test -f sum.sh"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    let gate = gates(&world)[0].clone();
    assert!(gate["reason"].as_str().unwrap().contains("rule \"look\" in policy.toml:1"), "{gate}");
    assert_eq!(world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]).code, Some(0));
    assert_eq!(world.ended("last").end, "done");
    world.is_whole();
}
