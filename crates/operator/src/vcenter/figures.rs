//! How much hosts and machines use. vCenter doesn't tell when that changes, so it is asked.

use std::collections::BTreeSet;

use tracing::warn;
use vim25::{
    FromAny, ManagedObject, ManagedObjectReference, Property,
    props::{host_system as host, virtual_machine as vm},
    types::{ObjectContent, ObjectSpec, PropertyFilterSpec, PropertySpec},
};

use super::{Trigger, VCenterHandle, inventory_names::Concerned, mirror::Mirror, property::Unset};

/// How much a host or a machine used when vCenter was asked. What vCenter didn't say is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// MHz.
    pub cpu: Option<i64>,
    /// MiB.
    pub memory: Option<i64>,
}

impl VCenterHandle {
    /// Asks vCenter, in one call, how much these hosts and machines use. Whoever shows one that has moved is told.
    pub(crate) async fn read_figures(&self, objects: BTreeSet<ManagedObjectReference>) {
        let filter = filter(objects);
        let found = tokio::select! {
            found = self.client.retrieve(vec![filter]) => found,
            () = self.retirement() => return,
        };
        let found = match found {
            Ok(found) => found,
            // What was read last stays, and all of it is read again in a minute.
            Err(error) => return warn!(vcenter = %self.name, %error, "Usage figures not read"),
        };
        let mut concerned = Concerned::default();
        {
            let mut mirror = self.mirror();
            for content in found {
                mirror.take_figures(content, &mut concerned);
            }
        }
        if !concerned.is_nobody() {
            self.trigger(Trigger::Infos(self.name.clone(), concerned));
        }
    }
}

/// Both kinds in one filter. One of them that is gone doesn't fail the others.
fn filter(objects: BTreeSet<ManagedObjectReference>) -> PropertyFilterSpec {
    let machines = PropertySpec::of(&[
        &vm::SUMMARY_QUICK_STATS_OVERALL_CPU_USAGE,
        &vm::SUMMARY_QUICK_STATS_GUEST_MEMORY_USAGE,
        &vm::OVERALL_STATUS,
    ]);
    let hosts = PropertySpec::of(&[
        &host::SUMMARY_QUICK_STATS_OVERALL_CPU_USAGE,
        &host::SUMMARY_QUICK_STATS_OVERALL_MEMORY_USAGE,
        &host::OVERALL_STATUS,
    ]);
    let object_set = objects.into_iter().map(|obj| ObjectSpec { obj, ..ObjectSpec::default() }).collect();
    PropertyFilterSpec { prop_set: vec![machines, hosts], object_set, report_missing_objects_in_results: Some(true) }
}

impl Mirror {
    /// Takes up what vCenter answered about a host or a machine.
    fn take_figures(&mut self, mut content: ObjectContent, concerned: &mut Concerned) {
        let object = content.obj.clone();
        let (cpu, memory) = (number(&mut content, vm::SUMMARY_QUICK_STATS_OVERALL_CPU_USAGE), memory(&mut content));
        let judged = take(&mut content, vm::OVERALL_STATUS).map(|health| health.to_string().into());
        let (figures, health, connection) = if let Some(machine) = self.machines.get_unplaced(&object) {
            (&mut machine.facts.figures, &mut machine.facts.health, &machine.connection)
        } else if let Some(host) = self.hosts.get_mut(&object) {
            (&mut host.figures, &mut host.health, &host.connection)
        } else {
            // It has gone in the meantime.
            return;
        };
        let last = match Unset::of(connection.as_deref()) {
            Unset::None => Figures::default(),
            Unset::Unknown => figures.as_deref().copied().unwrap_or_default(),
        };
        let read = Some(Box::new(Figures { cpu: cpu.or(last.cpu), memory: memory.or(last.memory) }));
        let has_moved = *figures != read || judged.is_some() && *health != judged;
        *figures = read;
        *health = judged.or_else(|| health.take());
        if has_moved {
            self.concern_machine(&object, concerned);
            self.concern_host(&object, concerned);
        }
    }

    /// Forgets the figures of what nobody looks at any more: they would be old when somebody does again.
    pub(crate) fn keep_figures_of(&mut self, shown: &BTreeSet<ManagedObjectReference>) {
        for (_, machine) in self.machines.iter_unplaced().filter(|(object, _)| !shown.contains(object)) {
            machine.facts.figures = None;
        }
        for (_, host) in self.hosts.iter_mut().filter(|(object, _)| !shown.contains(object)) {
            host.figures = None;
        }
    }
}

/// The memory that the guest of a machine uses, or all that is used of a host's.
fn memory(content: &mut ObjectContent) -> Option<i64> {
    let of_guest = number(content, vm::SUMMARY_QUICK_STATS_GUEST_MEMORY_USAGE);
    of_guest.or_else(|| number(content, host::SUMMARY_QUICK_STATS_OVERALL_MEMORY_USAGE))
}

