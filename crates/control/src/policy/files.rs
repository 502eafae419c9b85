//! Which files of rules count for a run, read anew for every decision.
//!
//! A change counts for the very next step. What has not changed is not parsed again. A file that cannot be read, or
//! makes no sense, denies: nobody knows what it would have denied.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::{ProjectId, RunId};
use kernel::port::{Action, Journal};
use trust::policy::file::{self, MOST_BYTES, Said};
use trust::policy::{Book, Labelling, Level, OwnRule, Rulebooks, Setting};

use crate::layout::Layout;
use crate::reads::{Reads, Taint};
use crate::runs::Charter;

/// The owner's file for all projects, in the home.
const OWNERS: &str = "policy.toml";
/// The folder of the owner's files for one project each, in the home.
const PROJECTS: &str = "policy";
/// A repository's own file, at its root.
pub const REPOSITORY: &str = "regie-policy.toml";
/// Books and runs that are remembered.
const REMEMBERED: usize = 256;

/// The files of an installation.
#[derive(Clone)]
pub struct Files {
    layout: Layout,
    journal: Arc<dyn Journal>,
    runs: Arc<Mutex<HashMap<RunId, Charted>>>,
    books: Arc<Mutex<HashMap<Vec<PathBuf>, Kept>>>,
    reads: Arc<Reads>,
}

/// What does not change of a run.
#[derive(Debug, Clone)]
struct Charted {
    repository: String,
    project: ProjectId,
}

/// The texts of some files, and the rules that they are.
struct Kept {
    texts: Vec<Option<String>>,
    book: Arc<Book>,
}

/// A file that rules are looked for in.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where it lies.
    pub path: PathBuf,
    /// As decisions name it.
    pub shown: String,
    /// Whose words it holds.
    pub level: Level,
}

impl Files {
    /// Of an installation, for the runs of its journal.
    pub fn new(layout: Layout, journal: Arc<dyn Journal>) -> Self {
        let reads = Arc::new(Reads::new(layout.clone(), Arc::clone(&journal)));
        Self { layout, journal, runs: Arc::default(), books: Arc::default(), reads }
    }

    /// What runs have read.
    pub(crate) fn reads(&self) -> &Arc<Reads> {
        &self.reads
    }

    /// As the door asks for them.
    pub fn rulebooks(&self) -> Rulebooks {
        let files = self.clone();
        Arc::new(move |action| files.setting_of(action))
    }

    /// The owner's file for one project.
    pub(super) fn of_project(&self, project: ProjectId) -> Source {
        let file = format!("{project}.toml");
        Source {
            path: self.layout.home.join(PROJECTS).join(&file),
            shown: format!("{PROJECTS}/{file}"),
            level: Level::Project,
        }
    }

    /// The owner's files for one project each, of all projects.
    pub(super) fn of_projects(&self) -> Vec<Source> {
        let found = fs::read_dir(self.layout.home.join(PROJECTS)).into_iter().flatten().flatten();
        let names = found.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
        names.sort();
        let source = |file: String| Source {
            path: self.layout.home.join(PROJECTS).join(&file),
            shown: format!("{PROJECTS}/{file}"),
            level: Level::Project,
        };
        names.into_iter().map(source).collect()
    }

    /// The files that count in a place.
    pub fn sources(&self, repository: Option<&Path>, project: Option<ProjectId>) -> Vec<Source> {
        let owners =
            Source { path: self.layout.home.join(OWNERS), shown: OWNERS.into(), level: Level::Owner };
        let own = repository.map(|root| Source {
            path: root.join(REPOSITORY),
            shown: REPOSITORY.into(),
            level: Level::Repository,
        });
        [owners].into_iter().chain(project.map(|project| self.of_project(project))).chain(own).collect()
    }

