//! Whether an operator's memory grows.
//!
//! How much it holds follows from how many VMs there are, and from how long it has run if it leaks. So its samples are fitted by least
//! squares to `a + b * VMs + c * minutes`, and `c` tells.

use std::time::{Duration, Instant};

/// How much more an operator may hold at the end of the watch than at its beginning, at an equal number of VMs, as a share of what it holds.
const GROWTH: f64 = 0.15;
/// And in bytes a minute, which a long storm must not hide behind what the operator holds anyway.
const MOST_A_MINUTE: f64 = 400e3;
/// An operator that has just started grows until its heap has held whatever it meets, for about three minutes of a storm. What is kept of
/// each VmGroup that is gone is measured by itself: `make bench-full CASE=churn`.
const WARM_UP: Duration = Duration::from_mins(3);
/// With fewer samples, or a shorter time, nothing is said.
const FEWEST: usize = 60;

#[derive(Debug)]
pub(crate) struct Watch {
    began: Instant,
    /// Minutes, VMs, and bytes that are not of the operator's code.
    samples: Vec<[f64; 3]>,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), samples: Vec::new() }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn sample(&mut self, vms: usize, bytes: u64) {
        if self.began.elapsed() > WARM_UP {
            self.samples.push([self.began.elapsed().as_secs_f64() / 60.0, vms as f64, bytes as f64]);
        }
    }

    /// What it comes to in words, and whether that is wrong: growth, or nothing to judge by where there has to be (`is_due`).
    pub(crate) fn verdict(&self, is_due: bool) -> (String, bool) {
        let minutes = self.samples.first().zip(self.samples.last()).map_or(0.0, |(first, last)| last[0] - first[0]);
        let Some(slope) = slope(&self.samples).filter(|_| self.samples.len() >= FEWEST) else {
            return (format!("memory: {} samples are too few to judge by", self.samples.len()), is_due);
        };
        let mean = mean(self.samples.iter().map(|sample| sample[2]));
        let growth = slope * minutes / mean;
        let words = format!(
            "memory: {:.1} MB beside its code, {:+.0} kB a minute at an equal number of VMs (at most {:+.0}), {:+.1}% in {minutes:.1} minutes (at most {:+.0}%; {} samples)",
            mean / 1e6,
            slope / 1e3,
            MOST_A_MINUTE / 1e3,
            growth * 100.0,
            GROWTH * 100.0,
            self.samples.len()
        );
        (words, growth > GROWTH || slope > MOST_A_MINUTE)
    }
}

#[allow(clippy::cast_precision_loss)]
fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1);
    values.sum::<f64>() / count as f64
}

/// `c` of the fit. None where time and VMs can't be told apart.
fn slope(samples: &[[f64; 3]]) -> Option<f64> {
    let of = |index: usize| samples.iter().map(move |sample| sample[index]);
    let means = [mean(of(0)), mean(of(1)), mean(of(2))];
    let sum = |one: usize, other: usize| -> f64 {
        samples.iter().map(|sample| (sample[one] - means[one]) * (sample[other] - means[other])).sum()
    };
    let (tt, vv, tv, tm, vm) = (sum(0, 0), sum(1, 1), sum(0, 1), sum(0, 2), sum(1, 2));
    let determinant = tt * vv - tv * tv;
    if tt <= 0.0 {
        None
    } else if vv <= 0.0 {
        Some(tm / tt)
    } else {
        (determinant / (tt * vv) > 1e-6).then(|| (tm * vv - vm * tv) / determinant)
    }
}
