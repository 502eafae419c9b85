//! A run's spool: results on disk before they are told, the highest fence, and what the agent has
//! seen of the workspace.
//!
//! | file | content |
//! |---|---|
//! | `<step>.result` | the result of a step, JSON |
//! | `outputs/<step>.txt` | the whole of an output that the result only previews; later steps read it as `/outputs/<step>.txt`, so it stays as long as the spool |
//! | `generation` | how many runs this one goes on from, one after another; its outputs are then `outputs/f<generation>-<step>.txt`, beside those that it inherits |
//! | `fence` | the highest fence seen |
//! | `seen` | what the agent knew of files when results were last forgotten |
//! | `reserve` | room that is given up when the disk is full, so that a result can say so |
//! | `lock` | held by the living runner, with its process id |
//! | `runner.sock`, `runner.log` | where it listens, what it says |

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use domain::{Digest, StepNo};
use serde::{Deserialize, Serialize};

use crate::wire::{Seen, Spooled, Work};

/// The room that is kept back, in bytes: for the results of a few steps, and for what the journal
/// writes of them.
const RESERVE: u64 = 2 << 20;

/// Why the spool could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error("the spool file {} cannot be {doing}; check the space and the permissions there", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What was being done, as `read`.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file is not what was once written.
    #[error("the spool file {} is damaged; remove it, and its step counts as unknown", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { path: path.to_owned(), doing, source }
}

/// What an agent knows of files, by path.
pub(crate) type SeenFiles = BTreeMap<String, Digest>;

/// The spool of one run, as its runner holds it.
#[derive(Debug)]
pub(crate) struct Spool {
    dir: PathBuf,
    generation: u64,
    index: Mutex<Index>,
}

/// What is known of files: a base, and what each step since then added. Kept by step, so that a step
/// that is done again after a roll-back starts from what was known before it.
#[derive(Debug, Default)]
struct Index {
    base: Base,
    since: BTreeMap<StepNo, Seen>,
    /// Instruction files that were told since the base, by step.
    told: BTreeMap<StepNo, String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Base {
    upto: u64,
    files: SeenFiles,
    #[serde(default)]
    told: BTreeSet<String>,
}

/// Takes the spool of a run that is over away, once its runner has left. Whether it did so.
///
/// # Errors
/// When it cannot be removed.
pub fn clear_away(dir: &Path) -> Result<bool, Error> {
    if !dir.exists() {
        return Ok(false);
    }
    match crate::lock::take(dir).map_err(io(dir, "locked"))? {
        // Held until all of it is gone, so that no runner begins in what is left.
        Some(_lock) => fs::remove_dir_all(dir).map(|()| true).map_err(io(dir, "removed")),
        None => Ok(false),
    }
}

impl Index {
    fn take(&mut self, spooled: &Spooled) {
        let step = spooled.step;
        match &spooled.seen {
            Some(seen) => drop(self.since.insert(step, seen.clone())),
            None => drop(self.since.remove(&step)),
        }
        match &spooled.output.instructions {
            Some(told) => drop(self.told.insert(step, told.path.clone())),
            None => drop(self.told.remove(&step)),
        }
    }
}

impl Spool {
    /// Opens the spool, creating its directory for the owner alone.
    pub(crate) fn open(dir: &Path) -> Result<Self, Error> {
        create_dir(dir)?;
        create_dir(&outputs_dir(dir))?;
        let base: Base = read_json(&dir.join("seen"))?.unwrap_or_default();
        let mut index = Index { base, ..Index::default() };
        for step in steps(dir)? {
            if step.0 > index.base.upto
                && let Ok(Some(spooled)) = read(dir, step)
            {
                index.take(&spooled);
            }
        }
        Ok(Self { dir: dir.to_owned(), generation: generation(dir)?, index: Mutex::new(index) })
    }

    /// The highest fence on record, 0 for none.
    pub(crate) fn fence(&self) -> Result<u64, Error> {
        Ok(read_json(&self.dir.join("fence"))?.unwrap_or(0))
    }

    /// Puts a higher fence on record.
    pub(crate) fn raise_fence(&self, fence: u64) -> Result<(), Error> {
        self.put("fence", &fence)
    }

