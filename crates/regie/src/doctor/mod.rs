//! `regie doctor`: what this machine lacks, and how to mend it. It changes nothing, and needs no
//! daemon.

mod checks;
mod machine;
mod models;
mod notify;
mod project;

use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::home::Home;
use crate::screen::{self, style, text};

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// As it should be.
    Ok,
    /// Good to know.
    Info,
    /// It works, with less.
    Warn,
    /// Regie cannot work like this.
    Fail,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    /// A stable name, as `git.version`.
    id: String,
    status: Status,
    /// What the finding rests on.
    evidence: String,
    /// The exact thing to do.
    mend: Option<String>,
}

impl Check {
    fn new(id: &str, status: Status, evidence: impl Into<String>) -> Self {
        Self { id: id.into(), status, evidence: evidence.into(), mend: None }
    }

    fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }
}

pub(crate) async fn run(home: &Home, json: bool) -> Result<Exit, Failure> {
    let checks = checks::all(home).await;
    let broken = checks.iter().any(|check| check.status == Status::Fail);
    if json {
        screen::put_json(&serde_json::json!({ "ok": !broken, "checks": checks }))?;
    } else {
        screen::put(&shown(&checks))?;
    }
    Ok(if broken { Exit::Failed } else { Exit::Done })
}

fn shown(checks: &[Check]) -> String {
    let wide = checks.iter().map(|check| check.id.chars().count()).max().unwrap_or_default();
    let mut all = String::new();
    for check in checks {
        let mark = match check.status {
            Status::Ok => style::ok("✓"),
            Status::Info => style::dim("·"),
            Status::Warn => style::waiting("!"),
            Status::Fail => style::failed("✗"),
        };
        all.push_str(&format!(
            "  {mark} {:<wide$}  {}\n",
            check.id,
            style::dim(&text::line(&check.evidence))
        ));
        if let Some(mend) = &check.mend {
            all.push_str(&format!("    {:<wide$}  {} {}\n", "", style::hint("mend:"), text::line(mend)));
        }
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let verdict = match (count(Status::Fail), count(Status::Warn)) {
        (0, 0) => style::ok("all is well"),
        (0, warned) => style::waiting(&format!("it works; {warned} to look at")),
        (broken, _) => style::failed(&format!("{broken} to mend first")),
    };
    all.push_str(&format!("\n  {verdict}\n"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_aligned_with_their_mend() {
        let checks = [
            Check::new("git.version", Status::Ok, "git version 2.47.3"),
            Check::new("home.space", Status::Warn, "0.4 GiB free").mend("free some space"),
        ];
        let shown = anstream::adapter::strip_str(&shown(&checks)).to_string();
        insta::assert_snapshot!(shown, @r"
          ✓ git.version  git version 2.47.3
          ! home.space   0.4 GiB free
                         mend: free some space

          it works; 1 to look at
        ");
    }
}
