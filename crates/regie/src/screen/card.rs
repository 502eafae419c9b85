//! The card of a gate: everything that the owner decides upon, before the question.

use control::api;

use super::{export, patch, style, text};

/// The tool whose request is shown in words.
const SETUP: &str = engine::host::SETUP;
/// Files on a card.
const FILES: usize = 12;
/// Lines of a request on a card.
const REQUEST_LINES: usize = 20;

/// What others would execute or trust, then the card, each line indented.
pub(crate) fn gate(gate: &api::Gate) -> String {
    findings(gate, export::ALL) + &question(gate)
}

/// What others would execute or trust of what is asked for; empty where there is nothing of that.
pub(crate) fn findings(gate: &api::Gate, most: usize) -> String {
    gate.export.as_ref().map(|report| export::report(report, &gate.gate, most)).unwrap_or_default()
}

/// The card without what was shown before it.
pub(crate) fn question(gate: &api::Gate) -> String {
    let mut card = format!("  {} {}\n", style::waiting("?"), style::bold(&title(gate)));
    let mut row = |name: &str, value: &str| {
        card.push_str(&format!("    {} {value}\n", style::dim(&format!("{name:<8}"))));
    };
    if gate.tool == SETUP {
        for line in setup(&gate.request) {
            row(line.0, &line.1);
        }
    }
    if gate.question == "was_it_done" {
        row("why", "a crash left it open whether this happened");
    }
    row("goal", &text::short(&text::line(&gate.goal), 80));
    if let Some(report) = gate.export.as_ref().filter(|report| report.total() > 0) {
        row("export", &style::waiting(&export::summary(report)));
    }
    let mut name = "files";
    for file in patch::files(&gate.files, FILES) {
        row(name, &file);
        name = "";
    }
    let with = gate.request.get("uncommitted").and_then(|paths| paths.as_array());
    if let Some(paths) = with.filter(|paths| !paths.is_empty()) {
        let named: Vec<_> = paths.iter().filter_map(|path| path.as_str()).map(text::line).collect();
        row("with", &style::waiting("your uncommitted changes, as they were at the start"));
        row("", &text::short(&named.join(", "), 100));
    }
    let mut name = "checks";
    for check in &gate.checks {
        row(name, &text::short(&text::line(check), 100));
        name = "";
    }
    if gate.checks.is_empty() && !gate.files.is_empty() {
        row("checks", &style::waiting("nothing was checked"));
    }
    if let Some(read) = &gate.read {
        let mut name = "has read";
        for line in has_read(read) {
            row(name, &line);
            name = "";
        }
    }
    row(
        "tool",
        &format!("{} · {} · {} risk", text::line(&gate.tool), words(&gate.effect), words(&gate.risk)),
    );
    if let Some(reason) = &gate.reason {
        row("rule", &text::short(&text::line(reason), 100));
    }
    if let Some(rule) = &gate.always {
        let mut name = "always";
        let clean = text::lines(rule);
        for line in clean.lines().filter(|line| !line.starts_with('#') && *line != "[[rule]]") {
            row(name, &text::short(line, 200));
            name = "";
        }
    }
    row("action", &text::short_hash(&gate.action));
    row("gate", &text::line(&gate.gate));
    // What a proposal changes is said above; of anything else the exact request is shown.
    if gate.files.is_empty() && gate.tool != SETUP {
        card.push_str(&request(&gate.request));
    }
    card
}

/// What the run has read: what has labels first, then how much there was.
fn has_read(read: &api::ReadSummary) -> Vec<String> {
    let tainted = |one: &api::Tainted| {
        let more = if one.more == 0 { String::new() } else { format!(" and {} more", one.more) };
        let of = text::short(&text::line(&one.of.join(", ")), 80);
        style::waiting(&format!("what is {}: {of}{more}", text::line(&one.label))).to_string()
    };
    let mut lines: Vec<String> = read.taint.iter().map(tainted).collect();
    let counts = [
        (read.files, "file", "files"),
        (read.searches, "search", "searches"),
        (read.workspace_steps, "command with the whole workspace", "commands with the whole workspace"),
        (read.outside_steps, "step with the network", "steps with the network"),
    ];
    let said: Vec<_> = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| text::of(*count, one, many))
        .collect();
    if !said.is_empty() {
        lines.push(said.join(", "));
    }
    lines
}

