//! Reading a recording, which may come from anywhere: nothing in it is believed unseen.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::{Digest, StepNo};
use models::tape::Attempt;

use super::format::{
    CALL, Call, EVENTS, FORMAT, IMAGES, INHERITED, Line, MANIFEST, Manifest, REQUEST, SYSTEM, TOOLS, Written,
    body_name, call_dir,
};

/// Why a recording cannot be replayed at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is none.
    #[error("{} is no recording: it has no {MANIFEST} that can be read; name the directory of `--record`", .0.display())]
    None(PathBuf, #[source] io::Error),
    /// It is of another format.
    #[error(
        "the recording has format {0}, and this Regie reads {FORMAT}; replay it with the Regie that made it"
    )]
    Format(u64),
    /// It is of another Regie, which may compose other requests.
    #[error("the recording was made by Regie {0}, and this is {ours}; replay it with the same one", ours = env!("CARGO_PKG_VERSION"))]
    Version(String),
    /// A part of it is not there.
    #[error("{file} of the recording cannot be read; ask for the whole directory")]
    Missing {
        /// Which.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A part of it is not what was written.
    #[error("{file} of the recording is damaged: {what}; ask for a copy of the directory as it was made")]
    Damaged {
        /// Which.
        file: String,
        /// What is wrong with it.
        what: String,
    },
}

/// A recording as it was written.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    /// What it is of.
    pub manifest: Manifest,
    /// The system prompt.
    pub system: Vec<u8>,
    /// The tool list.
    pub tools: Vec<u8>,
    /// The events of what the run goes on from.
    pub inherited: Vec<Written>,
    /// The events of the run.
    pub events: Vec<Written>,
    /// The images that both gave to look at.
    pub images: BTreeMap<Digest, Vec<u8>>,
}

/// A call as it came over the wire.
#[derive(Debug)]
pub struct Taped {
    /// What is known of it.
    pub call: Call,
    /// The exact request.
    pub request: Vec<u8>,
    /// The attempts.
    pub attempts: Vec<Attempt>,
}

impl Recording {
    /// Reads a recording. Its calls are read when they are asked for.
    ///
    /// # Errors
    /// When it is none, of another Regie, or not what was written.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let manifest = fs::read(dir.join(MANIFEST)).map_err(|error| Error::None(dir.to_owned(), error))?;
        let manifest = manifest_of(&manifest)?;
        let fixed = |name: &str| -> Result<Vec<u8>, Error> {
            let bytes = read(dir, name)?;
            match manifest.files.get(name) {
                Some(digest) => is_as_written(name, &bytes, *digest).map(|()| bytes),
                None => Err(damaged(name, "it is not among the files that were recorded")),
            }
        };
        let (system, tools) = (fixed(SYSTEM)?, fixed(TOOLS)?);
        let inherited = match manifest.files.contains_key(INHERITED) {
            true => whole_lines(INHERITED, &fixed(INHERITED)?)?,
            false => Vec::new(),
        };
        let events = events(dir, &manifest)?;
        let images = images(dir, inherited.iter().chain(&events))?;
        Ok(Self { dir: dir.to_owned(), manifest, system, tools, inherited, events, images })
    }

    /// One that holds events alone.
    #[cfg(test)]
    pub(super) fn of_events(run: domain::RunId, events: Vec<Written>) -> Self {
        let manifest = Manifest {
            format: FORMAT,
            regie: String::new(),
            run,
            driver: String::new(),
            model: String::new(),
            wire: String::new(),
            endpoint: String::new(),
            proxy: None,
            began_at: domain::Timestamp(0),
            since: u64::MAX,
            key: None,
            files: BTreeMap::new(),
            whole: None,
        };
        let dir = PathBuf::from("/nonexistent");
        let (system, tools, inherited, images) = Default::default();
        Self { dir, manifest, system, tools, inherited, events, images }
    }

    /// One try of a model call; nothing when it was not recorded, or not to its end.
    ///
    /// # Errors
    /// When it is not what was written.
    pub fn call(&self, step: StepNo, attempt: u32) -> Result<Option<Taped>, Error> {
        let dir = call_dir(&self.dir, step, attempt);
        let name = |file: &str| {
            let dir = dir.strip_prefix(&self.dir).unwrap_or(&dir);
            dir.join(file).display().to_string()
        };
        if !dir.join(CALL).exists() {
            return Ok(None);
        }
        let call: Call = serde_json::from_slice(&read(&self.dir, &name(CALL))?)
            .map_err(|error| damaged(&name(CALL), &error.to_string()))?;
        let request = read(&self.dir, &name(REQUEST))?;
        is_as_written(&name(REQUEST), &request, call.request)?;
        let mut attempts = Vec::new();
        for (n, kept) in (1..).zip(call.attempts.clone()) {
            let name = name(&body_name(n));
            let body = read(&self.dir, &name)?;
            is_as_written(&name, &body, kept.body)?;
            attempts.push(kept.with(body));
        }
        Ok(Some(Taped { call, request, attempts }))
    }
}

