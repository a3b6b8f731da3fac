//! Writes `docs/benchmarks.md` and its plots from what the benchmarks have measured. Nothing in them is typed.

mod plot;

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use serde_json::Value;

use crate::{
    files::{self, FileError},
    root,
};

const RESULTS: &str = "docs/benchmarks/results.json";
const PAGE: &str = "docs/benchmarks.md";

/// Why the page was not written, or is not what it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchmarksError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "{0} is not what docs/benchmarks/results.json gives: run 'cargo xtask benchmarks docs/benchmarks/results.json'"
    )]
    Stale(String),
}

/// Takes up results, and writes the page and the plots.
pub(crate) fn write(results: &str) -> Result<String, BenchmarksError> {
    let results = files::read_json(Path::new(results))?;
    files::write(RESULTS, &files::json(&results))?;
    for (path, text) in pages(&results) {
        files::write(&path, &text)?;
    }
    Ok(format!("wrote {PAGE}"))
}

/// Compares the committed page and plots with what the committed results give.
pub(crate) fn check() -> Result<String, BenchmarksError> {
    let pages = pages(&files::read_json(&root().join(RESULTS))?);
    let is_stale = |page: &(String, String)| fs::read_to_string(root().join(&page.0)).ok().as_ref() != Some(&page.1);
    match pages.into_iter().find(is_stale) {
        Some((path, _)) => Err(BenchmarksError::Stale(path)),
        None => Ok(format!("{PAGE} is current")),
    }
}

const HEAD: &str = "\
<!-- Generated from docs/benchmarks/results.json by `cargo xtask benchmarks`. Do not edit. -->
# Benchmarks

What Drover promises about speed, calls and memory, measured on the [sandbox](../sandbox/README.md): a real API server, and a simulated vCenter on
the same machine. `make bench` measures it in less than 20 minutes, with sizes up to 500 VMs. `make bench-full` takes up to two hours, and
writes this page. Both fail when a promise is broken. One case alone, with the sizes of `make bench`, or with all sizes, into this page:

```sh
make bench CASE=drift
make bench-full CASE=drift
```

`make bench-smoke` takes less than 3 minutes, is part of what each change has to pass, and checks calls, memory, rest and drift with the debug
program. Its limits of time are so wide that a busy machine keeps them; that of memory leaves out the program's code, which is several times as
long in a debug build.

## How to read it

- Clocks start before the first byte is sent: before `kubectl apply`, `govc`, `terraform apply` or the bare client is started. They stop when vCenter powers on the
  last VM, by the time that vCenter itself notes. Where VMs are changed, replaced or deleted, or Leases handed over, they stop when somebody who looks every 20 ms sees the end of it.
- The figure is the median; behind it are the least, the greatest, and how many runs there were.
- The limit is what vCenter, Kubernetes or the declared spec itself takes, by the formula beside it. Where nobody but Drover sets one, it says
  `promise`. The ratio is the median's to the limit. It is `ok` up to the allowed ratio in brackets, and `over` beyond it. A single run that never ended is `never`.
- Peers do the same in the same run, on a vCenter of their own in the same sandbox.
- The program is that of `make build`. That of the image is static and has another allocator, so its memory differs: see `size`.
";

/// The page and the plots, with their paths from the root of the repository.
fn pages(results: &Value) -> Vec<(String, String)> {
    let mut page = HEAD.to_owned();
    let mut plots = Vec::new();
    page.push_str(&world(results));
    page.push_str(&missing(results));
    page.push_str(&summary(results));
    for case in list(&results["cases"]) {
        // Writing to a String can't fail.
        let _ = writeln!(page, "\n## {}\n\n{}{}\n", word(&case["name"]), word(&case["what"]), effort(case));
        page.push_str("| | figure | spread | limit | ratio | peers | |\n|---|---|---|---|---|---|---|\n");
        for measurement in list(&case["measurements"]) {
            page.push_str(&row(measurement));
        }
        for note in list(&case["notes"]) {
            let _ = writeln!(page, "\n{}", word(note));
        }
        for growth in list(&case["growth"]) {
            let name = format!("{}-{}", word(&case["name"]), word(&growth["name"]).replace(' ', "-"));
            let _ = writeln!(page, "\n![{} by {}](benchmarks/{name}.svg)", word(&growth["name"]), word(&growth["of"]));
            plots.push((format!("docs/benchmarks/{name}.svg"), plot::svg(growth)));
        }
    }
    plots.push((PAGE.to_owned(), page));
    plots
}

