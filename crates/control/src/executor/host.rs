//! What the host does with its own git dir: checkpoint, merge, deliver. Each is idempotent under the
//! step's key, so a crash in the middle is followed by the same call again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Amount, Digest, Outcome, Payload, StepKind};
use engine::host::{
    Checkpoint, CheckpointRequest, DELIVER, DeliverRequest, Delivered, FileChange, HostFailure, MERGE,
    MergeFailed, MergeRequest, Merged,
};
use kernel::fault::{Point, point};
use kernel::machine::Input;
use kernel::port::{Artifacts, Clock, Executor, Finished, Inbox, Journal, Probe, Refused, Work};
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::{Commit, Message, Signature, Treeish as _};

use super::export;
use super::inflight::Inflight;
use super::room;
use crate::layout::Layout;
use crate::runs::Charter;
use crate::view;

/// The longest piece of a patch that is kept in a checkpoint itself, in bytes.
const PREVIEW: usize = 16 * 1024;

/// What a delivery may do in the owner's name, as the owner has it at each moment.
pub type Manners = Arc<dyn Fn() -> store::Manners + Send + Sync>;

/// Executes the steps of the host.
#[derive(Clone)]
pub struct HostExecutor {
    layout: Layout,
    journal: Arc<dyn Journal>,
    artifacts: Arc<dyn Artifacts>,
    clock: Arc<dyn Clock>,
    manners: Manners,
    export: trust::Export,
    inflight: Inflight,
}

/// Where a branch stands.
struct Stand {
    head: Commit,
    /// What its changes are counted against.
    base: Commit,
    followed: bool,
    conflicts: Vec<PathBuf>,
}

