//! A machine as vCenter tells of it.

use drover_core::{
    Timestamp,
    names::Slot,
    vmgroup::{
        Hardware, HotAdd, Power,
        inventory::{Marker, Since},
    },
};
use smol_str::SmolStr;
use vim25::{
    ManagedObjectReference, Property, Result,
    enums::VirtualMachinePowerState,
    props::virtual_machine as vm,
    refs::{VirtualMachineRef, VirtualMachineSnapshotRef},
    types::{AnyVirtualDevice, ObjectUpdate, PropertySpec, VirtualDisk},
};

use super::{
    facts::{self, Facts},
    marker::{self, Keys},
};

/// A machine as vCenter last told of it.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub name: String,
    pub parent: Option<ManagedObjectReference>,
    /// As it was last read: what can't be read now has not changed for that.
    pub marker: Option<Box<Marker>>,
    pub(crate) keys: Keys,
    /// Its instance UUID, as it was last read.
    pub instance: Option<String>,
    pub is_template: bool,
    /// Whether its host answers for it: connected, disconnected, orphaned and others.
    pub connection: Option<SmolStr>,
    /// Whether its configuration is there to be read: not while it is made, without its storage, or without the right to.
    pub config_access: ConfigAccess,
    /// Since when it has not been both connected and readable.
    pub unreachable_since: Option<Timestamp>,
    pub hardware: Hardware,
    /// Capacity of its disks, in MiB, where that was read because its marker doesn't say.
    pub disks_mib: Option<u64>,
    pub were_disks_read: bool,
    pub hot_add: HotAdd,
    pub power: Power,
    pub tools_running: bool,
    pub address: Option<String>,
    /// Since when it has been powered on, its tools have run and it has had an address: as seen from here, or, where it was so
    /// at first sight, since it was started.
    pub since: Since,
    /// When it was made, or first seen where vCenter doesn't know.
    pub created: Timestamp,
    pub facts: Facts,
}

/// What of a machine's configuration can be read now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigAccess {
    /// vCenter has one to show.
    is_there: bool,
    /// Drover may not read all of it.
    is_refused: bool,
}

/// The snapshot that linked clones of it are made from.
pub(super) const CURRENT_SNAPSHOT: Property<VirtualMachineRef, VirtualMachineSnapshotRef> =
    Property::new("snapshot.currentSnapshot");

/// The properties that it is made from.
pub(super) fn properties() -> PropertySpec {
    let mut all = PropertySpec::of(&[
        &CURRENT_SNAPSHOT,
        &vm::NAME,
        &vm::PARENT,
        &vm::CONFIG_INSTANCE_UUID,
        &vm::CONFIG_TEMPLATE,
        &vm::CONFIG_CHANGE_VERSION,
        &vm::CONFIG_HARDWARE_NUM_CPU,
        &vm::CONFIG_HARDWARE_MEMORY_MB,
        &vm::CONFIG_CPU_HOT_ADD_ENABLED,
        &vm::CONFIG_MEMORY_HOT_ADD_ENABLED,
        &vm::CONFIG_HOT_PLUG_MEMORY_LIMIT,
        &vm::CONFIG_HOT_PLUG_MEMORY_INCREMENT_SIZE,
        &vm::RUNTIME_POWER_STATE,
        &vm::RUNTIME_CONNECTION_STATE,
        &vm::GUEST_TOOLS_RUNNING_STATUS,
        &vm::GUEST_IP_ADDRESS,
    ]);
    all.path_set.extend(marker_paths());
    all.path_set.extend(facts::properties().path_set);
    all
}

/// The properties of machines that not every vCenter tells changes of.
pub(crate) fn untold_properties() -> PropertySpec {
    let mut all = PropertySpec::of(&[
        &vm::CONFIG_HARDWARE_NUM_CPU,
        &vm::CONFIG_HARDWARE_MEMORY_MB,
        &vm::CONFIG_INSTANCE_UUID,
        &vm::CONFIG_TEMPLATE,
    ]);
    all.path_set.extend(marker_paths());
    all.path_set.extend(facts::configuration().path_set);
    all
}

fn marker_paths() -> impl Iterator<Item = String> {
    marker::PROPERTIES.iter().map(|property| property.path().to_owned())
}

/// Capacity of the disks among devices, in MiB.
pub(crate) fn disks_mib(devices: &[AnyVirtualDevice]) -> u64 {
    let disks = devices.iter().filter_map(|device| device.downcast_ref::<VirtualDisk>());
    let kib = disks.map(|disk| u64::try_from(disk.capacity_in_kb).unwrap_or(0)).fold(0, u64::saturating_add);
    kib.div_ceil(1024)
}

/// A power state as vCenter tells it.
pub(crate) fn power_of(state: Option<&VirtualMachinePowerState>) -> Power {
    match state {
        Some(VirtualMachinePowerState::PoweredOn) => Power::On,
        Some(VirtualMachinePowerState::Suspended) => Power::Suspended,
        _ => Power::Off,
    }
}

impl Machine {
    /// A machine of which nothing is known yet.
    pub(crate) fn new(created: Timestamp) -> Self {
        Self {
            name: String::new(),
            parent: None,
            marker: None,
            keys: Keys::default(),
            instance: None,
            is_template: false,
            connection: None,
            config_access: ConfigAccess::default(),
            unreachable_since: None,
            hardware: Hardware::default(),
            disks_mib: None,
            were_disks_read: false,
            hot_add: HotAdd::default(),
            power: Power::Off,
            tools_running: false,
            address: None,
            since: Since::default(),
            created,
            facts: Facts::default(),
        }
    }

