//! `regie run`: start a mission and follow it.

use control::api;
use models::routing::{Policy, Role};

use super::{Context, config::place, goal, replay, row, vendor};
use crate::args;
use crate::client::Client;
use crate::config::{self, Config, Flags, Key, Origin};
use crate::failure::{Exit, Failure};
use crate::follow::{self, Options};
use crate::screen::{self, style, text};

pub(super) async fn run(context: &Context, args: args::Run) -> Result<Exit, Failure> {
    let goal = goal::read(args.goal.as_deref(), args.goal_file.as_deref())?;
    let followed = match &args.follow {
        Some(run) => Some(context.connect().await?.run_fetch(run).await?),
        None => None,
    };
    let project = match &followed {
        Some(run) => place(std::path::Path::new(&run.repository))?,
        None => place(&args.project)?,
    };
    let flags = Flags {
        done: args.done,
        model: args.model,
        effort: args.effort,
        batch: args.batch,
        max_dollars: args.bounds.max_dollars,
        max_turns: args.bounds.max_turns,
        max_tokens: args.bounds.max_tokens,
        max_time: args.bounds.max_time,
    };
    let config = config::load(&context.home, &project, flags)?;
    let project = project.into_os_string().into_string().map_err(|path| {
        Failure::new(format!("the project's path is not UTF-8: {}", path.display()))
            .hint("reach it by another path, or rename it")
    })?;
    let vendor = vendor();
    let policy = policy(&config, followed.is_some());
    let wanted = api::StartMission {
        goal,
        project,
        done: config.done(),
        model: policy.model,
        or: policy.or,
        effort: policy.effort,
        batch: config.is_on(Key::Batch),
        caps: api::CapsWanted {
            nanodollars: Some(config.amount(Key::MaxDollars)),
            tokens: Some(config.amount(Key::MaxTokens)),
            turns: Some(config.amount(Key::MaxTurns)),
            millis: time(&config),
        },
        approve_merge: args.beginning.yes,
        allow_unjailed: args.beginning.allow_unjailed,
        dirty: args.dirty,
        follow: followed.as_ref().map(|run| run.run.clone()),
        setup: config.text(Key::Setup).map(|command| api::Setup {
            command,
            from: config.setting(Key::Setup).origin.to_string(),
            sees: passed(&config),
            variables: config.variables(),
        }),
        services: config.services().into_iter().map(|(service, _)| service).collect(),
        record: replay::place(args.beginning.record.as_deref())?,
        lease: args.reach.within(&config, followed.is_some())?,
        vendor: vendor.clone(),
    };
    let client = context.connect().await?;
    let started = client.mission_start(&wanted).await?;
    for warning in config.warnings() {
        screen::warning(&warning)?;
    }
    let header = header(&wanted, &started, &config, followed.as_ref());
    let begun = Begun { detach: args.beginning.detach, header, vendor, record: wanted.record };
    follow_or_leave(context, &client, &started, begun).await
}

/// What is wanted of the model. A mission that follows keeps that of the run before unless an option names
/// another one.
fn policy(config: &Config, follows: bool) -> Policy {
    let (policy, _) = config.policy(Role::Worker);
    let by_option = |key| !follows || matches!(config.setting(key).origin, Origin::Flag(_));
    Policy {
        model: policy.model.filter(|_| by_option(Key::Model)),
        effort: policy.effort.filter(|_| by_option(Key::Effort)),
        or: if follows { Vec::new() } else { policy.or },
    }
}

/// How a run that has begun goes on.
pub(super) struct Begun {
    pub(super) detach: bool,
    pub(super) header: String,
    pub(super) vendor: api::Vendor,
    /// Where it is recorded.
    pub(super) record: Option<String>,
}

/// Follows a run that has begun, or leaves it to the daemon.
pub(super) async fn follow_or_leave(
    context: &Context,
    client: &Client,
    started: &api::Started,
    begun: Begun,
) -> Result<Exit, Failure> {
    for warning in &started.warnings {
        screen::warning(warning)?;
    }
    if begun.detach {
        if context.json {
            screen::put_json(started)?;
        } else {
            screen::put(&format!("{}\n", started.run))?;
            let id = text::short_id(&started.run);
            screen::hint(&format!("regie log {id} --follow, regie show {id}, regie gate list"))?;
        }
        return Ok(Exit::Done);
    }
    if context.json {
        screen::put_json(&follow::tagged("started", started))?;
    } else {
        screen::say(&begun.header)?;
    }
    let options = Options { json: context.json, vendor: begun.vendor, so_far: None };
    let exit = follow::follow(client, &started.run, started.position, options).await?;
    replay::recorded(context, client, &started.run, begun.record).await?;
    Ok(exit)
}

