//! Processor time of this thread, and two works that take turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What something took: processor time of the calling thread, and time on the wall.
#[derive(Clone, Copy, Default)]
pub(crate) struct Took {
    pub cpu: f64,
    pub wall: f64,
}

/// What this takes once.
pub(crate) fn took<T>(work: impl FnOnce() -> T) -> Took {
    let (cpu, wall) = (now(), Instant::now());
    black_box(work());
    Took { cpu: (now() - cpu).as_secs_f64(), wall: wall.elapsed().as_secs_f64() }
}

/// Two works that take turns, after one round that does not count: the least processor time of each, since
/// whatever else the machine does only adds to it, and the median time.
pub(crate) fn beside(
    rounds: usize,
    mut one: impl FnMut() -> Took,
    mut other: impl FnMut() -> Took,
) -> [Took; 2] {
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        // Each goes first in half of them.
        let (a, b) = match round % 2 {
            0 => {
                let a = one();
                (a, other())
            }
            _ => {
                let b = other();
                (one(), b)
            }
        };
        if round > 0 {
            took[0].push(a);
            took[1].push(b);
        }
    }
    took.map(|took| Took {
        cpu: took.iter().map(|took| took.cpu).fold(f64::INFINITY, f64::min),
        wall: median(took.iter().map(|took| took.wall).collect()),
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
