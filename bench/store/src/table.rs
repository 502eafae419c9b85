//! The rows as they come, and whether all targets are met.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

/// One table of ratios.
pub(crate) struct Table {
    missed: Vec<String>,
}

impl Table {
    pub(crate) fn begin() -> Self {
        println!("{:4}{:<92}{:>8}  target", "", "what", "measured");
        Self { missed: Vec::new() }
    }

    /// A ratio and the most that it may be.
    pub(crate) fn row(&mut self, what: &str, value: f64, most: f64) {
        let is_met = value <= most;
        if !is_met {
            self.missed.push(what.to_owned());
        }
        println!("  {} {what:<92}{value:>8.2}  ≤ {most:.2}", if is_met { '✓' } else { '✗' });
    }

    /// A number that has no target.
    pub(crate) fn note(&mut self, what: &str, value: f64) {
        println!("    {what:<92}{value:>8.2}");
    }

    pub(crate) fn end(self) -> ExitCode {
        if self.missed.is_empty() {
            println!("bench: all targets met");
            return ExitCode::SUCCESS;
        }
        println!("bench: {} of the targets missed: {}", self.missed.len(), self.missed.join("; "));
        ExitCode::FAILURE
    }
}

/// Seconds that something takes.
pub(crate) fn timed(act: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    act()?;
    Ok(begun.elapsed().as_secs_f64())
}

pub(crate) fn median(seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or_default()
}
