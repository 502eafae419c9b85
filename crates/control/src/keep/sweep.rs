//! Taking away what has served its time.
//!
//! Nothing goes that somebody could miss: before a workspace goes, its files are recorded under a ref of
//! Regie's, whatever the run's end; what no tree can hold keeps it where it is. A directory is renamed
//! before it is removed, so that a crash in between leaves a left-over and no half workspace. Runs that
//! have not ended, and the git directories and caches of their projects, are not touched.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Digest, Fact, ProjectId, RunId, Timestamp};
use kernel::port::{Artifacts, Journal, JournalError, Records, RunRow};
use store::{PutBy, Skipped, Tree, TreeId};

use super::hand::Hand;
use super::view::{Item, Sweep, Swept};
use super::{GONE, bin, name_of, size};
use crate::error::{Error, Kind};
use crate::layout::Layout;
use crate::runs::Charter;
use crate::view;

/// Events read at a time.
const PAGE: usize = 2048;
/// What is not on record after a day will never be, in milliseconds.
const DAY: u64 = 86_400_000;
/// Below this number of loose objects a git directory is left as it is.
const LOOSE: usize = 200;
/// Characters of a digest.
const HEX: usize = 64;

/// Everything that a sweep works on. All of it waits for disks and programs.
pub(super) struct Ground {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) records: Arc<dyn Records>,
    pub(super) artifacts: Arc<dyn Artifacts>,
    pub(super) layout: Layout,
    pub(super) hand: Hand,
    pub(super) order: Sweep,
}

/// The runs of a project.
#[derive(Default)]
struct OfProject {
    runs: Vec<RunId>,
    /// One that has not ended.
    open: Option<RunId>,
    used_at: Timestamp,
}

impl Ground {
    pub(super) fn sweep(&self) -> Result<Swept, Error> {
        let rows = self.journal.runs(false, usize::MAX)?;
        let mut swept = Swept { dry_run: self.order.dry_run, ..Swept::default() };
        let mut projects: BTreeMap<ProjectId, OfProject> = BTreeMap::new();
        let mut unread = false;
        for row in &rows {
            let has_ended = row.status == "ended";
            if has_ended {
                swept.items.extend(self.spool(row.run));
            }
            let charter = match Charter::read(&*self.journal, row.run) {
                Ok(charter) => charter,
                // It holds nothing any more.
                Err(JournalError::Forgotten(_)) if has_ended => continue,
                Err(_) => {
                    unread = true;
                    continue;
                }
            };
            let project = projects.entry(charter.mission.project).or_default();
            project.runs.push(row.run);
            project.used_at = project.used_at.max(row.updated_at);
            if !has_ended {
                project.open = Some(row.run);
            } else if self.hand.now.since(row.updated_at) >= self.order.older_than {
                swept.items.extend(self.workspace(row.run, &charter));
            }
        }
        swept.items.extend(self.branches(&rows));
        swept.items.extend(self.binned());
        swept.items.extend(self.left_overs(&rows));
        swept.items.extend(self.caches(&projects));
        swept.items.extend(self.unreferenced());
        // Without every run's charter it is not known which snapshots belong where.
        for (id, project) in projects.iter().filter(|_| !unread) {
            swept.items.extend(self.objects(*id, project));
        }
        swept.freed = swept.items.iter().filter(|item| item.goes).map(|item| item.bytes).sum();
        Ok(swept)
    }

    /// What a runner has written down of a run that is over.
    fn spool(&self, run: RunId) -> Option<Item> {
        let dir = self.layout.spooled(run);
        if !dir.exists() {
            return None;
        }
        let item = item("spool", run, size::of(&dir));
        if self.order.dry_run {
            return Some(item);
        }
        let clear = || match runner::spool::clear_away(&dir) {
            Ok(true) => Ok(()),
            Ok(false) => Err("its runner has not left yet".to_owned()),
            Err(error) => Err(view::with_causes(&error)),
        };
        Some(match self.hand.does("sweep.spool", run, clear) {
            Ok(()) => item,
            Err(why) => stays(item, why),
        })
    }

    /// The workspace of a run that has ended long enough ago.
    fn workspace(&self, run: RunId, charter: &Charter) -> Option<Item> {
        let room = self.layout.room(run);
        if !room.exists() {
            return None;
        }
        let mut item = item("workspace", run, size::of(&room));
        if self.order.dry_run {
            return Some(item);
        }
        // Held until it is gone: a fork that reads it meanwhile waits, and then finds the record.
        let _put_by = match self.put_by(run, charter) {
            Ok(put_by) if put_by.skipped.is_empty() => put_by,
            Ok(put_by) => return Some(stays(item, only_there(&put_by.skipped))),
            Err(error) => return Some(stays(item, view::with_causes(&error))),
        };
        let remove = || take_away(&room).map_err(|error| format!("it cannot be removed: {error}"));
        if let Err(why) = self.hand.does("sweep.workspace", run, remove) {
            return Some(stays(item, why));
        }
        item.note = Some(format!("its files stay in refs/regie/left/{run}"));
        Some(item)
    }

