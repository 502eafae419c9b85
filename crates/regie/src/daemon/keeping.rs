//! Once a day what has served its time is taken away; the spool of a run right after its end.

use std::sync::Arc;
use std::time::Duration;

use control::Control;
use control::api::Sweep;
use domain::{RunId, Timestamp};
use kernel::port::{Clock, Records};
use tokio::task::JoinHandle;

use crate::config::{self, Key};
use crate::home::Home;

/// The record of the last sweep: its body is the moment.
const KIND: &str = "keep";
const KEY: &str = "swept";
/// How often it is looked whether a day has passed. A machine that slept is behind by no more.
const LOOK: Duration = Duration::from_secs(600);
/// In milliseconds.
const DAY: u64 = 86_400_000;
/// How often and how long a runner that leaves is waited for.
const LEAVES: u32 = 20;
const LEAVES_EVERY: Duration = Duration::from_millis(250);

/// Starts it; it ends when it is aborted.
pub(super) fn start(
    control: Arc<Control>,
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    home: Home,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Some(version) = is_due(&*records, clock.now()) {
                sweep(&control, &home).await;
                let at = clock.now().0.to_string();
                if let Err(error) = records.put(KIND, KEY, version, at.as_bytes()) {
                    tracing::warn!(%error, "that the home was swept is not on record");
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    })
}

/// The version of the record to replace when a day has passed. A home that is new waits for a day; a
/// clock that was set back does not put it off.
fn is_due(records: &dyn Records, now: Timestamp) -> Option<u64> {
    let record = match records.get(KIND, KEY) {
        Ok(record) => record,
        Err(error) => {
            tracing::warn!(%error, "it cannot be told when the home was swept");
            return None;
        }
    };
    let Some(record) = record else {
        let _ = records.put(KIND, KEY, 0, now.0.to_string().as_bytes());
        return None;
    };
    let text = String::from_utf8_lossy(&record.body).into_owned();
    let last = text.parse().unwrap_or(0);
    (now.0 >= DAY.saturating_add(last) || now.0 < last).then_some(record.version)
}

async fn sweep(control: &Control, home: &Home) {
    let config = match config::of_installation(home) {
        Ok(config) => config,
        Err(error) => return tracing::warn!(%error, "nothing is taken away while this holds"),
    };
    let order = Sweep {
        dry_run: false,
        older_than: config.amount(Key::KeepWorkspaces),
        caches: config.amount(Key::KeepCaches),
        branches: Some(config.amount(Key::KeepBranches)),
        bin: Some(config.amount(Key::KeepBin)),
    };
    match control.sweep_due(order).await {
        Ok(swept) => {
            tracing::info!(freed = swept.freed, things = swept.items.len(), "the home was swept");
            for item in swept.items.iter().filter(|item| !item.goes) {
                let why = item.note.as_deref().unwrap_or_default();
                tracing::info!(what = item.what, name = item.name, why, "it stays");
            }
        }
        Err(error) => tracing::warn!(%error, "the home could not be swept"),
    }
}

/// Takes the spool of a run that is over away as soon as its runner has left. One that does not leave in
/// time is left to the next sweep.
pub(super) fn clear_spool(control: &Arc<Control>, run: RunId) {
    let control = Arc::clone(control);
    tokio::spawn(async move {
        for _ in 0..LEAVES {
            tokio::time::sleep(LEAVES_EVERY).await;
            match control.spool_clear(run).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => return tracing::warn!(%run, %error, "the spool of a run that is over stays"),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use journal::SqliteJournal;

    use super::*;

    #[test]
    fn a_day_after_the_last_time_it_is_due_once() {
        let scratch = tempfile::tempdir().unwrap();
        let records = SqliteJournal::open(scratch.path().join("regie.db")).unwrap();
        let noon = Timestamp(20_000 * DAY);
        assert_eq!(is_due(&records, noon), None, "a new home has nothing to sweep");
        assert_eq!(is_due(&records, noon.plus(DAY - 1)), None);
        // A machine that slept for a week is late, and not seven times.
        let late = noon.plus(7 * DAY);
        let version = is_due(&records, late).unwrap();
        records.put(KIND, KEY, version, late.0.to_string().as_bytes()).unwrap();
        assert_eq!(is_due(&records, late), None);
        assert!(is_due(&records, noon).is_some(), "a clock that was set back does not put it off for ever");
    }
}
