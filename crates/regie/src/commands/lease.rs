//! `regie lease`: what runs and bearers may do, as the owner grants, looks at and takes back.

use clap::{Args, Subcommand};
use control::api::{self, LeaseRecord, LeaseWanted, MintLease};
use domain::grants::NotAPattern;
use domain::{Grants, Pattern};

use super::{Context, row};
use crate::config::{Config, Key, Origin, span};
use crate::failure::{Exit, Failure};
use crate::screen::{self, clock, style, table, text};

/// How long a minted lease lives when nothing is said, in milliseconds.
const LIFE: u64 = 60 * 60 * 1000;

/// What may be done.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Reach {
    /// Only these tools, as read,edit [default: all]
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub(crate) tools: Option<Vec<String>>,
    /// Only these files can be read, as 'src/**'; may be repeated [default: all]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) read: Option<Vec<String>>,
    /// Only these files can be written; may be repeated [default: all that can be read]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) write: Option<Vec<String>>,
    /// Of what has labels, only what has these is read, as external; `none` for nothing [default: all]
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    pub(crate) sees: Option<Vec<String>>,
}

impl Reach {
    /// As it is asked of the daemon.
    pub(super) fn wanted(&self) -> LeaseWanted {
        let Self { tools, read, write, sees } = self.clone();
        let sees = sees.map(|labels| labels.into_iter().filter(|label| label != "none").collect());
        LeaseWanted { tools, read, write, sees }
    }

    /// The same, held to what the repository's file says. A mission that follows and says nothing is held to what
    /// the run before was: a repository only ever narrows.
    ///
    /// # Errors
    /// When it cannot be told which of both is the narrower one.
    pub(super) fn within(&self, config: &Config, follows: bool) -> Result<LeaseWanted, Failure> {
        let own = self.wanted();
        if follows && own.is_blank() {
            return Ok(own);
        }
        let said = |key| (config.setting(key).origin != Origin::BuiltIn).then(|| config.names(key));
        let tools = match (own.tools.clone(), said(Key::LeaseTools)) {
            (Some(own), Some(said)) => Some(own.into_iter().filter(|tool| said.contains(tool)).collect()),
            (own, said) => own.or(said),
        };
        let (read, write) = (said(Key::LeaseRead), said(Key::LeaseWrite));
        if read.is_none() && write.is_none() {
            return Ok(LeaseWanted { tools, ..own });
        }
        if own.read.is_none() && own.write.is_none() {
            return Ok(LeaseWanted { tools, read, write, ..own });
        }
        let narrower = grants(&own.read, &own.write)?.narrower(grants(&read, &write)?).ok_or_else(|| {
            Failure::new(
                "--read and --write reach beyond [lease] of regie.toml, which reaches beyond them as well",
            )
            .hint("name files within both")
        })?;
        let texts = |patterns: &[Pattern]| Some(patterns.iter().map(Pattern::to_string).collect());
        Ok(LeaseWanted { tools, read: texts(&narrower.read), write: texts(&narrower.write), ..own })
    }
}

fn grants(read: &Option<Vec<String>>, write: &Option<Vec<String>>) -> Result<Grants, Failure> {
    let parsed = |texts: &Option<Vec<String>>| -> Result<Option<Vec<Pattern>>, Failure> {
        let Some(texts) = texts else { return Ok(None) };
        let patterns: Result<Vec<Pattern>, _> = texts.iter().map(|text| text.parse()).collect();
        patterns.map(Some).map_err(|error: NotAPattern| Failure::new(error.to_string()))
    };
    Grants::new(parsed(read)?, parsed(write)?).map_err(|error| Failure::new(error.to_string()))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lease {
    /// List leases that hold
    List {
        /// Also those that are over or were taken back
        #[arg(long)]
        all: bool,
    },
    /// Show a lease: what it allows, where it comes from, what was decided under it
    Show(OneLease),
    /// Grant a lease to whoever bears its token, which is shown once
    Mint(Mint),
    /// Grant a narrower lease out of another one; it ends when that one does
    Narrow {
        /// The other one: a full id, the end of one, or its run
        lease: String,
        #[command(flatten)]
        mint: Mint,
    },
    /// Take a lease back, and with it at once all that came from it
    Revoke(OneLease),
}

#[derive(Debug, Args)]
pub(crate) struct OneLease {
    /// A full id, the end of one, or its run in full; `last` is that of the last run
    #[arg(default_value = "last")]
    pub(crate) lease: String,
}

#[derive(Debug, Args)]
pub(crate) struct Mint {
    #[command(flatten)]
    pub(crate) reach: Reach,
    /// How long it holds, as 30m or 2h [default: 1h]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub(crate) life: Option<u64>,
    /// Who bears it: `agent:`, `svc:`, `node:` or `human:` and a name
    #[arg(long = "as", value_name = "PRINCIPAL", default_value = "agent:guest")]
    pub(crate) holder: String,
    /// What for, in your words
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) purpose: String,
}

pub(super) async fn run(context: &Context, command: Lease) -> Result<Exit, Failure> {
    match command {
        Lease::List { all } => list(context, all).await,
        Lease::Show(one) => show(context, &one.lease).await,
        Lease::Mint(mint) => grant(context, None, mint).await,
        Lease::Narrow { lease, mint } => grant(context, Some(lease), mint).await,
        Lease::Revoke(one) => {
            let lease = context.connect().await?.lease_revoke(&one.lease).await?;
            match context.json {
                true => screen::put_json(&lease)?,
                false => screen::say(&format!("{}: revoked\n", text::line(&lease.lease)))?,
            }
            Ok(Exit::Done)
        }
    }
}

