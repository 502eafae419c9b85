//! What a proposal says of the export gate: what the host has found, and which of it the owner has approved
//! already at an earlier gate of the run. A proposal is made anew when others were faster; the same content
//! is then no second question.

use std::collections::BTreeSet;

use domain::Digest;
use trust::export::Report;

use super::view::{Stage, View};
use crate::host::Checkpoint;

/// What the owner has approved.
#[derive(Debug, Default)]
pub(super) struct Exported {
    /// Whether this run's proposals say it: those of older drivers did not.
    is_told: bool,
    approved: BTreeSet<Digest>,
}

impl Exported {
    /// A run begins. What was approved for another run says nothing about this one.
    pub(super) fn begin(driver: &str) -> Self {
        Self { is_told: driver == super::NAME, approved: BTreeSet::new() }
    }

    /// The report of a proposal.
    pub(super) fn report(&self, checkpoint: &Checkpoint) -> Option<Report> {
        let mut report = checkpoint.export.clone().filter(|_| self.is_told)?;
        if !self.approved.is_empty() {
            for finding in &mut report.findings {
                finding.seen = self.approved.contains(&finding.identity());
            }
        }
        Some(report)
    }
}

impl View {
    /// The owner has approved what stands at the gate. What was only counted there was not seen.
    pub(super) fn approved(&mut self) {
        if self.stage != Stage::Merging {
            return;
        }
        let report = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.export.as_ref());
        let findings = report.iter().flat_map(|report| &report.findings);
        self.exported.approved.extend(findings.map(trust::export::Finding::identity));
    }
}