/// How long the mission may take; what is built in is the daemon's to know.
fn time(config: &Config) -> Option<u64> {
    let setting = config.setting(Key::MaxTime);
    setting.value.amount().filter(|_| setting.origin != Origin::BuiltIn)
}

/// The variables of the owner's environment that steps are given.
fn passed(config: &Config) -> Vec<String> {
    let passed = config.given().into_iter().filter(|given| given.value == config::env::Value::Passed);
    passed.map(|given| given.name).collect()
}

fn header(
    wanted: &api::StartMission,
    started: &api::Started,
    config: &Config,
    followed: Option<&api::Run>,
) -> String {
    let bounds = [
        text::dollars(config.amount(Key::MaxDollars)),
        text::of(config.amount(Key::MaxTurns), "turn", "turns"),
        text::of(config.amount(Key::MaxTokens), "token", "tokens"),
        text::bound(match wanted.batch {
            true => time(config).unwrap_or(api::BATCH_TIME),
            false => config.amount(Key::MaxTime),
        }),
    ];
    let line = format!("{} at {}", text::line(&started.line), text::short_hash(&started.base));
    let goal = text::short(&text::line(&wanted.goal), screen::width().saturating_sub(4));
    let mut shown = format!("\n  {}\n\n", style::bold(&goal));
    shown.push_str(&row("project", &format!("{} · {line}", text::path(&wanted.project))));
    shown.push_str(&row("model", &text::model(&started.model, started.effort)));
    if wanted.batch {
        shown.push_str(&row("batch", "half the price, answers take minutes to hours"));
    }
    shown.push_str(&row("budget", &format!("at most {}", bounds.join(" · "))));
    match followed {
        Some(run) if wanted.done.is_empty() => {
            shown.push_str(&row("done when", &format!("as in run {}", text::short_id(&run.run))));
        }
        _ => shown.push_str(&criteria(&wanted.done, config)),
    }
    shown.push_str(&lease(&wanted.lease));
    if let Some(run) = followed {
        shown.push_str(&row("follows", &text::line(&run.run)));
    }
    if let (Some(setup), Some(environment)) = (&wanted.setup, &started.environment) {
        let hash = text::short_hash(&environment.hash);
        let how = match environment.kept {
            true => format!("(environment {hash}, kept from an earlier run)"),
            false => format!("(environment {hash} is new: you are asked first)"),
        };
        shown.push_str(&row("setup", &format!("{} {}", text::line(&setup.command), style::dim(&how))));
    }
    for (at, service) in wanted.services.iter().enumerate() {
        let name = if at == 0 { "services" } else { "" };
        let command = style::dim(&text::line(&service.command));
        shown.push_str(&row(name, &format!("{} {command}", text::line(&service.name))));
    }
    shown.push_str(&row("run", &text::line(&started.run)));
    shown.push('\n');
    shown
}

/// What the run is held to, where it is held to less than everything.
fn lease(wanted: &api::LeaseWanted) -> String {
    let said = |name: &str, list: &Option<Vec<String>>| {
        list.as_ref().map(|list| format!("{name} {}", text::line(&list.join(", "))))
    };
    let parts = [said("tools", &wanted.tools), said("read", &wanted.read), said("write", &wanted.write)];
    let sees = wanted.sees.as_ref().map(|labels| text::line(&super::lease::seen(labels)));
    let parts: Vec<String> = parts.into_iter().flatten().chain(sees).collect();
    if parts.is_empty() { String::new() } else { row("lease", &parts.join(" · ")) }
}

/// The definition of done, and whose it is.
fn criteria(done: &[String], config: &Config) -> String {
    let mut name = "done when";
    if done.is_empty() {
        let mend = "or give --done, or [mission] done in regie.toml";
        let whose = style::waiting("the agent proposes it, and you see it at the gate;");
        return row(name, &format!("{whose} {mend}"));
    }
    let whose = config.setting(Key::Done).origin.to_string();
    let mut shown = String::new();
    for command in done {
        let from = style::dim(&format!("· {whose}"));
        shown.push_str(&row(name, &format!("{} exits with 0 {from}", text::line(command))));
        name = "";
    }
    shown
}
