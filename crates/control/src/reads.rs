//! What runs have read: their read manifests, and the labels that follow from them.
//!
//! A manifest is no record of its own that could differ from what happened. It is read off the run's events: the
//! intention of a step says what it was given to read, before it did. A file tool names its file; a search has read
//! all below its folder; a command, a criterion or a setup has read the whole workspace, as nobody knows what a
//! program opens. A run that goes on from another one has read what that one had by then.
//!
//! An event counts once it is durable. Nothing that a model makes of a text is acted on before: its own answer, which
//! comes after the text, is durable before anything follows from it.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use domain::fact::RunStarted;
use domain::{Fact, Label, Labels, Payload, ProjectId, RunId, StepKind, StepNo};
use kernel::port::{Action, Journal, JournalError};
use serde::{Deserialize, Serialize};
use store::{Tree, Treeish as _};
use trust::policy::{Book, SETUP, resource};

use crate::layout::Layout;
use crate::runs::Charter;

/// Events read in one go.
const PAGE: usize = 512;
/// Runs and trees that are remembered.
const REMEMBERED: usize = 128;
/// The most runs that a run goes on from, one after another.
const DEEPEST: usize = 64;

/// What a step was given to read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A file, by its path in the workspace.
    File(String),
    /// The files below a folder; empty for all.
    Below(String),
    /// The whole workspace, also what no search shows.
    Workspace,
    /// Something outside of the house.
    Outside,
}

/// A step that has read something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    /// The run; another one than asked for where that goes on from it.
    pub(crate) run: RunId,
    pub(crate) step: StepNo,
    /// The event of its intention.
    pub(crate) seq: u64,
    /// When, in milliseconds.
    pub(crate) at: u64,
    pub(crate) tool: String,
    pub(crate) what: What,
}

/// The manifest of a run as far as its events were read.
#[derive(Default)]
struct Manifest {
    upto: u64,
    planned: HashMap<StepNo, (String, Vec<What>)>,
    reads: Vec<Read>,
    distinct: BTreeSet<What>,
}

impl Manifest {
    fn take(&mut self, read: Read) {
        self.distinct.insert(read.what.clone());
        self.reads.push(read);
    }
}

/// The manifests of an installation.
pub(crate) struct Reads {
    layout: Layout,
    journal: Arc<dyn Journal>,
    runs: Mutex<HashMap<RunId, Manifest>>,
    trees: Mutex<HashMap<Place, (Arc<Book>, Labels)>>,
}

/// A folder of a commit, by the rules that label it.
type Place = (usize, String, String);

/// The labels of what a run has read, by the rules of a moment.
pub(crate) struct Taint<'a> {
    reads: &'a Reads,
    run: RunId,
    project: ProjectId,
    book: Arc<Book>,
    workspace: String,
    ground: OnceCell<Ground>,
}

/// Where a run's files are.
struct Ground {
    charter: Charter,
    tree: Tree,
    /// What the run was given.
    base: store::Commit,
    /// The head of its branch, where that is another one.
    head: Option<store::Commit>,
}

impl Reads {
    pub(crate) fn new(layout: Layout, journal: Arc<dyn Journal>) -> Self {
        Self { layout, journal, runs: Mutex::default(), trees: Mutex::default() }
    }

    /// What a run has read, in the order in which it did.
    pub(crate) fn manifest(&self, run: RunId) -> Result<Vec<Read>, String> {
        self.of(run, DEEPEST, |manifest| manifest.reads.clone())
    }

    /// What a run has read, each thing once.
    fn distinct(&self, run: RunId) -> Result<BTreeSet<What>, String> {
        self.of(run, DEEPEST, |manifest| manifest.distinct.clone())
    }

    /// Brings a manifest up to the journal, and looks at it.
    fn of<T>(&self, run: RunId, depth: usize, look: impl FnOnce(&Manifest) -> T) -> Result<T, String> {
        let known = self.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
        // Whoever asks at the same time reads it anew.
        let mut manifest = known.unwrap_or_default();
        self.bring_up(&mut manifest, run, depth)?;
        let seen = look(&manifest);
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= REMEMBERED {
            runs.clear();
        }
        runs.insert(run, manifest);
        Ok(seen)
    }

