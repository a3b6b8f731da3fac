//! No password is ever told: not in a log, an event, a status or a metric.

use std::{fs, path::Path};

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::Program;

/// All that Drover writes, and what must not be in it.
#[derive(Clone, Debug)]
pub(crate) struct Discretion {
    pub(crate) logs: std::path::PathBuf,
    pub(crate) kubectl: Program,
    pub(crate) passwords: Vec<String>,
}

impl Discretion {
    /// Asserts that no password is in anything that Drover has written so far.
    pub(crate) fn assert(&self) {
        let logs = operator_logs(&self.logs);
        if logs.is_empty() {
            return;
        }
        for (name, log) in &logs {
            self.assert_of(name, log);
            // Those that have ended serve none any more.
            if let Some(metrics) = metrics(log) {
                self.assert_of("the metrics", &metrics);
            }
        }
        let kinds = "events.v1.events.k8s.io,vmgroups,vcenters,vminfoes,hostinfoes";
        let shown = self.kubectl.run(&["get", kinds, "--all-namespaces", "-o", "json"]);
        self.assert_of("the API server", &shown.unwrap_or_else(|failure| panic!("{failure}")));
    }

    fn assert_of(&self, what: &str, text: &str) {
        for password in &self.passwords {
            let is_told = text.contains(password) || text.contains(&BASE64_STANDARD.encode(password));
            assert!(!is_told, "a password is in what {what} says");
        }
    }
}

/// What the operators have said, by the names of their logs.
fn operator_logs(dir: &Path) -> Vec<(String, String)> {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let logs =
        files.filter_map(|file| Some((file.file_name().into_string().ok()?, fs::read_to_string(file.path()).ok()?)));
    logs.filter(|(_, log)| log.contains("drover runs")).collect()
}

fn metrics(log: &str) -> Option<String> {
    let line = log.lines().rfind(|line| line.contains("metrics are served"))?;
    let address = line.rsplit("address=").next()?.split_whitespace().next()?;
    ureq::get(format!("http://{address}/metrics")).call().ok()?.body_mut().read_to_string().ok()
}
