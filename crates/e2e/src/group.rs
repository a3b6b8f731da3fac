//! A group of machines, declared with kubectl and seen with govc.

// A test that waits for the machines to be there may not need their names.
#![allow(clippy::must_use_candidate)]

use std::{collections::BTreeSet, time::Duration};

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
    /// The vCenter that it is in, if that isn't the one which all tests share.
    own: Option<VCenter>,
}

impl<'a> Group<'a> {
    /// Declares a group of 2 small machines, or what the spec says otherwise.
    #[must_use]
    pub fn create(sandbox: &'a Sandbox, namespace: &str, spec: &Value) -> Self {
        let group = Self::of(sandbox.namespace(namespace), sandbox);
        group.apply(spec);
        group
    }

    /// Declares one in a vCenter of its own, which is declared by the same name.
    #[must_use]
    pub fn create_apart(sandbox: &'a Sandbox, namespace: &str, spec: &Value) -> Self {
        let own = sandbox.own_vcenter();
        own.declare(sandbox, namespace, &json!({}));
        let group = Self { own: Some(own), ..Self::of(sandbox.namespace(namespace), sandbox) };
        group.apply(spec);
        group
    }

    /// The group of a namespace, which is to be declared.
    #[must_use]
    pub fn of(namespace: Namespace, sandbox: &'a Sandbox) -> Self {
        Self { namespace, sandbox, own: None }
    }

    /// The same in a vCenter that is another sandbox's.
    #[must_use]
    pub fn in_vcenter(self, vcenter: &VCenter) -> Self {
        Self { own: Some(vcenter.clone()), ..self }
    }

    /// Declares the group, again if need be.
    pub fn apply(&self, spec: &Value) {
        let mut manifest = vm_group(self.name(), spec);
        if self.own.is_some() {
            manifest["spec"]["vcenter"] = self.name().into();
        }
        self.namespace.declare(&manifest).unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// The vCenter that it is in.
    #[must_use]
    pub fn vcenter(&self) -> &VCenter {
        self.own.as_ref().unwrap_or_else(|| self.sandbox.vcenter())
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
        let value = |machine: &Value| match machine.pointer(&format!("/{}", property.replace('.', "/"))) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let path = |machine: &Value| format!("{folder}/{}", machine["name"].as_str().unwrap_or_default());
        let machines = self.shown(&[&format!("{folder}/*")])?;
        Ok(machines.iter().map(|machine| (path(machine), value(machine))).collect())
    }

    /// All that govc shows of machines.
    fn shown(&self, paths: &[&str]) -> Result<Vec<Value>, String> {
        // One look for all: each costs more than what is looked at.
        let shown = self.vcenter().govc(&[&["vm.info", "-json"], paths].concat());
        let shown: Value = serde_json::from_str(&shown.map_err(|failure| failure.to_string())?)
            .expect("govc prints JSON when asked to");
        Ok(shown["virtualMachines"].as_array().cloned().unwrap_or_default())
    }

    /// What tells each machine that has a name of the group's, wherever it is, from any other that takes the name after it: id
    /// and instanceUuid.
    #[track_caller]
    pub fn identities(&self) -> BTreeSet<String> {
        let everywhere = self.everywhere();
        if everywhere.is_empty() {
            // govc takes none for all.
            return BTreeSet::new();
        }
        let paths: Vec<_> = everywhere.iter().map(String::as_str).collect();
        let machines = self.shown(&paths).unwrap_or_else(|error| panic!("{error}"));
        let identity = |machine: &Value| format!("{} {}", machine["self"]["value"], machine["config"]["instanceUuid"]);
        machines.iter().map(identity).collect()
    }

    /// Waits until the status says that the group is as declared. The world has to be so at the first look after that: a
    /// status that is ahead of it fails the test at once. What somebody else changes is not known to the status yet: for that
    /// there is [`Self::recovers_to`].
    #[track_caller]
    pub fn settles_with(&self, replicas: usize, property: &str, value: &str) -> Vec<String> {
        eventually(self.sandbox, SOON, &format!("{replicas} machines with {property} {value}"), || {
            self.settled(replicas)?;
            let machines = self.all_with(replicas, property, value);
            // Something may have happened between the two looks, and then the status says so.
            let status = self.settled(replicas)?;
            let lie = |seen| format!("the status is ahead of the world: {seen}, {status}\n\n{}", self.sandbox.dump());
            Ok(machines.unwrap_or_else(|seen| panic!("{}", lie(seen))))
        })
    }

    /// Waits until the world is as declared again, after somebody has changed it in vCenter, and then for the status to say so.
    #[track_caller]
    pub fn recovers_to(&self, replicas: usize, property: &str, value: &str) -> Vec<String> {
        eventually(self.sandbox, SOON, &format!("{replicas} machines with {property} {value} again"), || {
            self.all_with(replicas, property, value)
        });
        self.settles_with(replicas, property, value)
    }

    /// Waits until the machines at these paths run in the group's folder, and no others are there.
    #[track_caller]
    pub fn are_back(&self, machines: &[String]) {
        let expected: BTreeSet<_> = machines.iter().map(|path| (path.clone(), "poweredOn".to_owned())).collect();
        eventually(self.sandbox, SOON, "all are back", || {
            let now: BTreeSet<_> = self.machines("runtime.powerState")?.into_iter().collect();
            if now == expected { Ok(()) } else { Err(format!("{now:?}")) }
        });
    }

    /// The status, if it says that the group is as declared now.
    fn settled(&self, replicas: usize) -> Result<Value, String> {
        let group = self.get().map_err(|failure| failure.to_string())?;
        let status = &group["status"];
        let settled = status["phase"] == "RUNNING"
            && status["lastMessage"] == SUCCESS
            && status["observedGeneration"] == group["metadata"]["generation"]
            && status["currentReplicas"] == replicas;
        if settled { Ok(status.clone()) } else { Err(status.to_string()) }
    }

    /// The machines in the group's folder, if they are so many and a property of each has this value.
    fn all_with(&self, replicas: usize, property: &str, value: &str) -> Result<Vec<String>, String> {
        // A group of none need not have a folder.
        let machines =
            self.machines(property).or_else(|error| if replicas == 0 { Ok(Vec::new()) } else { Err(error) })?;
        if machines.len() == replicas && machines.iter().all(|(_, has)| has == value) {
            return Ok(machines.into_iter().map(|(path, _)| path).collect());
        }
        Err(format!("{machines:?}"))
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

    /// Waits until the group says why it isn't ready.
    #[track_caller]
    pub fn is_not_ready(&self, reason: &str, words: &str) {
        eventually(self.sandbox, SOON, &format!("{reason}: {words}"), || {
            let status = self.status()?;
            let ready = &status["conditions"][0];
            let message = ready["message"].as_str().unwrap_or_default();
            let is_so = ready["status"] == "False" && ready["reason"] == reason && message.contains(words);
            if is_so { Ok(()) } else { Err(status.to_string()) }
        });
    }

    /// Waits until the group is refused for a reason that a person has to put right.
    #[track_caller]
    pub fn is_refused(&self, words: &str) {
        self.says("ERROR", words);
        let conditions = self.status().unwrap_or_else(|error| panic!("{error}"))["conditions"].clone();
        let is_stalled = |condition: &Value| {
            condition["type"] == "Stalled" && condition["status"] == "True" && condition["reason"] == "NotAllowed"
        };
        assert!(conditions.as_array().is_some_and(|all| all.iter().any(is_stalled)), "{conditions}");
        self.tells("NotAllowed", words);
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
