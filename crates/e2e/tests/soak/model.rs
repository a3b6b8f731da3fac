//! What is declared, and so what must be in the end: a small model that knows nothing of how Drover gets there.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Instant, SystemTime},
};

use drover_e2e::{Touch, Vm, World};
use serde_json::Value;

use crate::edits::TEMPLATES;

/// Namespace and name.
pub(crate) type Key = (String, String);

/// A group that somebody wants.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) spec: Value,
    /// The UID in the markers of its VMs: its own, or that of the earlier group whose VMs it took over.
    pub(crate) marker: String,
    /// How many VMs it could have at once by what was declared since it was last seen to be as declared.
    pub(crate) most: u64,
    /// When somebody last did something to it or to a VM of it.
    pub(crate) disturbed: Instant,
    /// Its VMs when it was last seen to be as declared, if nobody has done anything to them since: these, and no others, must stay.
    pub(crate) as_seen: Option<Vec<Vm>>,
    /// Nobody ever does anything to it: whatever goes wrong around it, its VMs stay.
    pub(crate) is_witness: bool,
}

/// A group that somebody has deleted.
#[derive(Clone, Debug)]
pub(crate) struct Going {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) marker: String,
    pub(crate) policy: String,
    pub(crate) most: u64,
    /// Whether a person has given it up.
    pub(crate) is_abandoned: bool,
    /// Its VMs, which must all stay as they are, unless its policy is `Delete`.
    pub(crate) kept: Vec<Vm>,
}

/// A VM that nobody may touch, as it was when it became one, and why it is here.
#[derive(Clone, Debug)]
pub(crate) struct Stranger {
    pub(crate) why: &'static str,
    pub(crate) vm: Vm,
    /// Since when, in seconds since 1970.
    pub(crate) since: f64,
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
    /// The instance UUIDs of members that are out of the inventory, or came back when another had their place, and stay.
    pub(crate) unregistered: Vec<String>,
    /// All VMs that were ever taken out of the inventory: nobody removes their files.
    pub(crate) taken_out: Vec<Vm>,
    /// The markers of groups of whose VMs some were gone, or could not be seen: a person may have to help these, and no others.
    pub(crate) losers: BTreeSet<String>,
}

impl Declared {
    pub(crate) fn new(spec: Value, marker: String, is_witness: bool) -> Self {
        let mut declared = Self { spec, marker, most: 0, disturbed: Instant::now(), as_seen: None, is_witness };
        declared.most = declared.ceiling();
        declared
    }

    /// Takes note of an edit.
    pub(crate) fn edit(&mut self, change: &Value) {
        merge(&mut self.spec, change);
        self.most = self.most.max(self.ceiling());
        self.disturb();
    }

    /// Takes note that its VMs need not stay the same.
    pub(crate) fn disturb(&mut self) {
        (self.disturbed, self.as_seen) = (Instant::now(), None);
    }

    /// Takes note that all is as declared: from now on, its VMs stay until somebody does something to it.
    pub(crate) fn settle(&mut self, members: Vec<Vm>) {
        self.most = self.ceiling();
        self.as_seen = Some(members);
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
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let memory = self.spec["memory"].as_u64().unwrap_or(0) * 1024;
            facts.push(("CPUs", vm.cpus.to_string(), self.spec["cpu"].to_string()));
            facts.push(("MiB", vm.memory_mib.to_string(), memory.to_string()));
            facts.push(("guestinfo.round", vm.round().to_owned(), text(&self.spec["extraConfig"]["guestinfo.round"])));
            // Only one of the templates has a key to be told by.
            let template = text(&self.spec["template"]);
            let key = if template == TEMPLATES[0] { String::new() } else { template };
            facts.push(("template's key", vm.made_from().to_owned(), key));
        }
        let mut differences: Vec<_> = facts
            .into_iter()
            .filter(|(_, is, should)| is != should)
            .map(|(what, is, should)| format!("{}: {what} is {is:?}, not {should:?}", vm.name))
            .collect();
        let hosts = self.spec["placement"]["hosts"].as_array().filter(|_| !self.keeps_old());
        if hosts.is_some_and(|hosts| !hosts.iter().any(|host| *host == vm.host.as_str())) {
            differences.push(format!("{} is on {:?}, not on one of {hosts:?}", vm.name, vm.host));
        }
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
    /// Has a VM be one that nobody may touch. `since`: from which second since 1970 on.
    pub(crate) fn note(&mut self, why: &'static str, vm: &Vm, since: f64, left_by: Option<&str>) {
        let stranger = Stranger { why, vm: vm.clone(), since, left_by: left_by.map(ToOwned::to_owned) };
        self.strangers.insert(vm.instance.clone(), stranger);
    }

