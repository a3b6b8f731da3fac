//! The controllers, a folder for each kind, and what their reconciles share.

pub(crate) mod binding;
pub(crate) mod duties;
pub(crate) mod info;
pub(crate) mod myownshell;
pub(crate) mod reconcile;
pub(crate) mod vcenter;
pub(crate) mod vmgroup;

use drover_api::VmGroup;
use kube::{Client, api::ObjectMeta, runtime::reflector::store::Writer};

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
    /// All groups, where they are watched.
    pub groups: SharedWatch<VmGroup>,
    /// What was last said and written of each group.
    vmgroups: vmgroup::Memory,
}

impl Context {
    /// What every reconcile needs, and where all groups are written to.
    pub(crate) fn new(
        kube: Client,
        events: Recorder,
        vcenters: VCenters,
        cluster: String,
        infos: Infos,
        loops: Loops,
        scope: Scope,
    ) -> (Self, Writer<VmGroup>) {
        let (groups, writer) = SharedWatch::new();
        let vmgroups = vmgroup::Memory::default();
        let context = Self { kube, events, vcenters, cluster, infos, loops, scope, groups, vmgroups };
        (context, writer)
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
