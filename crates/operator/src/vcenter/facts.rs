//! What vCenter tells of a machine for people to read, and that no plan is made from.

use drover_core::group::Timestamp;
use vim25::{
    ManagedObjectReference, Result,
    props::virtual_machine as vm,
    types::{ObjectUpdate, PropertySpec, VirtualMachineSnapshotTree},
};

/// What people read of a machine. What is not known is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub guest: Option<String>,
    pub hardware_version: Option<String>,
    /// MHz.
    pub reserved_cpu: Option<i64>,
    /// MiB.
    pub reserved_memory: Option<i64>,
    pub config_file: Option<String>,
    pub uuid: Option<String>,
    pub instance_uuid: Option<String>,
    pub is_template: bool,
    pub host: Option<ManagedObjectReference>,
    pub datastores: Vec<ManagedObjectReference>,
    /// The vApp that it is in, instead of a folder.
    pub v_app: Option<ManagedObjectReference>,
    pub addresses: Vec<String>,
    pub guest_name: Option<String>,
    pub tools: Option<String>,
    pub tools_version: Option<String>,
    pub booted: Option<Timestamp>,
    pub snapshots: i64,
    /// MHz.
    pub cpu_use: Option<i64>,
    /// MiB.
    pub memory_use: Option<i64>,
    /// Whether its host answers for it: connected, disconnected, orphaned and others.
    pub connection: Option<String>,
    /// vCenter's own judgement: green, yellow, red or gray.
    pub health: Option<String>,
    /// What it waits for an answer to, and doesn't run until it has one.
    pub question: Option<String>,
}

/// The properties that the facts are made from.
pub(crate) fn properties() -> PropertySpec {
    let mut all = configuration();
    let others = PropertySpec::of(&[
        &vm::RUNTIME_HOST,
        &vm::DATASTORE,
        &vm::PARENT_V_APP,
        &vm::GUEST_NET,
        &vm::GUEST_HOST_NAME,
        &vm::GUEST_TOOLS_VERSION_STATUS2,
        &vm::SUMMARY_RUNTIME_BOOT_TIME,
        &vm::SNAPSHOT,
        &vm::SUMMARY_QUICK_STATS_OVERALL_CPU_USAGE,
        &vm::SUMMARY_QUICK_STATS_GUEST_MEMORY_USAGE,
        &vm::RUNTIME_CONNECTION_STATE,
        &vm::OVERALL_STATUS,
        &vm::RUNTIME_QUESTION,
    ]);
    all.path_set.extend(others.path_set);
    all
}

/// Those of them that not every vCenter tells changes of.
pub(crate) fn configuration() -> PropertySpec {
    PropertySpec::of(&[
        &vm::CONFIG_GUEST_ID,
        &vm::CONFIG_VERSION,
        &vm::CONFIG_CPU_ALLOCATION,
        &vm::CONFIG_MEMORY_ALLOCATION,
        &vm::CONFIG_FILES_VM_PATH_NAME,
        &vm::CONFIG_UUID,
        &vm::CONFIG_INSTANCE_UUID,
        &vm::CONFIG_TEMPLATE,
    ])
}

impl Facts {
    /// Takes up what vCenter told.
    pub(crate) fn change(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        self.change_configuration(update)?;
        self.change_place(update)?;
        self.change_guest(update)?;
        self.change_state(update)
    }

    fn change_configuration(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(guest) = update.take(vm::CONFIG_GUEST_ID)? {
            self.guest = guest;
        }
        if let Some(version) = update.take(vm::CONFIG_VERSION)? {
            self.hardware_version = version;
        }
        if let Some(cpu) = update.take(vm::CONFIG_CPU_ALLOCATION)? {
            self.reserved_cpu = cpu.and_then(|cpu| cpu.reservation);
        }
        if let Some(memory) = update.take(vm::CONFIG_MEMORY_ALLOCATION)? {
            self.reserved_memory = memory.and_then(|memory| memory.reservation);
        }
        if let Some(file) = update.take(vm::CONFIG_FILES_VM_PATH_NAME)? {
            self.config_file = file;
        }
        if let Some(uuid) = update.take(vm::CONFIG_UUID)? {
            self.uuid = uuid;
        }
        if let Some(uuid) = update.take(vm::CONFIG_INSTANCE_UUID)? {
            self.instance_uuid = uuid;
        }
        if let Some(template) = update.take(vm::CONFIG_TEMPLATE)? {
            self.is_template = template.unwrap_or(false);
        }
        Ok(())
    }

    fn change_place(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(host) = update.take(vm::RUNTIME_HOST)? {
            self.host = host.map(Into::into);
        }
        if let Some(datastores) = update.take(vm::DATASTORE)? {
            self.datastores = datastores.unwrap_or_default().into_iter().map(Into::into).collect();
        }
        if let Some(v_app) = update.take(vm::PARENT_V_APP)? {
            self.v_app = v_app.map(Into::into);
        }
        Ok(())
    }

    fn change_guest(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(cards) = update.take(vm::GUEST_NET)? {
            self.addresses = cards.unwrap_or_default().into_iter().flat_map(|card| card.ip_address).collect();
        }
        if let Some(name) = update.take(vm::GUEST_HOST_NAME)? {
            self.guest_name = name.filter(|name| !name.is_empty());
        }
        if let Some(version) = update.take(vm::GUEST_TOOLS_VERSION_STATUS2)? {
            self.tools_version = version;
        }
        Ok(())
    }

    fn change_state(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(booted) = update.take(vm::SUMMARY_RUNTIME_BOOT_TIME)? {
            self.booted = booted;
        }
        if let Some(snapshots) = update.take(vm::SNAPSHOT)? {
            self.snapshots = snapshots.map_or(0, |snapshots| count(&snapshots.root_snapshot_list));
        }
        if let Some(cpu) = update.take(vm::SUMMARY_QUICK_STATS_OVERALL_CPU_USAGE)? {
            self.cpu_use = cpu.map(Into::into);
        }
        if let Some(memory) = update.take(vm::SUMMARY_QUICK_STATS_GUEST_MEMORY_USAGE)? {
            self.memory_use = memory.map(Into::into);
        }
        if let Some(connection) = update.take(vm::RUNTIME_CONNECTION_STATE)? {
            self.connection = connection.map(|connection| connection.to_string());
        }
        if let Some(health) = update.take(vm::OVERALL_STATUS)? {
            self.health = health.map(|health| health.to_string());
        }
        if let Some(question) = update.take(vm::RUNTIME_QUESTION)? {
            self.question = question.map(|question| question.text);
        }
        Ok(())
    }
}

/// How many snapshots there are in a tree.
fn count(trees: &[VirtualMachineSnapshotTree]) -> i64 {
    trees.iter().map(|tree| 1 + count(&tree.child_snapshot_list)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_counted_with_those_that_build_on_them() {
        let tree = |children| VirtualMachineSnapshotTree { child_snapshot_list: children, ..Default::default() };
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[tree(vec![tree(vec![]), tree(vec![tree(vec![])])]), tree(vec![])]), 5);
    }
}
