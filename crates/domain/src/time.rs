//! Instants and spans as plain numbers. Reading a clock is the kernel's `Clock` port.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A span of time, in milliseconds.
pub type Millis = u64;

/// An instant: milliseconds since the Unix epoch, UTC.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(transparent)]
#[serde(transparent)]
pub struct Timestamp(#[n(0)] pub u64);

impl Timestamp {
    /// This instant plus a span; stays at the last instant rather than wrap.
    pub const fn plus(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// The span from `earlier` to this instant; zero when the clock was set back in between.
    pub const fn since(self, earlier: Self) -> Millis {
        self.0.saturating_sub(earlier.0)
    }

    /// The number of the UTC day, which daily caps count by.
    pub const fn day(self) -> u64 {
        self.0 / 86_400_000
    }
}
