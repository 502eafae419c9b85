//! The only source of chance in a simulation: SplitMix64 from a seed.

use std::sync::atomic::{AtomicU64, Ordering};

const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A seeded sequence. The same seed gives the same sequence on every machine.
#[derive(Debug)]
pub struct Dice(AtomicU64);

impl Dice {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next 64 bits.
    pub fn roll(&self) -> u64 {
        let mut bits = self.0.fetch_add(STRIDE, Ordering::Relaxed).wrapping_add(STRIDE);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.roll().checked_rem(bound).unwrap_or(0)
    }

    /// An index below `len`; 0 when `len` is 0.
    pub fn index(&self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

impl kernel::port::Rng for Dice {
    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.roll().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}
