//! The nouns and the pure rules of Regie: no I/O, no async, no clock, no randomness.
//!
//! | module | what lives there |
//! |---|---|
//! | [`id`] | typed identifiers, shown with a prefix (`run_…`, `gate_…`) |
//! | [`time`] | instants and spans as plain numbers; the clock itself is a port of the kernel |
//! | [`digest`] | SHA-256 digests |
//! | [`causes`] | an error and what led to it, in one text |
//! | [`effect`] | effect class, risk class, source (trust level) of a content |
//! | [`budget`] | amounts, caps, reservations |
//! | [`label`] | trust and worth of a content; what a run has taken in |
//! | [`grants`] | the files of a workspace that a lease is about, as patterns |
//! | [`principal`] | who acts |
//! | [`lease`] | a run's authority, and decisions made under it |
//! | [`step`] | step numbers, kinds, outcomes |
//! | [`gate`] | durable questions to a human |
//! | [`fact`] | what an event states |
//! | [`event`] | the envelope of a fact, its canonical bytes and its hash chain |
//! | [`run`] | the state of a run: `decide(command) -> facts`, `evolve(fact)` |
//! | [`image`] | images that a model can look at: kind, size, limits |
//! | [`mission`] | goal, definition of done and caps of a mission |
//! | [`terms`] | what was known of a run's model when the run began |
#![forbid(unsafe_code)]

pub mod budget;
pub mod causes;
pub mod digest;
pub mod effect;
pub mod erasure;
pub mod event;
pub mod fact;
pub mod gate;
pub mod grants;
pub mod id;
pub mod image;
pub mod label;
pub mod lease;
pub mod mission;
pub mod principal;
pub mod run;
pub mod step;
pub mod terms;
pub mod time;

pub use budget::{Amount, Budget, Caps};
pub use digest::Digest;
pub use effect::{Effect, Risk, Source};
pub use event::{Event, Header, Payload, Recorded};
pub use fact::Fact;
pub use grants::{Grants, Pattern};
pub use id::{GateId, LeaseId, MissionId, ProjectId, RunId};
pub use image::Image;
pub use label::{Label, Labels};
pub use lease::{Decision, Lease, Verdict};
pub use mission::{Criterion, Environment, Mission, Service};
pub use principal::Principal;
pub use run::{End, RunState};
pub use step::{Outcome, StepKind, StepNo};
pub use terms::{Effort, Instead, Price, Terms};
pub use time::{Millis, Timestamp};
