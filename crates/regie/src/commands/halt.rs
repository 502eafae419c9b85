//! `regie halt`: the kill switch.

use clap::Args;
use control::api::{self, RaiseHalt};

use super::Context;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::screen::{self, clock, text};

#[derive(Debug, Args)]
pub(crate) struct Halt {
    /// Let things begin again; what was taken back stays so
    #[arg(long, conflicts_with_all = ["show", "why"])]
    pub(crate) lift: bool,
    /// Only say whether everything is halted
    #[arg(long)]
    pub(crate) show: bool,
    /// Why, in your words; it is told to whoever wants something
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

pub(super) async fn run(context: &Context, args: Halt) -> Result<Exit, Failure> {
    // With nobody to ask, whoever begins must not let runs go on for a moment.
    let raises = !args.lift && !args.show;
    let client =
        if raises { Client::connect_to_halt(&context.home).await? } else { context.connect().await? };
    let halt = match (args.lift, args.show) {
        (true, _) => client.halt_lift().await?,
        (false, true) => client.halt_fetch().await?,
        (false, false) => client.halt_raise(&RaiseHalt { why: args.why.unwrap_or_default() }).await?,
    };
    let exit = if halt.unstopped.is_empty() { Exit::Done } else { Exit::Failed };
    if context.json {
        screen::put_json(&halt)?;
        return Ok(exit);
    }
    screen::put(&shown(&halt))?;
    if halt.is_on {
        screen::hint("regie halt --lift")?;
    }
    Ok(exit)
}

fn shown(halt: &api::Halt) -> String {
    if !halt.is_on {
        return "nothing is halted\n".into();
    }
    let why = if halt.why.is_empty() { String::new() } else { format!(": {}", text::line(&halt.why)) };
    let mut shown =
        format!("everything is halted by {} since {}{why}\n", text::line(&halt.by), clock::moment(halt.at));
    if halt.revoked > 0 || !halt.stopped.is_empty() {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        shown.push_str(&format!(
            "  {} taken back, {} stopped\n",
            text::of(count(halt.revoked), "lease", "leases"),
            text::of(count(halt.stopped.len()), "run", "runs")
        ));
    }
    for left in &halt.unstopped {
        shown.push_str(&format!("  not stopped, and nothing is allowed to it: {}\n", text::line(left)));
    }
    shown
}
