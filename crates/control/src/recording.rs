//! Recordings: a run in a directory that can be attached to a report, and replayed by anybody.
//!
//! ```text
//! DIR/recording.json            what it is of; once the run is over, how many events there are
//!     system.txt, tools.json    what the run is driven with
//!     inherited.jsonl           of a fork or a follow-up: the events that it goes on from
//!     events.jsonl              every event of the run: fact, content, source and time
//!     calls/0003-1/             step 3, first try
//!         request.json          the exact request
//!         attempt-1.body        the vendor's bytes as they came, broken attempts included
//!         call.json             of each attempt the status, the headers that matter, the end
//! ```
//!
//! A run is its events: the kernel's machine knows nothing of the outside, and a driver is a pure
//! function of events. So `replay` drives the machine with what came from outside, reads the models'
//! answers from the wire again, and holds each event that comes out against the one on record.
//! Tools are not run, and the project is not needed.
//!
//! Everything that is written passes the `scrub`ber first. It masks in place and keeps lengths, so that
//! requests that are composed from masked events are the masked requests, and what follows from sizes
//! (reservations, clearing, compaction) stays the same. A digest of something that was masked cannot
//! be made again; then the bytes themselves are compared. What the scrubber does not know it cannot
//! take out: see the document on recordings.
//!
//! | module | what lives there |
//! |---|---|
//! | [`format`] | the files |
//! | [`scrub`] | taking secrets out; `strings` says where the texts are |
//! | [`recorder`] | writing, as it happens; `call` hears the wire |
//! | [`read`] | reading what may be damaged |
//! | [`replay`] | the run again; `foreseen` stands in for its ports |
//! | [`difference`] | where a replay is not what was recorded |

pub(crate) mod call;
pub mod difference;
mod foreseen;
pub mod format;
pub mod read;
pub mod recorder;
pub mod replay;
pub mod scrub;
mod strings;

pub use format::{MANIFEST, Manifest, Whole};
pub use recorder::Recorder;
pub use replay::{Replayed, replay};