    /// Records what is in a workspace, and holds the run's snapshots.
    fn put_by(&self, run: RunId, charter: &Charter) -> Result<PutBy, Error> {
        let tree = self.tree(charter.mission.project)?;
        let workspace = tree.workspace_open(&charter.started.branch, &self.layout.workspace(run))?;
        let put_by = workspace.put_by(&run.to_string())?;
        tree.keep(&run.to_string(), &self.snapshots(run)?)?;
        Ok(put_by)
    }

    /// Branches of runs that have ended long ago, whose workspaces are gone.
    fn branches(&self, rows: &[RunRow]) -> Vec<Item> {
        let Some(after) = self.order.branches else { return Vec::new() };
        let old = |row: &&RunRow| row.status == "ended" && self.hand.now.since(row.updated_at) >= after;
        rows.iter().filter(old).filter_map(|row| self.branch(row.run)).collect()
    }

    fn branch(&self, run: RunId) -> Option<Item> {
        // What stays with its workspace stays with its branch.
        if self.layout.room(run).exists() {
            return None;
        }
        let charter = Charter::read(&*self.journal, run).ok()?;
        let tree = self.tree(charter.mission.project).ok()?;
        let head = tree.branch_head(&charter.started.branch).ok()?;
        let item = item("branch", run, 0);
        if self.order.dry_run {
            return Some(item);
        }
        let recycle = || {
            let left = tree.left(&run.to_string()).map_err(|error| view::with_causes(&error))?;
            tree.branch_recycle(&charter.started.branch, left.as_ref(), bin::seconds(self.hand.now))
                .map_err(|error| view::with_causes(&error))
        };
        Some(match self.hand.does("sweep.branch", run, recycle) {
            Ok(()) => {
                let note = format!("{head} is in the bin: `regie bin restore {run}` brings it back");
                Item { note: Some(note), ..item }
            }
            Err(why) => stays(item, why),
        })
    }

    /// What has been in the bin for long enough.
    fn binned(&self) -> Vec<Item> {
        let Some(after) = self.order.bin else { return Vec::new() };
        let bin = bin::Bin {
            journal: Arc::clone(&self.journal),
            records: Arc::clone(&self.records),
            layout: self.layout.clone(),
            now: self.hand.now,
        };
        let entries = match bin.list() {
            Ok(entries) => entries,
            Err(error) => return vec![stays(item("bin", "all of it", 0), view::with_causes(&error))],
        };
        let is_old = |at| self.hand.now.since(Timestamp(at)) >= after;
        let old = entries.iter().filter(|entry| entry.at.is_some_and(is_old));
        old.map(|entry| {
            let item = item("bin", &entry.run, 0);
            if self.order.dry_run {
                return item;
            }
            let forget = || bin.forget(entry).map_err(|error| view::with_causes(&error));
            match self.hand.does("sweep.bin", &entry.run, forget) {
                Ok(()) => item,
                Err(why) => stays(item, why),
            }
        })
        .collect()
    }

    /// A git dir that is there. None is made: what it should hold would be missing.
    pub(super) fn tree(&self, project: ProjectId) -> Result<Tree, Error> {
        let dir = self.layout.tree(project);
        if dir.join("HEAD").exists() {
            return Ok(Tree::open_or_create(&dir)?);
        }
        let detail = format!("the git directory {} is not there", dir.display());
        Err(Error::new(Kind::Unavailable, "keep.no_tree", detail))
    }

    /// The snapshots that the events of a run name.
    pub(super) fn snapshots(&self, run: RunId) -> Result<BTreeSet<TreeId>, Error> {
        let (mut seq, mut found) = (0, BTreeSet::new());
        loop {
            let page = self.journal.history(run, seq, PAGE)?;
            let Some(last) = page.last() else { return Ok(found) };
            seq = last.header.seq;
            found.extend(page.iter().filter_map(|event| match &event.header.fact {
                Fact::StepIntended { snapshot: Some(snapshot), .. }
                | Fact::WorkspaceRestored { snapshot, .. } => snapshot.parse::<TreeId>().ok(),
                _ => None,
            }));
        }
    }