/// The rows of a setup: the exact command, whose it is, and what it may do.
fn setup(request: &serde_json::Value) -> Vec<(&'static str, String)> {
    let of = |name: &str| request["input"][name].as_str().unwrap_or_default();
    let clean = text::lines(of("command"));
    let mut name = "command";
    let mut rows: Vec<_> =
        clean.lines().map(|line| (std::mem::take(&mut name), style::bold(line).to_string())).collect();
    rows.push(("from", text::line(of("from"))));
    let sees: Vec<_> =
        request["input"]["sees"].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
    if !sees.is_empty() {
        rows.push((
            "sees",
            style::waiting(&format!("of your environment: {}", text::line(&sees.join(", ")))).to_string(),
        ));
    }
    rows.push((
        "network",
        style::waiting("it runs in the jail with the network of this machine open,").to_string(),
    ));
    rows.push(("", "its loopback included; what it writes stays in the workspace and".into()));
    rows.push(("", "the project's own cache. What it makes is kept for later runs.".into()));
    rows
}

/// The question.
pub(crate) fn title(gate: &api::Gate) -> String {
    let title = text::line(&gate.title);
    let mut letters = title.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => "May this happen?".into(),
    }
}

fn request(request: &serde_json::Value) -> String {
    let pretty = serde_json::to_string_pretty(request).unwrap_or_default();
    let clean = text::lines(&pretty);
    let mut card: String =
        clean.lines().take(REQUEST_LINES).map(|line| format!("    {} {line}\n", style::dim("│"))).collect();
    let left = clean.lines().count().saturating_sub(REQUEST_LINES);
    if left > 0 {
        card.push_str(&format!(
            "    {}\n",
            style::dim(&format!("│ … {left} more lines: regie gate show --json"))
        ));
    }
    card
}

