//! What stands in for the ports of a run that is replayed: what they answered is on record.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::budget::Exhausted;
use domain::fact::{Denial, Parking};
use domain::lease::Verdict;
use domain::{Decision, Digest, Fact, StepNo};
use kernel::port::{Action, ArtifactError, Artifacts, Authority, Refused, Rng};

use super::format::Written;

/// How many random bytes an id has.
const DRAWN: usize = 10;

/// The events that are still to come.
pub(super) struct Foreseen {
    events: Vec<Written>,
    next: AtomicUsize,
    /// How many ids of gates were drawn of which none has come yet.
    drawn: AtomicUsize,
}

impl Foreseen {
    pub(super) fn new(events: Vec<Written>) -> Self {
        Self { events, next: AtomicUsize::new(0), drawn: AtomicUsize::new(0) }
    }

    /// The event that comes next.
    pub(super) fn next(&self) -> Option<&Written> {
        self.to_come().first()
    }

    /// The one after it.
    pub(super) fn second(&self) -> Option<&Written> {
        self.to_come().get(1)
    }

    /// It has come.
    pub(super) fn pass(&self) {
        self.next.fetch_add(1, Ordering::Relaxed);
        self.forget();
    }

    /// What was drawn and has not come never will.
    pub(super) fn forget(&self) {
        self.drawn.store(0, Ordering::Relaxed);
    }

    fn to_come(&self) -> &[Written] {
        self.events.get(self.next.load(Ordering::Relaxed)..).unwrap_or_default()
    }

    fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.to_come().iter().map(|written| &written.event.header.fact)
    }

    /// The workspace as the next step that writes to it found it.
    pub(super) fn snapshot(&self) -> String {
        let found = self.facts().find_map(|fact| match fact {
            Fact::StepIntended { snapshot: Some(snapshot), .. } => Some(snapshot.clone()),
            _ => None,
        });
        // Nothing writes any more: which one it was is on no record.
        found.unwrap_or_default()
    }

    /// Why the run comes to rest next.
    pub(super) fn refused(&self) -> Refused {
        let found = self.facts().find_map(|fact| match fact {
            Fact::Parked { reason: Parking::Blocked { code, hint } } => {
                Some(Refused { code: code.clone(), hint: hint.clone() })
            }
            _ => None,
        });
        found.unwrap_or(Refused { code: String::new(), hint: String::new() })
    }

    /// Whether the run comes to rest next, for a reason that is no doing of its driver's; and the steps that
    /// end before it does.
    pub(super) fn rests(&self) -> Option<Vec<StepNo>> {
        let mut ended = Vec::new();
        for fact in self.facts() {
            match fact {
                Fact::StepCompleted { step, .. } => ended.push(*step),
                Fact::Parked { reason: Parking::Blocked { code, .. } } => {
                    return (code != engine::native::STALLED).then_some(ended);
                }
                Fact::Parked { .. }
                | Fact::Claimed { .. }
                | Fact::StepPlanned(_)
                | Fact::StepIntended { .. }
                | Fact::StepReturned { .. }
                | Fact::Ended { .. } => return None,
                _ => {}
            }
        }
        None
    }

    /// Whether what becomes of a step shows that nobody had it any more.
    pub(super) fn is_lost(&self, step: StepNo) -> bool {
        let mut of_step = self.facts().take_while(|fact| !matches!(fact, Fact::Claimed { .. }));
        match of_step.find(|fact| fact.step() == Some(step)) {
            Some(Fact::WorkspaceRestored { .. } | Fact::ModelCallLost { .. }) => true,
            // One that is killed is closed at once.
            Some(Fact::StepUncertain { .. }) => !matches!(of_step.next(), Some(Fact::StepCompleted { .. })),
            _ => false,
        }
    }

    /// Whether a step that is returned was refused, which the run rests for. Otherwise its tool was asked, and
    /// said that it was not done.
    pub(super) fn is_refused(&self, wanted: StepNo) -> bool {
        let next = self.facts().find(|fact| match fact {
            Fact::StepIntended { step, .. } => *step == wanted,
            fact => matches!(fact, Fact::Parked { .. } | Fact::Claimed { .. } | Fact::Ended { .. }),
        });
        let otherwise = matches!(
            next,
            Some(Fact::StepIntended { .. } | Fact::Parked { reason: Parking::Stopped } | Fact::Ended { .. })
        );
        !otherwise
    }

    fn decision(&self, wanted: StepNo) -> Option<Result<Decision, Exhausted>> {
        // What a later daemon decided is no decision of this one; its own claim may be the next event.
        let later = |(at, fact): &(usize, &Fact)| *at == 0 || !matches!(fact, Fact::Claimed { .. });
        self.facts().enumerate().take_while(later).find_map(|(_, fact)| match fact {
            Fact::StepIntended { step, decision, .. } if *step == wanted => Some(Ok(decision.clone())),
            Fact::GateOpened { subject, decision: Some(decision), .. } if *subject == wanted => {
                Some(Ok(decision.clone()))
            }
            Fact::StepDenied { step, reason } if *step == wanted => match reason {
                Denial::Policy { decision } => Some(Ok(decision.clone())),
                Denial::Budget { cap: Exhausted::Day } => Some(Err(Exhausted::Day)),
                _ => None,
            },
            _ => None,
        })
    }
}

impl Authority for Foreseen {
    fn decide(&self, action: &Action<'_>) -> Result<Decision, Exhausted> {
        self.decision(action.step).unwrap_or_else(|| {
            // Whatever else denies it is the machine's to find.
            Ok(Decision {
                verdict: Verdict::Allow,
                rule: String::new(),
                lease: action.lease,
                epoch: 0,
                gate: action.approved,
            })
        })
    }

    fn day_cap(&self) -> u64 {
        u64::MAX
    }

    fn patience(&self, action: &Action<'_>) -> u64 {
        let found = self.facts().find_map(|fact| match fact {
            Fact::GateOpened { subject, expires_at, .. } if *subject == action.step => {
                Some(expires_at.since(action.now))
            }
            _ => None,
        });
        found.unwrap_or_default()
    }
}

impl Rng for Foreseen {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(0);
        // Salts are of another length, and on no record.
        if buffer.len() != DRAWN {
            return;
        }
        let mut gates = self.facts().filter_map(|fact| match fact {
            Fact::GateOpened { gate, .. } => Some(*gate.as_bytes()),
            _ => None,
        });
        let gate = gates.nth(self.drawn.fetch_add(1, Ordering::Relaxed));
        // An id ends in what was drawn for it.
        if let Some(drawn) = gate.as_ref().and_then(|gate| gate.get(gate.len() - DRAWN..)) {
            buffer.copy_from_slice(drawn);
        }
    }
}

/// The artifacts of a recording, under the digests that its run knows them by.
pub(super) struct Shelf(pub(super) BTreeMap<Digest, Vec<u8>>);

impl Artifacts for Shelf {
    fn put(&self, bytes: &[u8]) -> Result<Digest, ArtifactError> {
        Ok(Digest::of(bytes))
    }

    fn get(&self, digest: Digest) -> Result<Vec<u8>, ArtifactError> {
        self.0.get(&digest).cloned().ok_or(ArtifactError::Missing(digest))
    }

    fn find(&self, _: &str) -> Result<Vec<Digest>, ArtifactError> {
        Ok(Vec::new())
    }
}