    /// What a crash has left half removed, and what was prepared for runs that never began.
    fn left_overs(&self, rows: &[RunRow]) -> Vec<Item> {
        let known: HashSet<RunId> = rows.iter().map(|row| row.run).collect();
        let mut items = Vec::new();
        for dir in [&self.layout.work, &self.layout.caches()] {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let (path, name) = (entry.path(), name_of(&entry.path()));
                let began = name.parse::<RunId>().is_ok_and(|run| !known.contains(&run));
                if !(name.starts_with(GONE) || began && self.is_old(&path)) {
                    continue;
                }
                let item = item("left_over", path.display(), size::of(&path));
                items.push(match self.order.dry_run {
                    true => item,
                    false => {
                        let remove =
                            || remove(&path).map_err(|error| format!("it cannot be removed: {error}"));
                        match self.hand.does("sweep.left-over", path.display(), remove) {
                            Ok(()) => item,
                            Err(why) => stays(item, why),
                        }
                    }
                });
            }
        }
        items
    }

    fn is_old(&self, path: &Path) -> bool {
        let modified = fs::symlink_metadata(path).and_then(|meta| meta.modified()).ok();
        let since = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        since.is_some_and(|at| {
            let at = Timestamp(u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
            self.hand.now.since(at) >= DAY
        })
    }

    /// Caches above what they may take together, those of the projects first that were used least lately.
    fn caches(&self, projects: &BTreeMap<ProjectId, OfProject>) -> Vec<Item> {
        let mut found: Vec<(ProjectId, &OfProject, u64)> = projects
            .iter()
            .filter(|(id, _)| self.layout.cache(**id).exists())
            .map(|(id, project)| (*id, project, size::of(&self.layout.cache(*id))))
            .collect();
        found.sort_by_key(|(_, project, _)| project.used_at);
        let mut total: u64 = found.iter().map(|(.., bytes)| bytes).sum();
        let mut items = Vec::new();
        for (id, project, bytes) in found {
            if total <= self.order.caches {
                break;
            }
            let item = item("cache", id, bytes);
            if let Some(run) = project.open {
                items.push(stays(item, format!("run {run} is not over")));
                continue;
            }
            let remove = || {
                let removed = take_away(&self.layout.cache(id));
                removed.map_err(|_| "it cannot be removed; check its permissions".to_owned())
            };
            let gone = if self.order.dry_run { Ok(()) } else { self.hand.does("sweep.cache", id, remove) };
            match gone {
                Ok(()) => {
                    total = total.saturating_sub(bytes);
                    items.push(item);
                }
                Err(why) => items.push(stays(item, why)),
            }
        }
        items
    }

    /// Artifacts that no event and no record names.
    fn unreferenced(&self) -> Option<Item> {
        let mut item = item("artifacts", "that nothing refers to", 0);
        let named = match self.named() {
            Ok(named) => named,
            Err(why) => return Some(stays(item, why)),
        };
        let put_before = Timestamp(self.hand.now.0.saturating_sub(DAY.max(self.order.older_than)));
        let old = self.old_artifacts(put_before, &named);
        let bytes =
            |of: &[(Digest, u64)]| of.iter().fold(0_u64, |all, (_, bytes)| all.saturating_add(*bytes));
        if old.is_empty() || self.order.dry_run {
            item.bytes = bytes(&old);
            return (item.bytes > 0).then_some(item);
        }
        let discard = || {
            let gone =
                old.iter().filter(|(digest, _)| self.artifacts.discard(*digest, put_before).unwrap_or(false));
            Ok(bytes(&gone.copied().collect::<Vec<_>>()))
        };
        match self.hand.does("sweep.artifacts", format!("{} that nothing refers to", old.len()), discard) {
            Ok(freed) => item.bytes = freed,
            Err(why) => return Some(stays(item, why)),
        }
        (item.bytes > 0).then_some(item)
    }

    /// Artifacts that were last put before an instant and that nothing names, with their sizes.
    fn old_artifacts(&self, put_before: Timestamp, named: &HashSet<Digest>) -> Vec<(Digest, u64)> {
        let mut old = Vec::new();
        for beginning in 0..=u8::MAX {
            for digest in self.artifacts.find(&format!("{beginning:02x}")).unwrap_or_default() {
                let stored = self.artifacts.stored(digest).ok().flatten();
                let Some(stored) = stored.filter(|stored| stored.at < put_before) else { continue };
                if named.contains(&digest) {
                    continue;
                }
                old.push((digest, stored.bytes));
            }
        }
        old
    }

    /// Every digest that stands in an event, in its content or in a record, wherever in it. More than the
    /// artifacts, never fewer.
    fn named(&self) -> Result<HashSet<Digest>, String> {
        let (mut named, mut position) = (HashSet::new(), 0);
        loop {
            let page = self.journal.stream(position, PAGE).map_err(|error| view::with_causes(&error))?;
            let Some(last) = page.last() else { break };
            position = last.position;
            for event in &page {
                let fact = serde_json::to_vec(&event.header.fact)
                    .map_err(|_| format!("event {} cannot be looked through", event.position))?;
                digests(&fact, &mut named);
                digests(
                    event.payload.as_ref().map(|payload| payload.0.as_slice()).unwrap_or_default(),
                    &mut named,
                );
            }
        }
        for kind in self.records.kinds().map_err(|error| view::with_causes(&error))? {
            for record in self.records.list(&kind).map_err(|error| view::with_causes(&error))? {
                digests(record.key.as_bytes(), &mut named);
                digests(&record.body, &mut named);
            }
        }
        Ok(named)
    }

    /// Objects of a git dir that nothing refers to any more.
    fn objects(&self, id: ProjectId, project: &OfProject) -> Option<Item> {
        let dir = self.layout.tree(id);
        let tree = self.tree(id).ok()?;
        if tree.loose_objects() < LOOSE {
            return None;
        }
        let before = size::of(&dir);
        let mut item = item("objects", id, 0);
        if let Some(run) = project.open {
            return Some(stays(item, format!("run {run} is not over")));
        }
        if self.order.dry_run {
            item.note = Some(format!("{} loose objects would be packed", tree.loose_objects()));
            return Some(item);
        }
        let collected = || -> Result<(), Error> {
            for run in project.runs.iter().filter(|run| !bin::was_emptied(&*self.records, **run)) {
                tree.keep(&run.to_string(), &self.snapshots(*run)?)?;
            }
            // A run may have begun meanwhile; its index would not be seen.
            let open = self.journal.runs(true, usize::MAX)?;
            let charter = |row: &RunRow| Charter::read(&*self.journal, row.run).ok();
            if open.iter().any(|row| charter(row).is_none_or(|charter| charter.mission.project == id)) {
                return Err(Error::new(Kind::Conflict, "keep.busy", "a run has begun meanwhile"));
            }
            Ok(tree.collect()?)
        };
        let collect = || collected().map_err(|error| view::with_causes(&error));
        match self.hand.does("sweep.objects", id, collect) {
            Ok(()) => item.bytes = before.saturating_sub(size::of(&dir)),
            Err(why) => return Some(stays(item, why)),
        }
        Some(item)
    }
}

