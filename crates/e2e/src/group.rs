//! A group of machines, declared with kubectl and seen with govc.

// A test that waits for the machines to be there may not need their names.
#![allow(clippy::must_use_candidate)]

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Failure, Namespace, Sandbox, VCenter, eventually, vm_group};

/// How long anything may take. It is long because machines are slow and busy, not because Drover is.
pub const SOON: Duration = Duration::from_mins(2);
/// What is said of a group that is as declared.
const SUCCESS: &str = "successfully reconciled VmGroup";

/// A group in a namespace of its own, named as that, so that its machines are told from those of other tests.
#[derive(Debug)]
pub struct Group<'a> {
    /// Its namespace.
    pub namespace: Namespace,
    /// The sandbox that it is in.
    pub sandbox: &'a Sandbox,
}

impl<'a> Group<'a> {
    /// Declares a group of 2 small machines, or what the spec says otherwise.
    #[must_use]
    pub fn create(sandbox: &'a Sandbox, namespace: &str, spec: &Value) -> Self {
        let group = Self { namespace: sandbox.namespace(namespace), sandbox };
        group.apply(spec);
        group
    }

    /// Declares the group, again if need be.
    pub fn apply(&self, spec: &Value) {
        let manifest = vm_group(self.name(), spec);
        self.namespace.declare(&manifest).unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// The vCenter that it is in.
    #[must_use]
    pub fn vcenter(&self) -> &VCenter {
        self.sandbox.vcenter()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.namespace.name
    }

    /// The path of its folder.
    #[must_use]
    pub fn folder(&self) -> String {
        let name = self.name();
        format!("/DC0/vm/vm-operator/{name}.{name}")
    }

    /// The object as the API server has it.
    pub fn get(&self) -> Result<Value, Failure> {
        self.namespace.get("vg", self.name())
    }

    /// The paths of all machines that have names of the group's, wherever they are.
    #[must_use]
    pub fn everywhere(&self) -> Vec<String> {
        let name = format!("{}-replica", self.name());
        self.vcenter().machines().into_iter().filter(|path| path.contains(&name)).collect()
    }

    /// Edits its spec.
    pub fn patch(&self, spec: &Value) -> Result<Value, Failure> {
        self.namespace.patch("vg", self.name(), &json!({"spec": spec}))
    }

    /// Says that it is to be deleted.
    #[track_caller]
    pub fn begin_to_delete(&self) {
        self.namespace.delete("vg", self.name()).unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// Destroys a machine, as somebody does in vCenter. govc powers it off first, and the operator may be faster to power it on
    /// again.
    #[track_caller]
    pub fn loses(&self, machine: &str) {
        eventually(self.sandbox, SOON, &format!("{machine} is destroyed"), || {
            self.vcenter().govc(&["vm.destroy", machine]).map_err(|failure| failure.to_string())
        });
    }

    /// Deletes it, and waits until it is gone.
    pub fn delete(&self) {
        self.begin_to_delete();
        self.is_gone();
    }

    /// Waits until it is gone, after somebody has deleted it.
    #[track_caller]
    pub fn is_gone(&self) {
        eventually(self.sandbox, SOON, "the group is gone", || match self.get() {
            Err(failure) if failure.stderr.contains("(NotFound)") => Ok(()),
            there => Err(format!("{there:?}")),
        });
    }

    /// Its status.
    pub fn status(&self) -> Result<Value, String> {
        let group = self.get().map_err(|failure| failure.to_string())?;
        Ok(group["status"].clone())
    }

    /// The machines in the group's folder, with a property of each.
    pub fn machines(&self, property: &str) -> Result<Vec<(String, String)>, String> {
        let folder = self.folder();
        // One look for all: each costs more than what is looked at.
        let shown = self.vcenter().govc(&["vm.info", "-json", &format!("{folder}/*")]);
        let shown: Value = serde_json::from_str(&shown.map_err(|failure| failure.to_string())?)
            .expect("govc prints JSON when asked to");
        let machines = shown["virtualMachines"].as_array().cloned().unwrap_or_default();
        let value = |machine: &Value| match machine.pointer(&format!("/{}", property.replace('.', "/"))) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let path = |machine: &Value| format!("{folder}/{}", machine["name"].as_str().unwrap_or_default());
        Ok(machines.iter().map(|machine| (path(machine), value(machine))).collect())
    }

    /// Waits until the status says that the group is as declared, and then the world has to be so. The world is looked at
    /// last, because a look costs more than all that the operator does.
    #[track_caller]
    pub fn settles_with(&self, replicas: usize, property: &str, value: &str) -> Vec<String> {
        eventually(self.sandbox, SOON, &format!("{replicas} machines with {property} {value}"), || {
            let group = self.get().map_err(|failure| failure.to_string())?;
            let status = &group["status"];
            let settled = status["phase"] == "RUNNING"
                && status["lastMessage"] == SUCCESS
                && status["observedGeneration"] == group["metadata"]["generation"]
                && status["currentReplicas"] == replicas;
            if !settled {
                return Err(status.to_string());
            }
            let machines =
                self.machines(property).or_else(|error| if replicas == 0 { Ok(Vec::new()) } else { Err(error) })?;
            if machines.len() == replicas && machines.iter().all(|(_, has)| has == value) {
                return Ok(machines.into_iter().map(|(path, _)| path).collect());
            }
            Err(format!("{machines:?}, {status}"))
        })
    }

    /// Waits until so many machines run.
    #[track_caller]
    pub fn runs_with(&self, replicas: usize) -> Vec<String> {
        self.settles_with(replicas, "runtime.powerState", "poweredOn")
    }

    /// Waits until the status says something, in its phase or its message.
    #[track_caller]
    pub fn says(&self, phase: &str, words: &str) {
        eventually(self.sandbox, SOON, &format!("{phase}: {words}"), || {
            let status = self.status()?;
            let message = status["lastMessage"].as_str().unwrap_or_default();
            if status["phase"] == phase && message.contains(words) { Ok(()) } else { Err(status.to_string()) }
        });
    }

    /// Waits for an event on the group.
    #[track_caller]
    pub fn tells(&self, reason: &str, words: &str) {
        eventually(self.sandbox, SOON, &format!("the event {reason}: {words}"), || {
            let events = self.namespace.events("VmGroup", reason).map_err(|failure| failure.to_string())?;
            if events.iter().any(|event| event.contains(words)) { Ok(()) } else { Err(events.join("\n")) }
        });
    }
}
