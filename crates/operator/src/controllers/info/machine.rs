//! The controller of VMInfos.

use std::sync::Arc;

use drover_api::{Unknown, VMInfo, VMInfoStatus};
use drover_core::{
    Timestamp,
    conditions::ConditionUpdate,
    info::status::{FigureTotal, Observation, healthy},
    reasons::Reason,
    vmgroup::Power,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::controller::Action as Requeue;
use vim25::ManagedObjectReference;

use super::{
    group_of, report,
    visible::{EVERYWHERE, Visible},
};
use crate::{
    controllers::{
        Context,
        reconcile::{Error, mandated},
    },
    vcenter::{machine::Machine, mirror::Mirror},
};

/// Shows a machine as it is.
pub(super) async fn reconcile(info: Arc<VMInfo>, context: Arc<Context>) -> Result<Requeue, Error> {
    let namespace = info.metadata.namespace.as_deref().unwrap_or_default();
    let mandate = context.vcenters.mandate_for_info(namespace, info.spec.vcenter.as_deref());
    mandated(mandate, |_| show(&info, &context)).await
}

async fn show(info: &VMInfo, context: &Context) -> Result<Requeue, Error> {
    let view = report::look(context, info, info.spec.vcenter.as_deref(), |mirror, bound| {
        let visible = Visible::of(mirror, bound, &context.cluster);
        // A member is known by its marker, whatever somebody has renamed it to, and whoever else has its name.
        let word = &info.spec.nodename;
        let group = group_of(info).map(|group| context.infos.marker_uid(&group.uid));
        let member = group.and_then(|uid| mirror.member_called(&uid, &context.cluster, word));
        // Who writes a VMInfo can name any owner: only the marker says whose a member is.
        let is_own = |member: &&ManagedObjectReference| {
            let marker = mirror.machines.get(*member).and_then(|machine| machine.marker.as_ref());
            marker.is_some_and(|marker| Some(&marker.owner.0) == info.metadata.namespace.as_ref())
        };
        let member = member.filter(is_own).filter(|member| visible.has_machine(member));
        member.map_or_else(|| see(&visible, word), |member| here(mirror, member))
    });
    report::show(context, info, info.status.as_ref(), view, Timestamp::now()).await
}

/// What can be seen of the machine that is called so.
fn see(visible: &Visible<'_>, word: &str) -> Observation<VMInfoStatus> {
    let mirror = visible.mirror;
    let found = mirror.machines_called(word, |machine| visible.has_machine(machine));
    match found[..] {
        [] => nowhere(word, visible.place()),
        [reference] => here(mirror, reference),
        _ => {
            let mut paths: Vec<_> = found
                .iter()
                .filter_map(|found| mirror.machines.get(*found))
                .map(|machine| mirror.machine_path(machine))
                .collect();
            paths.sort();
            let message = format!(
                "spec.nodename: {} VMs match {word:?}: name one by its path: {}",
                paths.len(),
                paths.join(", ")
            );
            Observation::Unclear { reason: Reason::Ambiguous, message }
        }
    }
}

fn nowhere(word: &str, place: &str) -> Observation<VMInfoStatus> {
    let message = format!("spec.nodename: no VM {place} has the name, path, UUID or address {word:?}");
    Observation::Unclear { reason: Reason::NotFound, message }
}

fn here(mirror: &Mirror, reference: &ManagedObjectReference) -> Observation<VMInfoStatus> {
    match mirror.machines.get(reference) {
        Some(machine) => Observation::Here {
            status: status(mirror, reference, machine),
            health: health(machine),
            figures: figures(mirror, machine),
            are_read: machine.facts.figures.is_some(),
        },
        None => nowhere(reference.value(), EVERYWHERE),
    }
}

fn status(mirror: &Mirror, reference: &ManagedObjectReference, machine: &Machine) -> VMInfoStatus {
    let facts = &machine.facts;
    let is_on = machine.power == Power::On;
    let used = facts.figures.as_deref().copied().unwrap_or_default();
    let host = facts.host.as_ref().and_then(|host| mirror.hosts.get(host));
    VMInfoStatus {
        guest_id: facts.guest.as_ref().map(ToString::to_string),
        total_cpu: Some(machine.hardware.cpus.into()),
        resvd_cpu: facts.reserved_cpu,
        total_mem: i64::try_from(machine.hardware.memory_mib).ok(),
        resvd_mem: facts.reserved_memory,
        power_state: Some(power(machine.power).to_owned()),
        hw_version: facts.hardware_version.as_ref().map(ToString::to_string),
        ip_address: machine.addresses().next().map(ToOwned::to_owned),
        path_to_vm: facts.config_file.as_deref().map(ToOwned::to_owned),
        addresses: machine.addresses().map(ToOwned::to_owned).collect(),
        name: Some(machine.name.clone()),
        guest_name: facts.guest_name.as_deref().map(ToOwned::to_owned),
        host: host.map(|host| host.name.clone()),
        datastore: datastores(mirror, machine),
        tools_state: facts.tools.as_ref().map(ToString::to_string),
        tools_version: facts.tools_version.as_ref().map(ToString::to_string),
        cpu_use: used.cpu,
        mem_use: used.memory,
        figures_time: None,
        // Not every vCenter forgets it when the machine is powered off.
        boot_time: facts.booted.filter(|_| is_on).map(Time),
        uuid: facts.uuid.clone(),
        instance_uuid: machine.instance.clone(),
        moref: Some(reference.value().to_owned()),
        path: Some(mirror.machine_path(machine)),
        snapshots: Some(facts.snapshots.unwrap_or(0)),
        template: Some(machine.is_template),
        slot: machine.slot().map(|slot| slot.0.into()),
        observed_generation: None,
        conditions: Vec::new(),
        unknown: Unknown::default(),
    }
}

fn datastores(mirror: &Mirror, machine: &Machine) -> Option<String> {
    let places = machine.facts.datastores.iter().filter_map(|datastore| mirror.places.get(datastore));
    let names: Vec<_> = places.map(|place| place.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn figures(mirror: &Mirror, machine: &Machine) -> Vec<FigureTotal> {
    let host = machine.facts.host.as_ref().and_then(|host| mirror.hosts.get(host));
    let mhz = host.and_then(|host| host.hardware.as_ref()).map_or(0, |hardware| hardware.mhz);
    vec![
        FigureTotal { figure: "cpuUse", whole: i64::from(machine.hardware.cpus) * mhz },
        FigureTotal { figure: "memUse", whole: i64::try_from(machine.hardware.memory_mib).unwrap_or(0) },
    ]
}

fn health(machine: &Machine) -> ConditionUpdate {
    let facts = &machine.facts;
    let unwell = |message: String| healthy(false, Reason::Unhealthy, message);
    match (&machine.connection, &facts.question, facts.health.as_deref()) {
        (Some(state), ..) if state != "connected" => unwell(format!("vCenter says that it is {state}")),
        (_, Some(question), _) => unwell(format!("it waits for an answer in vCenter: {question}")),
        (.., Some("red")) => unwell("vCenter's overall status of it is red: see its alarms there".to_owned()),
        (.., Some("yellow")) => {
            healthy(true, Reason::Warning, "vCenter's overall status of it is yellow: see its alarms there")
        }
        _ => healthy(true, Reason::Healthy, ""),
    }
}

fn power(power: Power) -> &'static str {
    match power {
        Power::On => "poweredOn",
        Power::Off => "poweredOff",
        Power::Suspended => "suspended",
    }
}

#[cfg(test)]
mod tests {
    use drover_core::vmgroup::Hardware;

    use super::*;
    use crate::vcenter::{host, inventory_names::Place, machine::Machine};

    fn machine() -> Machine {
        let mut machine = Machine::new(Timestamp::UNIX_EPOCH);
        machine.name = "web".to_owned();
        machine.power = Power::On;
        machine.hardware = Hardware { cpus: 2, memory_mib: 4096 };
        machine.address = Some("10.0.0.7".to_owned());
        machine.facts.host = Some(ManagedObjectReference::new("HostSystem", "host-1"));
        machine.facts.datastores = vec![ManagedObjectReference::new("Datastore", "ds-1")];
        machine.facts.booted = Some(Timestamp::UNIX_EPOCH);
        machine.connection = Some("connected".into());
        machine
    }

    fn mirror(machines: &[Machine]) -> Mirror {
        let hardware = host::Hardware {
            vendor: String::new(),
            model: String::new(),
            cpu_model: String::new(),
            cores: 8,
            mhz: 2000,
            memory_mib: 8192,
        };
        let mut mirror = Mirror::default();
        let host = host::Host { name: "esxi-1".to_owned(), hardware: Some(hardware), ..Default::default() };
        mirror.hosts.insert(ManagedObjectReference::new("HostSystem", "host-1"), host);
        let datastore = Place { name: "fast".to_owned(), ..Place::default() };
        mirror.places.insert(ManagedObjectReference::new("Datastore", "ds-1"), datastore);
        for (number, machine) in machines.iter().enumerate() {
            let reference = ManagedObjectReference::new("VirtualMachine", format!("vm-{number}"));
            mirror.machines.insert(reference, machine.clone());
        }
        mirror
    }

    #[test]
    fn a_machine_is_shown_with_the_names_of_what_it_is_on() {
        let Observation::Here { status, figures, .. } = see(&Visible::all(&mirror(&[machine()])), "web") else {
            panic!("it is there")
        };
        assert_eq!((status.total_cpu, status.total_mem), (Some(2), Some(4096)));
        assert_eq!((status.host.as_deref(), status.datastore.as_deref()), (Some("esxi-1"), Some("fast")));
        assert_eq!(
            (status.ip_address.as_deref(), status.power_state.as_deref()),
            (Some("10.0.0.7"), Some("poweredOn"))
        );
        assert_eq!(figures[0], FigureTotal { figure: "cpuUse", whole: 4000 });
        assert_eq!(figures[1], FigureTotal { figure: "memUse", whole: 4096 });
    }

    #[test]
    fn a_machine_that_is_off_has_not_been_started() {
        let off = Machine { power: Power::Off, ..machine() };
        let Observation::Here { status, .. } = see(&Visible::all(&mirror(&[off])), "web") else {
            panic!("it is there")
        };
        assert_eq!((status.boot_time, status.power_state.as_deref()), (None, Some("poweredOff")));
    }

    #[test]
    fn of_two_machines_of_one_name_both_paths_are_told() {
        let Observation::Unclear { reason, message } = see(&Visible::all(&mirror(&[machine(), machine()])), "web")
        else {
            panic!("there are two")
        };
        let expected = r#"spec.nodename: 2 VMs match "web": name one by its path: /web, /web"#;
        assert_eq!((reason, message.as_str()), (Reason::Ambiguous, expected));
        let Observation::Unclear { reason, .. } = see(&Visible::all(&mirror(&[])), "web") else {
            panic!("there is none")
        };
        assert_eq!(reason, Reason::NotFound);
    }

    #[test]
    fn health_names_what_a_machine_waits_for() {
        let mut machine = machine();
        assert_eq!(health(&machine), healthy(true, Reason::Healthy, ""));
        machine.facts.health = Some("red".into());
        machine.facts.question = Some("Was it moved or copied?".into());
        let waits = "it waits for an answer in vCenter: Was it moved or copied?";
        assert_eq!(health(&machine), healthy(false, Reason::Unhealthy, waits));
        machine.connection = Some("orphaned".into());
        assert_eq!(health(&machine).message, "vCenter says that it is orphaned");
    }
}
