//! A MyOwnShell, declared and seen with kubectl.

// A test that waits for something to be there may not need it.
#![allow(clippy::must_use_candidate)]

use serde_json::{Value, json};

use crate::{Failure, Namespace, SOON, Sandbox, eventually};

/// A MyOwnShell called `shell`, in a namespace of its own.
#[derive(Debug)]
pub struct Shell<'a> {
    /// Its namespace.
    pub namespace: Namespace,
    /// The sandbox that it is in.
    pub sandbox: &'a Sandbox,
}

impl<'a> Shell<'a> {
    /// Declares a MyOwnShell in a new namespace.
    #[must_use]
    pub fn create(sandbox: &'a Sandbox, namespace: &str, spec: &Value) -> Self {
        let shell = Self { namespace: sandbox.namespace(namespace), sandbox };
        shell.apply(spec).unwrap_or_else(|failure| panic!("{failure}"));
        shell
    }

    /// Declares the MyOwnShell, again if need be.
    pub fn apply(&self, spec: &Value) -> Result<Value, Failure> {
        let manifest = json!({
            "apiVersion": "my-first-operator.jgato.io/v1alpha1",
            "kind": "MyOwnShell",
            "metadata": {"name": "shell"},
            "spec": spec,
        });
        self.namespace.declare(&manifest)
    }

    /// kubectl in its namespace, which has to succeed.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.namespace.kubectl(arguments).unwrap_or_else(|failure| panic!("{failure}\n{}", self.sandbox.dump()))
    }

    /// Changes something with a merge patch, as somebody's hand does.
    #[track_caller]
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) {
        let patched = self.namespace.patch(kind, name, patch);
        patched.unwrap_or_else(|failure| panic!("{failure}\n{}", self.sandbox.dump()));
    }

    /// Waits until an object of its namespace is as wanted.
    #[track_caller]
    pub fn sees(&self, kind: &str, name: &str, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(self.sandbox, SOON, &format!("{kind} {name}: {what}"), || {
            let object = self.namespace.get(kind, name).map_err(|failure| failure.to_string())?;
            if is_wanted(&object) { Ok(object) } else { Err(object.to_string()) }
        })
    }

    /// Waits until its Deployment is as wanted.
    #[track_caller]
    pub fn deployment(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        self.sees("deployment", "shell", what, is_wanted)
    }

    /// Waits until its Deployment has so many replicas, and they are there.
    #[track_caller]
    pub fn has_replicas(&self, replicas: i64) -> Value {
        self.deployment(&format!("{replicas} replicas"), |deployment| {
            deployment["spec"]["replicas"] == replicas
                && deployment["status"]["replicas"].as_i64().unwrap_or(0) == replicas
                && deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
        })
    }

    /// Waits until its Deployment asks for so many replicas. Without a node, those of an update don't come to replace the old.
    #[track_caller]
    pub fn asks_for(&self, replicas: i64) {
        self.deployment(&format!("{replicas} asked for"), |deployment| deployment["spec"]["replicas"] == replicas);
    }

    /// Waits until its status is as wanted, and about what is declared now.
    #[track_caller]
    pub fn status(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let shell = self.sees("myownshell", "shell", what, |shell| {
            shell["status"]["observedGeneration"] == shell["metadata"]["generation"] && is_wanted(&shell["status"])
        });
        shell["status"].clone()
    }

    /// Waits until it is not as declared for this reason, and returns the message.
    #[track_caller]
    pub fn is_hindered(&self, reason: &str) -> String {
        let is_so = |status: &Value| {
            let ready = condition(status, "Ready");
            ready["reason"] == reason && ready["status"] == "False"
        };
        let status = self.status(&format!("not ready: {reason}"), is_so);
        condition(&status, "Ready")["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until nothing stands in its way.
    #[track_caller]
    pub fn is_free(&self) {
        self.status("nothing in its way", |status| {
            let ready = condition(status, "Ready");
            ["Reconciled", "Provisioning"].iter().any(|reason| ready["reason"] == *reason)
        });
    }

    /// Waits for an event on it.
    #[track_caller]
    pub fn tells(&self, reason: &str, words: &str) {
        eventually(self.sandbox, SOON, &format!("the event {reason}: {words}"), || {
            let events = self.namespace.events("MyOwnShell", reason).map_err(|failure| failure.to_string())?;
            if events.iter().any(|event| event.contains(words)) { Ok(()) } else { Err(format!("{events:?}")) }
        });
    }

    /// Deletes something, and waits until it is gone.
    #[track_caller]
    pub fn delete(&self, object: &str, flags: &[&str]) {
        self.kubectl(&[&["delete", object, "--timeout=60s"], flags].concat());
    }

    /// Waits until there is nothing of a shell's of these kinds in its namespace.
    #[track_caller]
    pub fn has_no(&self, kinds: &[&str]) {
        let is_ours = |object: &Value| object["metadata"]["labels"]["app"] == "myownshell";
        for kind in kinds {
            eventually(self.sandbox, SOON, &format!("no {kind}"), || {
                let mut objects = self.namespace.list(kind).map_err(|failure| failure.to_string())?;
                objects.retain(is_ours);
                if objects.is_empty() { Ok(()) } else { Err(Value::from(objects).to_string()) }
            });
        }
    }
}

fn condition(status: &Value, kind: &str) -> Value {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
}
