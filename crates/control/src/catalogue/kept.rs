//! The file of the catalogue. It is disposable: what cannot be read is read from the endpoints again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use models::catalogue::Listing;
use serde::{Deserialize, Serialize};

/// The form of the file. Another one is not read.
const VERSION: u32 = 1;
/// The most endpoints that are kept; the ones read longest ago go first.
const MOST: usize = 16;

/// The lists that are kept.
#[derive(Debug)]
pub struct Catalogue {
    file: PathBuf,
    held: Mutex<Option<BTreeMap<String, Kept>>>,
}

/// What one endpoint said, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// `anthropic`, `openai` or `local`.
    pub wire: String,
    /// When it was read, in milliseconds since the Unix epoch.
    pub at: u64,
    /// What it said.
    pub listing: Listing,
}

#[derive(Serialize, Deserialize)]
struct Form {
    version: u32,
    endpoints: BTreeMap<String, Kept>,
}

impl Catalogue {
    /// The catalogue of a home. Nothing is read yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { file: home.join("models.json"), held: Mutex::default() }
    }

    /// Endpoints, as the addresses that calls go to, with what they said.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, Kept> {
        self.lock().get_or_insert_with(|| read(&self.file)).clone()
    }

    pub(crate) fn of(&self, url: &str) -> Option<Kept> {
        self.lock().get_or_insert_with(|| read(&self.file)).get(url).cloned()
    }

    /// Keeps what an endpoint said, in memory even where the disk takes nothing.
    pub(crate) fn keep(&self, url: String, kept: Kept) {
        let mut held = self.lock();
        let all = held.get_or_insert_with(|| read(&self.file));
        all.insert(url, kept);
        while all.len() > MOST {
            let oldest = all.iter().min_by_key(|(_, kept)| kept.at).map(|(url, _)| url.clone());
            oldest.and_then(|url| all.remove(&url));
        }
        if let Err(error) = write(&self.file, all) {
            tracing::warn!(file = %self.file.display(), %error, "the catalogue of models is not kept");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<String, Kept>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(file: &Path) -> BTreeMap<String, Kept> {
    let Ok(bytes) = fs::read(file) else { return BTreeMap::new() };
    match serde_json::from_slice::<Form>(&bytes) {
        Ok(form) if form.version == VERSION => form.endpoints,
        _ => BTreeMap::new(),
    }
}

/// Whole or not at all.
fn write(file: &Path, endpoints: &BTreeMap<String, Kept>) -> io::Result<()> {
    let form = Form { version: VERSION, endpoints: endpoints.clone() };
    let bytes = serde_json::to_vec_pretty(&form)?;
    let fresh = file.with_extension("json.new");
    let mut written = File::create(&fresh)?;
    written.write_all(&bytes)?;
    written.sync_all()?;
    fs::rename(&fresh, file)
}
