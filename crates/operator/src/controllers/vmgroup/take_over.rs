//! Groups that take over the VMs of an earlier group of their name. Nothing changes in vCenter: from then on, what the group's VMs are known
//! by follows from the earlier UID.

use std::collections::BTreeMap;

use drover_api::VmGroup;
use drover_core::{
    events::Event,
    reasons::EventReason,
    vmgroup::{
        Desired,
        recorded::is_kept_of,
        take_over::{Heir, Inheritance, TAKE_OVER_ANNOTATION, inherit},
    },
};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};
use tracing::info;

use super::Site;
use crate::{controllers::reconcile::Error, kube::status, telemetry::log::named, vcenter::mirror::Mirror};

/// Says what is to become of the VMs of earlier groups of this name. One that is being deleted leaves them to others.
pub(super) fn look(group: &VmGroup, desired: &Desired, mirror: &Mirror, cluster: &str) -> Inheritance {
    if desired.deletion.is_some() {
        return Inheritance::Settled;
    }
    let mut earlier = vms_of_name(mirror, desired, cluster);
    let own = earlier.remove(&desired.marker_uid);
    let status = group.status.as_ref();
    let was_said = status.is_some_and(|status| status.record.is_none() && status.current_replicas.unwrap_or(0) > 0);
    // A status may be from a backup, too: it proves nothing where only VMs of others are seen.
    let is_said = earlier.is_empty() && (is_kept_of(group) || was_said);
    inherit(Heir {
        uid: &desired.uid,
        taken_over: status.and_then(|status| status.marker_uid.as_deref()),
        asks: group.annotations().get(TAKE_OVER_ANNOTATION).map(String::as_str),
        has_members: own.is_some() || is_said,
        earlier: &earlier,
        replicas: desired.replicas,
    })
}

/// How many VMs there are of groups of this namespace and name in this cluster, by the groups' UIDs. Copies that somebody made of such VMs
/// carry their markers, and are nobody's.
fn vms_of_name(mirror: &Mirror, desired: &Desired, cluster: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (reference, machine) in mirror.machines.owned_by(&(desired.namespace.clone(), desired.name.clone())) {
        let Some(marker) = &machine.marker else { continue };
        if machine.is_of(&marker.group, cluster) && !mirror.is_proved_gone(reference) {
            *counts.entry(marker.group.clone()).or_default() += 1;
        }
    }
    counts
}

/// Writes down that the VMs of an earlier UID are the group's, before anything is done to them. What was written of VMs of its own is
/// empty, and goes. Returns whether it is written: another may have written since.
pub(super) async fn write(
    site: &Site<'_>,
    groups: &Api<VmGroup>,
    group: &VmGroup,
    marker_uid: &str,
) -> Result<bool, Error> {
    let difference = json!({"markerUID": marker_uid, "record": null});
    let is_meant = |now: &VmGroup| now.resource_version() == group.resource_version();
    let change = |status: &mut Map<String, Value>| status::merge(status, &difference);
    let Some(written) = site.context.vmgroups.latest.change(groups, group, is_meant, change).await? else {
        return Ok(false);
    };
    if written.status.as_ref().is_none_or(|status| status.marker_uid.is_none()) {
        return Err(Error::OldKind);
    }
    if Some(marker_uid) == group.metadata.uid.as_deref() {
        return Ok(true); // None are taken over.
    }
    info!(vmgroup = %named(group), vcenter = %site.live.name, uid = %marker_uid, "VMs of an earlier VmGroup taken over");
    let message = format!("the VMs of the earlier VmGroup of this name (UID {marker_uid}) belong to this VmGroup");
    site.context.events.tell(group, &[Event::normal(EventReason::VMsTakenOver, message)]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use drover_core::{
        Timestamp,
        names::{self, Slot},
        vmgroup::{Revision, identity::Made, inventory::Marker, record::Incarnation},
    };
    use vim25::ManagedObjectReference;

    use super::*;
    use crate::vcenter::machine::Machine;

    const OLD: &str = "0e6cb7b1";

    fn group(annotation: Option<&str>, status: &Value) -> VmGroup {
        let mut group: VmGroup = serde_json::from_value(json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
            "metadata": {"namespace": "ns", "name": "web", "uid": "new"},
            "spec": {"cpu": 1, "memory": 1, "replicas": 2, "template": "t"}, "status": status,
        }))
        .unwrap();
        let annotation = annotation.map(|value| (TAKE_OVER_ANNOTATION.to_owned(), value.to_owned()));
        group.annotations_mut().extend(annotation);
        group
    }

    /// A VM whose marker names this group, in the namespace and cluster.
    fn vm(uid: &str, namespace: &str, cluster: &str) -> Machine {
        let made = Made { instance: names::instance(uid, Slot(0), Incarnation(1)), incarnation: Incarnation(1) };
        let marker = Marker {
            group: uid.to_owned(),
            owner: (namespace.to_owned(), "web".to_owned()),
            slot: Slot(0),
            revision: Revision(0),
            cluster: cluster.to_owned(),
            made: Some(made.clone()),
            storage_mib: None,
        };
        Machine { marker: Some(Box::new(marker)), instance: Some(made.instance), ..Machine::new(Timestamp::UNIX_EPOCH) }
    }

    fn inherits(group: &VmGroup, vms: Vec<Machine>) -> Inheritance {
        let reference = |number: usize| ManagedObjectReference::new("VirtualMachine", format!("vm-{number}"));
        let mut mirror = Mirror::default();
        for (number, vm) in vms.into_iter().enumerate() {
            mirror.machines.insert(reference(number), vm);
        }
        look(group, &Desired::of(group).unwrap(), &mirror, "here")
    }

    #[test]
    fn only_vms_of_the_same_name_namespace_and_cluster_that_are_themselves_are_taken_over() {
        let heir = group(Some(OLD), &json!({}));
        assert_eq!(inherits(&heir, vec![vm(OLD, "ns", "here")]), Inheritance::TakeOver(OLD.to_owned()));
        let copy = Machine { instance: Some("its-own".to_owned()), ..vm(OLD, "ns", "here") };
        let template = Machine { is_template: true, ..vm(OLD, "ns", "here") };
        for others in
            [vm(OLD, "another", "here"), vm(OLD, "ns", "elsewhere"), vm("older", "ns", "here"), copy, template]
        {
            assert!(matches!(inherits(&heir, vec![others]), Inheritance::Unclear(_)));
        }
    }

    #[test]
    fn a_status_from_a_backup_makes_no_second_set_of_vms_and_hinders_no_take_over() {
        let restored = json!({"currentReplicas": 1, "record": {"incarnation": 1, "made": ["0@1"]}});
        let vms = || vec![vm(OLD, "ns", "here")];
        assert!(matches!(inherits(&group(None, &restored), vms()), Inheritance::Unclear(_)));
        assert_eq!(inherits(&group(Some(OLD), &restored), vms()), Inheritance::TakeOver(OLD.to_owned()));
        let own = || vms().into_iter().chain([vm("new", "ns", "here")]).collect();
        assert_eq!(inherits(&group(None, &restored), own()), Inheritance::Settled, "it has lived beside them before");
        assert_eq!(inherits(&group(None, &restored), Vec::new()), Inheritance::Settled, "its own are out of sight");
        let taken_over = json!({"markerUID": OLD});
        assert_eq!(inherits(&group(None, &taken_over), vms()), Inheritance::Settled);
        let mut leaving = group(Some(OLD), &json!({}));
        leaving.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        assert_eq!(inherits(&leaving, vms()), Inheritance::Settled, "one that goes takes nothing with it");
    }
}
