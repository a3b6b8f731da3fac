//! The storm itself: the sandbox, the operators, what is declared, and the troubles that last for now.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Chance, Gate, Namespace, Operator, Sandbox, VCenter, Vm, World, vm_group};
use serde_json::{Value, json};

use crate::{
    faults::UNPROVING,
    model::{Declared, Key, Model},
};

/// What a trouble needs to be ended.
pub(crate) type End = Box<dyn FnOnce(&mut Storm)>;

/// Something that lasts until its time is over.
pub(crate) struct Trouble {
    pub(crate) name: &'static str,
    pub(crate) until: Instant,
    pub(crate) kind: Kind,
    pub(crate) end: End,
}

/// What a trouble keeps others from doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Free,
    /// VMs can't be seen as they are, not even by an administrator.
    Blinding,
    /// vCenter can't be asked at all.
    Away,
}

pub(crate) struct Storm {
    pub(crate) sandbox: &'static Sandbox,
    pub(crate) vcenter: VCenter,
    pub(crate) gate: Gate,
    pub(crate) chance: Chance,
    pub(crate) namespaces: BTreeMap<String, Namespace>,
    pub(crate) model: Model,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) troubles: Vec<Trouble>,
    /// The ids of VMs that are hidden now.
    pub(crate) hidden: Vec<String>,
    /// The paths of folders that are hidden now.
    pub(crate) hidden_folders: Vec<String>,
    /// How often each action was done.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// How many calls and requests each fault has met.
    pub(crate) hits: BTreeMap<&'static str, u64>,
    /// When the world was last seen, or could not be.
    pub(crate) seen: Instant,
    /// Hosts whose time of maintenance is over.
    pub(crate) open_hosts: Vec<String>,
    /// VMs whose time out of the inventory is over, each with when they left it.
    pub(crate) out: Vec<(Vm, Instant)>,
    /// Since when nothing is done and nothing goes wrong, if so.
    pub(crate) lull: Option<Instant>,
    /// Counts up, so that no two rounds of a group are alike.
    pub(crate) round: u64,
}

/// One operator, for as long as nobody kills it.
pub(crate) struct Replica {
    pub(crate) operator: Option<Operator>,
    pub(crate) is_frozen: bool,
}

impl Storm {
    /// Has a trouble last for some seconds.
    pub(crate) fn lasts(
        &mut self,
        name: &'static str,
        kind: Kind,
        seconds: u64,
        end: impl FnOnce(&mut Self) + 'static,
    ) {
        let until = Instant::now() + Duration::from_secs(seconds);
        self.troubles.push(Trouble { name, until, kind, end: Box::new(end) });
    }