fn item(what: &str, name: impl ToString, bytes: u64) -> Item {
    Item { what: what.into(), name: name.to_string(), bytes, goes: true, note: None }
}

fn stays(item: Item, why: impl Into<String>) -> Item {
    Item { goes: false, note: Some(why.into()), ..item }
}

/// What keeps a workspace where it is.
fn only_there(skipped: &[Skipped]) -> String {
    let first = skipped.first().map(|one| one.path.display().to_string()).unwrap_or_default();
    let more = skipped.len().saturating_sub(1);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("it has what no commit can hold: {first}{more}; look at it, and remove the workspace by hand")
}

pub(super) fn unremoved(error: &dyn std::error::Error) -> Error {
    Error::new(Kind::Unavailable, "keep.unremoved", view::with_causes(error)).hint("check its permissions")
}

/// Renames a directory out of the way and removes it. After the first no crash makes it look whole.
pub(super) fn take_away(dir: &Path) -> io::Result<()> {
    let gone = dir.with_file_name(format!("{GONE}{}", name_of(dir)));
    if gone.exists() {
        remove(&gone)?;
    }
    fs::rename(dir, &gone)?;
    remove(&gone)
}

/// Removes all of a directory; one that forbids it, as some tools make them, is opened first.
fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir);
            fs::remove_dir_all(dir)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn open_up(dir: &Path) {
    let mut next: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(dir) = next.pop() {
        let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(0o700));
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        next.extend(dirs.map(|entry| entry.path()));
    }
}

/// Collects what looks like a digest: 64 hexadecimal characters, neither more nor fewer.
pub(super) fn digests(bytes: &[u8], found: &mut HashSet<Digest>) {
    let runs = bytes.split(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    for run in runs.filter(|run| run.len() == HEX) {
        found.extend(std::str::from_utf8(run).ok().and_then(|text| text.parse::<Digest>().ok()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_found_wherever_they_stand() {
        let (one, other) = (Digest::of(b"1"), Digest::of(b"2"));
        let mut found = HashSet::new();
        digests(format!("{{\"a\":[\"{one}\"],\"b\":\"x{other}y\"}} {other}0").as_bytes(), &mut found);
        assert_eq!(found, HashSet::from([one, other]));
        found.clear();
        digests(format!("0{one}").as_bytes(), &mut found);
        assert!(found.is_empty());
    }

    #[test]
    fn what_forbids_its_removal_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let room = scratch.path().join("run");
        fs::create_dir_all(room.join("tree/sealed")).unwrap();
        fs::write(room.join("tree/sealed/file"), "x").unwrap();
        std::os::unix::fs::symlink("/", room.join("tree/link")).unwrap();
        fs::set_permissions(room.join("tree/sealed"), fs::Permissions::from_mode(0o500)).unwrap();
        take_away(&room).unwrap();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