fn words(name: &str) -> String {
    text::line(&name.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(question: &str) -> api::Gate {
        api::Gate {
            gate: "gate_01m8pe02pte358ay9mkgbvfhm2".into(),
            run: "run_01m8pe3ngtehda9vcp1rc0b0qf".into(),
            goal: "Make the failing test pass".into(),
            step: 12,
            question: question.into(),
            title: "merge this proposal into main?".into(),
            reason: Some("a merge needs the owner's approval".into()),
            effect: "idempotent_write".into(),
            risk: "external".into(),
            tool: "merge".into(),
            request: serde_json::json!({ "to": "x\u{1b}[2J" }),
            action: "db99faff02013ff30aca9b864467b20658b2fb2123ffaa4d84d8e401781a1dfc".into(),
            always: None,
            read: None,
            export: None,
            files: vec![],
            checks: vec![],
            opened_at: 0,
            expires_at: 0,
            answer: None,
            by: None,
        }
    }

    fn shown(asked: &api::Gate) -> String {
        anstream::adapter::strip_str(&gate(asked)).to_string()
    }

    #[test]
    fn a_proposal_shows_its_files_and_checks() {
        let file = |path: &str, added, removed| api::File {
            path: path.into(),
            status: if removed == Some(0) { "added".into() } else { "modified".into() },
            added,
            removed,
        };
        let files = vec![
            file("src/sum.js", Some(1), Some(1)),
            file("a.png", None, None),
            file("new", Some(3), Some(0)),
        ];
        let proposal = api::Gate { files, checks: vec!["node --test".into()], ..asked("approve") };
        insta::assert_snapshot!(shown(&proposal), @r"
          ? Merge this proposal into main?
            goal     Make the failing test pass
            files    src/sum.js  +1 −1
                     a.png       binary
                     new         +3 −0  added
            checks   node --test
            tool     merge · idempotent write · external risk
            rule     a merge needs the owner's approval
            action   db99faff0201
            gate     gate_01m8pe02pte358ay9mkgbvfhm2
        ");
    }

    #[test]
    fn a_proposal_that_was_not_checked_says_so() {
        let file =
            api::File { path: "a".into(), status: "modified".into(), added: Some(1), removed: Some(1) };
        assert!(shown(&api::Gate { files: vec![file], ..asked("approve") }).contains("nothing was checked"));
    }

    #[test]
    fn what_a_request_hides_is_made_visible_and_nothing_of_it_is_left_out_unsaid() {
        // Zero-width, bidirectional and control characters; danger behind a long harmless beginning.
        let harmless = "echo harmless ".repeat(40);
        let command = format!("{harmless}\u{200b}; r\u{202e}m\u{7} -rf ~");
        let hidden = api::Gate {
            request: serde_json::json!({ "command": command }),
            tool: "sh\u{200b}ell".into(),
            title: "let the agent use `sh\u{200b}ell`?".into(),
            ..asked("approve")
        };
        let card = shown(&hidden);
        assert!(card.contains("; r\u{fffd}m") && card.contains("-rf ~"), "{card}");
        assert!(card.contains(&harmless), "the whole of it is there: {card}");
        assert!(!card.contains(['\u{200b}', '\u{202e}', '\u{7}']), "{card:?}");
        assert!(card.contains("sh\u{fffd}ell"), "{card}");

        let lines: Vec<String> = (0..60).map(|line| format!("line {line}")).collect();
        let long = api::Gate { request: serde_json::json!({ "lines": lines }), ..asked("approve") };
        let card = shown(&long);
        assert!(card.contains("more lines: regie gate show --json"), "{card}");
    }

    #[test]
    fn files_that_do_not_fit_are_counted() {
        let file = |number: usize| api::File {
            path: format!("src/{number}\u{202e}.js"),
            status: "modified".into(),
            added: Some(1),
            removed: Some(0),
        };
        let card = shown(&api::Gate { files: (0..40).map(file).collect(), ..asked("approve") });
        assert!(card.contains("28 more") && !card.contains('\u{202e}'), "{card}");
    }

    #[test]
    fn a_setup_shows_its_exact_command_and_what_it_may_do() {
        let input = serde_json::json!({ "command": "npm ci\nnpm run \u{1b}[2Jx", "from": "regie.toml:3", "sees": ["NPM_TOKEN"] });
        let setup = api::Gate {
            tool: SETUP.into(),
            effect: "workspace_write".into(),
            title: "Set this project up?".into(),
            reason: Some("a setup has the network".into()),
            request: serde_json::json!({ "tool": "setup", "input": input }),
            ..asked("approve")
        };
        insta::assert_snapshot!(shown(&setup));
    }

    #[test]
    fn what_always_would_write_is_shown_as_it_will_stand() {
        let rule = "# Always\n[[rule]]\nname = \"always-1\"\nline = \"npm\u{202e} ci\"".to_owned();
        let card = shown(&api::Gate { always: Some(rule), ..asked("approve") });
        assert!(
            card.contains("always   name = \"always-1\"\n             line = \"npm\u{fffd} ci\"\n"),
            "{card}"
        );
    }

    #[test]
    fn an_uncertain_step_shows_its_exact_request() {
        insta::assert_snapshot!(shown(&asked("was_it_done")), @r#"
          ? Merge this proposal into main?
            why      a crash left it open whether this happened
            goal     Make the failing test pass
            tool     merge · idempotent write · external risk
            rule     a merge needs the owner's approval
            action   db99faff0201
            gate     gate_01m8pe02pte358ay9mkgbvfhm2
            │ {
            │   "to": "x\u001b[2J"
            │ }
        "#);
    }
}
