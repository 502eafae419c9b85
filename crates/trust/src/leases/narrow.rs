//! Whether one lease allows nothing that another does not: pure, and no where it is not certain.

use domain::{Caps, Label, Labels, Lease, LeaseId, Timestamp};

/// Why a lease is not a narrower one of another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Widening {
    /// The wider lease does not hold.
    #[error("lease {0} was revoked: nothing can be granted from it")]
    Revoked(LeaseId),
    /// It would be held for somebody else.
    #[error("the lease would serve another human than the one it comes from")]
    OnBehalfOf,
    /// It would hold a tool that the wider one lacks.
    #[error("the lease would hold the tool `{0}`, which the one it comes from does not")]
    Tool(String),
    /// It would reach files that the wider one does not.
    #[error("the lease would reach `{0}`, of which it is not certain that the one it comes from does")]
    Path(String),
    /// It could use up more.
    #[error("the lease would have a larger budget than the one it comes from")]
    Budget,
    /// It could take in what the wider one refuses.
    #[error("the lease would take in what the one it comes from refuses")]
    Labels,
    /// It would live longer.
    #[error("the lease would outlive the one it comes from")]
    Expiry,
}

/// Whether `lease` allows nothing that `wide` does not.
///
/// # Errors
/// The first thing that would be wider.
pub fn is_narrower(wide: &Lease, lease: &Lease) -> Result<(), Widening> {
    if wide.revoked {
        return Err(Widening::Revoked(wide.id));
    }
    if wide.on_behalf_of != lease.on_behalf_of {
        return Err(Widening::OnBehalfOf);
    }
    if let Some(tool) = lease.tools.iter().find(|tool| !wide.tools.contains(tool)) {
        return Err(Widening::Tool(tool.clone()));
    }
    if let Some(pattern) = lease.paths.beyond(&wide.paths) {
        return Err(Widening::Path(pattern.to_string()));
    }
    if !is_within(wide.budget.as_ref(), lease.budget.as_ref()) {
        return Err(Widening::Budget);
    }
    if !takes_in_no_more(wide.labels.as_ref(), lease.labels.as_ref()) {
        return Err(Widening::Labels);
    }
    if lease.expires_at > wide.expires_at {
        return Err(Widening::Expiry);
    }
    Ok(())
}

/// The narrowest of what a lease holds and what is asked for: tools that it has, no longer life.
#[must_use]
pub fn clip(wide: &Lease, tools: &[String], expires_at: Timestamp) -> (Vec<String>, Timestamp) {
    let kept = tools.iter().filter(|tool| wide.tools.contains(tool)).cloned().collect();
    (kept, expires_at.min(wide.expires_at))
}

/// Why a lease does not take in contents with these labels; `None` where it does.
#[must_use]
pub fn refuses(lease: &Lease, labels: &Labels) -> Option<String> {
    let most = lease.labels.as_ref().filter(|most| !labels.is_within(most))?;
    let beyond = labels.iter().filter(|label| !most.has(label.as_str()));
    let beyond: Vec<&str> = beyond.map(Label::as_str).collect();
    Some(format!(
        "outside of the lease: this reads, or is a command and could read, what is {}, and the lease does not take that in",
        beyond.join(" and ")
    ))
}

fn is_within(wide: Option<&Caps>, budget: Option<&Caps>) -> bool {
    let Some(wide) = wide else { return true };
    budget.is_some_and(|budget| {
        budget.tokens <= wide.tokens
            && budget.nanodollars <= wide.nanodollars
            && budget.calls <= wide.calls
            && budget.turns <= wide.turns
            && budget.millis <= wide.millis
    })
}

fn takes_in_no_more(wide: Option<&Labels>, labels: Option<&Labels>) -> bool {
    let Some(wide) = wide else { return true };
    labels.is_some_and(|labels| labels.is_within(wide))
}
