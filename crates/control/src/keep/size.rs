//! What takes how much. Links are not followed, and a file with several names counts once a look. Objects
//! that the first start linked are told apart: they are the owner's as well.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use domain::{Digest, Fact, RunId};
use kernel::port::{Artifacts, Journal};

use super::name_of;
use super::view::{OfProject, OfRun, Part, Usage};
use crate::error::Error;
use crate::layout::Layout;
use crate::runs::Charter;

/// Events read at a time.
const PAGE: usize = 2048;

/// The bytes on disk of a file or of all below a directory. What vanishes meanwhile counts nothing.
pub(super) fn of(path: &Path) -> u64 {
    look(path).0
}

/// The same, and how many of them belong to files that have names elsewhere too.
fn look(path: &Path) -> (u64, u64) {
    let (mut total, mut next) = (0u64, vec![path.to_owned()]);
    // Of each file with several names: its bytes, and the names that were not met yet.
    let mut several: HashMap<(u64, u64), (u64, u64)> = HashMap::new();
    while let Some(path) = next.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let bytes = meta.blocks().saturating_mul(512);
        if meta.nlink() > 1 && !meta.is_dir() {
            let file = several.entry((meta.dev(), meta.ino()));
            let (_, elsewhere) = file.or_insert_with(|| {
                total = total.saturating_add(bytes);
                (bytes, meta.nlink())
            });
            *elsewhere = elsewhere.saturating_sub(1);
            continue;
        }
        total = total.saturating_add(bytes);
        if meta.is_dir() {
            next.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    let shared = several.values().filter(|(_, elsewhere)| *elsewhere > 0).map(|(bytes, _)| bytes).sum();
    (total, shared)
}

pub(super) fn usage(
    journal: &dyn Journal,
    artifacts: &dyn Artifacts,
    layout: &Layout,
) -> Result<Usage, Error> {
    let parts = parts(&layout.home);
    let named = artifacts_by_run(journal)?;
    let mut sizes: HashMap<Digest, u64> = HashMap::new();
    let mut size_of = |digest: &Digest| {
        *sizes
            .entry(*digest)
            .or_insert_with(|| artifacts.stored(*digest).ok().flatten().map_or(0, |stored| stored.bytes))
    };
    let mut projects: BTreeMap<String, OfProject> = BTreeMap::new();
    let mut runs = Vec::new();
    for row in journal.runs(false, usize::MAX)? {
        // What cannot be read of a run takes its room all the same.
        let charter = Charter::read(journal, row.run).ok();
        let work = of(&layout.room(row.run));
        if let Some(charter) = &charter {
            let id = charter.mission.project;
            let project = projects.entry(id.to_string()).or_insert_with(|| {
                let at = layout.tree(id);
                // What runs have names of is in `views`, and no one else's.
                let (tree, (_, shared)) = (of(&at), look(&at.join("objects")));
                OfProject {
                    project: id.to_string(),
                    repository: charter.mission.repository.clone(),
                    tree,
                    shared,
                    cache: of(&layout.cache(id)),
                    work: 0,
                }
            });
            project.work = project.work.saturating_add(work);
        }
        runs.push(OfRun {
            run: row.run.to_string(),
            status: row.status.into(),
            goal: charter.map(|charter| charter.mission.goal).unwrap_or_default(),
            updated_at: row.updated_at.0,
            work,
            spool: of(&layout.spooled(row.run)),
            artifacts: named.get(&row.run).into_iter().flatten().map(&mut size_of).sum(),
        });
    }
    let mut projects: Vec<OfProject> = projects.into_values().collect();
    projects.sort_by_key(|project| std::cmp::Reverse(project.tree + project.cache + project.work));
    runs.sort_by_key(|run| std::cmp::Reverse(run.work + run.spool + run.artifacts));
    let bytes = parts.iter().map(|part| part.bytes).sum();
    Ok(Usage { home: layout.home.display().to_string(), bytes, parts, projects, runs })
}

fn parts(home: &Path) -> Vec<Part> {
    let mut parts: BTreeMap<String, u64> = BTreeMap::new();
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = name_of(&entry.path());
        let part = match name.as_str() {
            "artifacts" | "trees" | "work" | "cache" | "spool" | "log" => name.as_str(),
            _ if name.starts_with("regie.db") => "journal",
            _ if name.starts_with("index.db") => "index",
            _ => "other",
        };
        let bytes = of(&entry.path());
        let sum = parts.entry(part.to_owned()).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let mut parts: Vec<Part> = parts.into_iter().map(|(name, bytes)| Part { name, bytes }).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    parts
}

fn artifacts_by_run(journal: &dyn Journal) -> Result<HashMap<RunId, HashSet<Digest>>, Error> {
    let mut named: HashMap<RunId, HashSet<Digest>> = HashMap::new();
    let mut position = 0;
    loop {
        let page = journal.stream(position, PAGE)?;
        let Some(last) = page.last() else { return Ok(named) };
        position = last.position;
        for event in &page {
            let of_run = named.entry(event.header.run).or_default();
            match &event.header.fact {
                Fact::RunStarted(started) => of_run.extend([started.system, started.tools]),
                Fact::StepCompleted { artifacts, .. } => of_run.extend(artifacts),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_names_elsewhere_counts_once_and_is_told_apart() {
        let scratch = tempfile::tempdir().unwrap();
        let (ours, theirs) = (scratch.path().join("ours"), scratch.path().join("theirs"));
        for dir in [&ours, &theirs] {
            fs::create_dir(dir).unwrap();
        }
        let empty = look(&ours);
        fs::write(ours.join("own"), [1; 5000]).unwrap();
        fs::hard_link(ours.join("own"), ours.join("again")).unwrap();
        let own = look(&ours);
        assert!(own.0 > empty.0 && own.1 == 0, "{own:?}");
        fs::write(theirs.join("pack"), [1; 9000]).unwrap();
        fs::hard_link(theirs.join("pack"), ours.join("pack")).unwrap();
        let with = look(&ours);
        assert_eq!(with.1, with.0 - own.0);
        assert!(with.1 >= 9000, "{with:?}");
        fs::remove_file(theirs.join("pack")).unwrap();
        assert_eq!(look(&ours), (with.0, 0));
    }
}
