//! When the vendor is out: after the attempts and pauses that a failed call has anyway, the run waits for it,
//! longer and longer, and asks again by itself, so that a night is not lost to an outage. The waits are timers
//! on record and outlive the daemon; they do not count against the cap on time. When it has lasted for a day,
//! the run rests, to be resumed.

use domain::{Millis, Timestamp};
use models::Wire;

use super::view::{Stage, View};
use crate::failure::ModelFailure;
use crate::words::{clean, date, time_of_day};

const MINUTE: Millis = 60 * 1_000;
/// The waits, one after another; the last one is repeated.
const WAITS: [Millis; 3] = [5 * MINUTE, 15 * MINUTE, 60 * MINUTE];
/// From the first failure on, how long the vendor is waited for.
const LASTS: Millis = 24 * 60 * MINUTE;
/// How much of the vendor's words is told.
const TOLD: usize = 200;
const DAY: Millis = 24 * 60 * MINUTE;

/// How long a vendor is waited for that is out, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// The waits between questions; the last one is repeated.
    pub waits: &'static [Millis],
    /// From the first failure on, when the run rests.
    pub lasts: Millis,
}

impl Default for Patience {
    /// 5 minutes, 15 minutes, then every hour, for a day.
    fn default() -> Self {
        Self { waits: &WAITS, lasts: LASTS }
    }
}

/// The calls that failed in a row, and the waits since.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// Runs of earlier drivers end: what they decided is on record.
    waits: bool,
    since: Option<Timestamp>,
    /// Waits so far.
    waited: usize,
}

impl Outage {
    pub(super) fn of(waits: bool) -> Self {
        Self { waits, ..Self::default() }
    }

    /// A call failed.
    pub(super) fn begin(&mut self, at: Timestamp) {
        self.since.get_or_insert(at);
    }

    /// The vendor gave an answer, or the owner lets the run go on.
    pub(super) fn end(&mut self) {
        *self = Self::of(self.waits);
    }

    /// Whether it has been waited for.
    pub(super) const fn lasts(&self) -> bool {
        self.waited > 0
    }

    /// Whether the run waits for a vendor that is out.
    pub(super) const fn is_waited_for(&self) -> bool {
        self.waits
    }
}

impl View {
    /// The vendor is still out: waits, or rests.
    pub(super) fn wait_out(&mut self, failure: &ModelFailure) {
        let Patience { waits, lasts } = self.config.patience;
        let since = self.outage.since.unwrap_or(self.at);
        let over = since.plus(lasts);
        let vendor = match Wire::of(&self.request.model) {
            Wire::Messages => "Anthropic",
            Wire::Responses => "OpenAI",
            Wire::Chat => "the model server",
        };
        let message = clean(&failure.message, TOLD);
        let wait = waits.get(self.outage.waited).or(waits.last()).copied();
        let (Some(wait), true) = (wait, self.at < over) else {
            let since = moment(since, None);
            let hint = format!(
                "{vendor} has not answered since {since}: {message}; nothing is spent while the run rests"
            );
            self.stage = Stage::Resting { code: failure.code.clone(), hint };
            return;
        };
        self.outage.waited = self.outage.waited.saturating_add(1);
        // The vendor may ask for more.
        let until = self.at.plus(wait).min(over).max(failure.retry_at.unwrap_or_default());
        let why = format!(
            "waiting for {vendor} since {}: {message}; again at {}",
            moment(since, Some(self.at)),
            moment(until, Some(self.at))
        );
        self.stage = Stage::WaitingOut { until, why };
    }
}

/// A moment in UTC, without the day where it is that of `today`.
fn moment(at: Timestamp, today: Option<Timestamp>) -> String {
    let time = time_of_day(at.0);
    let time = time.get(..5).unwrap_or_default();
    match today {
        Some(today) if today.0 / DAY == at.0 / DAY => format!("{time} (UTC)"),
        _ => format!("{} {time} (UTC)", date(at.0 / DAY)),
    }
}
