//! What was measured, beside what is promised.

use std::{process::ExitCode, time::Duration};

/// Prints each promise as it is measured, and remembers whether all were kept.
#[derive(Default)]
pub(crate) struct Promises {
    broken: usize,
}

impl Promises {
    /// Something has to be done within a time.
    pub(crate) fn time(&mut self, what: &str, took: Option<Duration>, limit: Duration) {
        self.line(what, seconds(took), limit.as_secs_f64(), "s");
    }

    /// Something may happen so many times.
    pub(crate) fn count(&mut self, what: &str, count: u64, limit: u32) {
        self.line(what, to_f64(count), limit.into(), "");
    }

    /// So many megabytes may be held.
    pub(crate) fn memory(&mut self, what: &str, bytes: u64, limit: u32) {
        self.line(what, to_f64(bytes) / 1e6, limit.into(), "MB");
    }

    /// What something else takes for the same, for comparison.
    #[allow(clippy::unused_self, reason = "it is told like the others")]
    pub(crate) fn peer(&self, what: &str, took: Option<Duration>) {
        println!("{what:<36} {:>8.2} s", seconds(took));
    }

    fn line(&mut self, what: &str, measured: f64, limit: f64, unit: &str) {
        let kept = measured <= limit;
        self.broken += usize::from(!kept);
        let word = if kept { "ok" } else { "over" };
        let part = if limit > 0.0 { measured / limit } else { 0.0 };
        println!("{what:<36} {measured:>8.2} {unit:<2} of {limit:>6.2} {unit:<2} {part:>6.2}  {word}");
    }

    /// Whether all promises were kept.
    pub(crate) fn verdict(&self) -> ExitCode {
        if self.broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// A time as it is printed. `None` is longer than anybody waited.
fn seconds(time: Option<Duration>) -> f64 {
    time.map_or(f64::INFINITY, |time| time.as_secs_f64())
}

#[allow(clippy::cast_precision_loss, reason = "far less than 2^52 of anything is counted")]
fn to_f64(count: u64) -> f64 {
    count as f64
}