/// How long it took, and whether that was with all sizes.
fn effort(case: &Value) -> String {
    let sizes = if case["scope"] == "bench" { " Measured with the sizes of `make bench` alone." } else { "" };
    let took = case["seconds"].as_u64().map(|seconds| format!(" Took {seconds} s.")).unwrap_or_default();
    format!("{sizes}{took}")
}

/// How many limits are kept, and by how much the others are not.
fn summary(results: &Value) -> String {
    let cases = list(&results["cases"]);
    let limited = |case: &'_ Value| -> Vec<(String, Value)> {
        let rows = list(&case["measurements"]).iter().filter(|row| row["word"] != "-");
        rows.map(|row| (word(&case["name"]).to_owned(), row.clone())).collect()
    };
    let all: Vec<_> = cases.iter().flat_map(limited).collect();
    let broken: Vec<_> = all.iter().filter(|(_, row)| row["word"] != "ok").collect();
    let minutes = cases.iter().filter_map(|case| case["seconds"].as_u64()).sum::<u64>().div_ceil(60);
    let mut text = format!(
        "- {} of {} limits are kept. All cases together took {minutes} minutes.\n",
        all.len() - broken.len(),
        all.len()
    );
    for (case, row) in broken {
        let ratio = short(&row["limit"]["ratio"]);
        let _ = writeln!(text, "- **Over**: {case}, {}: {ratio} of the limit.", word(&row["name"]));
    }
    text
}

/// The names of what should have been measured and was not.
fn missing(results: &Value) -> String {
    let measured: BTreeSet<_> = list(&results["cases"]).iter().map(|case| word(&case["name"])).collect();
    let missing = list(&results["all"]).iter().map(word).filter(|name| !measured.contains(name));
    match missing.collect::<Vec<_>>().join(", ").as_str() {
        "" => String::new(),
        names => format!("- Not measured: {names}.\n"),
    }
}

/// What was measured, with what and when.
fn world(results: &Value) -> String {
    let world = &results["world"];
    let dates: BTreeSet<_> = list(&results["cases"]).iter().map(|case| word(&case["date"])).collect();
    let terraform = match [&world["terraform"], &world["terraformProvider"]].map(word) {
        ["", _] => String::new(),
        [version, provider] => format!("Terraform {version} with its vSphere provider {provider}, "),
    };
    format!(
        "- {}\n- Measured on {}: {} ({} build {}), Kubernetes {}, govc {}, {terraform}{}, {} cores.\n",
        word(&world["front"]),
        dates.into_iter().collect::<Vec<_>>().join(" and "),
        word(&world["drover"]),
        word(&world["profile"]),
        word(&world["program"]),
        word(&world["kubernetes"]),
        word(&world["govc"]),
        word(&world["rustc"]),
        world["cores"],
    )
}

