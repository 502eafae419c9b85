//! A project in a standard form, and back: `files/` are those of a line, `history.git` is a bare repository, and
//! `.nas/` says in plain text what is what. Nothing in it depends on when or by which home it was written.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use kernel::port::Records;
use serde::{Deserialize, Serialize};
use store::{Named, Tree, Treeish as _, checksum};

use crate::Control;
use crate::act::recorded;
use crate::error::{Error, Kind};
use crate::layout::Layout;
use crate::missions::{PROJECT, Project};

/// The version of the form.
const FORMAT: u32 = 1;
/// The longest text of it that is read, in bytes.
const LONGEST: u64 = 64 << 20;
const FILES: &str = "files";
const HISTORY: &str = "history.git";
const PROJECT_FILE: &str = ".nas/project.json";
const NAMES_FILE: &str = ".nas/names.jsonl";
const COMMITS_FILE: &str = ".nas/commits.jsonl";
const SUMS: &str = ".nas/SHA256SUMS";

/// Asks for a project in a standard form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// A directory of its repository, or its id.
    pub project: String,
    /// Where to: an absolute path that does not exist, or an empty directory.
    pub to: String,
    /// The line whose files are written; without it `main`, `master`, or the first.
    #[serde(default)]
    pub line: Option<String>,
}

/// Brings an exported project into this home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// What was exported, an absolute path.
    pub from: String,
}

/// A project that was exported or brought in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// The project.
    pub project: String,
    /// The root of the owner's repository.
    pub repository: String,
    /// The line with its files.
    pub line: String,
    /// The head of the line.
    pub head: String,
    /// How many names the history has.
    pub names: u64,
    /// How many commits; 0 where they were not counted.
    pub commits: u64,
}

/// What `.nas/project.json` says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    format: u32,
    project: domain::ProjectId,
    repository: PathBuf,
    line: String,
    head: String,
}

/// A line of `.nas/names.jsonl`.
#[derive(Serialize)]
struct NameLine<'a> {
    name: &'a str,
    kind: &'static str,
    object: &'a str,
}

/// A line of `.nas/commits.jsonl`.
#[derive(Serialize)]
struct CommitLine<'a> {
    commit: &'a str,
    parents: &'a [String],
    files: &'a str,
    seconds: i64,
    subject: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    principal: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    on_behalf_of: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    run: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    lease: &'a str,
}

impl Control {
    /// Writes a project in a standard form. It appears whole or not at all.
    ///
    /// # Errors
    /// When there is no such project, or something is at its place.
    pub async fn project_export(&self, wanted: Export) -> Result<Carried, Error> {
        let (records, layout) = (std::sync::Arc::clone(&self.records), self.layout.clone());
        let now = self.moment();
        self.blocking(move || {
            let act = || export(&*records, &layout, &wanted);
            recorded(&*records, ("project.export", &wanted.to), now, act)
        })
        .await
    }

    /// Brings an exported project into this home.
    ///
    /// # Errors
    /// When the home has it already, or anything in it does not hold: then nothing is changed.
    pub async fn project_import(&self, wanted: Import) -> Result<Carried, Error> {
        let (records, layout) = (std::sync::Arc::clone(&self.records), self.layout.clone());
        let now = self.moment();
        self.blocking(move || {
            let act = || import(&*records, &layout, Path::new(&wanted.from));
            recorded(&*records, ("project.import", &wanted.from), now, act)
        })
        .await
    }
}

fn export(records: &dyn Records, layout: &Layout, wanted: &Export) -> Result<Carried, Error> {
    let project = project(records, &wanted.project)?;
    let dir = layout.tree(project.id);
    if !dir.join("HEAD").exists() {
        let detail = format!("the git directory {} is not there", dir.display());
        return Err(Error::new(Kind::Unavailable, "export.no_tree", detail));
    }
    let (tree, to) = (Tree::open_or_create(&dir)?, Path::new(&wanted.to));
    if !to.is_absolute() {
        return Err(Error::new(Kind::Invalid, "export.path", "the path to export to is not absolute"));
    }
    if fs::read_dir(to).map_or_else(|_| to.symlink_metadata().is_ok(), |mut there| there.next().is_some()) {
        let detail = format!("{} is there already", to.display());
        return Err(Error::new(Kind::Conflict, "export.occupied", detail).hint("name a new directory"));
    }
    let parent = to.parent().unwrap_or(to);
    let draft = Draft::new(to).map_err(|error| failed(&error, parent))?;
    let names = tree.names()?;
    let line = line(&names, wanted.line.as_deref())?;
    let head = tree.line_write(&line, &draft.0.join(FILES))?;
    tree.history_write(&draft.0.join(HISTORY), &names)?;
    let about = About {
        format: FORMAT,
        project: project.id,
        repository: project.root,
        line: line.clone(),
        head: head.hex().to_owned(),
    };
    let commits = tree.commits()?;
    describe(&draft.0, &about, &names, &commits)?;
    draft.publish(to).map_err(|error| failed(&error, to))?;
    Ok(carried(&about, names.len(), commits.len()))
}

