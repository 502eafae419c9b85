//! `regie audit verify`: the record, link by link; `regie audit acts`: what was done outside of any run.

use super::{Context, lease};
use crate::failure::{Exit, Failure};
use crate::screen::{self, style, text};

pub(super) async fn acts(context: &Context) -> Result<Exit, Failure> {
    let acts = context.connect().await?.act_list().await?;
    if context.json {
        screen::put_json(&acts)?;
        return Ok(Exit::Done);
    }
    let shown: String = acts.iter().map(|act| format!("{}\n", text::line(&lease::act_line(act)))).collect();
    screen::put(if acts.is_empty() { "nothing was done outside of runs\n" } else { &shown })?;
    Ok(Exit::Done)
}

pub(super) async fn verify(context: &Context) -> Result<Exit, Failure> {
    let audit = context.connect().await?.audit_verify().await?;
    let exit = if audit.intact { Exit::Done } else { Exit::Failed };
    if context.json {
        screen::put_json(&audit)?;
        return Ok(exit);
    }
    let size =
        format!("{} of {}", text::of(audit.events, "event", "events"), text::of(audit.runs, "run", "runs"));
    let mut shown = if audit.intact {
        format!("{} every link holds  {}\n", style::ok("✓"), style::dim(&size))
    } else {
        format!("{} the record was changed  {}\n", style::failed("✗"), style::dim(&size))
    };
    if audit.erased > 0 {
        let erased = text::of(audit.erased, "content was", "contents were");
        shown.push_str(&format!("  {erased} forgotten on purpose; their links hold\n"));
    }
    for broken in &audit.broken {
        shown.push_str(&format!(
            "  {} event {}: {}\n",
            text::line(&broken.run),
            broken.seq,
            text::line(&broken.what)
        ));
    }
    screen::put(&shown)?;
    if !audit.intact {
        screen::hint("keep a copy of the home as it is, and compare it with your last backup")?;
    }
    Ok(exit)
}
