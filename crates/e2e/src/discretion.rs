//! No password is ever told: not in a log, an event, a status or a metric. And nothing that is sent to Drover has it panic.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::api::Proxy;

/// Where in the API server Drover writes.
const WRITTEN: [&str; 6] = [
    "/apis/events.k8s.io/v1/events",
    "/apis/vm.codeconnect.vmworld.com/v1alpha1/vmgroups",
    "/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters",
    "/apis/topology.corinternal.com/v1/hostinfoes",
    "/apis/topology.corinternal.com/v1/vminfoes",
    "/apis/my-first-operator.jgato.io/v1alpha1/myownshells",
];

/// What an operator says of each panic, and what a Rust program prints before it has a word in that. The other parts of a sandbox are
/// written in Go.
const PANICKED: [&str; 2] = ["Drover has a bug", " panicked at "];
/// Panics that a test has asked for.
const ASKED_FOR: &str = "a trial";

/// All that Drover writes, and what must not be in it.
#[derive(Clone, Debug)]
pub(crate) struct Discretion {
    pub(crate) logs: PathBuf,
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) passwords: Vec<String>,
}

impl Discretion {
    /// Asserts that no password is in anything that Drover has written so far, and that no operator has panicked, of all that
    /// were started.
    pub(crate) fn assert(&self) {
        let logs = operator_logs(&self.logs);
        if logs.is_empty() {
            return;
        }
        for (name, log) in &logs {
            self.assert_of(name, log);
            let is_panic = |line: &&str| has_panicked(line) && !line.contains(ASKED_FOR);
            let panic = log.lines().find(is_panic);
            assert!(panic.is_none(), "an operator has panicked: {name} says {panic:?}");
            // Those that have ended serve none any more.
            if let Some(metrics) = metrics(log) {
                self.assert_of("the metrics", &metrics);
            }
        }
        for path in WRITTEN {
            // Not every sandbox has every kind.
            if let Ok(shown) = self.proxy.text(path) {
                self.assert_of(path, &shown);
            }
        }
    }

    fn assert_of(&self, what: &str, text: &str) {
        for password in &self.passwords {
            let is_told = text.contains(password) || text.contains(&BASE64_STANDARD.encode(password));
            assert!(!is_told, "a password is in what {what} says");
        }
    }
}

/// What the operators have said, by the names of their logs. One that panicked may not have said that it runs.
fn operator_logs(dir: &Path) -> Vec<(String, String)> {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    // A killed one may have been cut off inside a character.
    let read = |path: PathBuf| Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned());
    let logs = files.filter_map(|file| Some((file.file_name().into_string().ok()?, read(file.path())?)));
    logs.filter(|(_, log)| log.contains("Drover runs") || has_panicked(log)).collect()
}

fn has_panicked(text: &str) -> bool {
    PANICKED.iter().any(|words| text.contains(words))
}

fn metrics(log: &str) -> Option<String> {
    let line = log.lines().rfind(|line| line.contains("Metrics served"))?;
    // The log is coloured, so what stands before the address isn't plain.
    let address = &line[line.find("127.0.0.1:")?..];
    let address = address.split(|letter: char| !letter.is_ascii_digit() && !['.', ':'].contains(&letter)).next()?;
    ureq::get(format!("http://{address}/metrics")).call().ok()?.body_mut().read_to_string().ok()
}
