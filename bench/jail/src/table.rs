//! The rows as they come, and whether all targets are met.

use std::process::ExitCode;

use crate::clock::Spread;

/// One table of ratios.
pub(crate) struct Table {
    missed: Vec<String>,
}

impl Table {
    pub(crate) fn begin() -> Self {
        println!("{:4}{:<84}{:>8}  {:<11}  target", "", "what", "median", "quartiles");
        Self { missed: Vec::new() }
    }

    /// A ratio and the most that it may be.
    pub(crate) fn row(&mut self, what: &str, value: Spread, most: f64) {
        let is_met = value.middle <= most;
        self.met(what, is_met);
        println!("  {} {}  ≤ {most:.2}", if is_met { '✓' } else { '✗' }, line(what, value));
    }

    /// A number that has no target.
    pub(crate) fn note(&mut self, what: &str, value: Spread) {
        println!("    {}", line(what, value).trim_end());
    }

    /// What is so or not.
    pub(crate) fn holds(&mut self, what: &str, how: Result<String, String>) {
        let (mark, said) = match &how {
            Ok(said) => ('✓', said),
            Err(said) => ('✗', said),
        };
        self.met(what, how.is_ok());
        println!("  {mark} {what}: {said}");
    }

    /// What could not be measured: it fails the target that it stands for.
    pub(crate) fn missing(&mut self, what: &str, why: &str) {
        self.met(what, false);
        println!("  ? {what} COULD NOT BE MEASURED: {why}");
    }

    fn met(&mut self, what: &str, is_met: bool) {
        if !is_met {
            self.missed.push(what.to_owned());
        }
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

fn line(what: &str, Spread { low, middle, high }: Spread) -> String {
    format!("{what:<84}{middle:>8.3}  {:<11}", format!("{low:.3}–{high:.3}"))
}
