//! The custom resources that people write and read: their schemas, validation and printed columns.
//!
//! Everything a user can type into a manifest is a Rust type here, and the CRDs in `config/crd/bases` are generated
//! from these types. The crate knows Kubernetes' notion of a resource and nothing of vCenter's wire: what the fields
//! mean for a vCenter is decided in `drover-core`.

mod allow;
pub mod bounds;
mod descriptions;
mod guard;
pub mod hostinfo;
pub mod myownshell;
mod pending;
mod quota;
mod tolerant;
pub mod vcenter;
pub mod vmgroup;
pub mod vminfo;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use guard::{Guarded, Unreadable};
pub use hostinfo::{HostInfo, HostInfoSpec, HostInfoStatus};
pub use myownshell::{MyOwnShell, MyOwnShellSpec, MyOwnShellStatus};
pub use tolerant::{Tolerant, Unknown};
pub use vcenter::{VCenter, VCenterSpec, VCenterStatus};
pub use vmgroup::{VmGroup, VmGroupSpec, VmGroupStatus};
pub use vminfo::{VMInfo, VMInfoSpec, VMInfoStatus};

/// Every CRD that Drover serves, in the order of their files in `config/crd/bases`.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let derived = [MyOwnShell::crd(), HostInfo::crd(), VMInfo::crd(), VCenter::crd(), VmGroup::crd()];
    derived.map(bounds::close).map(pending::declare).map(descriptions::unwrap).into()
}