async fn list(context: &Context, all: bool) -> Result<Exit, Failure> {
    let leases = context.connect().await?.lease_list(all).await?;
    if context.json {
        screen::put_json(&leases)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = leases
        .iter()
        .map(|lease| {
            vec![
                text::short_id(&lease.lease),
                text::line(&lease.state),
                text::line(&lease.principal),
                clock::moment(lease.expires_at),
                text::line(&held(lease)),
                text::line(&lease.purpose),
            ]
        })
        .collect();
    let heading = ["LEASE", "STATE", "HOLDER", "UNTIL", "MAY", "PURPOSE"];
    screen::put(&table::table(&heading, &rows, screen::width()))?;
    Ok(Exit::Done)
}

/// `regie roles`.
pub(super) async fn roles(context: &Context) -> Result<Exit, Failure> {
    let roles = context.connect().await?.role_list().await?;
    if context.json {
        screen::put_json(&roles)?;
        return Ok(Exit::Done);
    }
    let mut shown = String::new();
    for role in &roles {
        let held = text::of(u64::try_from(role.leases.len()).unwrap_or(u64::MAX), "lease", "leases");
        let runs = text::of(role.runs, "run", "runs");
        shown.push_str(&format!(
            "{}  {}\n",
            style::bold(&text::line(&role.principal)),
            style::dim(&format!("{held} · {runs}"))
        ));
        for run in &role.recent {
            let (id, at) = (text::short_id(&run.run), clock::moment(run.started_at));
            let goal = text::short(&text::line(&run.goal), screen::width().saturating_sub(45));
            shown.push_str(&format!("  {id}  {at}  {:<8}  {goal}\n", text::line(&run.status)));
        }
    }
    screen::put(&shown)?;
    Ok(Exit::Done)
}

/// What a lease allows, in a few words.
fn held(lease: &api::Lease) -> String {
    let tools = text::of(u64::try_from(lease.tools.len()).unwrap_or(u64::MAX), "tool", "tools");
    match (is_everything(&lease.read), is_everything(&lease.write)) {
        (_, true) => tools,
        (true, false) => format!("{tools} · write {}", patterns(&lease.write)),
        (false, false) => {
            format!("{tools} · read {} · write {}", patterns(&lease.read), patterns(&lease.write))
        }
    }
}

fn is_everything(patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| pattern == "**")
}

fn patterns(patterns: &[String]) -> String {
    if patterns.is_empty() { "nothing".into() } else { patterns.join(", ") }
}

async fn show(context: &Context, lease: &str) -> Result<Exit, Failure> {
    let record = context.connect().await?.lease_fetch(lease).await?;
    match context.json {
        true => screen::put_json(&record)?,
        false => screen::put(&shown(&record))?,
    }
    Ok(Exit::Done)
}

fn shown(record: &LeaseRecord) -> String {
    let lease = &record.lease;
    let mut shown =
        format!("\n  {}  {}\n\n", style::bold(&text::line(&lease.lease)), text::line(&lease.state));
    let mut add = |name: &str, value: &str| shown.push_str(&row(name, &text::line(value)));
    add("holder", &format!("{} on behalf of {}", lease.principal, lease.on_behalf_of));
    add("purpose", &lease.purpose);
    if let Some(run) = &lease.run {
        add("run", run);
    }
    add("tools", &patterns(&lease.tools));
    add("reads", &patterns(&lease.read));
    add("writes", &patterns(&lease.write));
    if let Some(labels) = &lease.sees {
        add("sees", &seen(labels));
    }
    let granted = lease.granted_at.map_or_else(|| "unknown".to_owned(), clock::moment);
    add("granted", &format!("{granted}, until {}", clock::moment(lease.expires_at)));
    record.above.iter().for_each(|above| add("from", above));
    record.below.iter().for_each(|below| add("narrowed", below));
    let counted = text::of(record.allowed, "decision", "decisions");
    add("allowed", &format!("{counted} under it"));
    for one in &record.refused {
        let line = format!("step {}: {}", one.step, one.rule);
        add(if one.verdict == "ask" { "asked" } else { "denied" }, &line);
    }
    for act in &record.acts {
        add("act", &act_line(act));
    }
    shown.push('\n');
    shown
}

/// The labels of what is taken in at most.
pub(super) fn seen(labels: &[String]) -> String {
    match labels {
        [] => "nothing that has a label".into(),
        labels => format!("of what has labels, what is {}", labels.join(" or ")),
    }
}

pub(super) fn act_line(act: &api::Act) -> String {
    let outcome = act.outcome.as_deref().unwrap_or("cut short");
    format!("{}  {} {} {}: {outcome}", clock::moment(act.at), act.by, act.what, act.of)
}

async fn grant(context: &Context, from: Option<String>, mint: Mint) -> Result<Exit, Failure> {
    let wanted = MintLease {
        from,
        wanted: mint.reach.wanted(),
        holder: mint.holder,
        purpose: mint.purpose,
        millis: mint.life.unwrap_or(LIFE),
    };
    let minted = context.connect().await?.lease_mint(&wanted).await?;
    if context.json {
        screen::put_json(&minted)?;
        return Ok(Exit::Done);
    }
    // The token alone is data: it can be handed on by a pipe.
    screen::put(&format!("{}\n", minted.token))?;
    let lease = &minted.lease;
    screen::say(&format!(
        "{}: {} until {}; this token is shown once\n",
        text::line(&lease.lease),
        text::line(&held(lease)),
        clock::moment(lease.expires_at)
    ))?;
    Ok(Exit::Done)
}
