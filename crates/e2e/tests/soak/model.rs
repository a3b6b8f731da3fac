//! What is declared, and so what must be in the end: a small model that knows nothing of how Drover gets there.

use std::collections::BTreeMap;

use drover_e2e::{Vm, World};
use serde_json::Value;

/// Namespace and name.
pub(crate) type Key = (String, String);

/// A group that somebody wants.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) spec: Value,
    /// The UID in the markers of its VMs: its own, or that of the earlier group whose VMs it took over.
    pub(crate) marker: String,
    /// How many VMs it could ever have at once by what was declared so far.
    pub(crate) most: u64,
}

/// A group that somebody has deleted.
#[derive(Clone, Debug)]
pub(crate) struct Going {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) marker: String,
    pub(crate) policy: String,
    /// Whether a person has given it up.
    pub(crate) is_abandoned: bool,
    /// The instance UUIDs of its VMs, which must all stay, unless its policy is `Delete`.
    pub(crate) kept: Vec<String>,
}

/// A VM that nobody may touch, as it was when it became one, and why it is here.
#[derive(Clone, Debug)]
pub(crate) struct Stranger {
    pub(crate) why: &'static str,
    pub(crate) vm: Vm,
    /// The UID of the group that left it, if one did.
    pub(crate) left_by: Option<String>,
}

/// All that must be.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) groups: BTreeMap<Key, Declared>,
    pub(crate) going: Vec<Going>,
    /// By instance UUID.
    pub(crate) strangers: BTreeMap<String, Stranger>,
    /// Markers of deleted groups that have left VMs, by the key of the group.
    pub(crate) left: BTreeMap<Key, String>,
    /// The instance UUIDs of members that were unregistered: such a VM may come back when another has its place, and stays.
    pub(crate) unregistered: Vec<String>,
}

impl Declared {
    pub(crate) fn new(spec: Value, marker: String) -> Self {
        let mut declared = Self { spec, marker, most: 0 };
        declared.most = declared.ceiling();
        declared
    }

    /// Takes note of an edit.
    pub(crate) fn edit(&mut self, change: &Value) {
        merge(&mut self.spec, change);
        self.most = self.most.max(self.ceiling());
    }

    pub(crate) fn replicas(&self) -> u64 {
        self.spec["replicas"].as_u64().unwrap_or(0)
    }

    fn ceiling(&self) -> u64 {
        self.replicas() + self.spec["update"]["maxSurge"].as_u64().unwrap_or(0)
    }

    /// Whether existing VMs stay as they are when the spec changes.
    pub(crate) fn keeps_old(&self) -> bool {
        self.spec["update"]["strategy"] == "OnDelete"
    }

    /// What differs between the group and the VMs that it has.
    pub(crate) fn differences(&self, key: &Key, world: &World, unregistered: &[String]) -> Vec<String> {
        let is_returned = |vm: &&Vm| unregistered.contains(&vm.instance);
        let members: Vec<_> = world.made_by(&self.marker).collect();
        let certain = members.iter().filter(|vm| !is_returned(vm)).count() as u64;
        let folder = folder(key, &self.spec);
        let mut differences = Vec::new();
        if certain > self.replicas() || (members.len() as u64) < self.replicas() {
            differences.push(format!("{} of {} VMs are there", members.len(), self.replicas()));
        }
        for vm in members.iter().filter(|vm| !is_returned(vm)) {
            differences.extend(self.differences_of(vm, key, &folder));
        }
        differences.into_iter().map(|text| format!("{}/{}: {text}", key.0, key.1)).collect()
    }

    fn differences_of(&self, vm: &Vm, key: &Key, folder: &str) -> Vec<String> {
        let power = match self.spec["powerState"].as_str() {
            Some("Off") => "poweredOff",
            Some("Suspended") => "suspended",
            _ => "poweredOn",
        };
        let mut facts = vec![
            ("folder", vm.folder.clone(), folder.to_owned()),
            ("power", vm.power.clone(), power.to_owned()),
            ("connection", vm.connection.clone(), "connected".to_owned()),
        ];
        if !self.keeps_old() {
            let round = self.spec["extraConfig"]["guestinfo.round"].as_str().unwrap_or_default();
            facts.push(("CPUs", vm.cpus.to_string(), self.spec["cpu"].to_string()));
            facts.push((
                "MiB",
                vm.memory_mib.to_string(),
                (self.spec["memory"].as_u64().unwrap_or(0) * 1024).to_string(),
            ));
            facts.push(("guestinfo.round", vm.round().to_owned(), round.to_owned()));
        }
        let mut differences: Vec<_> = facts
            .into_iter()
            .filter(|(_, is, should)| is != should)
            .map(|(what, is, should)| format!("{}: {what} is {is:?}, not {should:?}", vm.name))
            .collect();
        if !vm.name.starts_with(&format!("{}-replica-", key.1)) {
            differences.push(format!("{} is not its name", vm.name));
        }
        differences
    }
}

