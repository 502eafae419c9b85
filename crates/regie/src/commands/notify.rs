//! `regie notify test`: one notification on every way, and how it fared.

use control::notify::Notification;
use serde_json::json;

use super::Context;
use crate::config;
use crate::failure::{Exit, Failure};
use crate::notify::Wanted;
use crate::screen::{self, clock, style, text};

pub(super) async fn test(context: &Context) -> Result<Exit, Failure> {
    let wanted = Wanted::of(&config::of_installation(&context.home)?);
    if wanted.ways.is_empty() {
        let file = config::installation_file(&context.home);
        return Err(Failure::usage("there is no way to tell you anything")
            .hint(format!("set [notify] desktop or webhook in {}", file.display())));
    }
    let at = clock::now();
    let notification = Notification {
        id: format!("test.{at}"),
        event: "test".into(),
        run: String::new(),
        mission: String::new(),
        goal: "A notification on trial".into(),
        title: "Regie can reach you".into(),
        body: "This is how gates and ends are told.".into(),
        link: None,
        at,
    };
    let (mut failed, mut rows) = (false, Vec::new());
    for way in &wanted.ways {
        let told = way.tell(&notification).await;
        failed |= told.is_err();
        rows.push((way.shown(), told.err()));
    }
    if context.json {
        let rows: Vec<_> = rows.iter().map(|(way, why)| json!({ "way": way, "failed": why })).collect();
        screen::put_json(&json!({ "id": notification.id, "ways": rows }))?;
    } else {
        for (way, why) in &rows {
            let line = match why {
                None => format!("  {} {way}\n", style::ok("✓")),
                Some(why) => format!("  {} {way}: {}\n", style::failed("✗"), text::line(why)),
            };
            screen::put(&line)?;
        }
        screen::hint("the daemon tells you with its own environment: `regie doctor` says how it fared")?;
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}
