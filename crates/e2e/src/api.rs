//! The API server, read without a program for each look: `kubectl proxy` stands between.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{Failure, Program};

/// How long the proxy has to say where it listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `kubectl proxy`, ended when dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    keeper: Child,
    address: String,
}

impl Proxy {
    /// Starts one that writes to a folder. That isn't the sandbox's, because it is not a part of it.
    pub(crate) fn start(dir: &Path, kubectl: &Program) -> Self {
        fs::create_dir_all(dir).expect("the temporary folder can be written to");
        let log = dir.join("log");
        let words = kubectl.command(&["proxy", "--port=0"]);
        let owner = std::process::id().to_string();
        let mut command = Program::of_sandbox(&["keep", "--owner", &owner, "--log"]).command(&[]);
        command.arg(&log).arg("--").arg(words.get_program()).args(words.get_args());
        command.envs(words.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let keeper = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut proxy = Self { keeper: keeper.expect("the sandbox's binary can be run"), address: String::new() };
        let began = Instant::now();
        while proxy.address.is_empty() {
            let said = fs::read_to_string(&log).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "kubectl proxy does not say where it listens: {said}");
            if let Some((_, address)) = said.split_once("Starting to serve on ") {
                address.trim().clone_into(&mut proxy.address);
            }
            thread::sleep(Duration::from_millis(20));
        }
        proxy
    }

    /// What is at a path such as `/api/v1/namespaces`.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        let failure = |stderr: String| Failure { command: format!("GET {path}"), code: None, stderr };
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let answer = agent.get(format!("http://{}{path}", self.address)).call();
        let mut answer = answer.map_err(|error| failure(error.to_string()))?;
        let body: Value = answer.body_mut().read_json().map_err(|error| failure(error.to_string()))?;
        if answer.status().is_success() {
            return Ok(body);
        }
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Err(failure(format!("Error from server ({}): {}", text("reason"), text("message"))))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended with the sandbox.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Where objects of a kind are, by any name that kubectl knows the kind by here.
pub(crate) fn path(kind: &str, namespace: &str) -> String {
    let (group, plural) = match kind {
        "vg" | "vmgroup" => ("apis/vm.codeconnect.vmworld.com/v1alpha1", "vmgroups"),
        "vc" => return "/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters".to_owned(),
        "ch" | "hostinfo" => ("apis/topology.corinternal.com/v1", "hostinfoes"),
        "vi" | "vminfo" => ("apis/topology.corinternal.com/v1", "vminfoes"),
        "myownshell" => ("apis/my-first-operator.jgato.io/v1alpha1", "myownshells"),
        "deployment" => ("apis/apps/v1", "deployments"),
        "event" => ("apis/events.k8s.io/v1", "events"),
        "lease" => ("apis/coordination.k8s.io/v1", "leases"),
        core => return format!("/api/v1/namespaces/{namespace}/{core}s"),
    };
    format!("/{group}/namespaces/{namespace}/{plural}")
}
