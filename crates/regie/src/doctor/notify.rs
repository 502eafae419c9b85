//! Whether the owner can be reached: what the configuration names, and how it fared last.

use super::{Check, Status};
use crate::config;
use crate::home::Home;
use crate::notify::{self, Wanted, Way, status};
use crate::screen::clock;

pub(super) fn all(home: &Home) -> Vec<Check> {
    // A file that makes no sense is said elsewhere.
    let Ok(config) = config::of_installation(home) else { return Vec::new() };
    let fared = status::read(home);
    Wanted::of(&config).ways.iter().map(|way| of(way, &fared)).collect()
}

fn of(way: &Way, fared: &status::All) -> Check {
    let id = match way {
        Way::Desktop => "notify.desktop",
        Way::Webhook { .. } => "notify.webhook",
    };
    if *way == Way::Desktop
        && let Some(what) = notify::desktop_missing()
    {
        return Check::new(id, Status::Info, format!("{what}; nothing shows there"));
    }
    let shown = way.shown();
    match fared.get(&shown) {
        Some(last) if last.failed_at > last.taken_at => {
            let found = format!("{shown}: failed at {} UTC: {}", clock::moment(last.failed_at), last.why);
            Check::new(id, Status::Warn, found).mend("regie notify test")
        }
        Some(last) => {
            Check::new(id, Status::Ok, format!("{shown}: taken at {} UTC", clock::moment(last.taken_at)))
        }
        None => {
            Check::new(id, Status::Info, format!("{shown}: nothing was told yet; try `regie notify test`"))
        }
    }
}
