//! How much of a jail a machine can hold, in words that are journaled and shown.

use serde::{Deserialize, Serialize};

/// What became of a plan, or of one part that plans need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum Status {
    /// Everything that the plan says is enforced.
    Enforced,
    /// This machine cannot enforce it, and why.
    Unsupported(String),
    /// It runs without full enforcement, and what is missing.
    Degraded(String),
}

/// One finding of [`crate::support`], as the doctor shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// A stable name, such as `jail.landlock`.
    pub id: String,
    /// What was found.
    pub status: Status,
    /// What the finding rests on.
    pub evidence: String,
    /// The exact thing to do when it is not [`Status::Enforced`].
    pub mend: Option<String>,
}

/// The worst of several findings: what a plan started now would get.
#[must_use]
pub fn overall(checks: &[Check]) -> Status {
    let found = |wanted: fn(&Status) -> bool| {
        checks.iter().map(|check| &check.status).find(|status| wanted(status)).cloned()
    };
    found(|status| matches!(status, Status::Unsupported(_)))
        .or_else(|| found(|status| matches!(status, Status::Degraded(_))))
        .unwrap_or(Status::Enforced)
}