fn number<O: ManagedObject>(content: &mut ObjectContent, property: Property<O, i32>) -> Option<i64> {
    take(content, property).map(Into::into)
}

/// A value, if it was sent and can be read.
fn take<O: ManagedObject, T: FromAny>(content: &mut ObjectContent, property: Property<O, T>) -> Option<T> {
    content.take(property).ok().flatten()
}

#[cfg(test)]
mod tests {
    use drover_core::Timestamp;
    use vim25::{Any, types::DynamicProperty};

    use super::*;
    use crate::vcenter::{host::Host, machine::Machine};

    fn machine() -> ManagedObjectReference {
        ManagedObjectReference::new("VirtualMachine", "vm-1")
    }

    fn host() -> ManagedObjectReference {
        ManagedObjectReference::new("HostSystem", "host-1")
    }

    fn mirror() -> Mirror {
        let mut mirror = Mirror::default();
        let mut web = Machine::new(Timestamp::UNIX_EPOCH);
        web.name = "web".to_owned();
        mirror.machines.insert(machine(), web);
        mirror.hosts.insert(host(), Host { name: "esxi-1".to_owned(), ..Host::default() });
        mirror
    }

    fn content(obj: ManagedObjectReference, values: &[(&str, Any)]) -> ObjectContent {
        let prop_set = values.iter().map(|(name, val)| DynamicProperty { name: (*name).to_owned(), val: val.clone() });
        ObjectContent { obj, prop_set: prop_set.collect(), ..ObjectContent::default() }
    }

    #[test]
    fn hosts_and_machines_are_asked_about_in_one_filter() {
        let filter = filter(BTreeSet::from([machine(), host()]));
        assert_eq!(filter.object_set.len(), 2);
        let kinds: Vec<_> = filter.prop_set.iter().map(|properties| properties.type_.as_str()).collect();
        assert_eq!(kinds, ["VirtualMachine", "HostSystem"]);
        assert_eq!(filter.report_missing_objects_in_results, Some(true));
    }

    #[test]
    fn what_has_moved_is_told_and_what_has_not_is_not() {
        let mut mirror = mirror();
        let answer = || {
            let cpu = ("summary.quickStats.overallCpuUsage", Any::Int(700));
            let memory = ("summary.quickStats.overallMemoryUsage", Any::Int(20));
            [
                content(machine(), &[cpu.clone(), ("overallStatus", Any::from("red"))]),
                content(host(), &[cpu, memory]),
                content(ManagedObjectReference::new("VirtualMachine", "vm-gone"), &[]),
            ]
        };
        let mut concerned = Concerned::default();
        for content in answer() {
            mirror.take_figures(content, &mut concerned);
        }
        assert!(concerned.machines.contains("web") && concerned.hosts.contains("esxi-1"), "{concerned:?}");
        let facts = &mirror.machines[&machine()].facts;
        assert_eq!(facts.figures.as_deref(), Some(&Figures { cpu: Some(700), memory: None }));
        assert_eq!(facts.health.as_deref(), Some("red"));
        let of_host = Figures { cpu: Some(700), memory: Some(20) };
        assert_eq!(mirror.hosts[&host()].figures.as_deref(), Some(&of_host));
        let mut concerned = Concerned::default();
        for content in answer() {
            mirror.take_figures(content, &mut concerned);
        }
        assert!(concerned.is_nobody(), "{concerned:?}");
    }

    #[test]
    fn of_a_machine_that_vcenter_does_not_reach_the_last_figures_stay() {
        let mut mirror = mirror();
        let read = |mirror: &mut Mirror, values: &[(&str, Any)]| {
            mirror.take_figures(content(machine(), values), &mut Concerned::default());
            mirror.machines[&machine()].facts.figures.as_deref().copied()
        };
        let seen = Some(Figures { cpu: Some(700), memory: None });
        assert_eq!(read(&mut mirror, &[("summary.quickStats.overallCpuUsage", Any::Int(700))]), seen);
        mirror.machines.change(&machine()).unwrap().connection = Some("disconnected".into());
        assert_eq!(read(&mut mirror, &[]), seen);
        mirror.machines.change(&machine()).unwrap().connection = Some("connected".into());
        assert_eq!(read(&mut mirror, &[]), Some(Figures::default()));
    }

    #[test]
    fn figures_that_nobody_looks_at_are_forgotten() {
        let mut mirror = mirror();
        for object in [machine(), host()] {
            mirror.take_figures(content(object, &[]), &mut Concerned::default());
        }
        mirror.keep_figures_of(&BTreeSet::from([host()]));
        assert_eq!(mirror.machines[&machine()].facts.figures, None);
        assert_eq!(mirror.hosts[&host()].figures.as_deref(), Some(&Figures::default()));
    }
}
