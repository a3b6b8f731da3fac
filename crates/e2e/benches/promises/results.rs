//! All that a run has measured, as it is printed and written down.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Instant,
};

use drover_e2e::{
    Program, binary,
    measurement::{Measurement, bend, exponent, header, median, slope},
};
use serde_json::{Value, json};

use crate::terraform::{PROVIDER, Terraform};

/// How much is measured: what shows a broken promise, what shows all promises, or all sizes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Scope {
    Smoke,
    Bench,
    Full,
}

impl Scope {
    fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Bench => "bench",
            Self::Full => "full",
        }
    }
}

/// The vCenter of most cases, for the page that people read.
const FRONT: &str = "A clone takes 3 s, there are 8 hosts, and a host works on 4 clones at a time while the others wait, unless something else \
                     is said. Drover has up to 8 clones under way on a host, so half of them wait in vCenter.";
/// How much more a cost may be for each of the last half than for those before, if it is promised to be linear: what is measured is not
/// exact, and squares would give 2.4.
const STRAIGHT: f64 = 1.3;

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
    /// What there is more and more of, and one of it.
    pub(crate) of: &'static str,
    pub(crate) each: &'static str,
    pub(crate) points: Vec<(f64, Vec<f64>)>,
}

impl Run {
    /// A run of everything begins anew, with a file that has nothing in it yet. One of some cases puts theirs in the place of those that
    /// the same program gave before. `all` are the names of the cases that a page should have.
    pub(crate) fn new(scope: Scope, of_some: bool, all: &[&str]) -> Self {
        let target = env::current_exe().expect("a benchmark runs from a file");
        // <target>/release/deps/<program>
        let target = target.ancestors().nth(3).expect("benchmarks are three folders deep");
        let file = target.join(if scope == Scope::Smoke { "bench/smoke.json" } else { "bench/results.json" });
        let world = world();
        let before = fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let is_same = |before: &Value| of_some && before["world"] == world;
        let mut results = before.filter(is_same).unwrap_or_else(|| json!({"world": world, "cases": []}));
        results["all"] = json!(all);
        println!("{}", header());
        let run = Self { scope, case: "", results, file, broken: false };
        run.write();
        run
    }

    /// Takes the measurements of a case, and writes down what there is so far, in the order in which all cases would be measured. One that
    /// panics is a broken promise, and the next is measured all the same.
    pub(crate) fn case(&mut self, place: usize, name: &'static str, what: &str, measure: fn(&mut Self)) {
        self.case = name;
        let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
        let cases = self.results["cases"].as_array_mut().expect("cases are a list");
        cases.retain(|case| case["name"] != name);
        cases.push(json!({
            "place": place, "name": name, "what": what, "scope": self.scope.name(), "date": today(), "start": time(),
            "measurements": [], "notes": [], "growth": [],
        }));
        let began = Instant::now();
        // What it has measured so far is whole: a measurement is added at once.
        if catch_unwind(AssertUnwindSafe(|| measure(self))).is_err() {
            self.add(Measurement::new("all of this measured", "", [f64::INFINITY]));
        }
        let cases = self.results["cases"].as_array_mut().expect("cases are a list");
        cases.last_mut().expect("a case is measured")["seconds"] = json!(began.elapsed().as_secs());
        cases.sort_by_key(|case| case["place"].as_u64());
        self.write();
    }

    fn write(&self) {
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

    /// Prints what a reader has to know of the case, such as what could not be measured, and takes it into the results.
    pub(crate) fn note(&mut self, note: &str) {
        println!("{note}");
        self.put("notes", json!(note));
    }

    /// Takes up how a cost grows, and promises the power that it grows with at most.
    pub(crate) fn grows(&mut self, growth: &Growth, exponent_at_most: f64) {
        self.exponent(growth, exponent_at_most);
        self.draw(growth, "power");
    }

    /// Takes up how a cost grows that consists of something that is always there, and so much for each: promises that it is no more for
    /// the last than for those before, and how much it is for each at most, if anything.
    pub(crate) fn grows_by(&mut self, growth: &Growth, at_most: Option<f64>) {
        let slopes = growth.curves().map(|curve| slope(&curve));
        let each = Measurement::new(format!("{} for each further one", growth.name), growth.unit, slopes);
        self.add(match at_most {
            Some(most) => each.promise(most),
            None => each,
        });
        let bends = growth.curves().map(|curve| bend(&curve));
        let bent = Measurement::new(format!("the same for the last half, to those before, {}", growth.name), "", bends);
        self.add(bent.limit(1.0, "a straight line", STRAIGHT));
        self.exponent(growth, 1.1);
        self.draw(growth, "line");
    }

    fn exponent(&mut self, growth: &Growth, at_most: f64) {
        let measured = Measurement::new(format!("exponent of {}", growth.name), "", [exponent(&growth.middle())]);
        self.add(measured.promise(at_most));
    }

    /// Takes up how a cost grows, and promises nothing.
    pub(crate) fn draw(&mut self, growth: &Growth, fit: &str) {
        let points: Vec<_> = growth.points.iter().map(|(x, samples)| json!({"x": x, "samples": samples})).collect();
        let json = json!({"name": growth.name, "unit": growth.unit, "of": growth.of, "each": growth.each, "fit": fit, "points": points});
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
    /// How much there is for each further one.
    pub(crate) fn slope(&self) -> f64 {
        slope(&self.middle())
    }

    /// The first samples at all sizes, the second ones, and so on, as many as there are at each.
    fn curves(&self) -> impl Iterator<Item = Vec<(f64, f64)>> {
        let runs = self.points.iter().map(|(_, samples)| samples.len()).min().unwrap_or(0);
        (0..runs).map(|run| self.points.iter().map(|(x, samples)| (*x, samples[run])).collect())
    }

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
        "profile": binary().parent().and_then(Path::file_name).map(|folder| folder.to_string_lossy()),
        "kubernetes": kubernetes.lines().find_map(|line| line.strip_prefix("Client Version: ")),
        "govc": module("sandbox", "github.com/vmware/govmomi"),
        "terraform": terraform("terraform"),
        "terraformProvider": terraform(PROVIDER),
        "rustc": said(Path::new("rustc"), &["--version"]),
        "front": FRONT,
        "cores": thread::available_parallelism().map_or(0, usize::from),
    })
}

/// The version of Terraform or its provider, if it is built.
fn terraform(name: &str) -> Option<String> {
    Terraform::find().and_then(|_| module(&format!("hack/tools/{name}"), &format!("github.com/hashicorp/{name}")))
}

/// The version of a module that a program of this repository is built from.
fn module(program: &str, name: &str) -> Option<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(program).join("go.mod");
    let modules = fs::read_to_string(file).ok()?;
    let version = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [module, version, ..] if module == name => Some(version.to_owned()),
        _ => None,
    };
    modules.lines().find_map(version)
}

fn today() -> String {
    said(Path::new("date"), &["-u", "+%F"])
}

fn time() -> String {
    said(Path::new("date"), &["-u", "+%FT%TZ"])
}

/// The first line that a program prints.
fn said(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_owned()
}
