//! What the host does with its own git dir: checkpoint, merge, deliver. Each is idempotent under the
//! step's key, so a crash in the middle is followed by the same call again.

use std::path::Path;
use std::sync::Arc;

use domain::{Amount, Digest, Outcome, Payload, StepKind};
use engine::host::{
    Checkpoint, CheckpointRequest, DELIVER, DeliverRequest, Delivered, FileChange, HostFailure, MERGE,
    MergeFailed, MergeRequest, Merged,
};
use kernel::fault::{Point, point};
use kernel::machine::Input;
use kernel::port::{Artifacts, Clock, Executor, Finished, Inbox, Journal, Probe, Work};
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::{Commit, Message, Signature, Treeish as _};

use super::inflight::Inflight;
use crate::layout::Layout;
use crate::runs::Charter;
use crate::view;

/// The longest piece of a patch that is kept in a checkpoint itself, in bytes.
const PREVIEW: usize = 16 * 1024;

/// Executes the steps of the host.
#[derive(Clone)]
pub struct HostExecutor {
    layout: Layout,
    journal: Arc<dyn Journal>,
    artifacts: Arc<dyn Artifacts>,
    clock: Arc<dyn Clock>,
    inflight: Inflight,
}

/// Why a step of the host failed: its code and its words, with all causes.
struct Failure(&'static str, String);

impl HostExecutor {
    /// An executor over an installation.
    pub fn new(
        layout: Layout,
        journal: Arc<dyn Journal>,
        artifacts: Arc<dyn Artifacts>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { layout, journal, artifacts, clock, inflight: Inflight::default() }
    }

    /// Whether a tool call of this name is the host's.
    pub fn has(tool: &str) -> bool {
        matches!(tool, MERGE | DELIVER)
    }

    fn execute(&self, work: &Work) -> Finished {
        let charter = match Charter::read(&*self.journal, work.run) {
            Ok(charter) => charter,
            Err(error) => return failed(&failure("run.unreadable", &error)),
        };
        let done = match work.kind {
            StepKind::Checkpoint => self.checkpoint(work, &charter),
            _ if work.tool == MERGE => return self.merge(work, &charter),
            _ => self.deliver(work, &charter),
        };
        point(Point::AfterEffect);
        done.unwrap_or_else(|Failure(code, message)| failed(&HostFailure { code: code.into(), message }))
    }

    fn tree(&self, charter: &Charter) -> Result<store::Tree, Failure> {
        store::Tree::open_or_create(&self.layout.tree(charter.mission.project)).map_err(storing)
    }

    fn signature(&self, charter: &Charter) -> Signature {
        Signature {
            name: charter.started.principal.clone(),
            email: "agent@regie.invalid".into(),
            seconds: i64::try_from(self.clock.now().0 / 1000).unwrap_or(i64::MAX),
        }
    }

    fn checkpoint(&self, work: &Work, charter: &Charter) -> Result<Finished, Failure> {
        let request: CheckpointRequest = decode(&work.request)?;
        let tree = self.tree(charter)?;
        let workspace =
            tree.workspace_open(&request.branch, &self.layout.workspace(work.run)).map_err(storing)?;
        let base = commit(&request.base)?;
        let head = match &request.keep {
            Some(kept) => commit(kept)?,
            None => {
                let message = message(request.message, Some(work.key));
                workspace.commit(&message, &self.signature(charter)).map_err(storing)?;
                tree.branch_head(&request.branch).map_err(storing)?
            }
        };
        let line_head = tree.line_head(&request.line).map_err(storing)?;
        let diff = tree.diff(&base, &head).map_err(storing)?;
        let patch = if diff.patch.is_empty() {
            None
        } else {
            Some(self.artifacts.put(&diff.patch).map_err(|e| failure_of("store.artifact", &e))?)
        };
        let (added, removed) = diff.totals();
        let preview = diff.patch.get(..PREVIEW.min(diff.patch.len())).unwrap_or_default();
        let checkpoint = Checkpoint {
            commit: (!diff.files.is_empty()).then(|| head.hex().to_owned()),
            base: request.base,
            line_head: line_head.map(|head| head.hex().to_owned()),
            files: diff.files.iter().map(file_change).collect(),
            added,
            removed,
            patch,
            patch_preview: String::from_utf8_lossy(preview).into_owned(),
        };
        Ok(Finished { spent: Amount::default(), ..succeeded(&checkpoint, patch) })
    }

    fn merge(&self, work: &Work, charter: &Charter) -> Finished {
        point(Point::MergeBeforeRef);
        let merged = self.try_merge(work, charter);
        point(Point::MergeAfterRef);
        match merged {
            Ok(commit) => succeeded(&Merged { commit: commit.hex().into() }, None),
            Err(failed_merge) => failed(&failed_merge),
        }
    }

    fn try_merge(&self, work: &Work, charter: &Charter) -> Result<Commit, MergeFailed> {
        let plain = |Failure(_, message)| MergeFailed { message, ..MergeFailed::default() };
        let request: MergeRequest = decode(&work.request).map_err(plain)?;
        let tree = self.tree(charter).map_err(plain)?;
        let mut proposal =
            tree.propose(&request.branch, &request.line).map_err(|error| plain(storing(error)))?;
        // Exactly what the owner saw is merged, whatever the branch has become since.
        proposal.head = commit(&request.head).map_err(plain)?;
        let expected = match &request.expected_line_head {
            Some(head) => commit(head).map_err(plain)?,
            None => proposal.line_head.clone(),
        };
        let message = message(request.message, None);
        tree.merge(&proposal, &message, &self.signature(charter), &work.key.to_string(), &expected).map_err(
            |error| match &error {
                store::Error::Conflict { paths } => MergeFailed {
                    conflicts: paths.iter().map(|path| path.display().to_string()).collect(),
                    message: error.to_string(),
                    ..MergeFailed::default()
                },
                store::Error::Moved { .. } => MergeFailed {
                    message: format!(
                        "Regie's line of {} has moved since the proposal was made",
                        request.line
                    ),
                    moved: true,
                    ..MergeFailed::default()
                },
                _ => plain(storing(error)),
            },
        )
    }

    fn deliver(&self, work: &Work, charter: &Charter) -> Result<Finished, Failure> {
        let request: DeliverRequest = decode(&work.request)?;
        let tree = self.tree(charter)?;
        let wanted = commit(&request.commit)?;
        // Only what an approved merge put on Regie's line leaves the house.
        match tree.line_head(&request.line).map_err(storing)? {
            Some(head) if tree.is_ancestor(&wanted, &head).map_err(storing)? => {}
            _ => {
                let message = format!(
                    "{} is not on Regie's line of {}: it was not merged",
                    request.commit, request.line
                );
                return Err(Failure("store.not_merged", message));
            }
        }
        point(Point::DeliverBeforeRef);
        let delivery =
            tree.deliver(Path::new(&charter.mission.repository), &request.line, &wanted).map_err(storing)?;
        point(Point::DeliverAfterRef);
        let delivered = match delivery {
            store::Delivery::FastForwarded { to, .. } => Delivered::FastForwarded { commit: to.hex().into() },
            store::Delivery::AlreadyThere => Delivered::AlreadyThere,
            store::Delivery::Left { reason, .. } if !charter.mission.uncommitted.is_empty() => {
                let repository = Path::new(&charter.mission.repository);
                Delivered::Left {
                    reason,
                    command: tree.fetch_command_over_changes(repository, &request.line),
                }
            }
            store::Delivery::Left { reason, command } => Delivered::Left { reason, command },
        };
        Ok(succeeded(&delivered, None))
    }
}

impl Executor for HostExecutor {
    fn start(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let (executor, key) = (self.clone(), work.clone());
        self.inflight.spawn(&key, inbox, async move {
            let (step, attempt) = (work.step, work.attempt);
            let finished = tokio::task::spawn_blocking(move || executor.execute(&work)).await;
            let finished = finished.unwrap_or_else(|error| failed(&failure("store.panicked", &error)));
            Input::Finished(step, attempt, finished)
        });
    }

    fn status(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.inflight.status(&work, inbox);
    }

    fn probe(&self, work: Work, inbox: Arc<dyn Inbox>) {
        inbox.send(Input::Probed(work.step, Probe::Unknown));
    }

    /// A step of the host is short and not safe to cut: it is waited for.
    fn kill(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let inflight = self.inflight.clone();
        tokio::spawn(async move {
            while inflight.contains(&work) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            inbox.send(Input::Killed(work.step));
        });
    }
}

/// The driver's words and trailers; the key makes a checkpoint idempotent.
fn message(words: engine::host::Message, key: Option<Digest>) -> Message {
    let engine::host::Message { subject, body, mut trailers } = words;
    trailers.extend(key.map(|key| (store::KEY_TRAILER.to_owned(), key.to_string())));
    Message { subject, body, trailers }
}

fn decode<T: DeserializeOwned>(request: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(request).map_err(|error| failure_of("run.request_unreadable", &error))
}

fn commit(text: &str) -> Result<Commit, Failure> {
    text.parse().map_err(|error| failure_of("run.request_unreadable", &error))
}

fn storing(error: store::Error) -> Failure {
    failure_of("store.failed", &error)
}

fn failure_of(code: &'static str, error: &dyn std::error::Error) -> Failure {
    Failure(code, view::with_causes(error))
}

fn failure(code: &str, error: &dyn std::error::Error) -> HostFailure {
    HostFailure { code: code.into(), message: view::with_causes(error) }
}

fn succeeded(value: &impl Serialize, artifact: Option<Digest>) -> Finished {
    Finished {
        outcome: Outcome::Succeeded,
        spent: Amount::CALL,
        payload: Payload(serde_json::to_vec(value).unwrap_or_default()),
        artifacts: artifact.into_iter().collect(),
    }
}

fn failed(value: &impl Serialize) -> Finished {
    Finished { outcome: Outcome::Failed, ..succeeded(value, None) }
}

fn file_change(file: &store::FileChange) -> FileChange {
    FileChange {
        path: file.path.to_string_lossy().into_owned(),
        status: view::file_status(&file.status).into(),
        added: file.added.unwrap_or(0),
        removed: file.removed.unwrap_or(0),
    }
}
