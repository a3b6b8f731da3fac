//! The table of faults, to be read from top to bottom.

use super::{NextStep, Remedy, Shortage};

/// What the table says of a fault by its own name.
pub(super) fn said_of(fault: &str) -> Option<NextStep> {
    TABLE.iter().find(|(faults, _)| faults.contains(&fault)).map(|(_, step)| *step)
}

/// A row holds for its faults and for all that extend them, but for those that have a row of their own.
const TABLE: &[(&[&str], NextStep)] = &[
    (&["ManagedObjectNotFound"], NextStep::LookAgain),
    // The machine may be in that state already, or in a third; only looking tells.
    (&["InvalidPowerState"], NextStep::LookAgain),
    (&["TaskInProgress", "ConcurrentAccess", "HostCommunication"], NextStep::LookAgain),
    (&["ResourceInUse", "FileLocked", "ToolsUnavailable"], NextStep::LookAgain),
    // Somebody cancelled it. What is declared hasn't changed.
    (&["RequestCanceled"], NextStep::LookAgain),
    (&["DuplicateName"], NextStep::AdoptOrConflict),
    // It extends `NoPermission`, but no right is missing.
    (&["NotAuthenticated"], NextStep::LogIn),
    (&["NoPermission"], NextStep::AwaitUser(Remedy::Privileges)),
    (&["InvalidLogin"], NextStep::AwaitUser(Remedy::Secret)),
    (&["NoDiskSpace", "InsufficientStorageSpace"], NextStep::AwaitRoom(Shortage::DiskSpace)),
    (&["InsufficientCpuResourcesFault", "InsufficientHostCpuCapacityFault"], NextStep::AwaitRoom(Shortage::Cpu)),
    (&["InsufficientPerCpuCapacity", "InsufficientStandbyCpuResource"], NextStep::AwaitRoom(Shortage::Cpu)),
    (&["InsufficientMemoryResourcesFault"], NextStep::AwaitRoom(Shortage::Memory)),
    (&["InsufficientHostMemoryCapacityFault"], NextStep::AwaitRoom(Shortage::Memory)),
    (&["InsufficientStandbyMemoryResource"], NextStep::AwaitRoom(Shortage::Memory)),
    (&["InsufficientNetworkCapacity"], NextStep::AwaitRoom(Shortage::Network)),
    (&["InsufficientNetworkResourcePoolCapacity"], NextStep::AwaitRoom(Shortage::Network)),
    (&["InsufficientFailoverResourcesFault"], NextStep::AwaitRoom(Shortage::FailoverCapacity)),
    (&["NoCompatibleHost", "NoActiveHostInCluster"], NextStep::AwaitRoom(Shortage::SuitableHosts)),
    (&["InsufficientResourcesFault"], NextStep::AwaitRoom(Shortage::Resources)),
    (&["InvalidArgument", "InvalidName", "InvalidDatastore", "InvalidFolder"], NextStep::AwaitUser(Remedy::Spec)),
    (&["InvalidVmConfig", "VirtualHardwareCompatibilityIssue"], NextStep::AwaitUser(Remedy::Spec)),
    (&["NotSupported", "DatacenterMismatch", "SnapshotCopyNotSupported"], NextStep::AwaitUser(Remedy::Spec)),
    (&["QuestionPending", "NotEnoughLicenses"], NextStep::AwaitUser(Remedy::Vcenter)),
    (&["RestrictedByAdministrator", "MethodDisabled"], NextStep::AwaitUser(Remedy::Vcenter)),
];
