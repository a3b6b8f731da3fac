//! No password is ever told: not in a log, an event, a status or a metric.

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

/// All that Drover writes, and what must not be in it.
#[derive(Clone, Debug)]
pub(crate) struct Discretion {
    pub(crate) logs: PathBuf,
    pub(crate) proxy: Arc<Proxy>,
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
