//! What Drover makes by itself: a VMInfo for each member of a group, and a HostInfo for each host of a vCenter.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use drover_api::{HostInfo, HostInfoSpec, VCenter, VMInfo, VMInfoSpec, VmGroup, vminfo::GROUP_LABEL};
use drover_core::names;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    runtime::{controller::Action as Requeue, reflector::ObjectRef},
};
use serde::{Serialize, de::DeserializeOwned};
use tracing::{info, warn};

use super::{MANAGER, MOMENT, group_of};
use crate::{fleet::Seat, group::Context, shelf::Error, vcenter::Live};

/// The label of the HostInfos that are published for a vCenter: its value is the VCenter's name.
const VCENTER_LABEL: &str = "vm.codeconnect.vmworld.com/vcenter";

/// Makes a VMInfo for each member of a group, and removes those whose member is gone.
pub(super) async fn members(group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    if !context.infos.machines.is_filled() {
        return Ok(Requeue::requeue(MOMENT));
    }
    let namespace = group.namespace().unwrap_or_default();
    let uid = group.uid().unwrap_or_default();
    let Some(vcenter) = group.status.as_ref().and_then(|status| status.vcenter.clone()) else {
        return Ok(Requeue::await_change());
    };
    let Ok(Seat { live, .. }) = context.fleet.choose(&namespace, Some(&vcenter)) else {
        return Ok(Requeue::await_change());
    };
    if !live.is_in_sight() {
        // When it is back, everybody's turn comes.
        return Ok(Requeue::await_change());
    }
    let members: BTreeSet<String> = live.mirror().members(&uid, &context.cluster).into_keys().collect();
    let (kept, gone): (Vec<_>, Vec<_>) =
        context.infos.of_group(&uid).partition(|info| members.contains(&info.name_any()));
    for info in gone {
        remove(&context.kube, &*info).await?;
    }
    if group.meta().deletion_timestamp.is_some() {
        return Ok(Requeue::await_change());
    }
    let kept: BTreeMap<_, _> = kept.into_iter().map(|info| (info.name_any(), info)).collect();
    for name in members {
        let wanted = member_info(&group, &vcenter, &namespace, &name);
        match kept.get(&name) {
            Some(info) if is_as_published(&**info, &wanted) && info.spec == wanted.spec => {}
            None if is_taken(&context, &namespace, &name) => {
                warn!(vminfo = %name, %namespace, "a member can't be published: a VMInfo that isn't its group's has its name");
            }
            _ => apply(&context.kube, &wanted).await?,
        }
    }
    Ok(Requeue::await_change())
}

fn member_info(group: &VmGroup, vcenter: &str, namespace: &str, name: &str) -> VMInfo {
    let spec = VMInfoSpec { nodename: name.to_owned(), vcenter: Some(vcenter.to_owned()) };
    let mut info = VMInfo::new(name, spec);
    info.metadata.namespace = Some(namespace.to_owned());
    info.labels_mut().insert(GROUP_LABEL.to_owned(), names::label(&group.name_any()));
    // A group that was read from the API server has a name and a UID, so it has a reference.
    info.metadata.owner_references = group.controller_owner_ref(&()).map(|owner| vec![owner]);
    info
}

/// Whether somebody has a VMInfo of this name that isn't a member's.
fn is_taken(context: &Context, namespace: &str, name: &str) -> bool {
    let there = context.infos.machines.store.get(&ObjectRef::new(name).within(namespace));
    there.is_some_and(|info| group_of(&info).is_none())
}

/// Makes a HostInfo for each host of a vCenter in the namespace that its VCenter says, and removes those that were made for it
/// and have no place there any more.
pub(crate) async fn hosts(context: &Context, live: &Live, vcenter: &VCenter) -> Result<(), Error> {
    if !context.infos.hosts.is_filled() {
        // It is looked at again in a moment.
        return Ok(());
    }
    let publish = &vcenter.spec.publish;
    let namespace = publish.namespace.as_deref().filter(|_| publish.hosts);
    let names: BTreeSet<String> = live.mirror().hosts.values().map(|host| host.name.clone()).collect();
    let uid = vcenter.uid();
    let is_ours = |info: &Arc<HostInfo>| info.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref());
    let (ours, others): (Vec<_>, Vec<_>) = context.infos.hosts.all().partition(is_ours);
    let mut wanted = BTreeMap::new();
    if let Some(namespace) = namespace {
        let there = others.iter().filter(|info| info.namespace().as_deref() == Some(namespace));
        let taken: BTreeSet<String> = there.map(|info| info.name_any()).collect();
        for host in names.iter().filter(|name| !name.is_empty()) {
            let info = host_info(host, vcenter, namespace, &taken);
            wanted.insert((info.namespace(), info.name_any()), info);
        }
    }
    let ours: BTreeMap<_, _> = ours.iter().map(|info| ((info.namespace(), info.name_any()), info)).collect();
    for (key, info) in &ours {
        if !wanted.contains_key(key) {
            info!(hostinfo = %info.name_any(), "the host is gone, or is not to be published");
            remove(&context.kube, &***info).await?;
        }
    }
    for (key, wanted) in &wanted {
        let is_there = ours.get(key).is_some_and(|info| is_as_published(&***info, wanted) && info.spec == wanted.spec);
        if !is_there {
            apply(&context.kube, wanted).await?;
        }
    }
    Ok(())
}

