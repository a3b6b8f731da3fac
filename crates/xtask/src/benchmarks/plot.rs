//! A plot of a cost by a size, both on logarithmic scales, with the line that fits it.

use std::fmt::Write;

use serde_json::Value;

use super::{list, word};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// How many straight pieces a curve is drawn with.
const STEPS: u32 = 24;

/// A size, and the least, middle and greatest cost there.
struct Point {
    x: f64,
    low: f64,
    middle: f64,
    high: f64,
}

/// The plot as a file.
pub(super) fn svg(growth: &Value) -> String {
    let points: Vec<_> = list(&growth["points"]).iter().filter_map(point).collect();
    let fit = Fit::of(growth, &points);
    let line = |x: f64| fit.at(x);
    let xs = Scale::new(points.iter().map(|point| point.x), LEFT, WIDTH - RIGHT);
    let costs = points.iter().flat_map(|point| [point.low, point.high, line(point.x)]);
    let ys = Scale::new(costs, HEIGHT - BOTTOM, TOP);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>
<text x="{LEFT}" y="24" font-size="15" fill="#1f2933">{} by {}, {}</text>
"##,
        word(&growth["name"]),
        word(&growth["of"]),
        fit.told(growth),
    );
    // Writing to a String can't fail.
    for point in &points {
        let (x, label) = (xs.at(point.x), number(point.x));
        let (top, bottom) = (TOP, HEIGHT - BOTTOM);
        let _ = writeln!(svg, r##"<line x1="{x:.1}" y1="{top}" x2="{x:.1}" y2="{bottom}" stroke="#e4e7eb"/>"##);
        let below = bottom + 18.0;
        let _ = writeln!(svg, r##"<text x="{x:.1}" y="{below}" text-anchor="middle" fill="#52606d">{label}</text>"##);
    }
    for cost in ys.marks() {
        let (y, label) = (ys.at(cost), number(cost));
        let (left, right) = (LEFT, WIDTH - RIGHT);
        let _ = writeln!(svg, r##"<line x1="{left}" y1="{y:.1}" x2="{right}" y2="{y:.1}" stroke="#e4e7eb"/>"##);
        let (before, base) = (left - 8.0, y + 4.0);
        let unit = word(&growth["unit"]);
        let _ = writeln!(
            svg,
            r##"<text x="{before}" y="{base:.1}" text-anchor="end" fill="#52606d">{label} {unit}</text>"##
        );
    }
    if let [first, .., last] = points.as_slice() {
        let along = (0..=STEPS).map(|step| first.x * (last.x / first.x).powf(f64::from(step) / f64::from(STEPS)));
        let path: Vec<_> = along.map(|x| format!("{:.1},{:.1}", xs.at(x), ys.at(line(x)))).collect();
        let path = path.join(" ");
        let _ = writeln!(
            svg,
            r##"<polyline points="{path}" fill="none" stroke="#f0b429" stroke-width="2" stroke-dasharray="6 4"/>"##
        );
    }
    for point in &points {
        let (x, y, low, high) = (xs.at(point.x), ys.at(point.middle), ys.at(point.low), ys.at(point.high));
        let _ = writeln!(
            svg,
            r##"<line x1="{x:.1}" y1="{low:.1}" x2="{x:.1}" y2="{high:.1}" stroke="#2563eb" stroke-width="2"/>"##
        );
        let _ = writeln!(svg, r##"<circle cx="{x:.1}" cy="{y:.1}" r="5" fill="#2563eb"/>"##);
    }
    svg + "</svg>\n"
}

fn point(point: &Value) -> Option<Point> {
    let mut samples: Vec<_> = list(&point["samples"]).iter().filter_map(Value::as_f64).collect();
    samples.sort_by(f64::total_cmp);
    // What is 0 has no place on a logarithmic scale.
    let at = |index: usize| samples.get(index).copied().filter(|cost| *cost > 0.0);
    let (low, middle, high) = (at(0), at(samples.len().saturating_sub(1) / 2), at(samples.len().checked_sub(1)?));
    Some(Point { x: point["x"].as_f64()?, low: low.or(middle)?, middle: middle?, high: high? })
}

/// What the cost follows.
enum Fit {
    /// A power of the size, times something.
    Power { exponent: f64, factor: f64 },
    /// Something that is always there, and so much for each.
    Line { constant: f64, slope: f64, least: f64 },
}

impl Fit {
    fn of(growth: &Value, points: &[Point]) -> Self {
        let pairs = points.iter().map(|point| (point.x, point.middle));
        if growth["fit"] == "line" {
            let (slope, constant) = least_squares(&pairs.collect::<Vec<_>>());
            let least = points.iter().map(|point| point.low).fold(f64::INFINITY, f64::min);
            return Self::Line { constant, slope, least };
        }
        let (exponent, logarithm) = least_squares(&pairs.map(|(x, y)| (x.ln(), y.ln())).collect::<Vec<_>>());
        Self::Power { exponent, factor: logarithm.exp() }
    }

    fn at(&self, x: f64) -> f64 {
        match self {
            Self::Power { exponent, factor } => factor * x.powf(*exponent),
            // What is below 0 has no place on a logarithmic scale.
            Self::Line { constant, slope, least } => (constant + slope * x).max(least / 2.0),
        }
    }

    fn told(&self, growth: &Value) -> String {
        match self {
            Self::Power { exponent, .. } => format!("exponent {exponent:.2}"),
            Self::Line { slope, .. } => {
                let each = format!("{slope:.2} {}", word(&growth["unit"]));
                format!("{} for each {}", each.trim_end(), word(&growth["each"]))
            }
        }
    }
}

/// How much `y` grows for each `x`, and what it is where `x` is 0.
fn least_squares(points: &[(f64, f64)]) -> (f64, f64) {
    let count: f64 = points.iter().map(|_| 1.0).sum();
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let shared: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let own: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = shared / own;
    (slope, mean_y - slope * mean_x)
}

/// Where values lie on a side of the plot.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// At least a factor of two is shown, so that what hardly differs looks so.
    fn new(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let wider = (2.0 * low / high).max(1.2).sqrt();
        Self { low: (low / wider).ln(), high: (high * wider).ln(), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        self.from + (value.ln() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Round values in between: 1, 2 and 5 of each power of ten.
    fn marks(&self) -> impl Iterator<Item = f64> {
        let (low, high) = (self.low.exp(), self.high.exp());
        let all = (-6..12).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
        all.filter(move |mark| (low..=high).contains(mark))
    }
}

fn number(value: f64) -> String {
    if value >= 1.0 { format!("{value:.0}") } else { format!("{value}") }
}
