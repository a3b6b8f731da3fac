//! The controller of HostInfos.

use std::sync::Arc;

use drover_api::{HostInfo, HostInfoStatus, Unknown};
use drover_core::{
    Timestamp,
    conditions::ConditionUpdate,
    info::status::{FigureTotal, Observation, healthy},
    reasons::Reason,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::controller::Action as Requeue;
use vim25::ManagedObjectReference;

use super::{report, visible::Visible};
use crate::{
    controllers::{
        Context,
        reconcile::{Error, mandated},
    },
    vcenter::{host::Host, mirror::Mirror},
};

/// Shows a host as it is.
pub(super) async fn reconcile(info: Arc<HostInfo>, context: Arc<Context>) -> Result<Requeue, Error> {
    let namespace = info.metadata.namespace.as_deref().unwrap_or_default();
    let mandate = context.vcenters.mandate_for_info(namespace, info.spec.vcenter.as_deref());
    mandated(mandate, |_| show(&info, &context)).await
}

async fn show(info: &HostInfo, context: &Context) -> Result<Requeue, Error> {
    let view = report::look(context, info, info.spec.vcenter.as_deref(), |mirror, bound| {
        see(&Visible::of(mirror, bound, &context.cluster), &info.spec.hostname)
    });
    report::show(context, info, info.status.as_ref(), view, Timestamp::now()).await
}

/// What can be seen of the host that is called so.
fn see(visible: &Visible<'_>, name: &str) -> Observation<HostInfoStatus> {
    let mirror = visible.mirror;
    let mut found = mirror.hosts_called(name);
    found.retain(|host| visible.has_host(host));
    match found[..] {
        [] => Observation::Unclear {
            reason: Reason::NotFound,
            message: format!("spec.hostname: there is no host {name:?} {}", visible.place()),
        },
        [reference] => match mirror.hosts.get(reference) {
            Some(host) => Observation::Here {
                status: status(mirror, reference, host),
                health: health(host),
                figures: figures(host),
                are_read: host.figures.is_some(),
            },
            None => Observation::Unclear { reason: Reason::NotFound, message: String::new() },
        },
        _ => {
            let paths: Vec<_> = found.iter().filter_map(|host| mirror.host_path(host)).collect();
            let message = format!(
                "spec.hostname: {} hosts are called {name:?}: name one by its path: {}",
                paths.len(),
                paths.join(", ")
            );
            Observation::Unclear { reason: Reason::Ambiguous, message }
        }
    }
}

fn status(mirror: &Mirror, reference: &ManagedObjectReference, host: &Host) -> HostInfoStatus {
    let hardware = host.hardware.as_ref();
    let total_cpu = hardware.map(|hardware| hardware.cores * hardware.mhz);
    let total_mem = hardware.map(|hardware| hardware.memory_mib);
    let used = host.figures.as_deref().copied().unwrap_or_default();
    let free = |total: Option<i64>, used: Option<i64>| Some(total? - used?);
    let parent = host.parent.as_ref();
    HostInfoStatus {
        total_cpu,
        free_cpu: free(total_cpu, used.cpu),
        total_mem,
        free_mem: free(total_mem, used.memory),
        figures_time: None,
        cpu_cores: hardware.map(|hardware| hardware.cores),
        cpu_model: hardware.map(|hardware| hardware.cpu_model.clone()),
        vendor: hardware.map(|hardware| hardware.vendor.clone()),
        model: hardware.map(|hardware| hardware.model.clone()),
        version: host.version.clone(),
        build: host.build.clone(),
        connection_state: host.connection.as_ref().map(ToString::to_string),
        in_maintenance: host.in_maintenance,
        power_state: host.power.clone(),
        machines: i64::try_from(mirror.machines_on(reference)).ok(),
        cluster: mirror.within("ClusterComputeResource", parent),
        datacenter: mirror.within("Datacenter", parent),
        tags: host.tags.clone(),
        attributes: host.attributes(),
        boot_time: host.booted.map(Time),
        path: mirror.host_path(reference),
        moref: Some(reference.value().to_owned()),
        observed_generation: None,
        conditions: Vec::new(),
        unknown: Unknown::default(),
    }
}

fn figures(host: &Host) -> Vec<FigureTotal> {
    let hardware = host.hardware.as_ref();
    vec![
        FigureTotal { figure: "freeCPU", whole: hardware.map_or(0, |hardware| hardware.cores * hardware.mhz) },
        FigureTotal { figure: "freeMem", whole: hardware.map_or(0, |hardware| hardware.memory_mib) },
    ]
}

fn health(host: &Host) -> ConditionUpdate {
    let is = |word: &str| host.health.as_deref() == Some(word);
    let unwell = |message: String| healthy(false, Reason::Unhealthy, message);
    match (&host.connection, &host.power) {
        (Some(state), _) if state != "connected" => unwell(format!("vCenter says that it is {state}")),
        (_, Some(power)) if power != "poweredOn" => unwell(format!("its power state is {power}")),
        _ if is("red") => unwell("vCenter's overall status of it is red: see its alarms there".to_owned()),
        _ if host.in_maintenance == Some(true) => healthy(true, Reason::InMaintenance, "it is in maintenance mode"),
        _ if is("yellow") => {
            healthy(true, Reason::Warning, "vCenter's overall status of it is yellow: see its alarms there")
        }
        _ => healthy(true, Reason::Healthy, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vcenter::{figures::Figures, host::Hardware};

    fn host() -> Host {
        Host {
            name: "esxi-1".to_owned(),
            hardware: Some(Hardware {
                vendor: "Dell Inc.".to_owned(),
                model: "PowerEdge".to_owned(),
                cpu_model: "Xeon".to_owned(),
                cores: 20,
                mhz: 2199,
                memory_mib: 4096,
            }),
            connection: Some("connected".into()),
            power: Some("poweredOn".to_owned()),
            figures: Some(Box::new(Figures { cpu: Some(3466), memory: Some(1000) })),
            ..Host::default()
        }
    }

    fn mirror(hosts: &[(&str, Host)]) -> Mirror {
        let named = |(id, host): &(&str, Host)| (ManagedObjectReference::new("HostSystem", id), host.clone());
        let mut mirror = Mirror::default();
        mirror.hosts.extend(hosts.iter().map(named));
        mirror
    }

    #[test]
    fn the_seeds_figures_are_cores_times_speed_less_use() {
        let Observation::Here { status, health, .. } = see(&Visible::all(&mirror(&[("host-1", host())])), "ESXi-1")
        else {
            panic!("a host's name is found, however it is written")
        };
        assert_eq!((status.total_cpu, status.free_cpu), (Some(43980), Some(40514)));
        assert_eq!((status.total_mem, status.free_mem), (Some(4096), Some(3096)));
        assert_eq!((status.path.as_deref(), health.reason), (Some("/esxi-1"), Reason::Healthy));
    }

    #[test]
    fn what_a_host_has_left_is_not_shown_before_its_use_is_known() {
        let fresh = Host { figures: None, ..host() };
        let Observation::Here { status, are_read, .. } = see(&Visible::all(&mirror(&[("host-1", fresh)])), "esxi-1")
        else {
            panic!("it is there")
        };
        assert_eq!((status.total_cpu, status.free_cpu, status.free_mem), (Some(43980), None, None));
        assert!(!are_read);
    }

    #[test]
    fn a_host_that_is_not_there_or_there_twice_is_said_to_be() {
        let Observation::Unclear { reason, message } = see(&Visible::all(&mirror(&[("host-1", host())])), "esxi-2")
        else {
            panic!("there is no such host")
        };
        assert_eq!(
            (reason, message.as_str()),
            (Reason::NotFound, r#"spec.hostname: there is no host "esxi-2" in vCenter"#)
        );
        let twice = mirror(&[("host-1", host()), ("host-2", host())]);
        let Observation::Unclear { reason, message } = see(&Visible::all(&twice), "esxi-1") else {
            panic!("there are two")
        };
        assert!(
            reason == Reason::Ambiguous && message.ends_with("name one by its path: /esxi-1, /esxi-1"),
            "{message}"
        );
    }

    #[test]
    fn health_names_the_worst_that_is_known() {
        let judged = |change: &dyn Fn(&mut Host)| {
            let mut host = host();
            change(&mut host);
            let ConditionUpdate { holds, reason, .. } = health(&host);
            (holds, reason)
        };
        assert_eq!(judged(&|host| host.connection = Some("notResponding".into())), (Some(false), Reason::Unhealthy));
        assert_eq!(judged(&|host| host.power = Some("standBy".to_owned())), (Some(false), Reason::Unhealthy));
        assert_eq!(judged(&|host| host.health = Some("red".into())), (Some(false), Reason::Unhealthy));
        assert_eq!(judged(&|host| host.in_maintenance = Some(true)), (Some(true), Reason::InMaintenance));
        assert_eq!(judged(&|host| host.health = Some("yellow".into())), (Some(true), Reason::Warning));
    }
}
