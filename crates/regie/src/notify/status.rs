//! How each way of telling the owner fared last: a small file that the daemon writes and the doctor
//! reads. Nothing depends on it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::home::Home;

/// How a way fared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// When something was taken last, in milliseconds since the Unix epoch; 0 for never.
    pub(crate) taken_at: u64,
    /// When it failed last.
    pub(crate) failed_at: u64,
    /// Why.
    pub(crate) why: String,
}

/// All ways, by how they are shown.
pub(crate) type All = BTreeMap<String, Status>;

fn file(home: &Home) -> PathBuf {
    home.log().join("notify.json")
}

/// What the daemon has written; nothing where that cannot be read.
pub(crate) fn read(home: &Home) -> All {
    let bytes = std::fs::read(file(home)).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Notes how a way fared.
pub(crate) fn note(home: &Home, way: &str, at: u64, fared: Result<(), &str>) {
    let mut all = read(home);
    let status = all.entry(way.to_owned()).or_default();
    match fared {
        Ok(()) => status.taken_at = at,
        Err(why) => (status.failed_at, status.why) = (at, why.to_owned()),
    }
    let fresh = file(home).with_extension("json.new");
    let written = serde_json::to_vec(&all)
        .map_err(std::io::Error::other)
        .and_then(|bytes| std::fs::write(&fresh, bytes))
        .and_then(|()| std::fs::rename(&fresh, file(home)));
    if let Err(error) = written {
        tracing::debug!(%error, "how a notification fared is not noted");
    }
}