/// Writes `.nas/`.
fn describe(dir: &Path, about: &About, names: &[Named], commits: &[store::Told]) -> Result<(), Error> {
    let write = |name: &str, text: &str| {
        let at = dir.join(name);
        fs::write(&at, text).map_err(|error| failed(&error, &at))
    };
    fs::create_dir(dir.join(".nas")).map_err(|error| failed(&error, dir))?;
    write(PROJECT_FILE, &format!("{}\n", json(about)?))?;
    let lines = names
        .iter()
        .map(|named| json(&NameLine { name: &named.name, kind: kind(&named.name), object: &named.object }));
    write(NAMES_FILE, &joined(lines)?)?;
    let lines = commits.iter().map(|told| {
        json(&CommitLine {
            commit: &told.commit,
            parents: &told.parents,
            files: &told.files,
            seconds: told.seconds,
            subject: &told.subject,
            principal: &told.provenance.principal,
            on_behalf_of: &told.provenance.on_behalf_of,
            run: &told.provenance.run,
            lease: &told.provenance.lease,
        })
    });
    write(COMMITS_FILE, &joined(lines)?)?;
    let mut sums = String::new();
    let mut found = Vec::new();
    for top in [".nas", HISTORY] {
        files_below(dir, Path::new(top), &mut found).map_err(|error| failed(&error, dir))?;
    }
    found.sort();
    for path in found {
        sums.push_str(&format!("{}  {}\n", checksum(&dir.join(&path))?, path.display()));
    }
    write(SUMS, &sums)
}

fn import(records: &dyn Records, layout: &Layout, from: &Path) -> Result<Carried, Error> {
    if !from.is_absolute() {
        return Err(Error::new(Kind::Invalid, "import.path", "the path to import from is not absolute"));
    }
    let sums = text(&from.join(SUMS))?;
    for line in sums.lines() {
        let (sum, path) = line.split_once("  ").ok_or_else(|| damaged(from, SUMS))?;
        let inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        let at = from.join(path);
        if !inside || !at.symlink_metadata().is_ok_and(|meta| meta.is_file()) || checksum(&at)? != sum {
            return Err(damaged(from, path));
        }
    }
    let about: About =
        serde_json::from_str(&text(&from.join(PROJECT_FILE))?).map_err(|_| damaged(from, PROJECT_FILE))?;
    if about.format != FORMAT {
        let detail =
            format!("{} has form {}, which this version does not know", from.display(), about.format);
        return Err(Error::new(Kind::Invalid, "import.form", detail).hint("use the version that exported it"));
    }
    let there = || {
        let detail = format!("this home has a project of {} already", about.repository.display());
        Error::new(Kind::Conflict, "import.there", detail).hint("import into another home: `--home DIR`")
    };
    let (key, to) = (Project::key(&about.repository), layout.tree(about.project));
    let known = records.list(PROJECT)?.iter().any(|record| {
        serde_json::from_slice::<Project>(&record.body).is_ok_and(|known| known.id == about.project)
    });
    if known || records.get(PROJECT, &key)?.is_some() || to.exists() {
        return Err(there());
    }
    let (tree, names) =
        Tree::from_history(&to, &from.join(HISTORY), &about.line, &from.join(FILES)).map_err(unusable)?;
    let head = tree.line_head(&about.line)?;
    if head.as_ref().map(store::Treeish::hex) != Some(about.head.as_str()) {
        let _ = fs::remove_dir_all(&to);
        return Err(damaged(from, PROJECT_FILE));
    }
    let project = Project { id: about.project, root: about.repository.clone() };
    let body = serde_json::to_vec(&project).map_err(|_| damaged(from, PROJECT_FILE))?;
    // The tree first: a record without it would begin an empty one.
    if let Err(error) = records.put(PROJECT, &key, 0, &body) {
        let _ = fs::remove_dir_all(&to);
        return Err(error.into());
    }
    Ok(carried(&about, names.len(), 0))
}

/// What is being written, beside its place; gone unless it is published.
struct Draft(PathBuf);

impl Draft {
    fn new(to: &Path) -> io::Result<Self> {
        let mut name = to.as_os_str().to_owned();
        name.push(".part");
        fs::create_dir(&name)?;
        Ok(Self(PathBuf::from(name)))
    }