impl Stand {
    fn at(head: Commit, base: Commit) -> Self {
        Self { head, base, followed: false, conflicts: Vec::new() }
    }
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
        let manners: Manners = Arc::new(|| store::Manners::NONE);
        let export: trust::Export = Arc::new(trust::export::Rules::default);
        Self { layout, journal, artifacts, clock, manners, export, inflight: Inflight::default() }
    }

    /// The same, with what a delivery may do in the owner's name.
    pub fn with_manners(self, manners: Manners) -> Self {
        Self { manners, ..self }
    }

    /// The same, with the owner's rules for what leaves the jail.
    #[must_use]
    pub fn with_export(self, export: trust::Export) -> Self {
        Self { export, ..self }
    }

    /// Whether a tool call of this name is the host's.
    pub fn has(tool: &str) -> bool {
        matches!(tool, MERGE | DELIVER)
    }

    /// Every step here is done once under its key, so one that met a full disk is refused: the run rests,
    /// and the same step is taken again.
    fn execute(&self, work: &Work) -> Result<Finished, Refused> {
        let charter = match Charter::read(&*self.journal, work.run) {
            Ok(charter) => charter,
            Err(error) => return Ok(failed(&failure("run.unreadable", &error))),
        };
        let mut repository = None;
        let done = match work.kind {
            StepKind::Checkpoint => self.checkpoint(work, &charter),
            _ if work.tool == MERGE => return self.merge(work, &charter),
            _ => {
                repository = Some(Path::new(&charter.mission.repository));
                self.deliver(work, &charter)
            }
        };
        point(Point::AfterEffect);
        done.or_else(|Failure(code, message)| match room::lacking(&self.layout.home, repository, &message) {
            Some(refused) => Err(refused),
            None => Ok(failed(&HostFailure { code: code.into(), message })),
        })
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
                let message = message(request.message.clone(), Some(work.key));
                workspace.commit(&message, &self.signature(charter)).map_err(storing)?;
                tree.branch_head(&request.branch).map_err(storing)?
            }
        };
        let Stand { head, base, followed, conflicts } =
            self.stand(work, charter, &request, &workspace, Stand::at(head, base))?;
        let line_head = tree.line_head(&request.line).map_err(storing)?;
        let diff = tree.diff(&base, &head).map_err(storing)?;
        let patch = if diff.patch.is_empty() {
            None
        } else {
            Some(self.artifacts.put(&diff.patch).map_err(|e| failure_of("store.artifact", &e))?)
        };
        let (added, removed) = diff.totals();
        let hooks = store::Tree::hooks_in_tree(Path::new(&charter.mission.repository));
        let export =
            export::report(&tree, &base, &head, hooks.as_deref(), (self.export)()).map_err(storing)?;
        let preview = diff.patch.get(..PREVIEW.min(diff.patch.len())).unwrap_or_default();
        let checkpoint = Checkpoint {
            commit: (!diff.files.is_empty()).then(|| head.hex().to_owned()),
            base: base.hex().to_owned(),
            line_head: line_head.map(|head| head.hex().to_owned()),
            files: diff.files.iter().map(file_change).collect(),
            added,
            removed,
            patch,
            patch_preview: String::from_utf8_lossy(preview).into_owned(),
            followed,
            conflicts: conflicts.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            export: Some(export),
        };
        Ok(Finished { spent: Amount::default(), ..succeeded(&checkpoint, patch) })
    }

    /// Where the branch stands once it has followed its line, if it has changes of its own and is to.
    fn stand(
        &self,
        work: &Work,
        charter: &Charter,
        request: &CheckpointRequest,
        workspace: &store::Workspace,
        stand: Stand,
    ) -> Result<Stand, Failure> {
        let tree = workspace.tree();
        if !request.follow
            || tree.tree_of(&stand.base).map_err(storing)? == tree.tree_of(&stand.head).map_err(storing)?
        {
            return Ok(stand);
        }
        let asked: Vec<_> = request.unresolved.iter().map(PathBuf::from).collect();
        let conflicts = tree.unresolved(&stand.head, &asked).map_err(storing)?;
        if !conflicts.is_empty() {
            return Ok(Stand { conflicts, ..stand });
        }
        let mut words = request.message.clone();
        words.subject = format!("Merge the line of {} into {}", request.line, request.branch);
        words.body = String::new();
        let message = message(words, Some(work.key));
        let followed = workspace
            .follow(&request.line, &stand.head, &stand.base, &message, &self.signature(charter))
            .map_err(storing)?;
        Ok(match followed {
            Some(store::Followed { head, base, conflicts }) => {
                if let Some(scratch) = store::Scratch::open(workspace.dir())
                    && let Err(error) = scratch.follow(tree, &head)
                {
                    // The files are what counts; the agent's git shows the merge as a change then.
                    let error = view::with_causes(&error);
                    tracing::warn!(run = %work.run, error, "the agent's git does not see what was merged");
                }
                Stand { head, base, followed: true, conflicts }
            }
            None => stand,
        })
    }

    fn merge(&self, work: &Work, charter: &Charter) -> Result<Finished, Refused> {
        point(Point::MergeBeforeRef);
        let merged = self.try_merge(work, charter);
        point(Point::MergeAfterRef);
        match merged {
            Ok(commit) => Ok(succeeded(&Merged { commit: commit.hex().into() }, None)),
            Err(answer) if answer.moved || !answer.conflicts.is_empty() => Ok(failed(&answer)),
            Err(answer) => match room::lacking(&self.layout.home, None, &answer.message) {
                Some(refused) => Err(refused),
                None => Ok(failed(&answer)),
            },
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
        let repository = Path::new(&charter.mission.repository);
        let delivery = tree.deliver(repository, &request.line, &wanted, (self.manners)()).map_err(storing);
        point(Point::DeliverAfterRef);
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(Failure(code, message)) => {
                if room::lacking(&self.layout.home, Some(repository), &message).is_some() {
                    return Err(Failure(code, message));
                }
                // The merge is made: whatever stands in the way, there is a command that takes it over.
                store::Delivery::Left { reason: message, command: tree.fetch_command(&request.line) }
            }
        };
        let delivered = match delivery {
            store::Delivery::FastForwarded { to, note, .. } => {
                Delivered::FastForwarded { commit: to.hex().into(), note }
            }
            store::Delivery::AlreadyThere => Delivered::AlreadyThere,
            store::Delivery::Left { reason, .. }
                if !charter.mission.uncommitted.is_empty() && repository.join(".git").exists() =>
            {
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
            match finished.unwrap_or_else(|error| Ok(failed(&failure("store.panicked", &error)))) {
                Ok(finished) => Input::Finished(step, attempt, finished),
                Err(refused) => Input::Refused(step, attempt, refused),
            }
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
