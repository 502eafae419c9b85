//! The owner's rules for what leaves the jail, as the owner's file has them at each moment.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use trust::Export;

use crate::config;
use crate::home::Home;

/// Reads the installation's file each time: it is small, and asked for once a merge. While it makes no
/// sense, what held before holds on.
///
/// # Errors
/// What makes no sense in the file now: no daemon starts under rules that nobody wrote.
pub(super) fn live(home: &Home) -> Result<Export> {
    let first = config::export(home).map_err(|error| anyhow::anyhow!("{error}; {}", error.mend()))?;
    let (home, last) = (home.clone(), Mutex::new(first));
    Ok(Arc::new(move || {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        match config::export(&home) {
            Ok(rules) => *last = rules,
            Err(error) => tracing::warn!(%error, "the rules of the export gate stay as they were"),
        }
        last.clone()
    }))
}

#[cfg(test)]
mod tests {
    use trust::export::{Kind, Standing};

    use super::*;

    #[test]
    fn a_change_counts_at_once_and_nonsense_never() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(scratch.path())).unwrap();
        let rules = live(&home).unwrap();
        let standing = || rules().standing(Kind::Ci, ".github/workflows/ci.yml");
        assert_eq!(standing(), Standing::Asks);
        let file = config::installation_file(&home);
        std::fs::write(&file, "[export]\nallow = [\"ci\"]\ndeny = [\"ci:.github/\"]\n").unwrap();
        assert_eq!(standing(), Standing::Denied);
        std::fs::write(&file, "[export]\nalow = [\"ci\"]\n").unwrap();
        assert_eq!(standing(), Standing::Denied);
        assert!(live(&home).is_err());
        std::fs::write(&file, "[export]\nallow = [\"ci\"]\n").unwrap();
        assert_eq!(standing(), Standing::Allowed);
    }
}
