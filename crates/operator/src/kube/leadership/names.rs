//! The names of leases, as `kubectl get lease` shows them.

use drover_core::names::object;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;

use super::election::holder;

/// The name of the general lease, in the operator's own namespace, and the end of all other leases' names.
pub(crate) const GENERAL: &str = "drover.vm.codeconnect.vmworld.com";

/// Every lease of Drover's has this label. It says what the lease is for: `general`, `vcenter` or `replica`.
pub(super) const LABEL: &str = "vm.codeconnect.vmworld.com/lease";

/// A lease that a replica holds has this annotation with the replica's identity. An earlier version doesn't write it.
pub(super) const HOLDER: &str = "vm.codeconnect.vmworld.com/holder";

/// What a lease is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeaseScope {
    /// What is in no vCenter: MyOwnShells, and VmGroups that have no vCenter yet or none any more.
    General,
    /// The vCenter of this name, and all that is in it.
    VCenter(String),
}

impl LeaseScope {
    /// The lease's name.
    pub(crate) fn lease(&self) -> String {
        match self {
            Self::General => GENERAL.to_owned(),
            // What is too long for a name ends with a hash of the whole.
            Self::VCenter(name) => object(&format!("vcenter.{name}.{GENERAL}")),
        }
    }
}

/// The name of the lease by which the replica of this number tells others that it is there.
pub(super) fn presence(number: usize) -> String {
    format!("replica-{number}.{GENERAL}")
}

pub(super) fn is_presence(name: &str) -> bool {
    let number = name.strip_prefix("replica-").and_then(|rest| rest.strip_suffix(GENERAL)?.strip_suffix('.'));
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// Whether a lease is held by a replica of an earlier version, which has one lease for everything, and none to say that it is there.
pub(super) fn is_of_before(lease: &Lease, is_present: impl Fn(&str) -> bool) -> bool {
    let holder = lease.spec.as_ref().and_then(holder);
    let has_mark = |holder: &str| lease.annotations().get(HOLDER).is_some_and(|written| written == holder);
    holder.is_some_and(|holder| !has_mark(holder) && !is_present(holder))
}

/// What a lease's label says.
pub(super) fn label(name: &str) -> &'static str {
    match name {
        GENERAL => "general",
        name if is_presence(name) => "replica",
        _ => "vcenter",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vcenter_has_a_lease_of_its_own_whatever_its_name() {
        let lease = |name: &str| LeaseScope::VCenter(name.to_owned()).lease();
        assert_eq!(lease("lab"), "vcenter.lab.drover.vm.codeconnect.vmworld.com");
        let (long, other) = (lease(&"a".repeat(253)), lease(&format!("{}b", "a".repeat(252))));
        assert!(long != other && long.len() <= 253 && other.len() <= 253, "{long}");
        // A VCenter may be called as a replica's lease begins.
        assert!(!is_presence(&lease("replica-1")) && is_presence(&presence(12)) && !is_presence(GENERAL));
        assert_eq!([GENERAL, &presence(1), &lease("lab")].map(label), ["general", "replica", "vcenter"]);
    }
}