/// The HostInfo of a host. It is named as the host, or, where somebody else's has that name, as the host and the vCenter.
fn host_info(host: &str, vcenter: &VCenter, namespace: &str, taken: &BTreeSet<String>) -> HostInfo {
    let label = vcenter.name_any();
    let name = object_name(host);
    let name = if taken.contains(&name) { object_name(&format!("{host}-{label}")) } else { name };
    let mut info = HostInfo::new(&name, HostInfoSpec { hostname: host.to_owned(), vcenter: Some(label.clone()) });
    info.metadata.namespace = Some(namespace.to_owned());
    info.labels_mut().insert(VCENTER_LABEL.to_owned(), names::label(&label));
    // They go with it. One that was read from the API server has a name and a UID, so it has a reference.
    info.metadata.owner_references = vcenter.controller_owner_ref(&()).map(|owner| vec![owner]);
    info
}

/// A host's name as an object may be named: small letters, digits, dashes and dots, and at both ends letters or digits.
fn object_name(host: &str) -> String {
    let plain: String = host
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' })
        .collect();
    let labels = plain.split('.').map(|label| label.trim_matches('-')).filter(|label| !label.is_empty());
    labels.collect::<Vec<_>>().join(".")
}

/// Whether an object has the labels and the owner that it was published with.
fn is_as_published<K: Resource>(is: &K, wanted: &K) -> bool {
    let labels = wanted.labels().iter().all(|(name, value)| is.labels().get(name) == Some(value));
    labels && wanted.owner_references().iter().all(|owner| is.owner_references().contains(owner))
}

async fn apply<K>(kube: &Client, wanted: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
{
    let api: Api<K> = Api::namespaced(kube.clone(), &wanted.namespace().unwrap_or_default());
    api.patch(&wanted.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(wanted)).await?;
    Ok(())
}

async fn remove<K>(kube: &Client, info: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(kube.clone(), &info.namespace().unwrap_or_default());
    match api.delete(&info.name_any(), &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(gone)) if gone.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_name_becomes_an_objects() {
        for (host, name) in [
            ("esxi-dell-e.rainpole.com", "esxi-dell-e.rainpole.com"),
            ("ESXi-1.Example.COM.", "esxi-1.example.com"),
            ("10.0.0.7", "10.0.0.7"),
            ("fe80::1", "fe80--1"),
            ("DC0_C0_H0", "dc0-c0-h0"),
            ("_odd_.-x-", "odd.x"),
        ] {
            assert_eq!(object_name(host), name);
        }
    }

    #[test]
    fn a_published_host_says_whose_it_is_and_leaves_a_name_that_is_taken() {
        let spec = serde_json::json!({"server": "vc", "credentialsSecretRef": {"namespace": "ops", "name": "lab"}});
        let mut vcenter = VCenter::new("lab", serde_json::from_value(spec).unwrap());
        vcenter.metadata.uid = Some("uid".to_owned());
        let info = host_info("esxi-1", &vcenter, "ns", &BTreeSet::new());
        assert_eq!((info.name_any().as_str(), info.spec.hostname.as_str()), ("esxi-1", "esxi-1"));
        assert_eq!(info.spec.vcenter.as_deref(), Some("lab"));
        assert_eq!((info.labels()[VCENTER_LABEL].as_str(), info.owner_references()[0].uid.as_str()), ("lab", "uid"));
        let other = host_info("esxi-1", &vcenter, "ns", &BTreeSet::from(["esxi-1".to_owned()]));
        assert_eq!(other.name_any(), "esxi-1-lab");
    }
}
