//! Writing recordings, as it happens.
//!
//! Events are copied from the journal, so a daemon that was killed goes on where the file ends. What
//! came over the wire is on disk before the call's result goes anywhere. A recording that cannot be
//! written never stands in the way of its run: it stays unfinished, and says so.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::{Digest, Fact, Recorded, RunId};
use kernel::lineage;
use kernel::port::{Artifacts, Clock, Journal, Records, Work};
use models::Provider;
use serde::{Deserialize, Serialize};

use super::call::Taping;
use super::format::{
    CALLS, EVENTS, FORMAT, IMAGES, INHERITED, Line, MANIFEST, Manifest, SYSTEM, TOOLS, Whole,
};
use super::read::lines;
use super::scrub::{Owner, Scrubber};
use crate::Control;
use crate::api::Vendor;
use crate::error::{Error, Kind};
use crate::runs::Charter;
use crate::view;

/// The record kind of a recording.
const RECORD: &str = "recording";
/// Events read at a time.
const PAGE: usize = 1024;

/// The variables that steps in a repository are given, with their values.
pub type Given = Arc<dyn Fn(&Path) -> Vec<(String, String)> + Send + Sync>;

/// What a recorder works on.
pub struct Parts {
    /// Where events are.
    pub journal: Arc<dyn Journal>,
    /// Which runs are recorded.
    pub records: Arc<dyn Records>,
    /// System prompts and tool lists.
    pub artifacts: Arc<dyn Artifacts>,
    /// The present instant.
    pub clock: Arc<dyn Clock>,
    /// What must not be seen beside keys.
    pub given: Given,
    /// Whose machine it is.
    pub owner: Owner,
}

/// Writes the recordings of one daemon.
pub struct Recorder {
    parts: Parts,
    open: Mutex<HashMap<RunId, Open>>,
}

/// What is on record of a recording.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    dir: PathBuf,
    /// Nothing is written to it any more.
    closed: bool,
}

/// A recording that is being written.
struct Open {
    dir: PathBuf,
    /// `None` while the run's key is not known, after a restart: nothing is written unmasked.
    scrubber: Option<Arc<Scrubber>>,
    /// The last event that is in it.
    written: u64,
}

impl Control {
    /// Makes the directory of a recording that is asked for.
    pub(crate) async fn recording_prepare(&self, wanted: Option<&String>) -> Result<Option<PathBuf>, Error> {
        let (Some(dir), Some(recorder)) = (wanted.cloned(), self.recorder.clone()) else { return Ok(None) };
        self.blocking(move || recorder.prepare(&dir).map(Some)).await
    }

    /// Begins to record a run, in a directory that was made. A run that has begun goes on without.
    pub(crate) async fn recording_begin(
        &self,
        run: RunId,
        dir: Option<PathBuf>,
        vendor: &Vendor,
        provider: Arc<dyn Provider>,
    ) -> Result<(), Error> {
        let (Some(dir), Some(recorder)) = (dir, self.recorder.clone()) else { return Ok(()) };
        let vendor = vendor.clone();
        self.blocking(move || recorder.begin(run, &dir, &vendor, &*provider)).await
    }

    /// Tells a recording the keys of its run, which a restart has forgotten.
    pub(crate) async fn recording_know(&self, run: RunId, vendor: &Vendor) {
        let Some(recorder) = self.recorder.clone() else { return };
        let vendor = vendor.clone();
        let _ = tokio::task::spawn_blocking(move || recorder.know(run, &vendor)).await;
    }

