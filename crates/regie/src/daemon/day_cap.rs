//! The cap on a day's money, as the owner's file has it at each moment.

use std::sync::atomic::{AtomicU64, Ordering};

use trust::DayCap;

use crate::config::{self, Error};
use crate::home::Home;

/// Reads the installation's file each time: it is small, and asked for once a model call. While it makes
/// no sense, what held before holds on.
#[derive(Debug)]
pub(super) struct FileDayCap {
    home: Home,
    last: AtomicU64,
}

impl FileDayCap {
    /// A cap as the file has it now.
    ///
    /// # Errors
    /// What makes no sense in the file: no daemon starts under a cap that nobody set.
    pub(super) fn open(home: &Home) -> Result<Self, Error> {
        Ok(Self { last: AtomicU64::new(config::day_cap(home)?), home: home.clone() })
    }
}

impl DayCap for FileDayCap {
    fn nanodollars(&self) -> u64 {
        match config::day_cap(&self.home) {
            Ok(cap) => {
                self.last.store(cap, Ordering::Relaxed);
                cap
            }
            Err(error) => {
                tracing::warn!(%error, "the cap of the day stays as it was");
                self.last.load(Ordering::Relaxed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_at_once_and_nonsense_never() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(scratch.path())).unwrap();
        let cap = FileDayCap::open(&home).unwrap();
        assert_eq!(cap.nanodollars(), 10_000_000_000);
        let file = config::installation_file(&home);
        std::fs::write(&file, "[day]\nmax_dollars = 0.50\n").unwrap();
        assert_eq!(cap.nanodollars(), 500_000_000);
        std::fs::write(&file, "[day]\nmax_dolars = 99\n").unwrap();
        assert_eq!(cap.nanodollars(), 500_000_000);
        assert!(FileDayCap::open(&home).is_err());
    }
}