    /// Takes note that VMs of a group may be missed.
    pub(crate) fn lose(&mut self, key: &Key) {
        self.losers.extend(self.groups.get(key).map(|group| group.marker.clone()));
    }

    /// The same of all groups.
    pub(crate) fn lose_all(&mut self) {
        let going = self.going.iter().map(|going| &going.marker);
        self.losers.extend(self.groups.values().map(|group| &group.marker).chain(going).cloned());
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

    /// Calls to VMs that nobody may touch, also those that came to nothing or were taken back. A template is cloned.
    pub(crate) fn meddled(&self, touches: &[Touch]) -> Vec<String> {
        let is_clone = |stranger: &Stranger, touch: &Touch| stranger.vm.is_template && touch.method == "CloneVM_Task";
        let meddled = |touch: &Touch| {
            let stranger = self.strangers.get(&touch.instance).filter(|stranger| touch.at > stranger.since)?;
            (!is_clone(stranger, touch))
                .then(|| format!("{} was asked of {} {}", touch.method, stranger.why, stranger.vm.name))
        };
        touches.iter().filter_map(meddled).collect()
    }

    /// What there is too much of, at any moment: more VMs of a group than it could ever have, or two in one place.
    pub(crate) fn surplus(&self, world: &World) -> Vec<String> {
        let groups = self.groups.iter().map(|(key, group)| (key, &group.marker, group.most));
        let going = self.going.iter().map(|going| (&going.key, &going.marker, going.most));
        let mut surplus = Vec::new();
        for (key, marker, most) in groups.chain(going) {
            let members = self.certain(world, marker);
            if members.len() as u64 > most {
                surplus.push(format!("{}/{} has {} VMs, and may have {most}", key.0, key.1, members.len()));
            }
            for (number, vm) in members.iter().enumerate() {
                if let Some(other) = members[..number].iter().find(|other| other.slot() == vm.slot()) {
                    surplus.push(format!("{}/{}: {} and {} are of one slot", key.0, key.1, vm.path(), other.path()));
                }
            }
        }
        surplus
    }

    /// The VMs of a group, without those that were out of the inventory.
    pub(crate) fn certain<'a>(&self, world: &'a World, marker: &'a str) -> Vec<&'a Vm> {
        world.made_by(marker).filter(|vm| !self.unregistered.contains(&vm.instance)).collect()
    }

    /// Groups that nobody has done anything to since they were as declared, and that have other VMs now.
    pub(crate) fn replaced(&self, world: &World) -> Vec<String> {
        let mut replaced = Vec::new();
        for (key, group) in &self.groups {
            let Some(as_seen) = &group.as_seen else { continue };
            let before: BTreeSet<_> = as_seen.iter().map(|vm| &vm.instance).collect();
            let members = self.certain(world, &group.marker);
            let now: BTreeSet<_> = members.iter().map(|vm| &vm.instance).collect();
            if before != now {
                replaced.push(format!(
                    "{}/{} had {before:?}, and has {now:?}, though nobody did anything to it",
                    key.0, key.1
                ));
            }
        }
        replaced
    }

    /// The VMs and folders that are nobody's.
    pub(crate) fn orphans(&self, world: &World) -> Vec<String> {
        let is_members = |vm: &Vm| self.groups.values().any(|group| vm.marker() == Some(&group.marker));
        let is_known = |vm: &Vm| {
            is_members(vm) || self.strangers.contains_key(&vm.instance) || self.unregistered.contains(&vm.instance)
        };
        let vms = world.vms.iter().filter(|vm| !is_noise(&vm.folder) && !is_known(vm));
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

/// Now, in seconds since 1970, as vCenter's clock has it.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
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
