//! The template's first disk, as a group's clones are to have it.

use drover_api::{
    VmGroupSpec,
    vmgroup::{Provisioning, RootDisk},
};
use vim25::{
    enums::VirtualDeviceConfigSpecOperation,
    refs::DatastoreRef,
    types::{
        AnyVirtualDevice, AnyVirtualDeviceBackingInfo, VirtualDeviceConfigSpec, VirtualDeviceFileBackingInfo,
        VirtualDisk, VirtualDiskFlatVer2BackingInfo, VirtualMachineRelocateSpecDiskLocator,
    },
};

use super::source::Unusable;
use crate::vcenter::{source::RootDiskChange, templates::TemplateDetails};

const KIB_PER_GIB: i64 = 1024 * 1024;

/// What has to change of the template's first disk. Clones go to this datastore, or to the template's own.
pub(super) fn change(
    template: &TemplateDetails,
    datastore: Option<&DatastoreRef>,
    spec: &VmGroupSpec,
) -> Result<RootDiskChange, Unusable> {
    if spec.root_disk == RootDisk::default() {
        return Ok(RootDiskChange::default());
    }
    let none = || Unusable::Field("rootDisk", format!("{} has no disk", spec.template));
    let disk = template.root_disk.as_ref().ok_or_else(none)?;
    let growth = match spec.root_disk.size_gib {
        Some(size) => growth(disk, size.into(), &spec.template)?,
        None => None,
    };
    let locator = match spec.root_disk.provisioning {
        Some(provisioning) => Some(locator(disk, datastore, provisioning, &spec.template)?),
        None => None,
    };
    Ok(RootDiskChange { growth, locator })
}

/// Has a clone's disk grow to a size. vSphere makes none smaller.
fn growth(disk: &VirtualDisk, size_gib: i64, template: &str) -> Result<Option<VirtualDeviceConfigSpec>, Unusable> {
    let kib = size_gib * KIB_PER_GIB;
    if kib < disk.capacity_in_kb {
        let least = disk.capacity_in_kb.unsigned_abs().div_ceil(KIB_PER_GIB.unsigned_abs());
        let why =
            format!("the disk of {template} has {least} GiB, and a clone's can't be smaller: give {least} or more");
        return Err(Unusable::Field("rootDisk.sizeGiB", why));
    }
    let grown = VirtualDisk { capacity_in_kb: kib, capacity_in_bytes: Some(kib * 1024), ..disk.clone() };
    let operation = Some(VirtualDeviceConfigSpecOperation::Edit);
    let change = VirtualDeviceConfigSpec { operation, device: AnyVirtualDevice::from(grown), ..Default::default() };
    Ok((kib > disk.capacity_in_kb).then_some(change))
}

/// Has a clone's disk provisioned. vSphere wants to be told where it goes, too.
fn locator(
    disk: &VirtualDisk,
    datastore: Option<&DatastoreRef>,
    provisioning: Provisioning,
    template: &str,
) -> Result<VirtualMachineRelocateSpecDiskLocator, Unusable> {
    let own = || disk.base.backing.as_ref()?.downcast_ref::<VirtualDeviceFileBackingInfo>()?.datastore.clone();
    let unknown = || {
        Unusable::Field(
            "rootDisk.provisioning",
            format!("vCenter doesn't say which datastore the disk of {template} is on: set placement.datastore"),
        )
    };
    let datastore = datastore.cloned().or_else(own).ok_or_else(unknown)?;
    let backing = VirtualDiskFlatVer2BackingInfo {
        disk_mode: "persistent".to_owned(),
        thin_provisioned: Some(provisioning == Provisioning::Thin),
        eagerly_scrub: Some(provisioning == Provisioning::EagerZeroed),
        ..Default::default()
    };
    let backing = AnyVirtualDeviceBackingInfo::VirtualDiskFlatVer2BackingInfo(Box::new(backing));
    Ok(VirtualMachineRelocateSpecDiskLocator {
        disk_id: disk.base.key,
        datastore,
        disk_backing_info: Some(backing),
        ..Default::default()
    })
}

impl RootDiskChange {
    /// How much larger a clone's disk is than the template's, in MiB.
    pub(super) fn growth_mib(&self, template: &TemplateDetails) -> u64 {
        let kib = |disk: &VirtualDisk| u64::try_from(disk.capacity_in_kb).unwrap_or(0);
        let grown = self.growth.as_ref().and_then(|growth| growth.device.downcast_ref::<VirtualDisk>()).map_or(0, kib);
        grown.saturating_sub(template.root_disk.as_ref().map_or(0, kib)) / 1024
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use vim25::types::VirtualDevice;

    use super::*;

    /// What becomes of a disk of 10 GiB on a datastore.
    fn changed(root_disk: &Value, datastore: Option<&str>) -> Result<(RootDiskChange, u64), String> {
        let backing = VirtualDiskFlatVer2BackingInfo {
            base: VirtualDeviceFileBackingInfo { datastore: datastore.map(DatastoreRef::new), ..Default::default() },
            ..Default::default()
        };
        let base = VirtualDevice {
            key: 2000,
            backing: Some(AnyVirtualDeviceBackingInfo::VirtualDiskFlatVer2BackingInfo(Box::new(backing))),
            ..Default::default()
        };
        let disk = VirtualDisk { base, capacity_in_kb: 10 * KIB_PER_GIB, ..Default::default() };
        let template = TemplateDetails { root_disk: Some(disk), ..Default::default() };
        let spec = json!({"cpu": 1, "memory": 1, "replicas": 1, "template": "t", "rootDisk": root_disk});
        let change = change(&template, None, &serde_json::from_value(spec).unwrap());
        change.map(|change| (change.clone(), change.growth_mib(&template))).map_err(|error| error.to_string())
    }

    #[test]
    fn a_disk_grows_to_the_size_that_is_given_and_never_shrinks() {
        let (same, more) = changed(&json!({"sizeGiB": 10}), None).unwrap();
        assert_eq!((same, more), (RootDiskChange::default(), 0));
        let (grown, more) = changed(&json!({"sizeGiB": 40}), None).unwrap();
        let growth = grown.growth.unwrap();
        let disk = growth.device.downcast_ref::<VirtualDisk>().unwrap();
        assert_eq!((disk.base.key, disk.capacity_in_kb, disk.capacity_in_bytes), (2000, 40 << 20, Some(40 << 30)));
        assert_eq!(more, 30 << 10);
        let refused = changed(&json!({"sizeGiB": 9}), None).unwrap_err();
        assert_eq!(
            refused,
            "spec.rootDisk.sizeGiB: the disk of t has 10 GiB, and a clone's can't be smaller: give 10 or more"
        );
    }

    #[test]
    fn a_disk_is_provisioned_where_the_templates_is_unless_something_else_is_said() {
        let (change, more) = changed(&json!({"provisioning": "EagerZeroed"}), Some("ds-1")).unwrap();
        let locator = change.locator.unwrap();
        assert_eq!((locator.disk_id, locator.datastore, more), (2000, DatastoreRef::new("ds-1"), 0));
        let backing = locator.disk_backing_info.unwrap();
        let flat = backing.downcast_ref::<VirtualDiskFlatVer2BackingInfo>().unwrap();
        assert_eq!((flat.thin_provisioned, flat.eagerly_scrub), (Some(false), Some(true)));
        let refused = changed(&json!({"provisioning": "Thin"}), None).unwrap_err();
        assert!(refused.contains("set placement.datastore"), "{refused}");
    }
}
