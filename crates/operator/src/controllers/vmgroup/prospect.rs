//! How much room a group would find in the quota of its namespace, for those who ask before anything is done. Nothing is reserved here, and what
//! is queued is not known.

use std::collections::{BTreeSet, HashSet};

use drover_api::VmGroup;
use drover_core::{
    Timestamp, plan,
    tenancy::quota::{Amount, Reserved, grant},
    vmgroup::{Desired, Folder, Observed, Size, record::Record, take_over::marker_uid},
};

use super::usage::member;
use crate::{controllers::binding::BoundVCenter, vcenter::mirror::Mirror};

/// What a namespace has in a vCenter where it has a quota.
pub(crate) struct Prospect<'a> {
    bound: &'a BoundVCenter,
    namespace: String,
    used: Amount,
    own: Reserved,
    storage_mib: u64,
}

impl<'a> Prospect<'a> {
    /// Looks at what there is, by what the mirror shows and the statuses of the namespace's groups say. `own` is the group that asks, with the
    /// capacity of a clone's disks. `None`: there is no quota.
    pub(crate) fn of<'g>(
        bound: &'a BoundVCenter,
        mirror: &Mirror,
        cluster: &str,
        namespace: &str,
        groups: impl IntoIterator<Item = &'g VmGroup>,
        own: Option<(&Desired, u64)>,
    ) -> Option<Self> {
        bound.quota?;
        let size = own.map(|(own, storage_mib)| Size { hardware: own.hardware, storage_mib }).unwrap_or_default();
        let (mut used, mut seen) = (Amount::default(), HashSet::new());
        let machines = mirror.machines.values().filter_map(|machine| Some((machine, member(machine, cluster)?)));
        for (machine, (_, known)) in machines.filter(|(_, (of, _))| *of == namespace) {
            seen.insert(known);
            let storage_mib = machine.storage_mib().unwrap_or(0);
            used = used.plus(Amount::of(Size { hardware: machine.hardware, storage_mib }));
        }
        let nothing = Reserved { kept: BTreeSet::new(), free: BTreeSet::new(), each: size };
        let mut prospect =
            Self { bound, namespace: namespace.to_owned(), used, own: nothing, storage_mib: size.storage_mib };
        for group in groups {
            let Some(status) = group.status.as_ref().filter(|_| group.metadata.namespace.as_deref() == Some(namespace))
            else {
                continue;
            };
            let Some(record) = status.record.as_ref().filter(|_| status.vcenter.as_ref() == Some(&bound.live.name))
            else {
                continue;
            };
            let uid = marker_uid(group);
            let is_own = own.is_some_and(|(own, _)| own.marker_uid == uid);
            let hardware = Desired::of(group).map(|desired| desired.hardware).unwrap_or_default();
            let declared = if is_own { size } else { Size { hardware, storage_mib: 0 } };
            let is_seen = |slot, incarnation| seen.contains(&(uid.as_str(), slot, incarnation));
            let Ok(record) = Record::read(record) else { continue };
            let reserved = Reserved::of(&record, declared, is_seen, |_| !is_own);
            prospect.used = prospect.used.plus(reserved.amount());
            if is_own {
                prospect.own = reserved;
            }
        }
        Some(prospect)
    }

    /// What is used, with its limits.
    pub(crate) fn in_words(&self) -> String {
        let Some(terms) = self.bound.quota else { return "none".to_owned() };
        let used = terms.quota.in_words(self.used);
        if terms.is_enforced { format!("{used} are used") } else { format!("{used} are used; more is not refused") }
    }

    /// Leaves the group as much room as there is, where more is refused, and says what would wait.
    pub(crate) fn limit(&self, desired: &Desired, observed: &mut Observed, now: Timestamp) -> Option<String> {
        // One that may have nothing new is told why.
        let terms = self.bound.quota.filter(|_| observed.room.is_none())?;
        let (room, reserved) = grant(terms.quota, self.used, &self.own, self.storage_mib, desired, observed, now);
        let mut limited = Observed { room: Some(room), reserved, ..observed.clone() };
        // A plan has no VMs before it has a folder.
        let folder = observed.folder;
        limited.folder = if folder == Folder::Absent { Folder::Empty } else { folder };
        let waiting = plan(desired, &limited, now).held_back;
        if terms.is_enforced {
            *observed = Observed { folder, ..limited };
        }
        (waiting > 0).then(|| terms.foretold(&self.bound.live.name, &self.namespace, self.used, waiting))
    }
}