    /// Its place in its group, if its marker was written for it.
    pub(crate) fn slot(&self) -> Option<Slot> {
        let marker = self.marker.as_ref().filter(|_| !self.is_template)?;
        let is_own = marker.made.as_ref().is_some_and(|made| self.instance.as_ref() == Some(&made.instance));
        is_own.then_some(marker.slot)
    }

    /// Capacity of its disks, in MiB, where that is known.
    pub(crate) fn storage_mib(&self) -> Option<u64> {
        self.marker.as_ref().and_then(|marker| marker.storage_mib).or(self.disks_mib)
    }

    /// Whether nobody has tried yet to read what its marker doesn't say of its disks.
    pub(crate) fn has_unread_disks(&self) -> bool {
        !self.were_disks_read && self.storage_mib().is_none()
    }

    /// Takes up what tells it from all others. What vCenter can't show now, or doesn't let be read, stays as it was.
    pub(super) fn change_identity(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        let is_of_config = |path: &str| path.starts_with("config");
        if update.missing_set.iter().any(|missing| is_of_config(&missing.path)) {
            self.config_access.is_refused = true;
        } else if update.change_set.iter().any(|change| is_of_config(&change.name) && change.val.is_some()) {
            self.config_access.is_refused = false;
        }
        if let Some(instance) = update.take(vm::CONFIG_INSTANCE_UUID)? {
            self.config_access.is_there = instance.is_some();
            // It is compared with markers and records, and can be written in two ways.
            let instance = instance.map(|uuid| uuid.to_ascii_lowercase());
            self.instance = instance.or(self.instance.take());
        }
        if let Some(template) = update.take(vm::CONFIG_TEMPLATE)? {
            self.is_template = template.unwrap_or(self.is_template);
        }
        if let Some(connection) = update.take(vm::RUNTIME_CONNECTION_STATE)? {
            self.connection = connection.map(|connection| connection.to_string().into());
        }
        self.keys.change(update, self.config_access.is_there && self.is_connected())?;
        self.marker = self.keys.marker().map(Box::new);
        Ok(())
    }

    /// Takes up its hardware, and says whether it was told.
    pub(super) fn change_hardware(&mut self, update: &mut ObjectUpdate) -> Result<bool> {
        let cpus = update.take(vm::CONFIG_HARDWARE_NUM_CPU)?.flatten();
        let memory = update.take(vm::CONFIG_HARDWARE_MEMORY_MB)?.flatten();
        let has_hardware = cpus.is_some() || memory.is_some();
        if let Some(cpus) = cpus {
            self.hardware.cpus = u32::try_from(cpus).unwrap_or(0);
        }
        if let Some(memory) = memory {
            self.hardware.memory_mib = u64::try_from(memory).unwrap_or(0);
        }
        if let Some(enabled) = update.take(vm::CONFIG_CPU_HOT_ADD_ENABLED)? {
            self.hot_add.cpus = enabled.unwrap_or(false);
        }
        if let Some(enabled) = update.take(vm::CONFIG_MEMORY_HOT_ADD_ENABLED)? {
            self.hot_add.memory = enabled.unwrap_or(false);
        }
        if let Some(limit) = update.take(vm::CONFIG_HOT_PLUG_MEMORY_LIMIT)? {
            self.hot_add.memory_limit_mib =
                limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0);
        }
        if let Some(step) = update.take(vm::CONFIG_HOT_PLUG_MEMORY_INCREMENT_SIZE)? {
            self.hot_add.memory_step_mib = step.and_then(|step| u64::try_from(step).ok());
        }
        Ok(has_hardware)
    }

    /// Takes up how it runs.
    pub(super) fn change_state(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(power) = update.take(vm::RUNTIME_POWER_STATE)? {
            self.power = power_of(power.as_ref());
        }
        if let Some(tools) = update.take(vm::GUEST_TOOLS_RUNNING_STATUS)? {
            self.tools_running = tools.as_deref() == Some("guestToolsRunning");
            self.facts.tools = tools.map(Into::into);
        }
        if let Some(address) = update.take(vm::GUEST_IP_ADDRESS)? {
            self.address = address.filter(|address| !address.is_empty());
        }
        Ok(())
    }

    /// vCenter doesn't let it be read.
    pub(super) fn note_unreadable(&mut self, now: Timestamp) {
        self.config_access.is_refused = true;
        self.note_reach(now);
    }

    /// Whether enough of its configuration has been read to know whose it is.
    pub(crate) fn is_told(&self) -> bool {
        self.instance.is_some() && (self.marker.is_some() || !self.config_access.is_refused)
    }

    fn is_connected(&self) -> bool {
        self.connection.as_deref().is_none_or(|state| state == "connected")
    }

    pub(super) fn note_reach(&mut self, now: Timestamp) {
        let is_reached =
            self.is_connected() && self.config_access == ConfigAccess { is_there: true, is_refused: false };
        self.unreachable_since = if is_reached { None } else { self.unreachable_since.or(Some(now)) };
    }
}
