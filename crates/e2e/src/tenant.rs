//! People who may edit one namespace, and nothing else: what they try, and what they learn.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::{Failure, Namespace, Program, SOON, Sandbox, eventually};

/// What they can read in their namespace of all that Drover writes, or has written for it.
const READABLE: &str = "vmgroups,vminfoes,hostinfoes,myownshells,events,pods,deployments,replicasets,configmaps,services,\
                        endpointslices";

/// Somebody who has Kubernetes' own role `edit` in a namespace. What Drover's roles add to it is to be applied before.
#[derive(Debug)]
pub struct Tenant<'a> {
    /// Their namespace, as the administrator sees it.
    pub namespace: Namespace,
    /// The sandbox that it is in.
    pub sandbox: &'a Sandbox,
    kubectl: Program,
    /// All that kubectl has printed to them, each with what they had written.
    told: Mutex<Vec<(String, String)>>,
}

impl<'a> Tenant<'a> {
    /// Makes a namespace with labels, and lets somebody of its name edit it.
    #[must_use]
    pub fn new(sandbox: &'a Sandbox, name: &str, labels: &Value) -> Self {
        let namespace = sandbox.namespace(name);
        let labelled =
            sandbox.proxy().merge(&format!("/api/v1/namespaces/{name}"), &json!({"metadata": {"labels": labels}}));
        labelled.unwrap_or_else(|failure| panic!("{failure}"));
        namespace
            .kubectl(&["create", "rolebinding", name, "--clusterrole=edit", &format!("--user={name}")])
            .unwrap_or_else(|failure| panic!("{failure}"));
        let kubectl = sandbox.kubectl().arguments(&["--namespace", name, "--as", name]);
        let tenant = Self { namespace, sandbox, kubectl, told: Mutex::default() };
        // A controller of Kubernetes' adds Drover's roles to its own, and the API server hears of the binding.
        eventually(sandbox, SOON, &format!("{name} may edit"), || {
            let may = tenant.kubectl(&["auth", "can-i", "create", "vmgroups"]);
            may.map_err(|failure| failure.to_string())
        });
        tenant
    }

    /// Their name, which is that of the namespace, too.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.namespace.name
    }

    /// kubectl, as they run it in their namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.run(arguments, "").map(|(printed, _)| printed)
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<(String, String), Failure> {
        let ran = self.kubectl.told(arguments, input);
        let told =
            ran.as_ref().map_or_else(|failure| failure.stderr.clone(), |(printed, told)| format!("{printed}{told}"));
        let written = format!("{arguments:?}{input}");
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push((written, told));
        ran
    }

    /// `kubectl apply` of objects, which they may do.
    #[track_caller]
    pub fn apply(&self, objects: &[Value]) {
        self.tries(objects, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// `kubectl apply` of an object that the API server does not take. Returns what they are told.
    #[must_use]
    #[track_caller]
    pub fn refused(&self, object: &Value) -> String {
        self.tries(std::slice::from_ref(object), &[]).expect_err("the API server takes it").stderr
    }

    /// `kubectl apply` of objects, with flags. Returns what they are told beside what is printed, such as warnings.
    pub fn tries(&self, objects: &[Value], flags: &[&str]) -> Result<String, Failure> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        self.run(&[&["apply", "-f", "-"], flags].concat(), &list).map(|(_, told)| told)
    }

    /// Waits until the API server refuses an object because the webhook says so.
    #[track_caller]
    pub fn is_denied(&self, object: &Value, words: &str) {
        eventually(self.sandbox, SOON, &format!("denied: {words}"), || {
            match self.tries(std::slice::from_ref(object), &["--dry-run=server"]) {
                Err(failure) if failure.stderr.contains(&format!("denied the request: {words}")) => Ok(()),
                Err(failure) => Err(failure.stderr),
                Ok(told) => Err(format!("it is let in: {told}")),
            }
        });
    }

    /// Asserts that they may not do something.
    #[track_caller]
    pub fn is_forbidden(&self, arguments: &[&str]) {
        let told = self.kubectl(arguments).expect_err("it is not for them").stderr;
        assert!(told.contains(&format!(" forbidden: User {:?} cannot ", self.name())), "{arguments:?}: {told}");
    }

    /// Waits until an object of theirs has a condition with this reason whose message begins so, and returns the message.
    #[track_caller]
    // Who waits for the whole message need not look at it.
    #[allow(clippy::must_use_candidate)]
    pub fn is_told(&self, kind: &str, name: &str, reason: &str, words: &str) -> String {
        eventually(self.sandbox, SOON, &format!("{kind} {name}: {reason}: {words}"), || {
            let status = self.namespace.get(kind, name).map_err(|failure| failure.to_string())?["status"].clone();
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let messages =
                conditions.filter(|it| it["reason"] == reason).filter_map(|condition| condition["message"].as_str());
            let told = messages.into_iter().find(|message| message.starts_with(words)).map(ToOwned::to_owned);
            told.ok_or_else(|| status.to_string())
        })
    }

    /// All that they can read, as they read it.
    #[must_use]
    #[track_caller]
    pub fn reads(&self) -> Vec<Value> {
        let all = self.kubectl.run(&["get", READABLE, "-o", "json"]).unwrap_or_else(|failure| panic!("{failure}"));
        let all: Value = serde_json::from_str(&all).expect("kubectl prints JSON when asked to");
        all["items"].as_array().cloned().expect("a list has items")
    }

    /// Asserts that none of these words is in anything that they can read or that kubectl has printed to them, except where they have written it themselves: in what an
    /// object of theirs declares, and so in what is said of that object.
    #[track_caller]
    pub fn learned_nothing(&self, words: &[String]) {
        let all = self.reads();
        for object in &all {
            let about = subject(&all, object);
            let name = &about["metadata"]["name"];
            let declared = format!("{name}{}{}", about["spec"], about["metadata"]["annotations"]);
            let text = object.to_string();
            let learned: Vec<_> =
                words.iter().filter(|word| text.contains(*word) && !declared.contains(*word)).collect();
            assert!(learned.is_empty(), "{} learns {learned:?}: {text}", self.name());
        }
        for (written, told) in self.told.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let learned: Vec<_> =
                words.iter().filter(|word| told.contains(*word) && !written.contains(*word)).collect();
            assert!(learned.is_empty(), "{} is told {learned:?}: {told}", self.name());
        }
    }
}

/// What an object is about that its people have not made themselves: what an event is on, or what Drover has made it for.
fn subject<'a>(all: &'a [Value], object: &'a Value) -> &'a Value {
    let about = [&object["involvedObject"], &object["metadata"]["ownerReferences"][0]];
    let is_it =
        |it: &&Value| about.iter().any(|about| it["kind"] == about["kind"] && it["metadata"]["name"] == about["name"]);
    all.iter().find(is_it).unwrap_or(object)
}
