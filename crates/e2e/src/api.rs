//! The API server, read and written without a program for each time: `kubectl proxy` stands between.

use std::{
    fs,
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{Failure, Program, http, log::Log};

/// How long the proxy has to say where it listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long an answer may be, in bytes.
const MOST: u64 = 100_000_000;

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
        let (keeper, log) = Log::keep(&dir.join("log"), &kubectl.command(&["proxy", "--port=0"]))
            .expect("the sandbox's binary can be run");
        let mut proxy = Self { keeper, address: String::new() };
        let began = Instant::now();
        while proxy.address.is_empty() {
            let said = log.text();
            assert!(began.elapsed() < PATIENCE, "kubectl proxy does not say where it listens: {said}");
            if let Some((_, address)) = said.split_once("Starting to serve on ") {
                address.trim().clone_into(&mut proxy.address);
            }
            thread::sleep(Duration::from_millis(20));
        }
        proxy
    }

    /// Its host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What is at a path such as `/api/v1/namespaces`.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        Ok(serde_json::from_str(&self.text(path)?).expect("the API server answers in JSON"))
    }

    /// The same as it is sent.
    pub(crate) fn text(&self, path: &str) -> Result<String, Failure> {
        self.send("GET", path, "application/json", "")
    }

    /// Makes an object of a namespace, and leaves it to the API server what to think of its fields.
    pub(crate) fn create(&self, namespace: &str, object: &Value) -> Result<Value, Failure> {
        self.change("POST", &path(&kind(object), namespace), "application/json", object)
    }

    /// Puts an object's status in the place of the one that it has.
    pub(crate) fn replace_status(&self, namespace: &str, object: &Value) -> Result<Value, Failure> {
        let path = format!("{}/{}/status", path(&kind(object), namespace), word(&object["metadata"]["name"]));
        self.change("PUT", &path, "application/json", object)
    }

    /// Declares an object of a namespace as `kubectl apply --server-side` does.
    pub(crate) fn declare(&self, namespace: &str, object: &Value) -> Result<Value, Failure> {
        let path = format!("{}/{}", path(&kind(object), namespace), word(&object["metadata"]["name"]));
        let path = format!("{path}?fieldManager=e2e&force=true&fieldValidation=Strict");
        self.change("PATCH", &path, "application/apply-patch+yaml", object)
    }

    /// Changes an object with a merge patch.
    pub(crate) fn merge(&self, path: &str, change: &Value) -> Result<Value, Failure> {
        self.change("PATCH", path, "application/merge-patch+json", change)
    }

    /// Deletes an object, and waits for nothing.
    pub(crate) fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.change("DELETE", path, "application/json", &json!({}))
    }

    /// Makes a namespace.
    pub(crate) fn make_namespace(&self, name: &str) -> Result<Value, Failure> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.change("POST", "/api/v1/namespaces", "application/json", &namespace)
    }

    fn change(&self, method: &str, path: &str, content: &str, body: &Value) -> Result<Value, Failure> {
        let answer = self.send(method, path, content, &body.to_string())?;
        Ok(serde_json::from_str(&answer).expect("the API server answers in JSON"))
    }

    fn send(&self, method: &str, path: &str, content: &str, body: &str) -> Result<String, Failure> {
        let failure = |stderr: String| Failure { command: format!("{method} {path}"), code: None, stderr };
        let request = ureq::http::Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        let request = request.header("Content-Type", content).body(body.to_owned());
        let request = request.map_err(|error| failure(error.to_string()))?;
        let mut answer = http::send(request).map_err(|error| failure(error.to_string()))?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(MOST).read_to_string();
        let body = body.map_err(|error| failure(error.to_string()))?;
        if status.is_success() {
            return Ok(body);
        }
        let body: Value = serde_json::from_str(&body).unwrap_or_default();
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

fn kind(object: &Value) -> String {
    word(&object["kind"]).to_lowercase()
}

fn word(value: &Value) -> String {
    value.as_str().expect("an object has a kind and a name").to_owned()
}

/// Where objects of a kind are, by any name that kubectl knows the kind by here.
pub(crate) fn path(kind: &str, namespace: &str) -> String {
    let (group, plural) = match kind {
        "vg" | "vmgroup" => ("apis/vm.codeconnect.vmworld.com/v1alpha1", "vmgroups"),
        "vc" | "vcenter" => return "/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters".to_owned(),
        "ch" | "hostinfo" => ("apis/topology.corinternal.com/v1", "hostinfoes"),
        "vi" | "vminfo" => ("apis/topology.corinternal.com/v1", "vminfoes"),
        "myownshell" => ("apis/my-first-operator.jgato.io/v1alpha1", "myownshells"),
        "deployment" => ("apis/apps/v1", "deployments"),
        "replicaset" => ("apis/apps/v1", "replicasets"),
        "endpointslice" => ("apis/discovery.k8s.io/v1", "endpointslices"),
        "event" => ("apis/events.k8s.io/v1", "events"),
        "lease" => ("apis/coordination.k8s.io/v1", "leases"),
        core => return format!("/api/v1/namespaces/{namespace}/{core}s"),
    };
    format!("/{group}/namespaces/{namespace}/{plural}")
}