/// How the names of group's folders end that somebody has renamed.
pub(crate) const RENAMED: &str = "-renamed";

/// The path of a group's folder.
pub(crate) fn folder(key: &Key, spec: &Value) -> String {
    let parent = spec["placement"]["folder"].as_str().unwrap_or("vm-operator");
    format!("/DC0/vm/{parent}/{}.{}", key.0, key.1)
}

impl Model {
    /// Has a VM be one that nobody may touch.
    pub(crate) fn note(&mut self, why: &'static str, vm: &Vm, left_by: Option<&str>) {
        let stranger = Stranger { why, vm: vm.clone(), left_by: left_by.map(ToOwned::to_owned) };
        self.strangers.insert(vm.instance.clone(), stranger);
    }

    /// What has changed of VMs that nobody may touch.
    pub(crate) fn touched(&self, world: &World) -> Vec<String> {
        let mut touched = Vec::new();
        for (instance, Stranger { why, vm, .. }) in &self.strangers {
            let Some(now) = world.by_instance(instance) else {
                touched.push(format!("{why} {} is gone", vm.name));
                continue;
            };
            // A host that was lost brings its VMs back under other ids.
            let now = Vm { id: vm.id.clone(), ..now.clone() };
            if now != *vm {
                touched.push(format!("{why} {} was touched: {vm:?} is {now:?} now", vm.name));
            }
        }
        touched
    }

    /// What there is too much of, at any moment: more VMs of a group than it could ever have, or two in one place.
    pub(crate) fn surplus(&self, world: &World) -> Vec<String> {
        let mut surplus = Vec::new();
        for (key, group) in &self.groups {
            let is_certain = |vm: &&Vm| !self.unregistered.contains(&vm.instance);
            let members: Vec<_> = world.made_by(&group.marker).filter(is_certain).collect();
            if members.len() as u64 > group.most {
                surplus.push(format!(
                    "{}/{} has {} VMs, and never declared more than {}",
                    key.0,
                    key.1,
                    members.len(),
                    group.most
                ));
            }
            for (number, vm) in members.iter().enumerate() {
                if let Some(other) = members[..number].iter().find(|other| other.slot() == vm.slot()) {
                    surplus.push(format!("{}/{}: {} and {} are of one slot", key.0, key.1, vm.path(), other.path()));
                }
            }
        }
        surplus
    }

    /// The VMs and folders that are nobody's.
    pub(crate) fn orphans(&self, world: &World) -> Vec<String> {
        let is_members = |vm: &Vm| self.groups.values().any(|group| vm.marker() == Some(&group.marker));
        let is_known = |vm: &Vm| {
            is_members(vm) || self.strangers.contains_key(&vm.instance) || self.unregistered.contains(&vm.instance)
        };
        let vms = world.vms.iter().filter(|vm| !vm.is_template && !is_noise(&vm.folder) && !is_known(vm));
        let vms = vms.map(|vm| format!("{} is no group's: {vm:?}", vm.path()));
        let is_used = |path: &str| {
            let mut own = self.groups.iter().map(|(key, group)| folder(key, &group.spec));
            own.any(|own| own == *path) || world.vms.iter().any(|vm| vm.folder.starts_with(path))
        };
        // One that somebody has renamed is theirs from then on.
        let is_groups =
            |path: &&String| path.rsplit('/').next().is_some_and(|name| name.contains('.') && !name.ends_with(RENAMED));
        let folders = world.folders.iter().filter(is_groups).filter(|path| !is_used(path));
        vms.chain(folders.map(|path| format!("the folder {path} is empty, and no group's"))).collect()
    }
}

/// Where the front's own crowds are.
fn is_noise(folder: &str) -> bool {
    ["/DC0/vm/noise", "/DC0/vm/strangers"].contains(&folder)
}

/// Changes a value as a merge patch does.
fn merge(value: &mut Value, change: &Value) {
    let Some(fields) = change.as_object() else {
        *value = change.clone();
        return;
    };
    let mut known = value.as_object().cloned().unwrap_or_default();
    for (name, field) in fields {
        if field.is_null() {
            known.remove(name);
        } else {
            merge(known.entry(name).or_insert(Value::Null), field);
        }
    }
    *value = known.into();
}
