//! The kernel's `Authority` port over the records and the journal.
//!
//! Fails closed: a lease, an approval or a figure that cannot be read denies the action and says why.
//! Nothing is cached, so that a revocation counts for the very next step; one made between decision
//! and append is caught by the lease's epoch.

use std::sync::Arc;

use domain::budget::Exhausted;
use domain::causes::in_full;
use domain::{Decision, Millis, StepKind, Verdict};
use kernel::port::{Action, Authority, Journal, Records};

use crate::export::Rules;
use crate::policy::{Case, MERGE, Policy, Rulebooks, Ruling, SETUP, Setting, rule};
use crate::{halt, leases};

/// How long a gate stays open.
const PATIENCE: Millis = 7 * 24 * 60 * 60 * 1000;

/// What the door asks of the past.
pub trait History: Send + Sync {
    /// Money settled and reserved by all runs on a UTC day, in nanodollars.
    ///
    /// # Errors
    /// Why it cannot be told, in words.
    fn spent_on(&self, day: u64) -> Result<u64, String>;
}

impl<J: Journal + ?Sized> History for J {
    fn spent_on(&self, day: u64) -> Result<u64, String> {
        Journal::spent_on(self, day).map_err(|error| error.to_string())
    }
}

/// What all runs of one UTC day may cost together. Asked for each action that costs money, so that a
/// change counts for the very next one.
pub trait DayCap: Send + Sync {
    /// The cap, in nanodollars.
    fn nanodollars(&self) -> u64;
}

impl DayCap for u64 {
    fn nanodollars(&self) -> u64 {
        *self
    }
}

/// The owner's rules for what leaves the jail, as they are at each moment.
pub type Export = Arc<dyn Fn() -> Rules + Send + Sync>;

/// The one authorisation point of an installation.
pub struct Door<H: ?Sized = dyn Journal> {
    policy: Policy,
    records: Arc<dyn Records>,
    history: Arc<H>,
    day_cap: Box<dyn DayCap>,
    export: Export,
    rules: Option<Rulebooks>,
}

impl<H: History + ?Sized> Door<H> {
    /// A door with the built-in rules and a cap on the money of one UTC day.
    pub fn new(records: Arc<dyn Records>, history: Arc<H>, day_cap: impl DayCap + 'static) -> Self {
        let export: Export = Arc::new(Rules::default);
        Self { policy: Policy::built_in(), records, history, day_cap: Box::new(day_cap), export, rules: None }
    }

    /// The same, with the owner's rules, which are asked for each step.
    #[must_use]
    pub fn with_rules(self, rules: Rulebooks) -> Self {
        Self { rules: Some(rules), ..self }
    }

    /// The same, with the owner's rules for what leaves the jail. Without, all of it is asked.
    #[must_use]
    pub fn with_export(self, export: Export) -> Self {
        Self { export, ..self }
    }

    fn judge(&self, action: &Action<'_>) -> Decision {
        let denied =
            |epoch, rule| Decision { verdict: Verdict::Deny, rule, lease: action.lease, epoch, gate: None };
        let halted = match halt::state(&*self.records) {
            Ok(halt) => halt.is_on.then(|| halt.refusal()),
            Err(error) => Some(in_full(&error)),
        };
        let lease = match leases::read(&*self.records, action.lease) {
            Ok(lease) => lease,
            Err(error) => return denied(0, halted.unwrap_or_else(|| in_full(&error))),
        };
        if let Some(why) = halted {
            return denied(lease.epoch, why);
        }
        let is_merge = action.kind == StepKind::ToolCall && action.tool == MERGE;
        let approved =
            if is_merge { leases::are_merges_approved(&*self.records, lease.id) } else { Ok(false) };
        let merge_approved = match approved {
            Ok(approved) => approved,
            Err(error) => {
                let why = in_full(&error);
                return denied(lease.epoch, format!("it cannot be told what was approved: {why}"));
            }
        };
        let export = if is_merge { (self.export)() } else { Rules::default() };
        let setting = match self.rules.as_ref().map_or_else(|| Ok(Setting::default()), |rules| rules(action))
        {
            Ok(setting) => setting,
            // What no rule could speak of goes on: a slip of the pen ends no run.
            Err(_) if !rule::is_deed(action.kind) => Setting::default(),
            Err(why) => return denied(lease.epoch, format!("the rules cannot be read: {why}")),
        };
        let case = Case { action, lease: &lease, merge_approved, export: &export };
        let Ruling { verdict, rule, gate } = self.policy.judge_in(&case, &setting);
        // A setup sees the whole workspace whatever the lease says, and the owner approves it by its exact command.
        let beyond =
            (action.tool != SETUP).then(|| leases::narrow::refuses(&lease, &setting.takes)).flatten();
        match leases::paths::outside(&lease, action).or(beyond) {
            // What the rules deny, they say best.
            Some(why) if verdict != Verdict::Deny => denied(lease.epoch, why),
            _ => Decision { verdict, rule, lease: lease.id, epoch: lease.epoch, gate },
        }
    }
}

impl<H: History + ?Sized> Authority for Door<H> {
    fn decide(&self, action: &Action<'_>) -> Result<Decision, Exhausted> {
        let decision = self.judge(action);
        if decision.verdict == Verdict::Deny || action.nanodollars == 0 {
            return Ok(decision);
        }
        match self.history.spent_on(action.now.day()) {
            Ok(spent) if spent.saturating_add(action.nanodollars) > self.day_cap.nanodollars() => {
                Err(Exhausted::Day)
            }
            Ok(_) => Ok(decision),
            Err(why) => Ok(Decision {
                verdict: Verdict::Deny,
                rule: format!("what was spent today cannot be read: {why}"),
                gate: None,
                ..decision
            }),
        }
    }

    fn day_cap(&self) -> u64 {
        self.day_cap.nanodollars()
    }

    fn patience(&self, _: &Action<'_>) -> u64 {
        PATIENCE
    }
}