    /// Ends what has lasted long enough, or all.
    pub(crate) fn lift(&mut self, are_all: bool) {
        let now = Instant::now();
        while let Some(index) = self.troubles.iter().position(|trouble| are_all || trouble.until <= now) {
            let trouble = self.troubles.remove(index);
            (trouble.end)(self);
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.troubles.iter().any(|trouble| trouble.name == name)
    }

    /// Whether vCenter can be asked.
    pub(crate) fn is_there(&self) -> bool {
        self.troubles.iter().all(|trouble| trouble.kind != Kind::Away)
    }

    /// Whether an administrator sees all VMs as they are.
    pub(crate) fn is_in_sight(&self) -> bool {
        self.out.is_empty() && self.troubles.iter().all(|trouble| trouble.kind == Kind::Free)
    }

    /// What is in vCenter, if it can be asked.
    pub(crate) fn world(&self) -> Option<World> {
        if self.is_there() { World::look(&self.vcenter).ok() } else { None }
    }

    /// Whether Drover can't see VMs that are there, or not as they are, though vCenter answers.
    pub(crate) fn hides(&self) -> bool {
        let is_blinding = |trouble: &Trouble| trouble.kind == Kind::Blinding;
        let is_hidden = !self.hidden.is_empty() || !self.hidden_folders.is_empty();
        is_hidden || !self.out.is_empty() || self.troubles.iter().any(is_blinding)
    }

    /// A group that is declared, and that something may be done to.
    pub(crate) fn any_group(&mut self) -> Option<Key> {
        let groups = self.model.groups.iter().filter(|(_, group)| !group.is_witness);
        let keys: Vec<_> = groups.map(|(key, _)| key.clone()).collect();
        self.chance.pick(&keys).cloned()
    }

    /// A member of a declared group that something may be done to, with its key.
    pub(crate) fn any_member(&mut self) -> Option<(Key, Vm)> {
        let world = self.world()?;
        let members: Vec<_> = self
            .model
            .groups
            .iter()
            .filter(|(_, group)| !group.is_witness)
            .flat_map(|(key, group)| world.made_by(&group.marker).map(|vm| (key.clone(), vm.clone())))
            .collect();
        self.chance.pick(&members).cloned()
    }

    /// Takes note that something is done to a group or to VMs of it.
    pub(crate) fn disturb(&mut self, key: &Key) {
        self.model.groups.get_mut(key).into_iter().for_each(Declared::disturb);
    }

    /// Takes note of what a fault has met in the end.
    pub(crate) fn hit(&mut self, name: &'static str, calls: u64) {
        *self.hits.entry(name).or_default() += calls;
    }

    /// Edits a group's spec, in the model too.
    pub(crate) fn edit(&mut self, key: &Key, change: &Value) {
        let group = self.model.groups.get_mut(key).expect("only declared groups are edited");
        group.edit(change);
        let patched = self.namespaces[&key.0].patch("vg", &key.1, &json!({"spec": change}));
        patched.unwrap_or_else(|failure| panic!("{}/{}: {change}: {failure}", key.0, key.1));
    }

    /// Declares a group anew. One that was deleted before and left VMs takes them over, or has others.
    pub(crate) fn create(&mut self, key: &Key, spec: &Value, marker: Option<&str>, is_witness: bool) {
        let mut object = vm_group(&key.1, spec);
        let left = self.model.left.contains_key(key);
        if let Some(take) = marker.or(left.then_some("none")) {
            object["metadata"]["annotations"] = json!({"vm.codeconnect.vmworld.com/take-over": take});
        }
        let made = self.namespaces[&key.0].declare(&object).unwrap_or_else(|failure| panic!("{failure}"));
        let uid = marker.or(made["metadata"]["uid"].as_str()).expect("an object has a UID").to_owned();
        self.model.groups.insert(key.clone(), Declared::new(object["spec"].clone(), uid, is_witness));
        if UNPROVING.iter().any(|trouble| self.has(trouble)) {
            self.model.lose(key);
        }
    }

    /// Waits until the API server answers.
    pub(crate) fn await_api_server(&self) {
        let began = Instant::now();
        while self.sandbox.kubectl().run(&["get", "--raw", "/readyz"]).is_err() {
            assert!(began.elapsed() < Duration::from_mins(1), "the API server does not come back");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Starts an operator in a place that has none.
    pub(crate) fn start(&mut self, index: usize) {
        let flags: &[&str] = if self.replicas.len() > 1 { &["--enable-leader-election"] } else { &[] };
        let name = format!("drover-{index}");
        let operator = Operator::start_as_behind(&name, &self.gate, self.sandbox, &self.vcenter, flags);
        let operator = operator.unwrap_or_else(|error| panic!("{error}"));
        self.replicas[index] = Replica { operator: Some(operator), is_frozen: false };
    }

    /// Has so many operators run, all of them new.
    pub(crate) fn start_all(&mut self, count: usize) {
        self.assert_all_run();
        self.replicas.clear();
        self.replicas.resize_with(count, || Replica { operator: None, is_frozen: false });
        for index in 0..count {
            self.start(index);
        }
    }

    /// Fails if an operator has ended that nobody has killed.
    #[track_caller]
    pub(crate) fn assert_all_run(&mut self) {
        for operator in self.replicas.iter_mut().filter_map(|replica| replica.operator.as_mut()) {
            if operator.has_ended() {
                let log = operator.log();
                let last: Vec<_> = log.lines().rev().take(20).collect();
                panic!("an operator has ended by itself; its last words, the latest first:\n{}", last.join("\n"));
            }
        }
    }
}
