//! Named points where a test may kill the process.
//!
//! Without the cargo feature `fault` a point is nothing. With it, `REGIE_FAULT=<name>:<n>:<file>` makes
//! the process kill itself with SIGKILL when it reaches the point of that name for the n-th time. It
//! makes the file first, and a process that finds the file there lives on: one fault, one crash.

/// A moment at which a crash is interesting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say where they are")]
pub enum Point {
    BeforeIntent,
    IntentSubmitted,
    IntentCommitted,
    BeforeEffect,
    AfterEffect,
    ResultReceived,
    ResultSubmitted,
    ResultCommitted,
    JournalBeforeCommit,
    JournalAfterCommit,
    RunnerReceived,
    RunnerBeforeSpawn,
    RunnerRunning,
    RunnerBeforeSpool,
    RunnerAfterSpool,
    MergeBeforeRef,
    MergeAfterRef,
    DeliverBeforeRef,
    DeliverAfterRef,
    GateAnswered,
}

impl Point {
    /// All points, in the order in which a step passes them.
    pub const ALL: [Self; 20] = [
        Self::BeforeIntent,
        Self::IntentSubmitted,
        Self::IntentCommitted,
        Self::BeforeEffect,
        Self::AfterEffect,
        Self::ResultReceived,
        Self::ResultSubmitted,
        Self::ResultCommitted,
        Self::JournalBeforeCommit,
        Self::JournalAfterCommit,
        Self::RunnerReceived,
        Self::RunnerBeforeSpawn,
        Self::RunnerRunning,
        Self::RunnerBeforeSpool,
        Self::RunnerAfterSpool,
        Self::MergeBeforeRef,
        Self::MergeAfterRef,
        Self::DeliverBeforeRef,
        Self::DeliverAfterRef,
        Self::GateAnswered,
    ];

    /// The name in `REGIE_FAULT`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeIntent => "before_intent",
            Self::IntentSubmitted => "intent_submitted",
            Self::IntentCommitted => "intent_committed",
            Self::BeforeEffect => "before_effect",
            Self::AfterEffect => "after_effect",
            Self::ResultReceived => "result_received",
            Self::ResultSubmitted => "result_submitted",
            Self::ResultCommitted => "result_committed",
            Self::JournalBeforeCommit => "journal_before_commit",
            Self::JournalAfterCommit => "journal_after_commit",
            Self::RunnerReceived => "runner_received",
            Self::RunnerBeforeSpawn => "runner_before_spawn",
            Self::RunnerRunning => "runner_running",
            Self::RunnerBeforeSpool => "runner_before_spool",
            Self::RunnerAfterSpool => "runner_after_spool",
            Self::MergeBeforeRef => "merge_before_ref",
            Self::MergeAfterRef => "merge_after_ref",
            Self::DeliverBeforeRef => "deliver_before_ref",
            Self::DeliverAfterRef => "deliver_after_ref",
            Self::GateAnswered => "gate_answered",
        }
    }
}

/// Passes a point.
#[cfg(not(feature = "fault"))]
pub const fn point(_: Point) {}

/// Passes a point; kills the process when the environment says so.
#[cfg(feature = "fault")]
pub fn point(point: Point) {
    armed::pass(point);
}

#[cfg(feature = "fault")]
mod armed {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::Point;

    static PASSED: AtomicU64 = AtomicU64::new(0);

    pub(super) fn pass(point: Point) {
        let Ok(text) = std::env::var("REGIE_FAULT") else { return };
        let mut parts = text.splitn(3, ':');
        let (Some(name), Some(count), Some(mark)) = (parts.next(), parts.next(), parts.next()) else {
            return;
        };
        if name != point.name() {
            return;
        }
        let passed = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
        if count.parse() == Ok(passed) && std::fs::File::create_new(mark).is_ok() {
            // Not abort: SIGKILL runs no handler and leaves no core, as a power cut would.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            loop {
                std::thread::park();
            }
        }
    }
}
