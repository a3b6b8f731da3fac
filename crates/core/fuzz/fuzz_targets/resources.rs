//! Any JSON as an object of one of Drover's kinds: what can be read is validated, looked at, planned for and told of, and what can't says
//! where.
#![no_main]

mod shown;

use drover_api::{Guarded, HostInfo, MyOwnShell, VCenter, VMInfo, VmGroup};
use drover_core::{
    Timestamp,
    names::Slot,
    shell,
    tenancy::{
        pattern::Pattern,
        quota::{Amount, Quota},
    },
    vmgroup::{
        Desired, Revision,
        extra_config::{self, Keys},
        identity::Made,
        inventory::Marker,
        record::{Incarnation, Record},
    },
};
use libfuzzer_sys::fuzz_target;
use serde::{Serialize, de::DeserializeOwned};
use shown::{Shown, reconcile};

fuzz_target!(|bytes: &[u8]| {
    if let Some(group) = read::<VmGroup>(bytes) {
        keep(&group);
    }
    if let Some(shell) = read::<MyOwnShell>(bytes) {
        keep_shell(&shell);
    }
    if let Some(vcenter) = read::<VCenter>(bytes) {
        keep_vcenter(&vcenter);
    }
    _ = read::<HostInfo>(bytes);
    _ = read::<VMInfo>(bytes);
});

/// Reads an object as the operator does. What was read is written and read again as the same.
fn read<K: DeserializeOwned + Serialize>(bytes: &[u8]) -> Option<K> {
    let Guarded(object) = serde_json::from_slice::<Guarded<K>>(bytes).ok()?;
    let object = object.map_err(|unreadable| assert!(!unreadable.why.is_empty())).ok()?;
    let once = serde_json::to_value(&object).expect("what was read can be written");
    let again: K = serde_json::from_value(once.clone()).expect("what was written can be read");
    assert_eq!(once, serde_json::to_value(&again).expect("and written again"));
    Some(object)
}

fn keep(group: &VmGroup) {
    let keys = group.spec.extra_config.keys();
    _ = extra_config::unwanted(keys.clone(), &Keys::default(), &extra_config::kept(group));
    _ = extra_config::to_keep(keys);
    let now = Timestamp::UNIX_EPOCH;
    let desired = match Desired::of(group) {
        Ok(desired) => desired,
        Err(invalid) => {
            _ = drover_core::vmgroup::status::invalid(group, &invalid, now);
            return;
        }
    };
    reconcile(group, &desired, &Shown::new(&desired, Vec::new()));
    reconcile(group, &desired, &Shown::new(&desired, members(group, &desired)));
}

/// VMs for some of the slots that the group's own record has, one of them twice.
fn members(group: &VmGroup, desired: &Desired) -> Vec<(Marker, String)> {
    let written = group.status.as_ref().and_then(|status| status.record.as_ref());
    let record = written.and_then(|record| Record::read(record).ok()).unwrap_or_default();
    let slots = record.entries().map(|(slot, entry)| (slot, entry.incarnation)).take(4);
    let slots: Vec<_> = slots.chain([(Slot(0), Incarnation(1))]).collect();
    let member = |(slot, incarnation): (Slot, Incarnation)| {
        let instance = drover_core::names::instance(&desired.marker_uid, slot, incarnation);
        let marker = Marker {
            group: desired.marker_uid.clone(),
            owner: (desired.namespace.clone(), desired.name.clone()),
            slot,
            revision: Revision(slot.0.into()),
            cluster: "cluster".to_owned(),
            made: Some(Made { instance: instance.clone(), incarnation }),
            storage_mib: Some(u64::MAX),
        };
        (marker, instance)
    };
    slots.into_iter().map(member).collect()
}

fn keep_shell(object: &MyOwnShell) {
    let now = Timestamp::UNIX_EPOCH;
    match shell::Desired::of(object) {
        Ok(desired) => {
            let seen = shell::Seen::default();
            let plan = shell::plan(&desired, &seen, "cluster.local", now);
            _ = shell::status::status(object, &desired, &seen, &plan, now);
        }
        Err(invalid) => _ = shell::status::invalid(object, &invalid, now),
    }
}

fn keep_vcenter(vcenter: &VCenter) {
    for allowed in &vcenter.spec.allow {
        for pattern in allowed.templates.iter().chain(&allowed.networks) {
            _ = Pattern::parse(pattern).map(|pattern| pattern.matches("/dc/vm/a folder/a template"));
        }
        if let Some(quota) = &allowed.quota {
            let quota = Quota::of(quota);
            _ = quota.and(quota).in_words(Amount::default());
        }
    }
}
