//! `regie policy`: the rules that decide, whether they make sense, what they would say, and what they said.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use control::api;

use super::{Context, row};
use crate::failure::{Exit, Failure};
use crate::screen::{self, clock, style, text};

#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// List the rules that count in a project
    List(Project),
    /// Check all files of rules, and each rule against its own examples; exit code 1 when one makes no sense
    Test(Project),
    /// Say what would be decided if an agent did something
    Explain(Explain),
    /// Say what was decided about a step, by which rule, and what today's rules would say
    Why(Why),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Project {
    /// A directory in the project's repository
    #[arg(long, default_value = ".", value_name = "PATH")]
    project: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    place: Project,
    /// Who acts [default: agent:coder]
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// A label of what the run has read, as external; may be repeated
    #[arg(long, value_name = "LABEL")]
    taint: Vec<String>,
    /// A label of what the action is about; may be repeated
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    /// The tool and what it is about, as: shell git push, edit src/x.rs, setup npm ci
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "ACTION")]
    action: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Why {
    /// A step, as 12, or an event, as @34
    #[arg(value_name = "STEP|@EVENT")]
    of: String,
    /// A full id, the end of one, or `last`
    #[arg(long, default_value = "last")]
    run: String,
}

pub(super) async fn run(context: &Context, policy: Policy) -> Result<Exit, Failure> {
    match policy {
        Policy::List(place) => list(context, &place.project).await,
        Policy::Test(place) => test(context, &place.project).await,
        Policy::Explain(asked) => explain(context, asked).await,
        Policy::Why(asked) => why(context, asked).await,
    }
}

/// The daemon stands elsewhere.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

async fn list(context: &Context, project: &Path) -> Result<Exit, Failure> {
    let policy = context.connect().await?.policy_list(Some(&absolute(project))).await?;
    if context.json {
        screen::put_json(&policy)?;
        return Ok(Exit::Done);
    }
    let mut shown = String::new();
    for rule in &policy.rules {
        let from = match (&rule.name, &rule.file, rule.line) {
            (Some(name), Some(file), Some(line)) => format!("\"{name}\" in {file}:{line}"),
            _ => "built in".into(),
        };
        let lifts = rule.lifts.join(", ");
        let lifts = if lifts.is_empty() { lifts } else { format!("  lifts {lifts}") };
        let about = format!("{}  {}{lifts}", text::line(&from), text::line(&rule.about));
        shown.push_str(&row(&rule.verdict, about.trim_end()));
    }
    screen::put(&shown)?;
    for file in policy.files.iter().filter(|file| file.counts && !file.exists) {
        screen::say(&format!("  {}\n", style::dim(&format!("not there: {}", text::line(&file.path)))))?;
    }
    problems(&policy)
}

/// What makes no sense, one line each.
fn problems(policy: &api::Policy) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for problem in policy.files.iter().filter_map(|file| file.problem.as_deref()) {
        screen::put(&format!("{} {}\n", style::failed("✗"), text::line(problem)))?;
        exit = Exit::Failed;
    }
    Ok(exit)
}

async fn test(context: &Context, project: &Path) -> Result<Exit, Failure> {
    let policy = context.connect().await?.policy_list(Some(&absolute(project))).await?;
    if context.json {
        screen::put_json(&policy)?;
        let is_sound = policy.files.iter().all(|file| file.problem.is_none());
        return Ok(if is_sound { Exit::Done } else { Exit::Failed });
    }
    let sound = policy.files.iter().filter(|file| file.exists && file.problem.is_none());
    for file in sound {
        let rules = text::of(file.rules, "rule", "rules");
        screen::put(&format!("{} {}  {}\n", style::ok("✓"), text::line(&file.file), style::dim(&rules)))?;
    }
    if policy.files.iter().all(|file| !file.exists) {
        screen::say("there are no files of rules; the built-in ones hold\n")?;
        if let Some(file) = policy.files.first() {
            screen::hint(&format!("write yours into {}", text::line(&file.path)))?;
        }
    }
    problems(&policy)
}

async fn explain(context: &Context, asked: Explain) -> Result<Exit, Failure> {
    let wanted = api::Explain {
        project: Some(absolute(&asked.place.project)),
        action: asked.action.join(" "),
        principal: asked.principal,
        labels: asked.label,
        taint: asked.taint,
    };
    let explained = context.connect().await?.policy_explain(&wanted).await?;
    if context.json {
        screen::put_json(&explained)?;
        return Ok(Exit::Done);
    }
    let mut shown = format!("{} {}\n", verdict(&explained.verdict), text::line(&explained.rule));
    for held in &explained.held {
        let from = match (&held.name, &held.file, held.line) {
            (Some(name), Some(file), Some(line)) => format!("\"{name}\" in {file}:{line}"),
            _ => "built in".into(),
        };
        let lifted = held.lifted_by.as_ref().map(|by| format!(", lifted by \"{by}\"")).unwrap_or_default();
        let said = format!("{}{lifted}  {}", text::line(&from), text::line(&held.about));
        shown.push_str(&row(&held.verdict, said.trim_end()));
    }
    for command in &explained.commands {
        shown.push_str(&row("starts", &text::line(command)));
    }
    for why in &explained.unclear {
        shown.push_str(&row("unclear", &style::waiting(&text::line(why))));
    }
    screen::put(&shown)?;
    Ok(Exit::Done)
}

fn verdict(verdict: &str) -> String {
    match verdict {
        "allow" | "approved" => style::ok(verdict),
        "ask" => style::waiting(verdict),
        _ => style::failed(verdict),
    }
}

async fn why(context: &Context, asked: Why) -> Result<Exit, Failure> {
    let why = context.connect().await?.policy_why(&api::AskWhy { run: asked.run, of: asked.of }).await?;
    if context.json {
        screen::put_json(&why)?;
        return Ok(Exit::Done);
    }
    let words = |name: &str| text::line(&name.replace('_', " "));
    let mut shown =
        format!("{}\n", style::bold(&format!("step {} of {}", why.step, text::short_id(&why.run))));
    let class = format!("{} · {} · {} risk", text::line(&why.tool), words(&why.effect), words(&why.risk));
    shown.push_str(&row("action", &class));
    if !why.request.is_null() {
        shown.push_str(&row("request", &text::short(&text::line(&why.request.to_string()), 200)));
    }
    for decided in &why.decisions {
        let under = match (&decided.lease, decided.epoch) {
            (Some(lease), Some(epoch)) => format!("under {} (epoch {epoch})", text::short_id(lease)),
            _ => String::new(),
        };
        let gate =
            decided.gate.as_ref().map(|gate| format!(" at {}", text::short_id(gate))).unwrap_or_default();
        let when =
            style::dim(&format!("{under}{gate}, event @{}, {}", decided.seq, clock::moment(decided.at)));
        shown.push_str(&row(&decided.verdict, &format!("{}\n            {when}", text::line(&decided.rule))));
    }
    if why.decisions.is_empty() {
        shown.push_str(&row("", "nothing was decided about it yet"));
    }
    if let Some(today) = &why.today {
        shown.push_str(&row("today", &format!("{} {}", verdict(&today.verdict), text::line(&today.rule))));
    }
    screen::put(&shown)?;
    Ok(Exit::Done)
}
