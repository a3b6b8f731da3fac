//! Which lease a replica has to hold to work on what.

use drover_api::{VCenter, VmGroup};
use drover_core::vcenter::binding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, api::ObjectMeta};

use super::VCenters;
use crate::kube::{
    guard::Unreadable,
    leadership::{LeaseScope, Mandate},
};

impl VCenters {
    /// The right to work on a group, if this replica has it: that to the vCenter which is written down as the group's, also while the
    /// group moves away from there. The general one where none is, or that isn't there.
    pub(crate) fn mandate_for(&self, group: &VmGroup) -> Option<Mandate> {
        let recorded = group.status.as_ref().and_then(|status| status.vcenter.as_deref());
        match recorded.filter(|name| self.known().roster.has(name)) {
            Some(vcenter) => self.mandate(vcenter),
            None => self.general_mandate(),
        }
    }

    /// The right to work on a HostInfo or VMInfo in a namespace, whose spec may name a vCenter, if this replica has it: that to the vCenter
    /// which serves it. The general one where none does.
    pub(crate) fn mandate_for_info(&self, namespace: &str, named: Option<&str>) -> Option<Mandate> {
        let serving = self.around(namespace).and_then(|around| {
            let known = self.known();
            binding::choose(&known.roster.candidates(&around), around.names(named)).map(ToOwned::to_owned)
        });
        match serving {
            Ok(vcenter) => self.mandate(&vcenter),
            Err(_) => self.general_mandate(),
        }
    }

    /// The right to work in the vCenter of this name, if this replica has it.
    pub(crate) fn mandate(&self, vcenter: &str) -> Option<Mandate> {
        self.leases.claim(&LeaseScope::VCenter(vcenter.to_owned())).mandate()
    }

    /// The right to work on what has no vCenter, if this replica has it.
    pub(crate) fn general_mandate(&self) -> Option<Mandate> {
        self.leases.claim(&LeaseScope::General).mandate()
    }

    /// There is a VCenter, usable or not, and somebody has to look after it.
    pub(super) fn declare_lease(&self, vcenter: &ObjectMeta) {
        let owner = vcenter.uid.clone().map(|uid| OwnerReference {
            api_version: VCenter::api_version(&()).into_owned(),
            kind: VCenter::kind(&()).into_owned(),
            name: vcenter.name.clone().unwrap_or_default(),
            uid,
            ..OwnerReference::default()
        });
        self.leases.declare(vcenter.name.as_deref().unwrap_or_default(), owner);
    }

    pub(crate) fn note_unreadable(&self, vcenter: &Unreadable) {
        self.declare_lease(&vcenter.metadata);
        self.known().roster.note_unreadable(vcenter);
    }
}
