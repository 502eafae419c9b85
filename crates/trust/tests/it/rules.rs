//! The owner's rules: reading them, their examples, and what they decide beside the built-in ones.

use std::sync::Arc;

use domain::{Effect, GateId, Labels, Risk, StepKind, Verdict};
use kernel::port::Action;
use proptest::prelude::*;
use trust::policy::file::parse;
use trust::policy::{Book, Example, Level, Resources, Ruling, Setting, Subject, written};
use trust::{Case, Policy, export};

use crate::world::{action, lease, merge, model, strictness};

fn book(text: &str) -> Arc<Book> {
    Arc::new(Book::new(parse(text, "policy.toml", Level::Owner).unwrap()).unwrap())
}

fn judge(text: &str, action: &Action<'_>, merge_approved: bool) -> Ruling {
    let setting = Setting { book: book(text), project: "/home/me/shop".into(), ..Setting::default() };
    let export = export::Rules::default();
    Policy::built_in().judge_in(&Case { action, lease: &lease(), merge_approved, export: &export }, &setting)
}

fn shell(line: &str) -> String {
    serde_json::json!({ "tool": "shell", "input": { "command": line } }).to_string()
}

fn act<'a>(tool: &'a str, request: &'a str) -> Action<'a> {
    let risk = if tool == "setup" { Risk::External } else { Risk::Workspace };
    Action { request: request.as_bytes(), ..action(StepKind::ToolCall, Effect::WorkspaceWrite, risk, tool) }
}

const PUSH: &str = r#"
[[rule]]
name = "no-push"
verdict = "deny"
command = ["git push *"]
reason = """Pushing is
  for me alone"""
match = ["shell git push", "shell sh -c 'make && git push origin'"]
not_match = ["shell git status", "edit src/push.rs"]
"#;

const ASKS: &str = r#"
[[rule]]
name = "ask-publish"
verdict = "ask"
command = ["npm publish *"]
"#;

