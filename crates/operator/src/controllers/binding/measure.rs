//! What the metrics tell of each vCenter, looked up when they are collected.

use std::collections::BTreeSet;

use drover_core::{Timestamp, reasons::Reason, vmgroup::Power};

use super::VCenters;
use crate::{
    telemetry::metrics::{Connected, Load, Metrics},
    vcenter::{VCenterHandle, mirror::Mirror},
};

impl VCenters {
    /// Tells of all vCenters how they are now. Of those that are gone, nothing more is told. `cluster` is the id of this Kubernetes
    /// cluster.
    pub(crate) fn measure(&self, metrics: &Metrics, cluster: &str) {
        let lives = self.lives();
        let mut names: BTreeSet<_> = self.known().followed.keys().cloned().collect();
        names.extend(lives.iter().map(|live| live.name.clone()));
        metrics.turn_to(&names);
        for name in &names {
            // What is known of those that can be connected to comes below.
            metrics.set_connected(name, Connected::default());
        }
        for live in lives {
            measure(&live, metrics, cluster);
        }
    }
}

fn measure(live: &VCenterHandle, metrics: &Metrics, cluster: &str) {
    let is_up = live.is_in_sight();
    let is_ours = live.mandate().is_some();
    if is_up && is_ours {
        live.judge();
    }
    let is_refused = live.away().is_some_and(|away| away.reason == Reason::LoginRefused);
    metrics.set_connected(&live.name, Connected { is_up, is_logged_in: live.is_logged_in(), is_refused });
    {
        let executor = live.executor();
        let (waiting, under_way) = executor.load();
        let load = Load { under_way, clones_per_host: executor.clones_per_host(), waiting, limits: executor.limits() };
        metrics.set_load(&live.name, load);
        metrics.set_doubts(
            &live.name,
            executor.missing(Timestamp::now()),
            executor.is_stopped(),
            executor.lookalikes(),
        );
    }
    // All replicas see them, and the one that works there counts them.
    metrics.set_vms(
        &live.name,
        if is_ours { states(&live.mirror(), cluster) } else { states(&Mirror::default(), cluster) },
    );
}

/// How many VMs of this cluster's groups are in each state, as they were last seen.
fn states(mirror: &Mirror, cluster: &str) -> [(&'static str, usize); 4] {
    let (mut on, mut off, mut suspended, mut unreachable) = (0, 0, 0, 0);
    for machine in mirror.machines.values() {
        let group = machine.marker.as_ref().map(|marker| marker.group.as_str());
        if !group.is_some_and(|group| machine.is_of(group, cluster)) {
            continue;
        }
        *match machine.power {
            _ if machine.unreachable_since.is_some() => &mut unreachable,
            Power::On => &mut on,
            Power::Off => &mut off,
            Power::Suspended => &mut suspended,
        } += 1;
    }
    [("on", on), ("off", off), ("suspended", suspended), ("unreachable", unreachable)]
}
