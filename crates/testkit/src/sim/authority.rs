//! A scripted authorisation point with a lease that can be changed and taken back.

use std::sync::Arc;

use domain::budget::Exhausted;
use domain::{Decision, LeaseId, Verdict};
use kernel::port::{Action, Authority};

use super::program::{Program, Rule};

/// How long a gate stays open, in milliseconds.
pub(super) const PATIENCE: u64 = 2_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) program: Arc<Program>,
    pub(super) lease: LeaseId,
    pub(super) epoch: u64,
    pub(super) revoked: bool,
}

impl Authority for Policy {
    fn decide(&self, action: &Action<'_>) -> Result<Decision, Exhausted> {
        let rule = self.program.op_of(action.tool).map_or(Rule::Deny, |(_, op)| op.rule);
        let verdict = match rule {
            _ if self.revoked => Verdict::Deny,
            Rule::Day => return Err(Exhausted::Day),
            Rule::Deny => Verdict::Deny,
            Rule::Ask if action.approved.is_none() => Verdict::Ask,
            Rule::Ask | Rule::Allow => Verdict::Allow,
        };
        Ok(Decision {
            verdict,
            rule: "scripted".into(),
            lease: self.lease,
            epoch: self.epoch,
            gate: action.approved,
        })
    }

    fn day_cap(&self) -> u64 {
        u64::MAX
    }

    fn patience(&self, _: &Action<'_>) -> u64 {
        PATIENCE
    }
}