    /// Where the long output of a step goes.
    pub(crate) fn output_path(&self, step: StepNo) -> PathBuf {
        outputs_dir(&self.dir).join(self.output_name(step))
    }

    /// The name of that file.
    pub(crate) fn output_name(&self, step: StepNo) -> String {
        output_name(self.generation, step)
    }

    /// The result that answers this work, if one is there.
    pub(crate) fn answer(&self, work: &Work) -> Option<Spooled> {
        match read(&self.dir, work.step) {
            Ok(found) => found.filter(|spooled| spooled.answers(work)),
            Err(error) => {
                tracing::warn!(step = work.step.0, %error, "a result counts as unknown");
                None
            }
        }
    }

    /// Keeps room back, where there is some: a step may fill the disk that its own result goes to.
    pub(crate) fn keep_reserve(&self) {
        let path = self.reserve();
        if path.exists() {
            return;
        }
        let kept = File::create(&path).and_then(|file| {
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, RESERVE).map_err(Into::into)
        });
        if kept.is_err() {
            // Not every disk can keep room back; a full one has none.
            let _ = fs::remove_file(&path);
        }
    }

    /// Gives the room back.
    pub(crate) fn give_reserve_up(&self) -> bool {
        fs::remove_file(self.reserve()).is_ok()
    }

    fn reserve(&self) -> PathBuf {
        self.dir.join("reserve")
    }

    /// Keeps a result. Durable when it returns.
    pub(crate) fn write(&self, spooled: &Spooled) -> Result<(), Error> {
        let name = format!("{}.result", spooled.step);
        self.put(&name, spooled).or_else(|error| match self.give_reserve_up() {
            true => self.put(&name, spooled),
            false => Err(error),
        })?;
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.take(spooled);
        Ok(())
    }

    /// What the agent knew of files before a step.
    pub(crate) fn seen_before(&self, step: StepNo) -> SeenFiles {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files = index.base.files.clone();
        files.extend(index.since.range(..step).map(|(_, seen)| (seen.path.clone(), seen.digest)));
        files
    }

    /// The instruction files that the agent was told before a step.
    pub(crate) fn told_before(&self, step: StepNo) -> BTreeSet<String> {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let since = index.told.range(..step).map(|(_, path)| path);
        index.base.told.iter().chain(since).cloned().collect()
    }

