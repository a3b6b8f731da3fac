//! What was measured, beside what limits it and what others take for the same.

use serde_json::{Value, json};

/// A figure that was taken some times in the same way.
#[derive(Clone, Debug)]
pub struct Measurement {
    name: String,
    unit: &'static str,
    samples: Vec<f64>,
    limit: Option<Limit>,
    peers: Vec<(String, f64)>,
}

/// What it can't be better than, or may not be worse than.
#[derive(Clone, Debug)]
struct Limit {
    value: f64,
    /// Who sets it.
    by: String,
    /// How many times the limit is still good.
    allowed: f64,
}

impl Measurement {
    /// What was measured. A time that nobody waited for to the end is infinite.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: &'static str, samples: impl IntoIterator<Item = f64>) -> Self {
        let samples: Vec<_> = samples.into_iter().collect();
        assert!(!samples.is_empty(), "nothing was measured");
        Self { name: name.into(), unit, samples, limit: None, peers: Vec::new() }
    }

    /// What somebody else than Drover sets as the least that it can be, and how many times that it may be.
    #[must_use]
    pub fn limit(self, value: f64, by: impl Into<String>, allowed: f64) -> Self {
        Self { limit: Some(Limit { value, by: by.into(), allowed }), ..self }
    }

    /// The most that it may be, where nobody but Drover's own promise says so.
    #[must_use]
    pub fn promise(self, most: f64) -> Self {
        self.limit(most, "promise", 1.0)
    }

    /// What somebody else took for the same, in the same run: the median of some times.
    #[must_use]
    pub fn peer(mut self, name: impl Into<String>, samples: &[f64]) -> Self {
        self.peers.push((name.into(), median(samples)));
        self
    }

    /// Whether it is as good as its limit asks for: `ok` or `over`; `-` where there is no limit, and `never` where somebody has
    /// waited in vain, be it once. Of what may not happen at all, each time counts.
    #[must_use]
    pub fn word(&self) -> &'static str {
        let (median, most) = (median(&self.samples), quantile(&self.samples, 1.0));
        match &self.limit {
            _ if !most.is_finite() => "never",
            None => "-",
            Some(limit) if limit.value == 0.0 && most > 0.0 => "over",
            Some(limit) if median <= limit.value * limit.allowed => "ok",
            Some(_) => "over",
        }
    }

    /// Whether a promise is broken.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        matches!(self.word(), "over" | "never")
    }

    /// As it is written to the file of results. JSON knows nothing infinite: such is null.
    #[must_use]
    pub fn to_json(&self, case: &str) -> Value {
        let median = median(&self.samples);
        let ratio = |to: f64| (to > 0.0).then(|| median / to);
        let limit = self.limit.as_ref().map(|limit| {
            json!({"value": limit.value, "by": limit.by, "allowed": limit.allowed, "ratio": ratio(limit.value)})
        });
        let peers: Vec<_> =
            self.peers.iter().map(|(name, took)| json!({"name": name, "value": took, "ratio": ratio(*took)})).collect();
        json!({
            "case": case, "name": self.name, "unit": self.unit, "samples": self.samples, "median": median,
            "min": least(&self.samples), "max": quantile(&self.samples, 1.0),
            "limit": limit, "peers": peers, "word": self.word(),
        })
    }

    /// As it is printed.
    #[must_use]
    pub fn row(&self) -> String {
        let (low, high) = (least(&self.samples), quantile(&self.samples, 1.0));
        let spread = format!("{}-{} of {}", short(low), short(high), self.samples.len());
        let limit = self.limit.as_ref().map_or_else(String::new, |limit| {
            let ratio = if limit.value > 0.0 { short(median(&self.samples) / limit.value) } else { String::new() };
            format!("{:>8} {ratio:>6}", short(limit.value))
        });
        let peers: Vec<_> = self.peers.iter().map(|(name, took)| format!("{name} {}", short(*took))).collect();
        let figure = format!("{:>8} {:<4} {spread:<22}", short(median(&self.samples)), self.unit);
        format!("{:<52} {figure} {limit:>15}  {:<5} {}", self.name, self.word(), peers.join(", ")).trim_end().to_owned()
    }
}

/// The names of a row's columns.
#[must_use]
pub fn header() -> String {
    let figure = format!("{:>8} {:<4} {:<22}", "median", "", "spread");
    format!("{:<52} {figure} {:>8} {:>6}  {:<5} peers", "", "limit", "ratio", "")
}

