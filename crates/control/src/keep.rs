//! What lies in the home, and what of it may go.
//!
//! | module | what lives there |
//! |---|---|
//! | [`view`] | the requests and answers, shared with clients |
//! | `hand` | whose hand takes it away: decided and on record first |
//! | `size` | what takes how much |
//! | `bin` | what runs left that is no branch any more: looking at it, bringing it back, letting it go |
//! | `sweep` | taking away what has served its time, and nothing that anybody could miss |

pub mod view;

mod bin;
mod hand;
mod size;
mod sweep;

use std::path::Path;

use domain::RunId;

use crate::Control;
use crate::error::Error;
use hand::Hand;
use view::{Sweep, Swept, Usage};

impl Control {
    /// What lies in the home, by part, project and run.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn usage(&self) -> Result<Usage, Error> {
        let (journal, artifacts, layout) =
            (self.journal(), std::sync::Arc::clone(&self.artifacts), self.layout.clone());
        self.blocking(move || size::usage(&*journal, &*artifacts, &layout)).await
    }

    /// What is in the recycle bin, the latest first.
    ///
    /// # Errors
    /// When the journal or a tree cannot be read.
    pub async fn bin_list(&self) -> Result<Vec<view::Binned>, Error> {
        let bin = self.bin();
        self.blocking(move || bin.list()).await
    }

    /// One entry of the bin, with the files that it has.
    ///
    /// # Errors
    /// When the run has nothing in the bin.
    pub async fn bin_fetch(&self, name: &str) -> Result<view::BinnedShown, Error> {
        let (bin, run) = (self.bin(), self.resolve(name).await?);
        self.blocking(move || bin.fetch(run)).await
    }

    /// Brings what a run left back as a branch.
    ///
    /// # Errors
    /// When the run has nothing in the bin, or the branch is there already.
    pub async fn bin_restore(&self, name: &str) -> Result<view::Restored, Error> {
        let (bin, run) = (self.bin(), self.resolve(name).await?);
        self.blocking(move || bin.restore(run)).await
    }

    /// Lets go of what is in the bin, for good; gives what went.
    ///
    /// # Errors
    /// When one of the named runs has nothing in the bin: then nothing goes.
    pub async fn bin_empty(&self, order: view::EmptyBin) -> Result<Vec<view::Binned>, Error> {
        let mut runs = Vec::new();
        for name in &order.runs {
            runs.push(self.resolve(name).await?);
        }
        let (bin, one, hand) = (self.bin(), std::sync::Arc::clone(&self.sweeping), self.own_hand());
        self.blocking(move || {
            let _one = one.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            bin.empty(&hand, &runs)
        })
        .await
    }

    fn bin(&self) -> bin::Bin {
        bin::Bin {
            journal: self.journal(),
            records: std::sync::Arc::clone(&self.records),
            layout: self.layout.clone(),
            now: self.clock().now(),
        }
    }

    /// Takes away what has served its time. Runs that have not ended are left as they are.
    ///
    /// # Errors
    /// When the journal cannot be read. What cannot be taken away is part of the answer.
    pub async fn sweep(&self, order: Sweep) -> Result<Swept, Error> {
        self.sweep_by(self.own_hand(), order).await
    }

    /// The owner's, who asks for it.
    fn own_hand(&self) -> Hand {
        let (records, rng) = (std::sync::Arc::clone(&self.records), std::sync::Arc::clone(&self.ports.rng));
        Hand::owner(records, rng, self.clock().now())
    }

    /// The same, by the service that does it once a day: under a lease of its own, and not while everything is
    /// halted.
    ///
    /// # Errors
    /// Also when it may not.
    pub async fn sweep_due(&self, order: Sweep) -> Result<Swept, Error> {
        self.check_halt().await?;
        let (records, rng) = (std::sync::Arc::clone(&self.records), std::sync::Arc::clone(&self.ports.rng));
        let now = self.clock().now();
        let hand = self.blocking(move || Hand::keeper(records, rng, now)).await?;
        self.sweep_by(hand, order).await
    }

    async fn sweep_by(&self, hand: Hand, order: Sweep) -> Result<Swept, Error> {
        let ground = sweep::Ground {
            journal: self.journal(),
            records: std::sync::Arc::clone(&self.records),
            artifacts: std::sync::Arc::clone(&self.artifacts),
            layout: self.layout.clone(),
            hand,
            order,
        };
        let one = std::sync::Arc::clone(&self.sweeping);
        self.blocking(move || {
            // One after another: two would take the same things away.
            let _one = one.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            ground.sweep()
        })
        .await
    }

    /// Takes the spool of a run away that is over. Whether nothing of it is left; its runner may need a
    /// moment to leave.
    ///
    /// # Errors
    /// When the journal cannot be read, or the spool not removed.
    pub async fn spool_clear(&self, run: RunId) -> Result<bool, Error> {
        let (journal, dir) = (self.journal(), self.layout.spooled(run));
        self.blocking(move || {
            if journal.run(run)?.status == "ended" {
                runner::spool::clear_away(&dir).map_err(|error| sweep::unremoved(&error))?;
            }
            Ok(!dir.exists())
        })
        .await
    }
}

/// A name of a directory that is being taken away: it is renamed first, so that what a crash leaves is
/// never taken for the whole.
const GONE: &str = ".gone-";

/// The last part of a path, for people.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