    fn bring_up(&self, manifest: &mut Manifest, run: RunId, depth: usize) -> Result<(), String> {
        let failed = |error: JournalError| format!("what {run} has read cannot be told: {error}");
        loop {
            let page = self.journal.history(run, manifest.upto, PAGE).map_err(failed)?;
            let is_last = page.len() < PAGE;
            for event in page {
                manifest.upto = event.header.seq;
                let (seq, at) = (event.header.seq, event.header.at.0);
                match event.header.fact {
                    Fact::RunStarted(RunStarted { forked: Some(forked), .. }) => {
                        let depth = depth.checked_sub(1).ok_or("it goes on from too many runs")?;
                        let inherited = self.of(forked.parent, depth, |manifest| manifest.reads.clone())?;
                        let counts = |read: &Read| read.run != forked.parent || read.seq <= forked.seq;
                        inherited.into_iter().filter(counts).for_each(|read| manifest.take(read));
                    }
                    Fact::StepPlanned(planned) => {
                        let request = event.payload.as_ref().map_or(&[][..], |Payload(bytes)| bytes);
                        let about = resource::of(planned.kind, &planned.tool, request, "");
                        let what = given(planned.kind, &planned.tool, &about);
                        if !what.is_empty() {
                            manifest.planned.insert(planned.step, (planned.tool, what));
                        }
                    }
                    // Tried again, it reads the same again.
                    Fact::StepIntended { step, .. } => {
                        let (tool, what) = manifest.planned.remove(&step).unwrap_or_default();
                        for what in what {
                            manifest.take(Read { run, step, seq, at, tool: tool.clone(), what });
                        }
                    }
                    _ => {}
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// The labels of what a run has read, for whoever asks more than once.
    pub(crate) fn taint(
        &self,
        run: RunId,
        project: ProjectId,
        book: Arc<Book>,
        workspace: String,
    ) -> Taint<'_> {
        Taint { reads: self, run, project, book, workspace, ground: OnceCell::new() }
    }

    /// The labels of the files below a folder of a commit.
    fn below(
        &self,
        book: &Arc<Book>,
        tree: &Tree,
        commit: &store::Commit,
        folder: &str,
    ) -> Result<Labels, String> {
        let place = (Arc::as_ptr(book) as usize, commit.hex().to_owned(), folder.to_owned());
        let known = self.trees.lock().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        if let Some((_, labels)) = known {
            return Ok(labels);
        }
        let mut labels = Labels::none();
        let see = |name: &[u8]| {
            let name = String::from_utf8_lossy(name);
            if resource::is_below(&name, folder) {
                labels.join(&book.labelling().of(&name));
            }
        };
        tree.each_name(commit, see).map_err(in_full)?;
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if trees.len() >= REMEMBERED {
            trees.clear();
        }
        // The book is kept, so that its place in memory is no other's.
        trees.insert(place, (Arc::clone(book), labels.clone()));
        Ok(labels)
    }
}

impl Taint<'_> {
    /// The labels of what an action is about, of what it would read, and of all that its run has read before.
    pub(crate) fn of(&self, action: &Action<'_>) -> Result<[Labels; 3], String> {
        let about = resource::of(action.kind, action.tool, action.request, &self.workspace);
        let would = given(action.kind, action.tool, &about);
        let folders: Vec<What> = about.trees.iter().cloned().map(What::Below).collect();
        let mut labels = self.book.labelling().about(&resource::Resources { trees: Vec::new(), ..about });
        labels.join(&self.of_each(&folders)?);
        Ok([labels, self.of_each(&would)?, self.all()?])
    }

    /// The labels of all that the run has read.
    pub(crate) fn all(&self) -> Result<Labels, String> {
        self.of_each(&self.reads.distinct(self.run)?)
    }

    fn of_each<'w>(&self, whats: impl IntoIterator<Item = &'w What>) -> Result<Labels, String> {
        let mut joined = Labels::none();
        for what in whats {
            joined.join(&self.of_what(what)?);
        }
        Ok(joined)
    }

    /// The labels of one content.
    pub(crate) fn of_what(&self, what: &What) -> Result<Labels, String> {
        let labelling = self.book.labelling();
        match what {
            What::Outside => Ok([Label::external()].into_iter().collect()),
            What::File(path) => Ok(labelling.of(path)),
            What::Below(folder) => self.of_files(folder),
            What::Workspace => {
                let mut labels = self.of_files("")?;
                for path in &self.ground()?.charter.mission.withheld {
                    labels.join(&[Label::sensitive()].into_iter().collect());
                    labels.join(&labelling.of(path));
                }
                Ok(labels)
            }
        }
    }

    /// The labels of the files below a folder: of those that the run was given, and of those on its branch now.
    fn of_files(&self, folder: &str) -> Result<Labels, String> {
        let Ground { tree, base, head, .. } = self.ground()?;
        let mut labels = self.reads.below(&self.book, tree, base, folder)?;
        if let Some(head) = head {
            labels.join(&self.reads.below(&self.book, tree, head, folder)?);
        }
        Ok(labels)
    }

    /// Where the run's files are: looked up once, when something depends on it.
    fn ground(&self) -> Result<&Ground, String> {
        if let Some(ground) = self.ground.get() {
            return Ok(ground);
        }
        let charter = Charter::read(&*self.reads.journal, self.run).map_err(in_full)?;
        let tree = Tree::open_or_create(&self.reads.layout.tree(self.project)).map_err(in_full)?;
        let base = crate::runs::base(&charter.mission).map_err(in_full)?;
        // A branch that is gone has been merged or given up.
        let head = tree.branch_head(&charter.started.branch).ok().filter(|head| *head != base);
        Ok(self.ground.get_or_init(|| Ground { charter, tree, base, head }))
    }
}

fn in_full(error: impl std::error::Error) -> String {
    crate::view::with_causes(&error)
}

/// What a step that is about something is given to read.
fn given(kind: StepKind, tool: &str, about: &resource::Resources) -> Vec<What> {
    match (kind, tool) {
        (StepKind::Verdict, _) | (StepKind::ToolCall, "shell") => vec![What::Workspace],
        (StepKind::ToolCall, SETUP) => vec![What::Workspace, What::Outside],
        // Names are no content, what is overwritten is not shown, and the host's own steps read for nobody.
        (StepKind::ToolCall, "list" | "write" | trust::policy::MERGE | trust::policy::DELIVER) => Vec::new(),
        (StepKind::ToolCall, tool) => {
            let files = about.paths.iter().cloned().map(What::File);
            let folders = about.trees.iter().cloned().map(What::Below);
            let is_own = ["read", "search", "edit"].contains(&tool);
            files.chain(folders).chain((!is_own).then_some(What::Outside)).collect()
        }
        _ => Vec::new(),
    }
}
