//! All that a run has measured, as it is printed and written down.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use drover_e2e::{
    Program, binary,
    measurement::{Measurement, exponent, header, median, slope},
};
use serde_json::{Value, json};

/// How much is measured: what shows a broken promise, what shows all promises, or all sizes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Scope {
    Smoke,
    Bench,
    Full,
}

/// One run of the program.
pub(crate) struct Run {
    pub(crate) scope: Scope,
    case: &'static str,
    results: Value,
    file: PathBuf,
    broken: bool,
}

/// A cost at several sizes.
pub(crate) struct Growth {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// What there is more and more of.
    pub(crate) of: &'static str,
    pub(crate) points: Vec<(f64, Vec<f64>)>,
}

impl Run {
    /// A run of everything begins anew. One of some cases puts theirs in the place of those that the same program gave before.
    pub(crate) fn new(scope: Scope, of_some: bool) -> Self {
        let target = env::current_exe().expect("a benchmark runs from a file");
        // <target>/release/deps/<program>
        let target = target.ancestors().nth(3).expect("benchmarks are three folders deep");
        let file = target.join(if scope == Scope::Smoke { "bench/smoke.json" } else { "bench/results.json" });
        let world = world();
        let before = fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let is_same = |before: &Value| of_some && before["world"] == world;
        let fresh = || json!({"world": world, "cases": []});
        println!("{}", header());
        Self { scope, case: "", results: before.filter(is_same).unwrap_or_else(fresh), file, broken: false }
    }

    /// Takes the measurements of a case, and writes down what there is so far.
    pub(crate) fn case(&mut self, name: &'static str, what: &str, measure: fn(&mut Self)) {
        self.case = name;
        let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
        let cases = self.results["cases"].as_array_mut().expect("cases are a list");
        cases.retain(|case| case["name"] != name);
        cases.push(json!({"name": name, "what": what, "date": today(), "measurements": [], "growth": []}));
        measure(self);
        fs::create_dir_all(self.file.parent().expect("it is in a folder")).expect("target can be written to");
        let text = serde_json::to_string_pretty(&self.results).expect("values are JSON");
        fs::write(&self.file, text + "\n").expect("target can be written to");
    }

    /// Prints a measurement, and takes it into the results.
    #[allow(clippy::needless_pass_by_value, reason = "it is built where it is given")]
    pub(crate) fn add(&mut self, measurement: Measurement) {
        println!("{}", measurement.row());
        self.broken |= measurement.is_broken();
        let json = measurement.to_json(self.case);
        self.put("measurements", json);
    }

    /// Takes up how a cost grows, and promises the power that it grows with at most.
    pub(crate) fn grows(&mut self, growth: &Growth, exponent_at_most: f64) {
        let measured = Measurement::new(format!("exponent of {}", growth.name), "", [exponent(&growth.middle())]);
        self.add(measured.promise(exponent_at_most));
        self.draw(growth);
    }

    /// Takes up how a cost grows, and promises how much there is at most for each.
    pub(crate) fn grows_by(&mut self, growth: &Growth, at_most: f64) {
        let each =
            Measurement::new(format!("{} for each further one", growth.name), growth.unit, [slope(&growth.middle())]);
        self.add(each.promise(at_most));
        self.draw(growth);
    }

    fn draw(&mut self, growth: &Growth) {
        let points: Vec<_> = growth.points.iter().map(|(x, samples)| json!({"x": x, "samples": samples})).collect();
        let json = json!({"name": growth.name, "unit": growth.unit, "of": growth.of, "points": points});
        self.put("growth", json);
    }

    fn put(&mut self, list: &str, json: Value) {
        let cases = self.results["cases"].as_array_mut().expect("cases are a list");
        let case = cases.last_mut().expect("a case is measured");
        case[list].as_array_mut().expect("it is a list").push(json);
    }

    /// How often something short is measured.
    pub(crate) fn times(&self) -> usize {
        if self.scope == Scope::Smoke { 1 } else { 3 }
    }

    /// Whether a promise was broken.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }
}

impl Growth {
    fn middle(&self) -> Vec<(f64, f64)> {
        self.points.iter().map(|(x, samples)| (*x, median(samples))).collect()
    }
}

/// What is measured, with what, and on what.
fn world() -> Value {
    let mut hasher = DefaultHasher::new();
    fs::read(binary()).expect("the operator is built").hash(&mut hasher);
    let kubernetes = Program::kubectl().run(&["version", "--client"]).unwrap_or_default();
    json!({
        "drover": said(&binary(), &["--version"]),
        "program": format!("{:016x}", hasher.finish()),
        "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
        "kubernetes": kubernetes.lines().find_map(|line| line.strip_prefix("Client Version: ")),
        "govc": Program::of_sandbox(&["govc"]).run(&["version"]).unwrap_or_default().trim(),
        "rustc": said(Path::new("rustc"), &["--version"]),
        "cores": thread::available_parallelism().map_or(0, usize::from),
    })
}

fn today() -> String {
    said(Path::new("date"), &["-u", "+%F"])
}

/// The first line that a program prints.
fn said(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_owned()
}
