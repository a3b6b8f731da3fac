//! The controllers, a folder for each kind, and what their reconciles share.

pub(crate) mod binding;
pub(crate) mod duties;
pub(crate) mod info;
pub(crate) mod myownshell;
pub(crate) mod reconcile;
pub(crate) mod vcenter;
pub(crate) mod vmgroup;

use std::sync::OnceLock;

use drover_api::VmGroup;
use kube::{Client, api::ObjectMeta};

use crate::{
    kube::{events::Recorder, scope::Scope, shared_watch::SharedWatch},
    loops::Loops,
};
use binding::VCenters;
use info::Infos;

/// What every reconcile needs.
pub(crate) struct Context {
    pub kube: Client,
    /// By which everything is told.
    pub events: Recorder,
    pub vcenters: VCenters,
    /// The id of this Kubernetes cluster: its `kube-system` namespace's UID, unless another is given.
    pub cluster: String,
    pub infos: Infos,
    pub loops: Loops,
    pub scope: Scope,
    /// All groups, once they are watched.
    pub groups: OnceLock<SharedWatch<VmGroup>>,
    /// What was last said and written of each group.
    vmgroups: vmgroup::Memory,
}

impl Context {
    pub(crate) fn new(
        kube: Client,
        events: Recorder,
        vcenters: VCenters,
        cluster: String,
        infos: Infos,
        loops: Loops,
        scope: Scope,
    ) -> Self {
        let (groups, vmgroups) = (OnceLock::new(), vmgroup::Memory::default());
        Self { kube, events, vcenters, cluster, infos, loops, scope, groups, vmgroups }
    }

    /// Takes note of a group that the API server tells of.
    pub(crate) fn note(&self, group: &ObjectMeta) {
        if let (Some(uid), None) = (&group.uid, &group.deletion_timestamp) {
            self.vmgroups.note_alive(uid);
        }
    }

    /// Forgets the groups that are gone, whatever was to be done for them.
    pub(crate) fn retain_groups(&self, is_there: impl Fn(&str) -> bool) {
        self.vmgroups.retain(&is_there);
        self.infos.retain_groups(&is_there);
        self.vcenters.retain_groups(&is_there);
    }
}