/// A number with as many digits as say something.
fn short(number: f64) -> String {
    match number.abs() {
        _ if !number.is_finite() => "never".to_owned(),
        large if large >= 100.0 => format!("{number:.0}"),
        some if some >= 10.0 => format!("{number:.1}"),
        few if few >= 0.1 || few == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

/// The value in the middle.
#[must_use]
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

fn least(samples: &[f64]) -> f64 {
    quantile(samples, 0.0)
}

/// The value that such a part of all is not above.
#[must_use]
pub fn quantile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1).expect("nothing has no middle");
    let mut at = 0;
    // The first that has so many not above it.
    while at < last && to_f64(at + 1) < part * to_f64(sorted.len()) {
        at += 1;
    }
    sorted[at]
}

/// How much `y` grows for each `x`: the line of least squares.
#[must_use]
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let count = to_f64(points.len());
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (middle_x, middle_y) = (mean(|point| point.0), mean(|point| point.1));
    let shared: f64 = points.iter().map(|(x, y)| (x - middle_x) * (y - middle_y)).sum();
    let own: f64 = points.iter().map(|(x, _)| (x - middle_x).powi(2)).sum();
    shared / own
}

/// How much more `y` grows for each `x` in the last step than in all before it: 1 on a straight line, wherever that begins, and more where
/// it bends upwards. What begins to grow in the last step only is infinite.
#[must_use]
pub fn bend(points: &[(f64, f64)]) -> f64 {
    let [first, .., before, last] = points else { panic!("there are less than three sizes") };
    let steepness = |from: &(f64, f64), to: &(f64, f64)| ((to.1 - from.1) / (to.0 - from.0)).max(0.0);
    let (early, late) = (steepness(first, before), steepness(before, last));
    if late > 0.0 { late / early } else { 0.0 }
}

/// The power of `x` that `y` grows with: 0 if it does not, 1 if it doubles when `x` does.
#[must_use]
pub fn exponent(points: &[(f64, f64)]) -> f64 {
    slope(&points.iter().map(|(x, y)| (x.ln(), y.ln())).collect::<Vec<_>>())
}

/// A count as a number to reckon with.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "far less than 2^52 of anything is counted")]
pub fn to_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_and_a_quantile_are_samples() {
        let shown = |samples: &[f64], part| quantile(samples, part).to_string();
        assert_eq!(shown(&[3.0, 1.0, 2.0], 0.5), "2");
        assert_eq!(shown(&[1.0, 2.0], 1.0), "2");
        assert_eq!(shown(&[5.0], 0.99), "5");
        let hundred: Vec<_> = (1..=100_u32).map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| shown(&hundred, part)), ["1", "50", "99", "100"]);
    }

    #[test]
    fn growth_is_found_again() {
        let points = |of: fn(f64) -> f64| [100.0, 200.0, 400.0, 800.0].map(|x: f64| (x, of(x)));
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}, not {wanted}");
        near(exponent(&points(|_| 7.0)), 0.0);
        near(exponent(&points(|x| 3.0 * x)), 1.0);
        near(exponent(&points(|x| x * x)), 2.0);
        near(slope(&points(|x| 12.0 * x + 5e6)), 12.0);
        near(bend(&points(|x| 12.0 * x + 5e6)), 1.0);
        near(bend(&points(|x| x * x)), 2.4);
        near(bend(&points(|x| 5.0 - x)), 0.0);
        // An exponent hides what such a bend shows.
        let breaks = points(|x| 5000.0 + x + (x - 400.0).max(0.0));
        assert!(exponent(&breaks) < 0.1 && bend(&breaks) > 1.9, "{breaks:?}");
        assert!(bend(&points(|x| (x - 400.0).max(0.0))).is_infinite());
    }

    #[test]
    fn a_limit_is_a_limit() {
        let took = |seconds| Measurement::new("it", "s", [seconds]).limit(3.0, "vCenter", 1.1);
        assert_eq!([3.2, 3.4, f64::INFINITY].map(|seconds| took(seconds).word()), ["ok", "over", "never"]);
        assert_eq!(Measurement::new("it", "", [0.0, 0.0, 1.0]).promise(0.0).word(), "over");
        let once = Measurement::new("it", "s", [3.0, 3.0, f64::INFINITY]).limit(3.0, "vCenter", 1.1);
        assert_eq!(once.word(), "never", "once is enough");
        assert_eq!(Measurement::new("it", "", [1.0]).word(), "-");
        assert_eq!(took(f64::INFINITY).to_json("case")["median"], Value::Null);
        assert_eq!(took(6.0).to_json("case")["limit"]["ratio"], 2.0);
    }
}