    fn publish(self, to: &Path) -> io::Result<()> {
        let dir = fs::File::open(&self.0)?;
        rustix::fs::syncfs(&dir)?;
        // An empty directory gives way; anything else does not.
        fs::rename(&self.0, to)?;
        to.parent().map_or(Ok(()), |parent| fs::File::open(parent)?.sync_all())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The project of a repository, or with an id.
fn project(records: &dyn Records, name: &str) -> Result<Project, Error> {
    let unknown = || {
        Error::new(Kind::NotFound, "export.no_project", format!("there is no project `{name}` in this home"))
            .hint("name a directory of its repository, or its id as `regie du --json` shows it")
    };
    if let Ok(id) = name.parse::<domain::ProjectId>() {
        let all = records.list(PROJECT)?;
        let mut known = all.iter().filter_map(|record| serde_json::from_slice::<Project>(&record.body).ok());
        return known.find(|project| project.id == id).ok_or_else(unknown);
    }
    let owner = Tree::inspect(Path::new(name))?;
    let record = records.get(PROJECT, &Project::key(&owner.root))?.ok_or_else(unknown)?;
    serde_json::from_slice(&record.body).map_err(|_| unknown())
}

/// The line whose files are written.
fn line(names: &[Named], wanted: Option<&str>) -> Result<String, Error> {
    let lines: Vec<&str> =
        names.iter().filter_map(|named| named.name.strip_prefix("refs/heads/lines/")).collect();
    let known = |name: &&str| lines.contains(name);
    let found = match wanted {
        Some(name) => Some(name).filter(known),
        None => ["main", "master"].into_iter().find(known).or_else(|| lines.first().copied()),
    };
    let none = || {
        let detail = format!("the project has no line `{}`", wanted.unwrap_or("main"));
        Error::new(Kind::NotFound, "export.no_line", detail).hint(format!("it has: {}", lines.join(", ")))
    };
    found.map(str::to_owned).ok_or_else(none)
}

/// What a name of the history stands for.
fn kind(name: &str) -> &'static str {
    let kinds = [
        ("refs/heads/lines/", "line"),
        ("refs/heads/", "branch"),
        ("refs/regie/bin/", "bin"),
        ("refs/regie/left/", "files of a workspace"),
        ("refs/regie/kept/", "snapshots of a run"),
        ("refs/regie/forked/", "snapshot of a fork"),
        ("refs/former/", "line before"),
        ("refs/bases/", "base"),
    ];
    kinds.iter().find(|(begin, _)| name.starts_with(begin)).map_or("other", |(_, kind)| kind)
}

/// The files below a directory, as paths from `top`.
fn files_below(top: &Path, below: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut next = vec![below.to_owned()];
    while let Some(dir) = next.pop() {
        for entry in fs::read_dir(top.join(&dir))? {
            let entry = entry?;
            let path = dir.join(entry.file_name());
            if entry.file_type()?.is_dir() { next.push(path) } else { found.push(path) }
        }
    }
    Ok(())
}

fn text(path: &Path) -> Result<String, Error> {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_file() && meta.len() <= LONGEST => {
            fs::read_to_string(path).map_err(|error| failed(&error, path))
        }
        Ok(_) => Err(damaged(path, "it")),
        Err(error) => Err(failed(&error, path)),
    }
}

fn json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(Kind::Internal, "export.failed", error.to_string()))
}

fn joined(lines: impl Iterator<Item = Result<String, Error>>) -> Result<String, Error> {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line?);
        text.push('\n');
    }
    Ok(text)
}

fn carried(about: &About, names: usize, commits: usize) -> Carried {
    Carried {
        project: about.project.to_string(),
        repository: about.repository.display().to_string(),
        line: about.line.clone(),
        head: about.head.clone(),
        names: names as u64,
        commits: commits as u64,
    }
}

fn failed(error: &io::Error, at: &Path) -> Error {
    Error::new(Kind::Unavailable, "archive.failed", format!("{}: {error}", at.display()))
        .hint("check its permissions and the room on the disk")
}

fn damaged(from: &Path, what: &str) -> Error {
    let detail = format!("{what} in {} is not what was exported", from.display());
    Error::new(Kind::Invalid, "import.damaged", detail)
        .hint("export it anew, or bring a copy; nothing was changed")
}

fn unusable(error: store::Error) -> Error {
    match error {
        store::Error::Corrupt { .. } => {
            Error::new(Kind::Invalid, "import.damaged", error.to_string()).mend_apart()
        }
        other => other.into(),
    }
}