#[test]
fn a_rule_denies_what_hides_and_says_which_rule_it_was() {
    let request = shell("cd x && sh -c \"true && git push origin main\"");
    let ruling = judge(PUSH, &act("shell", &request), false);
    assert_eq!(ruling.verdict, Verdict::Deny);
    assert_eq!(ruling.rule, "Pushing is for me alone (rule \"no-push\" in policy.toml:2)");
    assert_eq!(judge(PUSH, &act("shell", &shell("git status")), false).verdict, Verdict::Allow);
    let unclear = judge(PUSH, &act("shell", &shell("$CMD push")), false);
    assert_eq!(unclear.verdict, Verdict::Deny);
    // No approval lifts it, and a criterion is a command like any.
    let approved = Action { approved: Some(GateId::from_bytes([1; 16])), ..act("shell", &request) };
    assert_eq!(judge(PUSH, &approved, false).verdict, Verdict::Deny);
    let criterion = action(StepKind::Verdict, Effect::WorkspaceWrite, Risk::Workspace, "verdict");
    let criterion = Action { request: br#"{"command":"git push"}"#, ..criterion };
    assert_eq!(judge(PUSH, &criterion, false).verdict, Verdict::Deny);
    assert_eq!(judge(PUSH, &act("shell", "{broken"), false).verdict, Verdict::Deny);
}

#[test]
fn a_file_is_the_same_file_by_each_of_its_names() {
    let rule = "[[rule]]\nname = \"keys\"\nverdict = \"deny\"\npaths = [\"secrets/**\"]\n";
    let names = ["secrets/key", "./x/../secrets/key", "/workspace/secrets/key", "../workspace/secrets/key"];
    for name in names.into_iter().chain(["/workspace/../workspace//secrets/key"]) {
        let read = serde_json::json!({ "tool": "read", "input": { "path": name } }).to_string();
        assert_eq!(judge(rule, &act("read", &read), false).verdict, Verdict::Deny, "{name}");
        let search = serde_json::json!({ "tool": "search", "input": { "path": name } }).to_string();
        assert_eq!(judge(rule, &act("search", &search), false).verdict, Verdict::Deny, "{name}");
        let line = shell(&format!("cat {name}"));
        assert_eq!(judge(rule, &act("shell", &line), false).verdict, Verdict::Deny, "{name}");
    }
}

#[test]
fn a_rule_asks_and_what_was_asked_can_be_lifted_by_name_alone() {
    let (request, other) = (shell("npm publish --tag next"), shell("npm publish"));
    assert_eq!(judge(ASKS, &act("shell", &request), false).verdict, Verdict::Ask);
    let gate = GateId::from_bytes([1; 16]);
    let approved = judge(ASKS, &Action { approved: Some(gate), ..act("shell", &request) }, false);
    assert_eq!((approved.verdict, approved.gate), (Verdict::Allow, Some(gate)));

    let resources = trust::policy::resource::of(StepKind::ToolCall, "shell", request.as_bytes(), "");
    let allow = written("always-1", "shell", &resources, &["ask-publish"], "approved\nat gate_1").unwrap();
    let with = format!("{ASKS}{allow}");
    let lifted = judge(&with, &act("shell", &request), false);
    assert_eq!(lifted.verdict, Verdict::Allow);
    assert!(lifted.rule.starts_with("rule \"always-1\" in policy.toml:"), "{}", lifted.rule);
    assert_eq!(judge(&with, &act("shell", &other), false).verdict, Verdict::Ask, "this line and no other");
    // A rule that allows lifts only what it names, and never a deny.
    let nameless = with.replace("lifts = [\"ask-publish\"]", "lifts = [\"other\"]");
    assert_eq!(judge(&nameless, &act("shell", &request), false).verdict, Verdict::Ask);
    let deny =
        format!("{with}\n[[rule]]\nname = \"never\"\nverdict = \"deny\"\ncommand = \"npm publish *\"\n");
    assert_eq!(judge(&deny, &act("shell", &request), false).verdict, Verdict::Deny);
}

#[test]
fn a_setup_is_lifted_by_its_exact_line_and_a_merge_by_nothing() {
    let request = r#"{"tool":"setup","input":{"command":"npm ci","from":"regie.toml:3","sees":[]}}"#;
    let rule = |body: &str| {
        format!(
            "[[rule]]\nname = \"s\"\nverdict = \"allow\"\ntool = \"setup\"\nlifts = [\"setup\"]\n{body}\n"
        )
    };
    let setup = act("setup", request);
    assert_eq!(judge(&rule("line = \"npm ci\""), &setup, false).verdict, Verdict::Allow);
    assert_eq!(judge(&rule("line = \"npm install\""), &setup, false).verdict, Verdict::Ask);
    assert_eq!(judge(&rule(""), &setup, false).verdict, Verdict::Ask, "not all setups");
    assert_eq!(judge(&rule("command = \"npm *\""), &setup, false).verdict, Verdict::Ask, "not a pattern");
    let lax = "[[rule]]\nname = \"all\"\nverdict = \"allow\"\nlifts = [\"setup\", \"merge\", \"all\"]\n";
    assert_eq!(judge(lax, &merge(), false).verdict, Verdict::Ask);
    let post = action(StepKind::ToolCall, Effect::NonIdempotent, Risk::External, "post");
    assert_eq!(judge(lax, &post, false).verdict, Verdict::Ask);
    // And a rule that asks for a merge asks in spite of --yes.
    let asks = "[[rule]]\nname = \"look\"\nverdict = \"ask\"\ntool = \"merge\"\n";
    assert_eq!(judge("", &merge(), true).verdict, Verdict::Allow);
    assert_eq!(judge(asks, &merge(), true).verdict, Verdict::Ask);
}

#[test]
fn paths_are_denied_by_whatever_tool_names_them() {
    let rules = "[[rule]]\nname = \"keys\"\nverdict = \"deny\"\npaths = [\"keys/\", \".env*\", \"/etc\"]\n";
    let denied = |tool: &str, request: &str| {
        let read = Action { effect: Effect::Read, risk: Risk::Read, ..act(tool, request) };
        judge(rules, &read, false).verdict == Verdict::Deny
    };
    for path in ["keys/a", "./x/../KEYS/b/c", "a/.env.test", "/etc/passwd", "x/keys"] {
        let request = serde_json::json!({ "tool": "read", "input": { "path": path } }).to_string();
        assert!(denied("read", &request), "{path}");
        assert!(denied("shell", &shell(&format!("cat <'{path}'"))), "{path}");
        assert!(denied("shell", &shell(&format!("dd of={path}"))), "{path}");
    }
    for path in ["src/x", "etc/passwd", "monkeys/a", "env"] {
        let request = serde_json::json!({ "tool": "read", "input": { "path": path } }).to_string();
        assert!(!denied("read", &request), "{path}");
    }
    // A search reads all that lies in its folder.
    let rules = "[[rule]]\nname = \"keys\"\nverdict = \"deny\"\ntool = \"read\"\npaths = \"a/keys/\"\n";
    let all = rules.replace("tool = \"read\"\n", "");
    let shelf = domain::Lease { tools: vec!["search".into()], ..lease() };
    for (tree, is_denied) in [("", true), ("a", true), ("a/keys/b", true), ("b", false), ("a/key", false)] {
        let request =
            serde_json::json!({ "tool": "search", "input": { "pattern": "x", "path": tree } }).to_string();
        let search = Action { effect: Effect::Read, risk: Risk::Read, ..act("search", &request) };
        let export = export::Rules::default();
        let case = Case { action: &search, lease: &shelf, merge_approved: false, export: &export };
        let judge =
            |text| Policy::built_in().judge_in(&case, &Setting { book: book(text), ..Setting::default() });
        assert_eq!(judge(&all).verdict == Verdict::Deny, is_denied, "{tree}");
        assert_eq!(judge(rules).verdict, Verdict::Allow);
    }
}

#[test]
fn every_dimension_counts() {
    let holds = |when: &str, example: &str, more: &str| {
        let text = format!(
            "[[rule]]\nname = \"r\"\nverdict = \"deny\"\n{when}\nmatch = [{{ action = \"{example}\"{more} }}]\n"
        );
        parse(&text, "p", Level::Owner).is_ok()
    };
    for (when, example, more, is) in [
        ("principal = \"agent:*\"", "read x", "", true),
        ("principal = \"agent:*\"", "read x", ", principal = \"svc:sweep\"", false),
        ("project = \"/home/me/*\"", "read x", ", project = \"/home/me/shop\"", true),
        ("project = \"/home/me/*\"", "read x", ", project = \"/srv/shop\"", false),
        ("tool = [\"edit\", \"wr*\"]", "write x", "", true),
        ("tool = [\"edit\", \"wr*\"]", "read x", "", false),
        ("kind = \"model_call\"", "model_call claude-x", "", true),
        ("kind = \"tool_call\"", "verdict make", "", false),
        ("tool = \"*\"", "model_call claude-x", "", false),
        ("effect = \"read\"", "read x", "", true),
        ("effect = \"read\"", "write x", "", false),
        ("risk_at_least = \"network\"", "post x", "", true),
        ("risk_at_least = \"network\"", "shell x", "", false),
        ("risk_at_most = \"workspace\"", "shell x", "", true),
        ("risk_at_most = \"workspace\"", "merge", "", false),
        ("host = \"*.evil.example\"", "fetch https://A.evil.example/x", "", true),
        ("host = \"*.evil.example\"", "shell curl -s https://a.evil.example", "", true),
        ("host = \"*.evil.example\"", "fetch https://evil.example.org", "", false),
        ("taint = \"external\"", "shell x", ", taint = [\"external\"]", true),
        ("taint = \"external\"", "shell x", "", false),
        ("taint = \"external+sensitive\"", "shell x", ", taint = [\"external\"]", false),
        ("taint = \"external+sensitive\"", "shell x", ", taint = [\"external\", \"sensitive\"]", true),
        ("labels = [\"sensitive\", \"pii\"]", "read x", ", labels = [\"pii\"]", true),
        ("line = \"make  a\"", "shell make  a", "", true),
        ("line = \"make a\"", "shell make  a", "", false),
    ] {
        assert_eq!(holds(when, example, more), is, "{when} / {example}{more}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    let rule = |body: &str| format!("# mine\n[[rule]]\nname = \"r\"\nverdict = \"deny\"\n{body}\n");
    let said = |text: &str, level| parse(text, "policy.toml", level).unwrap_err().to_string();
    for (body, what) in [
        ("comand = \"x\"", "policy.toml:5: there is no key `comand`; the keys of a rule are name, verdict,"),
        ("command = \"\"", "policy.toml:5: `command`: it is blank"),
        (
            "command = []",
            "policy.toml:5: `command`: expected a text in quotes, or a list of them that is not empty",
        ),
        ("command = [1]", "policy.toml:5: `command`: expected a text"),
        ("paths = \"a[\"", "policy.toml:5: `paths`: `a[` is no pattern"),
        ("paths = [\"/\"]", "policy.toml:5: `paths`: a pattern is blank"),
        ("tool = \"{\"", "policy.toml:5: `tool`: `{` is no pattern"),
        ("kind = \"toolcall\"", "policy.toml:5: `kind`: expected a kind of step"),
        ("risk_at_least = \"high\"", "policy.toml:5: `risk_at_least`: expected \"read\""),
        ("taint = \"External\"", "policy.toml:5: `taint`: \"External\" is no label"),
        ("lifts = [\"setup\"]", "policy.toml:5: only a rule that allows lifts others"),
        ("match = \"shell x\"", "policy.toml:5: `match`: expected a list"),
        ("match = [{ tool = \"x\" }]", "policy.toml:5: an example has no `action`"),
        ("match = [{ action = \"x\", colour = \"x\" }]", "policy.toml:5: there is no key `colour`"),
        (
            "command = \"git push *\"\nmatch = [\n  \"shell git push\",\n  \"shell git pull\"]",
            "policy.toml:8: the rule \"r\" contradicts its example \"shell git pull\": it should hold for it and does not",
        ),
        (
            "command = \"git push *\"\nnot_match = [\"shell eval git push\"]",
            "policy.toml:6: the rule \"r\" contradicts its example \"shell eval git push\": it should not hold",
        ),
        (
            "[[rule]]\nname = \"r\"\nverdict = \"ask\"",
            "policy.toml:5: the rule \"r\" is there already, in line 2",
        ),
        (
            "[[rule]]\nname = \"a b\"\nverdict = \"ask\"",
            "policy.toml:6: \"a b\" cannot be the name of a rule",
        ),
        ("[[rule]]\nname = \"b\"", "policy.toml:5: a rule has no `verdict`"),
        ("[[rule]]\nverdict = \"ask\"", "policy.toml:5: a rule has no `name`"),
        (
            "[[rule]]\nname = \"b\"\nverdict = \"never\"",
            "policy.toml:7: `verdict`: expected \"deny\", \"ask\"",
        ),
        ("[rules]\nx = 1", "policy.toml:5: there is no key `rules`; rules stand under [[rule]]"),
        ("x = ", "policy.toml:5: "),
    ] {
        let error = said(&rule(body), Level::Owner);
        assert!(error.starts_with(what) && error.contains("; "), "{body}: {error}");
    }
    let allows = "[[rule]]\nname = \"r\"\nverdict = \"allow\"\n";
    let error = said(allows, Level::Repository);
    assert!(
        error.starts_with("policy.toml:3: the rule \"r\" allows, and a repository's own rules only deny"),
        "{error}"
    );
    assert!(parse(allows, "p", Level::Project).is_ok());
    assert!(said(&"#".repeat(300_000), Level::Owner).contains("more than 256 KiB"));
}

#[test]
fn what_a_gate_writes_reads_back_as_exactly_that() {
    let line = "printf '\"%s\"\\n' \"a\tb\u{7f}é\" && npm test";
    for (tool, words) in [
        ("shell", line),
        ("setup", "npm ci"),
        ("edit", "src/[a]*{b}.rs"),
        ("edit", "x"),
        ("write", "/etc/x y"),
        ("shell", "cat <<'X'\na\nX"),
    ] {
        let example = Example::parse(&format!("{tool} {words}")).unwrap();
        let text = written("always-1", tool, &example.resources, &["r"], "x").unwrap();
        let book = book(&text);
        assert_eq!(book.hear(&example.subject()).held.len(), 1, "{text}");
        for other in ["x/x", "src/a.rs", "src/a", "y", "b/src/[a]*{b}.rs"] {
            let resources = Resources::named(StepKind::ToolCall, tool, other);
            let subject = Subject { resources: &resources, ..example.subject() };
            assert!(book.hear(&subject).held.is_empty(), "{text}{other}");
        }
    }
    let search = Example::parse("search src").unwrap();
    assert_eq!(written("a", "search", &search.resources, &[], ""), None);
}

/// Rules of all kinds, few enough words that they meet.
fn rule() -> impl Strategy<Value = String> {
    let pick = |words: &'static [&'static str]| prop::sample::select(words);
    let when = pick(&[
        "",
        "tool = \"shell\"",
        "tool = \"e*\"",
        "command = [\"git push *\", \"make *\"]",
        "command = \"* test\"",
        "line = \"make test\"",
        "paths = [\"src/**\", \"keys/\"]",
        "paths = \"*.env\"\ntool = \"edit\"",
        "risk_at_least = \"external\"",
        "taint = \"external\"",
        "project = \"/home/*\"",
        "host = \"evil.example\"",
    ]);
    (pick(&["deny", "ask", "allow", "allow"]), when, 0_usize..4).prop_map(|(verdict, when, lifted)| {
        let lifts =
            if verdict == "allow" { format!("lifts = [\"r{lifted}\", \"setup\"]\n") } else { String::new() };
        format!("verdict = \"{verdict}\"\n{when}\n{lifts}")
    })
}

fn request() -> impl Strategy<Value = (&'static str, String)> {
    let line = prop::sample::select(vec![
        "git push",
        "make test",
        "sh -c 'make test'",
        "$X",
        "cat src/a && make test",
        "curl https://evil.example",
    ]);
    let path = prop::sample::select(vec!["src/a.rs", "keys/x", "a.env", "b"]);
    prop_oneof![
        line.clone().prop_map(|line| ("shell", shell(line))),
        line.prop_map(|line| ("setup", shell(line).replace("\"shell\"", "\"setup\""))),
        path.prop_map(|path| (
            "edit",
            serde_json::json!({ "tool": "edit", "input": { "path": path } }).to_string()
        )),
        Just(("shell", "nonsense".to_owned())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// A decision is a function of its inputs; the order of rules is of no matter; one more rule that denies or asks
    /// never allows more; without the rules nothing that they allowed is allowed but what the built-in rules allow;
    /// and the index finds exactly the rules that hold.
    #[test]
    fn decisions_are_functions_and_strictness_only_grows(
        bodies in prop::collection::vec(rule(), 0..6),
        (tool, request) in request(),
        extra in rule(),
        tainted: bool,
        approved: bool,
        turn in 0_usize..6,
    ) {
        let named = |bodies: &[(usize, String)]| -> String {
            bodies.iter().map(|(at, body)| format!("[[rule]]\nname = \"r{at}\"\n{body}\n")).collect()
        };
        let numbered: Vec<(usize, String)> = bodies.iter().cloned().enumerate().collect();
        let mut turned = numbered.clone();
        turned.rotate_left(turn.min(numbered.len()));
        turned.reverse();
        let taint: Labels = if tainted { ["external".parse().unwrap()].into_iter().collect() } else { Labels::none() };
        let gate = approved.then(|| GateId::from_bytes([1; 16]));
        let action = Action { approved: gate, ..act(tool, &request) };
        let holder = domain::Lease { tools: ["shell", "setup", "edit"].map(String::from).to_vec(), ..lease() };
        let export = export::Rules::default();
        let case = Case { action: &action, lease: &holder, merge_approved: false, export: &export };
        let judge = |text: &str| {
            let setting =
                Setting { book: book(text), project: "/home/x".into(), taint: taint.clone(), ..Setting::default() };
            Policy::built_in().judge_in(&case, &setting)
        };
        let ruling = judge(&named(&numbered));
        prop_assert_eq!(&ruling, &judge(&named(&numbered)));
        let other = judge(&named(&turned));
        prop_assert_eq!((ruling.verdict, ruling.gate), (other.verdict, other.gate));

        if !extra.contains("allow") {
            let more = format!("{}[[rule]]\nname = \"z\"\n{extra}", named(&numbered));
            prop_assert!(strictness(judge(&more).verdict) >= strictness(ruling.verdict));
        }
        // Only a setup of an exact line is ever more than the built-in rules allow.
        let built_in = Policy::built_in().judge(&case);
        if strictness(ruling.verdict) < strictness(built_in.verdict) {
            prop_assert!(tool == "setup" && request.contains("\"make test\""), "{:?}", ruling);
        }

        let book = book(&named(&numbered));
        let resources = trust::policy::resource::of(action.kind, action.tool, action.request, "");
        let subject = Subject {
            principal: action.principal, project: "/home/x", kind: action.kind, tool: action.tool,
            effect: action.effect, risk: action.risk, resources: &resources,
            labels: &Labels::none(), taint: &taint,
        };
        let held: Vec<&str> = book.hear(&subject).held.iter().map(|rule| rule.name.as_str()).collect();
        let each: Vec<&str> =
            book.rules().iter().filter(|rule| rule.holds(&subject)).map(|rule| rule.name.as_str()).collect();
        prop_assert_eq!(held, each);
    }
}

#[test]
fn model_calls_are_judged_by_rules_that_name_them() {
    let rules = "[[rule]]\nname = \"m\"\nverdict = \"deny\"\nkind = \"model_call\"\ntool = \"scripted\"\n";
    assert_eq!(judge(rules, &model(), false).verdict, Verdict::Deny);
    assert_eq!(
        judge("[[rule]]\nname = \"m\"\nverdict = \"deny\"\n", &model(), false).verdict,
        Verdict::Allow
    );
}
