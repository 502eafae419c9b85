//! What lies in the home, and what of it may go.
//!
//! | module | what lives there |
//! |---|---|
//! | [`view`] | the requests and answers, shared with clients |
//! | `hand` | whose hand takes it away: decided and on record first |
//! | `size` | what takes how much |
//! | `bin` | what runs left that is no branch any more: looking at it, bringing it back, letting it go |
//! | `forget` | destroying what a run was about |
//! | `sweep` | taking away what has served its time, and nothing that anybody could miss |

pub mod view;

mod bin;
mod forget;
mod hand;
mod size;
mod sweep;

use std::path::Path;
use std::sync::{Arc, PoisonError};

use domain::{Fact, MissionId, RunId};

use crate::Control;
use crate::error::{Error, Kind};
use hand::Hand;
use view::{Forget, Forgotten, Sweep, Swept, Usage};

impl Control {
    /// What lies in the home, by part, project and run.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn usage(&self) -> Result<Usage, Error> {
        let (journal, artifacts, layout) = (self.journal(), Arc::clone(&self.artifacts), self.layout.clone());
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
        let (bin, one, hand) = (self.bin(), Arc::clone(&self.sweeping), self.own_hand());
        self.blocking(move || {
            let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
            bin.empty(&hand, &runs)
        })
        .await
    }

    fn bin(&self) -> bin::Bin {
        bin::Bin {
            journal: self.journal(),
            records: Arc::clone(&self.records),
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
        let (records, rng) = (Arc::clone(&self.records), Arc::clone(&self.ports.rng));
        Hand::owner(records, rng, self.clock().now())
    }

    /// The same, by the service that does it once a day: under a lease of its own, and not while everything is
    /// halted.
    ///
    /// # Errors
    /// Also when it may not.
    pub async fn sweep_due(&self, order: Sweep) -> Result<Swept, Error> {
        self.check_halt().await?;
        let (records, rng) = (Arc::clone(&self.records), Arc::clone(&self.ports.rng));
        let now = self.clock().now();
        let hand = self.blocking(move || Hand::keeper(records, rng, now)).await?;
        self.sweep_by(hand, order).await
    }

    async fn sweep_by(&self, hand: Hand, order: Sweep) -> Result<Swept, Error> {
        let ground = sweep::Ground {
            journal: self.journal(),
            records: Arc::clone(&self.records),
            artifacts: Arc::clone(&self.artifacts),
            layout: self.layout.clone(),
            hand,
            order,
        };
        let one = Arc::clone(&self.sweeping);
        self.blocking(move || {
            // One after another: two would take the same things away.
            let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
            ground.sweep()
        })
        .await
    }

    /// Destroys what a run, the runs of a mission or one step of a run were about. It is for the owner alone.
    ///
    /// # Errors
    /// When one of them has not ended, others go on from it, or it was forgotten already. What a failure leaves is
    /// completed by the same order again, or by the next start.
    pub async fn run_forget(&self, name: &str, order: Forget) -> Result<Forgotten, Error> {
        let runs = match name.parse::<MissionId>() {
            Ok(mission) => self.runs_of(mission).await?,
            Err(_) => vec![self.resolve(name).await?],
        };
        if order.step.is_some() && runs.len() != 1 {
            let detail = format!("mission {name} has {} runs, and each has steps of its own", runs.len());
            return Err(Error::new(Kind::Invalid, "forget.which", detail).hint("name the run with `--step`"));
        }
        if order.step.is_some() && order.with_forks {
            let detail = "a step of the runs that go on from it is another step";
            return Err(Error::new(Kind::Invalid, "forget.which", detail)
                .hint("forget those runs first, each by its id, and then the step"));
        }
        let (eraser, one, lines) = (self.eraser(), Arc::clone(&self.sweeping), self.lines.clone());
        self.blocking(move || {
            let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
            let forgotten = eraser.forget(runs, &order);
            lines.clear();
            forgotten
        })
        .await
    }

    /// Completes what a crash has cut short of forgetting. Gives those that could not be, with the reason.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub async fn forget_complete(&self) -> Result<Vec<(RunId, Error)>, Error> {
        let (eraser, one) = (self.eraser(), Arc::clone(&self.sweeping));
        self.blocking(move || {
            let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
            eraser.complete()
        })
        .await
    }

    /// The runs of a mission, the oldest first.
    async fn runs_of(&self, mission: MissionId) -> Result<Vec<RunId>, Error> {
        let journal = self.journal();
        self.blocking(move || {
            let mut runs = Vec::new();
            for row in journal.runs(false, usize::MAX)?.iter().rev() {
                let first = journal.history(row.run, 0, 1)?.into_iter().next();
                let fact = first.map(|first| first.header.fact);
                if matches!(fact, Some(Fact::RunStarted(started)) if started.mission == mission) {
                    runs.push(row.run);
                }
            }
            if runs.is_empty() {
                let detail = format!("there is no mission `{mission}`");
                return Err(Error::new(Kind::NotFound, "mission.not_found", detail)
                    .hint("`regie runs --json` lists missions with their runs"));
            }
            Ok(runs)
        })
        .await
    }

    fn eraser(&self) -> forget::Eraser {
        let ground = sweep::Ground {
            journal: self.journal(),
            records: Arc::clone(&self.records),
            artifacts: Arc::clone(&self.artifacts),
            layout: self.layout.clone(),
            hand: self.own_hand(),
            order: Sweep { dry_run: false, older_than: 0, caches: u64::MAX, branches: None, bin: None },
        };
        forget::Eraser { ground, index: Arc::clone(&self.index), indexing: Arc::clone(&self.indexing) }
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
