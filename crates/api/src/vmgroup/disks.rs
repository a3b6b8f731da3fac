//! The disks of a group's machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// Disk that each VM has from the template.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RootDisk {
    /// Size of the disk, in GiB: at least that of the template's disk. The guest has to grow its file system by itself, as cloud-init does.
    /// Default: the template's.
    #[serde(rename = "sizeGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = bounds::DISK_GIB))]
    pub size_gib: Option<i32>,
    /// Provisioning of the disk. `Thin`: space is taken from the datastore as the guest writes. `Thick`: all space is taken at
    /// once, and zeroed as the guest writes. `EagerZeroed`: all space is taken and zeroed at once, which makes the clone slower.
    /// Default: the template's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Provisioning")]
    pub provisioning: Option<Provisioning>,
}

impl RootDisk {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Provisioning of a disk.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Provisioning {
    /// Space is taken as the guest writes.
    Thin,
    /// All space is taken at once.
    Thick,
    /// All space is taken and zeroed at once.
    EagerZeroed,
}
