use drover_api::vcenter::Quota as Declared;
use drover_core::{
    plan,
    vmgroup::{Folder, Revision, inventory::Marker},
};
use serde_json::{Value, json};

use super::*;

const GIB: u64 = 1024;

fn group(name: &str, spec: &Value, record: &Value) -> Arc<VmGroup> {
    let mut whole = json!({"cpu": 1, "memory": 1, "replicas": 2, "template": "t"});
    whole.as_object_mut().unwrap().extend(spec.as_object().cloned().unwrap_or_default());
    let group = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
        "metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": whole, "status": {"record": record},
    });
    Arc::new(serde_json::from_value(group).unwrap())
}

/// A VM of a group, whose disks its marker tells of or not.
fn vm(group: &str, slot: u32, storage_mib: Option<u64>) -> Machine {
    let marker = Marker {
        group: group.to_owned(),
        owner: ("ns".to_owned(), group.to_owned()),
        slot: Slot(slot),
        revision: Revision(0),
        cluster: "here".to_owned(),
        made: None,
        storage_mib,
    };
    Machine { marker: Some(Box::new(marker)), ..Machine::new(Timestamp::UNIX_EPOCH) }
}

fn mirror(vms: impl IntoIterator<Item = Machine>) -> Mirror {
    let mut mirror = Mirror::default();
    for (number, vm) in vms.into_iter().enumerate() {
        mirror.machines.insert(ManagedObjectReference::new("VirtualMachine", format!("vm-{number}")), vm);
    }
    mirror
}

/// What the namespace has, as it is counted for a group or for nobody.
fn counted_for(executor: &mut Executor, mirror: &Mirror, groups: &[Arc<VmGroup>], own: Option<&VmGroup>) -> Count {
    let desired = own.map(|group| Desired::of(group).unwrap());
    let own = desired.as_ref().map(|desired| (desired, false));
    tally(("here", "drover"), executor, mirror, groups, own, |_| true).remove("ns").unwrap_or_default()
}

fn quota(limits: &Value) -> Quota {
    Quota::of(&serde_json::from_value::<Declared>(limits.clone()).unwrap())
}

#[test]
fn nothing_is_made_while_disks_that_the_quota_counts_were_not_read() {
    let (disks, vms) = (quota(&json!({"storage": 100})), quota(&json!({"vms": 100})));
    let web = group("web", &json!({}), &json!({"incarnation": 0}));
    let mut executor = Executor::default();
    let mut count = |vms: Vec<Machine>| counted_for(&mut executor, &mirror(vms), &[Arc::clone(&web)], Some(&web));
    let known = count(vec![vm("web", 0, Some(GIB)), vm("left", 0, Some(GIB))]);
    assert_eq!((known.unread, known.unsure(&Executor::default(), disks)), (0, None));
    let unread = count(vec![vm("web", 0, Some(GIB)), vm("left", 0, None)]);
    assert_eq!((unread.unread, unread.unsure(&Executor::default(), disks)), (1, Some(UNREAD)));
    assert_eq!(unread.unsure(&Executor::default(), vms), None, "nobody counts them");
}

#[test]
fn disks_that_cannot_be_read_hinder_nobody_and_count_as_the_largest_of_the_group() {
    let illegible = |group: &str| Machine { were_disks_read: true, ..vm(group, 1, None) };
    let count = |vms: Vec<Machine>| counted_for(&mut Executor::default(), &mirror(vms), &[], None);
    let of_three = count(vec![illegible("web"), vm("web", 0, Some(3 * GIB)), vm("web", 2, Some(GIB))]);
    assert_eq!((of_three.unread, of_three.all.storage_mib), (0, 7 * GIB));
    let another = count(vec![illegible("web"), vm("other", 0, Some(3 * GIB))]);
    assert_eq!(another.all.storage_mib, 3 * GIB);
}

#[test]
fn a_group_that_waits_for_disks_to_be_read_says_so() {
    let desired = Desired::of(&group("web", &json!({}), &json!({}))).unwrap();
    let mut observed = Observed { folder: Folder::Empty, ..Observed::default() };
    let usage = Usage { unread: 3, unsure: Some(UNREAD), ..usage(&Record::default()) };
    usage.limit(&desired, &mut observed, Timestamp::UNIX_EPOCH);
    let plan = plan(&desired, &observed, Timestamp::UNIX_EPOCH);
    let words = "2 VMs wait for the quota of namespace \"ns\" in VCenter \"lab\": the disks of 3 VMs that the namespace has are still to be \
                 read";
    assert_eq!((plan.actions.as_slice(), usage.obstacle(&plan).as_deref()), (&[][..], Some(words)));
    assert_eq!(usage.wake(&plan), Some(UNREAD));
}

#[test]
fn what_a_namespace_has_is_the_same_whoever_asks() {
    let record = json!({"incarnation": 1, "made": ["0@1"], "pending": ["1@1"]});
    let groups = ["web", "db"].map(|name| group(name, &json!({}), &record));
    let mut executor = Executor::default();
    for group in &groups {
        executor.group(&group.uid().unwrap()).storage_mib = Some(5 * GIB);
    }
    let mirror = Mirror::default();
    let mut storage = |own: Option<&VmGroup>| counted_for(&mut executor, &mirror, &groups, own).all.storage_mib;
    assert_eq!([None, Some(&*groups[0]), Some(&*groups[1])].map(&mut storage), [20 * GIB; 3]);
}

/// What a group may have whose template was not looked for, where all that its record reserves was not begun.
fn usage(record: &Record) -> Usage {
    let each = Size::default();
    Usage {
        terms: Terms { quota: quota(&json!({"storage": 100})), is_enforced: true },
        vcenter: "lab".to_owned(),
        namespace: "ns".to_owned(),
        used: Amount::default(),
        own: Reserved::of(record, each, |_, _| false, |_| false),
        each,
        is_size_known: false,
        unread: 0,
        unsure: None,
    }
}

#[test]
fn a_group_that_is_refused_or_paused_gives_back_what_it_has_not_begun() {
    let left = |spec: &Value, refused: Option<Room>| {
        let desired = Desired::of(&group("web", spec, &json!({}))).unwrap();
        let mut record = Record::default();
        record.reserve([Slot(0), Slot(1)]);
        let mut observed = Observed { folder: Folder::Empty, room: refused, ..Observed::default() };
        let usage = usage(&record);
        usage.limit(&desired, &mut observed, Timestamp::UNIX_EPOCH);
        let plan = plan(&desired, &observed, Timestamp::UNIX_EPOCH);
        usage.reserve(&mut record, &plan, &observed, refused.is_some());
        record.entries().count()
    };
    assert_eq!(left(&json!({}), None), 2, "its template is looked for");
    assert_eq!(left(&json!({}), Some(Room::NONE)), 0);
    assert_eq!(left(&json!({"paused": true}), None), 0);
}