    /// The rules that count in a place.
    ///
    /// # Errors
    /// What cannot be read or makes no sense, with its mend.
    pub fn book(&self, repository: Option<&Path>, project: Option<ProjectId>) -> Result<Arc<Book>, String> {
        if let Some(root) = repository.filter(|root| !root.is_dir()) {
            let root = root.display();
            return Err(format!("the repository {root} is not there, and it may have rules; bring it back"));
        }
        let sources = self.sources(repository, project);
        let texts: Vec<Option<String>> = sources.iter().map(Source::text).collect::<Result<_, _>>()?;
        let key: Vec<PathBuf> = sources.iter().map(|source| source.path.clone()).collect();
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = books.get(&key).filter(|kept| kept.texts == texts) {
            return Ok(Arc::clone(&kept.book));
        }
        let (mut rules, mut labels) = (Vec::new(), Labelling::none());
        for (source, text) in sources.iter().zip(&texts) {
            if let Some(text) = text {
                let said = source.parse(text)?;
                rules.extend(said.rules);
                labels.join(said.labels);
            }
        }
        let book = Book::new(rules).map_err(|error| {
            format!("the patterns of all rules are too much together: {error}; take some away")
        })?;
        let book = Arc::new(book.labelled(labels));
        if books.len() >= REMEMBERED {
            books.clear();
        }
        books.insert(key, Kept { texts, book: Arc::clone(&book) });
        Ok(book)
    }

    /// The rules that count for an action, and the labels that they go by.
    pub(super) fn setting_of(&self, action: &Action<'_>) -> Result<Setting, String> {
        let (setting, read) = self.labels_of(action.run)?;
        let [labels, takes, taint] = read.of(action)?;
        Ok(Setting { labels, takes, taint, ..setting })
    }

    /// The rules that count for a run, and what it has read.
    pub(crate) fn labels_of(&self, run: RunId) -> Result<(Setting, Taint<'_>), String> {
        let Charted { repository, project } = self.charted(run)?;
        let book = self.book(Some(Path::new(&repository)), Some(project))?;
        let workspace = self.layout.workspace(run).display().to_string();
        let taint = self.reads.taint(run, project, Arc::clone(&book), workspace.clone());
        Ok((Setting { book, project: repository, workspace, ..Setting::default() }, taint))
    }

    /// The repository and project of a run.
    pub(super) fn project_of(&self, run: RunId) -> Result<(String, ProjectId), String> {
        self.charted(run).map(|charted| (charted.repository, charted.project))
    }

    fn charted(&self, run: RunId) -> Result<Charted, String> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(charted) = runs.get(&run) {
            return Ok(charted.clone());
        }
        let charter = Charter::read(&*self.journal, run).map_err(|error| error.to_string())?;
        let charted = Charted { repository: charter.mission.repository, project: charter.mission.project };
        if runs.len() >= REMEMBERED {
            runs.clear();
        }
        runs.insert(run, charted.clone());
        Ok(charted)
    }
}

impl Source {
    /// The rules in it; `None` where it is not there.
    pub(super) fn rules(&self) -> Result<Option<Vec<OwnRule>>, String> {
        self.text()?.map(|text| self.parse(&text).map(|said| said.rules)).transpose()
    }

    fn parse(&self, text: &str) -> Result<Said, String> {
        file::read(text, &self.shown, self.level).map_err(|error| error.to_string())
    }

    /// Its text. What a repository holds in its place (a link out of it, a pipe) is not opened; the owner's own may be
    /// a link.
    pub(super) fn text(&self) -> Result<Option<String>, String> {
        let shown = &self.shown;
        let failed = |error: io::Error| format!("{shown} cannot be read: {error}; mend or remove it");
        let found = match self.level {
            Level::Repository => fs::symlink_metadata(&self.path),
            Level::Owner | Level::Project => fs::metadata(&self.path),
        };
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.is_file() => {
                return Err(format!("{shown} is not a plain file; replace it by one, or remove it"));
            }
            Ok(_) => {}
        }
        let mut text = String::new();
        let file = fs::File::open(&self.path).map_err(failed)?;
        file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        Ok(Some(text))
    }
}
