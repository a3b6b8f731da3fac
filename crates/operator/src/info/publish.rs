//! What Drover makes by itself: a VMInfo for each member of a group, and a HostInfo for each host of a vCenter.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use drover_api::{HostInfo, HostInfoSpec, VMInfo, VMInfoSpec, VmGroup, vminfo::GROUP_LABEL};
use drover_core::names;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    runtime::{controller::Action as Requeue, reflector::ObjectRef},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::{Error, MANAGER, group_of};
use crate::{group::Context, vcenter::Live};

/// The label of the HostInfos that are published for a vCenter: its value is the VCenter's name.
const VCENTER_LABEL: &str = "vm.codeconnect.vmworld.com/vcenter";

/// How long to wait for the first answer of a watch before looking again.
const MOMENT: Duration = Duration::from_millis(100);

/// Makes a VMInfo for each member of a group, and removes those whose member is gone.
pub async fn members(group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    if !context.infos.machines.is_filled() {
        return Ok(Requeue::requeue(MOMENT));
    }
    let namespace = group.namespace().unwrap_or_default();
    let uid = group.uid().unwrap_or_default();
    let Ok(live) = context.fleet.choose(&namespace, group.spec.vcenter.as_deref()) else {
        return Ok(Requeue::await_change());
    };
    if live.away().is_some() {
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
        let wanted = member_info(&group, &namespace, &name);
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

fn member_info(group: &VmGroup, namespace: &str, name: &str) -> VMInfo {
    let spec = VMInfoSpec { nodename: name.to_owned(), vcenter: group.spec.vcenter.clone() };
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

/// Publishes the hosts of the namespace's vCenter each time that the bell rings.
pub async fn keep_hosts(context: Arc<Context>, namespace: String, bell: Arc<Notify>) {
    loop {
        bell.notified().await;
        let outcome = match context.fleet.choose(&namespace, None) {
            Ok(live) => hosts(&context, &live, "default", &namespace).await,
            Err(none) => return warn!(%namespace, %none, "no hosts are published"),
        };
        if let Err(error) = outcome {
            warn!(%namespace, %error, "hosts could not be published");
            tokio::time::sleep(Duration::from_secs(5)).await;
            bell.notify_one();
        }
    }
}

/// Makes a HostInfo in a namespace for each host of a vCenter, and removes those that it made and whose host is gone.
pub async fn hosts(context: &Context, live: &Live, vcenter: &str, namespace: &str) -> Result<(), Error> {
    while !context.infos.hosts.is_filled() {
        tokio::time::sleep(MOMENT).await;
    }
    if live.away().is_some() {
        return Ok(());
    }
    let names: BTreeSet<String> = live.mirror().hosts.values().map(|host| host.name.clone()).collect();
    let label = names::label(vcenter);
    let all = context.infos.hosts.all().filter(|info| info.namespace().as_deref() == Some(namespace));
    let (ours, others): (Vec<_>, Vec<_>) = all.partition(|info| info.labels().get(VCENTER_LABEL) == Some(&label));
    let taken: BTreeSet<String> = others.iter().map(|info| info.name_any()).collect();
    let wanted: BTreeMap<String, HostInfo> = names
        .iter()
        .filter(|name| !name.is_empty())
        .map(|host| host_info(host, vcenter, namespace, &taken))
        .map(|info| (info.name_any(), info))
        .collect();
    for info in &ours {
        if !wanted.contains_key(&info.name_any()) {
            info!(hostinfo = %info.name_any(), %namespace, "the host is gone");
            remove(&context.kube, &**info).await?;
        }
    }
    let ours: BTreeMap<_, _> = ours.iter().map(|info| (info.name_any(), info)).collect();
    for (name, wanted) in &wanted {
        let is_there = ours.get(name).is_some_and(|info| is_as_published(&***info, wanted) && info.spec == wanted.spec);
        if !is_there {
            apply(&context.kube, wanted).await?;
        }
    }
    Ok(())
}

/// The HostInfo of a host. It is named as the host, or, where somebody else's has that name, as the host and the vCenter.
fn host_info(host: &str, vcenter: &str, namespace: &str, taken: &BTreeSet<String>) -> HostInfo {
    let name = object_name(host);
    let name = if taken.contains(&name) { object_name(&format!("{host}-{vcenter}")) } else { name };
    let mut info = HostInfo::new(&name, HostInfoSpec { hostname: host.to_owned(), vcenter: Some(vcenter.to_owned()) });
    info.metadata.namespace = Some(namespace.to_owned());
    info.labels_mut().insert(VCENTER_LABEL.to_owned(), names::label(vcenter));
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
        let info = host_info("esxi-1", "lab", "ns", &BTreeSet::new());
        assert_eq!((info.name_any().as_str(), info.spec.hostname.as_str()), ("esxi-1", "esxi-1"));
        assert_eq!(info.spec.vcenter.as_deref(), Some("lab"));
        assert_eq!(info.labels()[VCENTER_LABEL], "lab");
        let other = host_info("esxi-1", "lab", "ns", &BTreeSet::from(["esxi-1".to_owned()]));
        assert_eq!(other.name_any(), "esxi-1-lab");
    }
}