    /// Writes what is new into the recordings, whenever something is.
    pub async fn recordings_follow(&self) {
        let Some(recorder) = self.recorder.clone() else { return };
        let mut bell = self.bell();
        loop {
            let recorder = Arc::clone(&recorder);
            if !recorder.is_idle() {
                // What could not be written now is written with the next event.
                let _ = tokio::task::spawn_blocking(move || recorder.catch_up_all()).await;
            }
            if bell.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Recorder {
    /// Over these parts; nothing is recorded yet.
    pub fn new(parts: Parts) -> Self {
        Self { parts, open: Mutex::default() }
    }

    /// Takes up again what was being recorded when the last daemon died.
    pub fn reopen(&self) {
        let records = self.parts.records.list(RECORD).unwrap_or_default();
        for record in records {
            let (Ok(run), Ok(Record { dir, closed: false })) =
                (record.key.parse::<RunId>(), serde_json::from_slice(&record.body))
            else {
                continue;
            };
            match self.take_up(run, &dir) {
                Ok(open) => drop(self.lock().insert(run, open)),
                Err(error) => self.give_up(run, &dir, &error),
            }
        }
    }

    fn take_up(&self, run: RunId, dir: &Path) -> io::Result<Open> {
        let manifest: Manifest = serde_json::from_slice(&fs::read(dir.join(MANIFEST))?)?;
        let path = dir.join(EVENTS);
        let (events, length) = lines(&fs::read(&path)?);
        // A line that was cut is written again.
        OpenOptions::new().write(true).open(&path)?.set_len(length)?;
        let written = events.last().map_or(0, |written| written.event.header.seq);
        let scrubber = match manifest.key {
            Some(_) => None,
            None => Some(Arc::new(self.scrubber(run, &[])?)),
        };
        Ok(Open { dir: dir.to_owned(), scrubber, written })
    }

    /// Makes the directory of a recording, which must hold nothing.
    ///
    /// # Errors
    /// When it holds something or cannot be made.
    pub fn prepare(&self, dir: &str) -> Result<PathBuf, Error> {
        let refused = |what: String| {
            Error::new(Kind::Invalid, "recording.dir", what)
                .hint("name a directory that is empty or not there: --record DIR")
        };
        let path = PathBuf::from(dir);
        if !path.is_absolute() {
            return Err(refused(format!("the recording's directory `{dir}` is no absolute path")));
        }
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        let entries = made
            .and_then(|()| fs::read_dir(&path))
            .map_err(|error| refused(format!("{} cannot hold a recording: {error}", path.display())))?;
        match entries.count() {
            0 => Ok(path),
            _ => Err(refused(format!("{} is not empty", path.display()))),
        }
    }

    /// Begins to record a run that is on record.
    ///
    /// # Errors
    /// When it is recorded already, or the first files cannot be written.
    pub fn begin(
        &self,
        run: RunId,
        dir: &Path,
        vendor: &Vendor,
        provider: &dyn Provider,
    ) -> Result<(), Error> {
        if let Some(open) = self.lock().get(&run) {
            let detail = format!("run {run} is being recorded in {} already", open.dir.display());
            return Err(Error::new(Kind::Conflict, "recording.open", detail).hint("leave --record out"));
        }
        let open = self.first(run, dir, vendor, provider).map_err(|error| {
            let detail = format!("the recording in {} cannot be begun: {error}", dir.display());
            Error::new(Kind::Unavailable, "recording.unwritable", detail).hint("choose another directory")
        })?;
        self.put(run, &Record { dir: dir.to_owned(), closed: false });
        self.lock().insert(run, open);
        self.catch_up(run);
        Ok(())
    }

    fn first(&self, run: RunId, dir: &Path, vendor: &Vendor, provider: &dyn Provider) -> io::Result<Open> {
        let Parts { journal, artifacts, clock, .. } = &self.parts;
        let charter = Charter::read(&**journal, run).map_err(io::Error::other)?;
        let keys = vendor.keys();
        let scrubber = self.scrubber(run, &keys)?;
        let head = journal.run(run).map_err(io::Error::other)?.head;
        let used = match models::Wire::of(&charter.mission.model) {
            models::Wire::Messages => vendor.api_key.as_ref().or(vendor.auth_token.as_ref()),
            models::Wire::Responses => vendor.openai_api_key.as_ref(),
            models::Wire::Chat => vendor.local_api_key.as_ref(),
        };
        fs::DirBuilder::new().mode(0o700).create(dir.join(CALLS))?;
        let mut files = BTreeMap::new();
        for (name, digest) in [(SYSTEM, charter.started.system), (TOOLS, charter.started.tools)] {
            let mut bytes = artifacts.get(digest).map_err(io::Error::other)?;
            scrubber.text(&mut bytes);
            write(&dir.join(name), &bytes)?;
            files.insert(name.to_owned(), Digest::of(&bytes));
        }
        if let Some(forked) = charter.started.forked.as_deref() {
            let inherited = lineage::inherited(&**journal, forked).map_err(io::Error::other)?;
            let mut text = Vec::new();
            keep_images(&**artifacts, dir, &inherited)?;
            for event in &inherited {
                serde_json::to_writer(&mut text, &Line::of(event, &scrubber)?)?;
                text.push(b'\n');
            }
            write(&dir.join(INHERITED), &text)?;
            files.insert(INHERITED.to_owned(), Digest::of(&text));
        }
        let manifest = Manifest {
            format: FORMAT,
            regie: env!("CARGO_PKG_VERSION").into(),
            run,
            driver: charter.started.driver.clone(),
            model: charter.mission.model.clone(),
            wire: provider.name().into(),
            endpoint: scrubber.line(provider.endpoint()),
            proxy: provider.proxy().map(|proxy| scrubber.line(proxy)),
            began_at: clock.now(),
            since: head.seq.saturating_add(1),
            key: used.map(|key| scrubber.line(key.trim())),
            files,
            whole: None,
        };
        write(&dir.join(EVENTS), &[])?;
        write(&dir.join(MANIFEST), &serde_json::to_vec_pretty(&manifest)?)?;
        Ok(Open { dir: dir.to_owned(), scrubber: Some(Arc::new(scrubber)), written: 0 })
    }

    fn scrubber(&self, run: RunId, keys: &[String]) -> io::Result<Scrubber> {
        let charter = Charter::read(&*self.parts.journal, run).map_err(io::Error::other)?;
        let given = (self.parts.given)(Path::new(&charter.mission.repository));
        let given = given.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Ok(Scrubber::new(keys.iter().map(String::as_str), given, &self.parts.owner))
    }

    /// Hears a run's keys again.
    pub fn know(&self, run: RunId, vendor: &Vendor) {
        let keys = vendor.keys();
        if keys.is_empty() || !self.lock().contains_key(&run) {
            return;
        }
        let scrubber = self.scrubber(run, &keys);
        if let (Some(open), Ok(scrubber)) = (self.lock().get_mut(&run), scrubber) {
            open.scrubber = Some(Arc::new(match &open.scrubber {
                Some(known) => known.and(&scrubber),
                None => scrubber,
            }));
        }
        self.catch_up(run);
    }

    /// What hears a call; nothing for a run that is not recorded.
    pub(crate) fn call(&self, work: &Work) -> Option<Taping> {
        let open = self.lock();
        let Open { dir, scrubber: Some(scrubber), .. } = open.get(&work.run)? else { return None };
        Some(Taping::new(dir, work, Arc::clone(scrubber)))
    }

    /// Whether any run is recorded.
    pub fn is_idle(&self) -> bool {
        self.lock().is_empty()
    }

    /// Writes the events that are new. May wait for a disk.
    pub fn catch_up_all(&self) {
        let runs: Vec<RunId> = self.lock().keys().copied().collect();
        for run in runs {
            self.catch_up(run);
        }
    }

    fn catch_up(&self, run: RunId) {
        // Held while writing: two writers would write twice.
        let mut recordings = self.lock();
        let Some(open) = recordings.get_mut(&run) else { return };
        let Some(scrubber) = open.scrubber.clone() else { return };
        let ended = append(&self.parts, run, open, &scrubber);
        let dir = open.dir.clone();
        match ended {
            Ok(false) => {}
            Ok(true) => {
                recordings.remove(&run);
                self.put(run, &Record { dir, closed: true });
            }
            Err(error) => {
                recordings.remove(&run);
                self.give_up(run, &dir, &error);
            }
        }
    }

    fn give_up(&self, run: RunId, dir: &Path, error: &io::Error) {
        let dir = dir.to_owned();
        tracing::warn!(%run, dir = %dir.display(), %error, "the recording cannot be written; it stays unfinished");
        self.put(run, &Record { dir, closed: true });
    }

    fn put(&self, run: RunId, record: &Record) {
        let (records, key) = (&self.parts.records, run.to_string());
        let put = || -> Result<(), String> {
            let known = records.get(RECORD, &key).map_err(|error| view::with_causes(&error))?;
            let body = serde_json::to_vec(record).map_err(|error| error.to_string())?;
            let expected = known.map_or(0, |record| record.version);
            records.put(RECORD, &key, expected, &body).map_err(|error| view::with_causes(&error))?;
            Ok(())
        };
        if let Err(error) = put() {
            tracing::warn!(%run, error, "that the run is recorded is not on record: it ends with this daemon");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends what is new, and closes a recording whose run is over: true then.
fn append(parts: &Parts, run: RunId, open: &mut Open, scrubber: &Scrubber) -> io::Result<bool> {
    let path = open.dir.join(EVENTS);
    let mut has_ended = false;
    loop {
        let page = parts.journal.history(run, open.written, PAGE).map_err(io::Error::other)?;
        let Some(last) = page.last() else { break };
        keep_images(&*parts.artifacts, &open.dir, &page)?;
        let mut text = Vec::new();
        for event in &page {
            serde_json::to_writer(&mut text, &Line::of(event, scrubber)?)?;
            text.push(b'\n');
            has_ended |= matches!(event.header.fact, Fact::Ended { .. });
        }
        let mut file = OpenOptions::new().append(true).open(&path)?;
        file.write_all(&text)?;
        file.sync_data()?;
        open.written = last.header.seq;
    }
    if !has_ended {
        return Ok(false);
    }
    let place = open.dir.join(MANIFEST);
    let mut manifest: Manifest = serde_json::from_slice(&fs::read(&place)?)?;
    manifest.whole = Some(Whole { events: open.written, digest: Digest::of(&fs::read(&path)?) });
    write(&place, &serde_json::to_vec_pretty(&manifest)?)?;
    Ok(true)
}

/// Keeps the images that these events gave to look at: requests are composed from their bytes. Nothing in an
/// image can be masked.
fn keep_images(artifacts: &dyn Artifacts, dir: &Path, events: &[Recorded]) -> io::Result<()> {
    for image in events.iter().filter_map(|event| engine::image_of(event.payload.as_ref())) {
        let place = dir.join(IMAGES).join(image.digest.to_string());
        if place.exists() {
            continue;
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir.join(IMAGES))?;
        write(&place, &artifacts.get(image.digest).map_err(io::Error::other)?)?;
    }
    Ok(())
}

/// Writes a whole file, durably; a crash leaves the old one or the new one.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}