fn manifest_of(bytes: &[u8]) -> Result<Manifest, Error> {
    let unreadable = |error: serde_json::Error| damaged(MANIFEST, &error.to_string());
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(unreadable)?;
    // Of another format nothing else is known.
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    match format {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) => return Err(Error::Format(format)),
        None => return Err(damaged(MANIFEST, "it names no format")),
    }
    let manifest: Manifest = serde_json::from_value(value).map_err(unreadable)?;
    match manifest.regie == env!("CARGO_PKG_VERSION") {
        true => Ok(manifest),
        false => Err(Error::Version(manifest.regie.chars().take(40).collect())),
    }
}

/// The events, one after another from the first.
fn events(dir: &Path, manifest: &Manifest) -> Result<Vec<Written>, Error> {
    let bytes = read(dir, EVENTS)?;
    let Some(whole) = &manifest.whole else {
        // Its last line may have been cut.
        let (events, length) = lines(&bytes);
        let rest = bytes.get(usize::try_from(length).unwrap_or(usize::MAX)..).unwrap_or_default();
        if rest.contains(&b'\n') {
            return whole_lines(EVENTS, &bytes);
        }
        in_order(manifest, &events)?;
        return Ok(events);
    };
    let events = whole_lines(EVENTS, &bytes)?;
    in_order(manifest, &events)?;
    let count = u64::try_from(events.len()).unwrap_or(u64::MAX);
    if count != whole.events {
        return Err(damaged(EVENTS, &format!("{count} events are there, of {}", whole.events)));
    }
    is_as_written(EVENTS, &bytes, whole.digest)?;
    Ok(events)
}

/// The images that events name, each under its digest.
fn images<'a>(
    dir: &Path,
    events: impl Iterator<Item = &'a Written>,
) -> Result<BTreeMap<Digest, Vec<u8>>, Error> {
    let mut images = BTreeMap::new();
    for image in events.filter_map(|written| engine::image_of(written.event.payload.as_ref())) {
        let name = Path::new(IMAGES).join(image.digest.to_string()).display().to_string();
        let bytes = read(dir, &name)?;
        is_as_written(&name, &bytes, image.digest)?;
        images.insert(image.digest, bytes);
    }
    Ok(images)
}

fn in_order(manifest: &Manifest, events: &[Written]) -> Result<(), Error> {
    for (seq, written) in (1..).zip(events) {
        let header = &written.event.header;
        if header.run != manifest.run {
            return Err(damaged(EVENTS, &format!("line {seq} is of another run")));
        }
        if header.seq != seq {
            return Err(damaged(
                EVENTS,
                &format!("event {seq} is missing: event {} is in its place", header.seq),
            ));
        }
    }
    match events.is_empty() {
        true => Err(damaged(EVENTS, "there is no event")),
        false => Ok(()),
    }
}

/// The events of as many lines as can be read, and where the next one begins.
pub(super) fn lines(bytes: &[u8]) -> (Vec<Written>, u64) {
    let mut events = Vec::new();
    let mut length = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let event = line.strip_suffix(b"\n").and_then(|line| event(line).ok());
        let Some(event) = event else { break };
        events.push(event);
        length += line.len();
    }
    (events, u64::try_from(length).unwrap_or(u64::MAX))
}

fn whole_lines(name: &str, bytes: &[u8]) -> Result<Vec<Written>, Error> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let read =
        |(n, line)| event(line).map_err(|error| damaged(name, &format!("line {n} is no event ({error})")));
    (1_u64..).zip(lines).map(read).collect()
}

fn event(line: &[u8]) -> Result<Written, serde_json::Error> {
    serde_json::from_slice::<Line>(line)?.read()
}

fn read(dir: &Path, name: &str) -> Result<Vec<u8>, Error> {
    fs::read(dir.join(name)).map_err(|source| Error::Missing { file: name.to_owned(), source })
}

fn is_as_written(name: &str, bytes: &[u8], digest: Digest) -> Result<(), Error> {
    match Digest::of(bytes) == digest {
        true => Ok(()),
        false => Err(damaged(name, "its bytes are not those that were recorded")),
    }
}

fn damaged(file: &str, what: &str) -> Error {
    Error::Damaged { file: file.to_owned(), what: what.to_owned() }
}