    /// Removes the results up to a step. Long outputs stay: later steps may read them. What the agent has seen by them stays known.
    pub(crate) fn forget(&self, upto: StepNo) -> Result<(), Error> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let later = index.since.split_off(&upto.next());
        let gone = std::mem::replace(&mut index.since, later);
        let untold = index.told.split_off(&upto.next());
        let told = std::mem::replace(&mut index.told, untold);
        index.base.upto = index.base.upto.max(upto.0);
        if !gone.is_empty() || !told.is_empty() {
            index.base.told.extend(told.into_values());
            index.base.files.extend(gone.into_values().map(|seen| (seen.path, seen.digest)));
            self.put("seen", &index.base)?;
        }
        drop(index);
        for step in steps(&self.dir)? {
            if step <= upto {
                let path = self.dir.join(format!("{step}.result"));
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(io(&path, "removed")(error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// See [`put`].
    fn put<T: Serialize>(&self, name: &str, value: &T) -> Result<(), Error> {
        put(&self.dir, name, value)
    }
}

/// What a run goes on from, as its spool takes it over.
#[derive(Debug, Clone)]
pub struct Inherited {
    /// The spool of the run that it goes on from; it may be gone.
    pub from: PathBuf,
    /// How many runs go before it, one after another.
    pub generation: u64,
    /// The steps of that run whose results count.
    pub steps: BTreeSet<StepNo>,
    /// The instruction files that were told in them.
    pub told: BTreeSet<String>,
}

/// Makes the spool of a run that goes on from another one: what the agent has seen stays known, and the
/// long outputs that its conversation names stay where it names them. A spool that is gone has none.
///
/// # Errors
/// When a file cannot be written.
pub fn inherit(dir: &Path, inherited: &Inherited) -> Result<(), Error> {
    let Inherited { from, generation, steps: counted, told } = inherited;
    create_dir(dir)?;
    create_dir(&outputs_dir(dir))?;
    let before = generation.saturating_sub(1);
    let ours: BTreeSet<String> = counted.iter().map(|step| output_name(before, *step)).collect();
    let theirs = format!("f{before}-");
    for entry in fs::read_dir(outputs_dir(from)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(text) = name.to_str() else { continue };
        // Services say what they say in a directory of their own, and the fork has services of its own.
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // What that run inherited itself comes along whole.
        let is_its_own = if before == 0 { !text.starts_with('f') } else { text.starts_with(&theirs) };
        if is_its_own && !ours.contains(text) {
            continue;
        }
        let to = outputs_dir(dir).join(&name);
        if let Err(error) = fs::hard_link(entry.path(), &to)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            fs::copy(entry.path(), &to).map_err(io(&to, "written"))?;
        }
    }
    let base: Base = read_json(&from.join("seen")).ok().flatten().unwrap_or_default();
    let mut files = base.files;
    for step in steps(from).unwrap_or_default() {
        if counted.contains(&step)
            && let Ok(Some(Spooled { seen: Some(seen), .. })) = read(from, step)
        {
            files.insert(seen.path, seen.digest);
        }
    }
    put(dir, "seen", &Base { upto: 0, files, told: told.clone() })?;
    put(dir, "generation", generation)
}

/// Puts a long output that the conversation names back where it names it, unless it is there.
///
/// # Errors
/// When the file cannot be written.
pub fn restore_output(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let to = outputs_dir(dir).join(name);
    if !name.bytes().all(plain) || name.starts_with('.') || to.exists() {
        return Ok(());
    }
    fs::write(&to, bytes).map_err(io(&to, "written"))
}

/// How many runs a run goes on from.
fn generation(dir: &Path) -> Result<u64, Error> {
    Ok(read_json(&dir.join("generation"))?.unwrap_or(0))
}

fn output_name(generation: u64, step: StepNo) -> String {
    match generation {
        0 => format!("{step}.txt"),
        _ => format!("f{generation}-{step}.txt"),
    }
}

/// Replaces a file as one: a crash leaves the old content or the new.
fn put<T: Serialize>(dir: &Path, name: &str, value: &T) -> Result<(), Error> {
    let path = dir.join(name);
    let new = dir.join(format!("{name}.new"));
    let body = serde_json::to_vec(value).map_err(|source| Error::Damaged { path: path.clone(), source })?;
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .map_err(io(&new, "written"))?;
    file.write_all(&body).and_then(|()| file.sync_all()).map_err(io(&new, "written"))?;
    fs::rename(&new, &path).map_err(io(&path, "written"))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io(dir, "synchronised"))
}

/// Creates the directory of a spool for the owner alone.
pub(crate) fn create_dir(dir: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io(dir, "created"))?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(dir, private).map_err(io(dir, "made private"))
}

/// A step's result in the spool at `dir`, whoever wrote it.
pub(crate) fn read(dir: &Path, step: StepNo) -> Result<Option<Spooled>, Error> {
    read_json(&dir.join(format!("{step}.result")))
}

/// Where the long output of a step is.
pub(crate) fn output_path(dir: &Path, step: StepNo) -> PathBuf {
    outputs_dir(dir).join(output_name(generation(dir).unwrap_or_default(), step))
}

/// Where the long outputs of a run are, as steps may read them.
pub(crate) fn outputs_dir(dir: &Path) -> PathBuf {
    dir.join("outputs")
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| Error::Damaged { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io(path, "read")(error)),
    }
}

/// The steps that have a result.
fn steps(dir: &Path) -> Result<Vec<StepNo>, Error> {
    let mut steps = Vec::new();
    for entry in fs::read_dir(dir).map_err(io(dir, "listed"))? {
        let entry = entry.map_err(io(dir, "listed"))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".result")?.parse().ok());
        steps.extend(number.map(StepNo));
    }
    steps.sort();
    Ok(steps)
}
