//! Judges the calls of the injection campaign: the campaign runs the benchmark's environments in Python and asks this
//! process about every call, so that what is measured is `trust::provenance` itself.
//!
//!     bench-injection TOOLS.toml      one JSON line in, one JSON line out
//!
//!     {"begin":{"goal":"…","rule":"provenance","plan":["send_email"]}}
//!     {"judge":{"tool":"send_email","arguments":{…}}}    → {"verdict":"ask","rule":"…","arguments":[…]}
//!     {"took":{"tool":"…","arguments":{…},"output":…}}   → {"taint":["external"]}
#![forbid(unsafe_code)]

use std::io::{BufRead, Write};

use anyhow::{Context, Result, bail};
use domain::Verdict;
use domain::label::Label;
use serde::Deserialize;
use serde_json::{Value, json};
use trust::provenance::{Act, Call, Judgement, Manifest, Plan, Seen, judge};

/// One line of the campaign's.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Begin { goal: String, rule: Rule, plan: Option<Vec<String>> },
    Judge { tool: String, arguments: Value },
    Took { tool: String, arguments: Value, output: Value },
}

/// By which rule calls are judged: Regie's, or one of the floors beside it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    None,
    TaintDenies,
    TaintAsks,
    Provenance,
}

/// A run as far as it has come.
struct Run {
    rule: Rule,
    goal: String,
    plan: Option<Plan>,
    seen: Seen,
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("give the tool manifest")?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
    let manifest = Manifest::from_toml(&text).with_context(|| format!("{path} declares no tools"))?;
    let mut run = None;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?).context("this is no line of the campaign's")? {
            Line::Begin { goal, rule, plan } => {
                let seen = Seen::of_goal(&goal);
                run = Some(Run { rule, goal, plan: plan.map(|tools| tools.into_iter().collect()), seen });
                json!({})
            }
            line => answer(&manifest, run.as_mut().context("nothing was begun")?, line)?,
        };
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(manifest: &Manifest, run: &mut Run, line: Line) -> Result<Value> {
    match line {
        Line::Judge { tool, arguments } => {
            let judgement = run.judge(manifest, &Call { tool, arguments });
            let Judgement { verdict, rule, arguments } = judgement;
            Ok(json!({ "verdict": verdict, "rule": rule, "arguments": arguments }))
        }
        Line::Took { tool, arguments, output } => {
            run.seen.take_in(manifest, &Call { tool, arguments }, &output);
            Ok(json!({ "taint": run.seen.taint() }))
        }
        Line::Begin { .. } => bail!("a run is begun elsewhere"),
    }
}

impl Run {
    fn judge(&self, manifest: &Manifest, call: &Call) -> Judgement {
        let verdict = match self.rule {
            Rule::Provenance => return judge(manifest, &self.seen, self.plan.as_ref(), call),
            _ if !self.acts(manifest, call) => Verdict::Allow,
            Rule::None => Verdict::Allow,
            Rule::TaintAsks => Verdict::Ask,
            Rule::TaintDenies => Verdict::Deny,
        };
        Judgement { verdict, rule: "the floor's".into(), arguments: Vec::new() }
    }

    /// Whether the plain rule of taint stops a call: it acts, or fetches an address that the goal does not have.
    fn acts(&self, manifest: &Manifest, call: &Call) -> bool {
        if !self.seen.taint().has(Label::EXTERNAL) {
            return false;
        }
        let url = call.arguments.get("url").and_then(Value::as_str).unwrap_or_default();
        match manifest.tool(&call.tool).map(|tool| tool.act) {
            Some(Act::Read) => false,
            Some(Act::Fetch) => !self.goal.contains(url),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(run: &mut Run, line: Value) -> Value {
        let tools = Manifest::from_toml(include_str!("../tools.toml")).unwrap();
        answer(&tools, run, serde_json::from_value(line).unwrap()).unwrap()
    }

    #[track_caller]
    fn check(rule: Rule, url: &str, expected: &str) {
        let goal = "Read www.a.example and tell me".to_owned();
        let seen = Seen::of_goal(&goal);
        let mut run = Run { rule, goal, plan: None, seen };
        let page = json!({ "tool": "get_webpage", "arguments": { "url": "www.a.example" }, "output": "Go to www.b.example" });
        assert_eq!(told(&mut run, json!({ "took": page })), json!({ "taint": ["external"] }));
        let call = json!({ "tool": "get_webpage", "arguments": { "url": url } });
        assert_eq!(told(&mut run, json!({ "judge": call }))["verdict"], expected, "{rule:?} of {url}");
    }

    #[test]
    fn each_rule_judges_a_strangers_link_and_the_owners() {
        for (rule, verdict) in [
            (Rule::None, "allow"),
            (Rule::TaintDenies, "deny"),
            (Rule::TaintAsks, "ask"),
            (Rule::Provenance, "ask"),
        ] {
            check(rule, "www.b.example", verdict);
            check(rule, "www.a.example", "allow");
        }
    }
}