fn row(measurement: &Value) -> String {
    let unit = word(&measurement["unit"]);
    let with_unit = |value: &Value| format!("{} {unit}", short(value)).trim_end().to_owned();
    let samples = list(&measurement["samples"]).len();
    let spread = match samples {
        1 => "1 run".to_owned(),
        _ => format!("{} to {}, {samples} runs", short(&measurement["min"]), short(&measurement["max"])),
    };
    let limit = &measurement["limit"];
    let (limited, ratio) = if limit.is_null() {
        ("–".to_owned(), String::new())
    } else {
        let allowed = if limit["allowed"] == 1.0 { String::new() } else { format!(" ({})", short(&limit["allowed"])) };
        let ratio = if limit["ratio"].is_null() { String::new() } else { short(&limit["ratio"]) };
        (format!("{}: {}", with_unit(&limit["value"]), word(&limit["by"])), ratio + &allowed)
    };
    let peer = |peer: &Value| {
        format!("{}: {} ({} of it)", word(&peer["name"]), with_unit(&peer["value"]), short(&peer["ratio"]))
    };
    let peers: Vec<_> = list(&measurement["peers"]).iter().map(peer).collect();
    format!(
        "| {} | {} | {spread} | {limited} | {ratio} | {} | {} |\n",
        word(&measurement["name"]),
        with_unit(&measurement["median"]),
        peers.join("; "),
        word(&measurement["word"]).replace('-', ""),
    )
}

/// A number with as many digits as say something. Null is what nobody waited for to the end.
fn short(value: &Value) -> String {
    match value.as_f64() {
        None => "never".to_owned(),
        Some(number) if number.fract() == 0.0 || number.abs() >= 100.0 => format!("{number:.0}"),
        Some(number) if number.abs() >= 10.0 => format!("{number:.1}"),
        Some(number) if number.abs() >= 0.1 => format!("{number:.2}"),
        Some(number) => format!("{number:.4}"),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_has_all_that_was_measured() {
        let measurement = |word: &str| {
            json!({
                "name": "30 VMs", "unit": "s", "samples": [3.1, 3.2, 3.3], "median": 3.2, "min": 3.1, "max": 3.3, "word": word,
                "limit": {"value": 3.0, "by": "vCenter", "allowed": 1.15, "ratio": 1.0667},
                "peers": [{"name": "govc", "value": 8.0, "ratio": 0.4}],
            })
        };
        let points = [100, 200, 400, 800].map(|x| json!({"x": x, "samples": [x * 12, x * 13, x * 14]}));
        let growth = |fit: &str| json!({"name": format!("memory by {fit}"), "unit": "KB", "of": "VMs", "each": "VM", "fit": fit, "points": points});
        let case = json!({
            "name": "make", "what": "VMs.", "date": "2026-01-02", "scope": "bench", "seconds": 70,
            "measurements": [measurement("ok"), measurement("over")], "notes": ["Terraform was not measured."], "growth": [growth("power"), growth("line")],
        });
        let world = json!({
            "drover": "drover 1", "govc": "v2", "terraform": "v3", "terraformProvider": "v4", "rustc": "rustc 5", "cores": 2,
            "front": "A clone takes 3 s.",
        });
        let pages = pages(&json!({"world": world, "cases": [case], "all": ["make", "drift", "rest"]}));
        let (path, page) = pages.last().expect("there is a page");
        assert_eq!(path, PAGE);
        for part in [
            "| 30 VMs | 3.20 s | 3.10 to 3.30, 3 runs | 3 s: vCenter | 1.07 (1.15) | govc: 8 s (0.40 of it) | ok |",
            "| over |",
            "![memory by power by VMs](benchmarks/make-memory-by-power.svg)",
            "- A clone takes 3 s.\n- Measured on 2026-01-02: drover 1",
            "govc v2, Terraform v3 with its vSphere provider v4, rustc 5, 2 cores.",
            "| over |\n\nTerraform was not measured.\n",
            "VMs. Measured with the sizes of `make bench` alone. Took 70 s.",
            "- Not measured: drift, rest.",
            "- 1 of 2 limits are kept. All cases together took 2 minutes.\n- **Over**: make, 30 VMs: 1.07 of the limit.",
        ] {
            assert!(page.contains(part), "{part} is missing:\n{page}");
        }
        assert_eq!(pages[0].0, "docs/benchmarks/make-memory-by-power.svg");
        assert_eq!(pages[0].1.matches("<circle").count(), 4);
        assert!(pages[0].1.contains("exponent 1.00"), "{}", pages[0].1);
        assert!(pages[1].1.contains("13.00 KB for each VM"), "{}", pages[1].1);
    }
}
