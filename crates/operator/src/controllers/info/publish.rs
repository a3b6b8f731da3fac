//! What Drover makes by itself: a VMInfo for each member of a group, and a HostInfo for each host of a vCenter.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use drover_api::{HostInfo, HostInfoSpec, VCenter, VMInfo, VMInfoSpec, VmGroup, vminfo::GROUP_LABEL};
use drover_core::{
    events::Event,
    info::publication::{HostNames, host_names},
    names,
    reasons::Reason,
    vcenter::status::Publication,
    vmgroup::take_over::marker_uid,
};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::{controller::Action as Requeue, reflector::ObjectRef},
};
use serde::{Serialize, de::DeserializeOwned};
use tracing::info;

use super::{MANAGER, MOMENT, controller};
use crate::{
    controllers::{
        Context,
        binding::BoundVCenter,
        reconcile::{Error, mandated},
    },
    kube::{
        refusal::{is_namespace_ending, is_namespace_leaving, is_stale},
        scope::{Controller, Scope},
    },
    telemetry::log::named,
    vcenter::VCenterHandle,
};

/// How long to wait for a watch that doesn't know yet what the API server knows.
const BEHIND: Duration = Duration::from_millis(500);
/// How many HostInfos are removed in one turn.
const AT_ONCE: usize = 50;

/// The label of the HostInfos that are published for a vCenter: its value is the VCenter's name.
const VCENTER_LABEL: &str = "vm.codeconnect.vmworld.com/vcenter";
/// How many names a message lists.
const LISTED: usize = 3;

/// Makes a VMInfo for each member of a group, and removes those whose member is gone.
pub(super) async fn members(group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    mandated(context.vcenters.mandate_for(&group), |_| publish(group, context)).await
}

async fn publish(group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    if !context.infos.machines.is_filled() {
        return Ok(Requeue::requeue(MOMENT));
    }
    let namespace = group.namespace().unwrap_or_default();
    let uid = group.uid().unwrap_or_default();
    context.infos.note_marker_uid(&group);
    if context.vcenters.is_ending(&namespace) {
        // Whoever deletes it deletes all that is in it.
        context.infos.note_in_the_way(&(namespace, group.name_any()), &BTreeSet::new());
        return Ok(Requeue::await_change());
    }
    let Some(vcenter) = group.status.as_ref().and_then(|status| status.vcenter.clone()) else {
        return Ok(Requeue::await_change());
    };
    let Ok(BoundVCenter { live, .. }) = context.vcenters.choose(&namespace, Some(&vcenter)) else {
        return Ok(Requeue::await_change());
    };
    if !live.is_in_sight() {
        // When it is back, everybody's turn comes.
        return Ok(Requeue::await_change());
    }
    let members: BTreeSet<String> = live.mirror().members(&marker_uid(&group), &context.cluster).into_keys().collect();
    let is_ending = group.meta().deletion_timestamp.is_some();
    let wanted: Vec<_> = members.iter().map(|member| member_info(&group, &vcenter, &namespace, member)).collect();
    let names: BTreeSet<String> = wanted.iter().map(ResourceExt::name_any).collect();
    let (kept, gone): (Vec<_>, Vec<_>) =
        context.infos.of_group(&namespace, &uid).partition(|info| names.contains(&info.name_any()));
    for info in gone.iter().filter(|info| info.metadata.deletion_timestamp.is_none()) {
        remove(&context.kube, &**info).await?;
    }
    if is_ending {
        context.infos.note_in_the_way(&(namespace, group.name_any()), &BTreeSet::new());
        return Ok(Requeue::await_change());
    }
    let kept: BTreeMap<_, _> = kept.into_iter().map(|info| (info.name_any(), info)).collect();
    let (there, missing): (Vec<_>, Vec<_>) = wanted.iter().partition(|info| kept.contains_key(&info.name_any()));
    let is_in_the_way = |info: &&&VMInfo| context.infos.machines.store.get(&ObjectRef::from_obj(**info)).is_some();
    let (in_the_way, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(|info| is_in_the_way(&info));
    tell_of_those_in_the_way(&context, &group, &in_the_way.into_iter().map(ResourceExt::name_any).collect());
    let others = there.into_iter().filter_map(|info| {
        let there = &kept[&info.name_any()];
        let is_right = is_as_published(&**there, info) && there.spec == info.spec;
        (!is_right).then(|| (info, Some(&**there)))
    });
    for (wanted, there) in missing.into_iter().map(|info| (info, None)).chain(others) {
        match write(&context.kube, wanted, there).await {
            Ok(()) => {}
            // The watch is behind.
            Err(error) if is_stale(&error) => return Ok(Requeue::requeue(BEHIND)),
            Err(error) if is_namespace_leaving(&error) => return Ok(Requeue::await_change()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Requeue::await_change())
}

fn member_info(group: &VmGroup, vcenter: &str, namespace: &str, member: &str) -> VMInfo {
    let spec = VMInfoSpec { nodename: member.to_owned(), vcenter: Some(vcenter.to_owned()) };
    // Not every name that vCenter takes is an object's: that of a long group's member may be cut after a dot.
    let mut info = VMInfo::new(&names::object(member), spec);
    info.metadata.namespace = Some(namespace.to_owned());
    info.labels_mut().insert(GROUP_LABEL.to_owned(), names::label(&group.name_any()));
    // A group that was read from the API server has a name and a UID, so it has a reference.
    info.metadata.owner_references = group.controller_owner_ref(&()).map(|owner| vec![owner]);
    info
}

/// Says, once, that members can't be published because somebody else's VMInfos have their names.
fn tell_of_those_in_the_way(context: &Context, group: &VmGroup, names: &BTreeSet<String>) {
    let key = (group.namespace().unwrap_or_default(), group.name_any());
    if !context.infos.note_in_the_way(&key, names) {
        return;
    }
    let message = format!(
        "{} not published: a VMInfo of that name is there that isn't the group's, and is left alone: delete it, or give it another name",
        listed(names)
    );
    context.events.tell(group, &[Event::warning(Reason::NameTaken, message)]);
}

/// The first few of some names, and how many more there are.
fn listed(names: &BTreeSet<String>) -> String {
    let first: Vec<_> = names.iter().take(LISTED).map(String::as_str).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    match names.len().saturating_sub(LISTED) {
        0 => format!("{} {verb}", first.join(", ")),
        more => format!("{} and {more} more {verb}", first.join(", ")),
    }
}

/// Makes a HostInfo for each host of a vCenter in the namespace that its VCenter says, and removes those that were made for it
/// and have no place there any more. Whatever comes of it is no reason to say less about the vCenter.
pub(crate) async fn hosts(context: &Context, live: &VCenterHandle, vcenter: &VCenter) -> Publication {
    let publish = &vcenter.spec.publish;
    let namespace = publish.namespace.as_deref().filter(|_| publish.hosts);
    if let Some(why) = namespace.and_then(|namespace| out_of_scope(&context.scope, namespace)) {
        return Publication::Incomplete(Reason::RequestRefused, why);
    }
    if !context.scope.runs(Controller::HostInfo) {
        return Publication::NotAsked;
    }
    if !context.infos.hosts.is_filled() {
        // It is looked at again in a moment.
        return Publication::Unknown;
    }
    let uid = vcenter.uid().unwrap_or_default();
    let (ours, others): (Vec<_>, Vec<_>) =
        context.infos.hosts.all().partition(|info| controller(&**info).is_some_and(|owner| owner.uid == uid));
    let hosts = live.mirror().hosts.values().map(|host| host.name.clone()).filter(|name| !name.is_empty()).collect();
    let (wanted, left_out) =
        namespace.map(|namespace| wanted(&hosts, vcenter, namespace, &ours, &others)).unwrap_or_default();
    let ours: BTreeMap<_, _> = ours.iter().map(|info| ((info.namespace(), info.name_any()), &**info)).collect();
    let is_ending = namespace.is_some_and(|namespace| context.vcenters.is_ending(namespace));
    let outcome = async {
        let written = if is_ending { Ok(()) } else { write_all(&context.kube, &ours, &wanted).await };
        remove_superfluous(&context.kube, &ours, &wanted).await?;
        written
    };
    let ending = |namespace: &str| format!("spec.publish.namespace: the namespace {namespace} is being deleted");
    match (outcome.await, namespace) {
        (Err(error), Some(namespace)) if is_namespace_ending(&error) => Publication::Ending(ending(namespace)),
        (Err(error), _) => {
            Publication::Incomplete(Reason::RequestRefused, format!("spec.publish: the API server: {error}"))
        }
        (Ok(()), None) => Publication::NotAsked,
        (Ok(()), Some(namespace)) if is_ending => Publication::Ending(ending(namespace)),
        (Ok(()), Some(_)) if left_out.is_empty() => Publication::Whole,
        (Ok(()), Some(namespace)) => Publication::Incomplete(
            Reason::NameTaken,
            format!(
                "{} not published: HostInfos in {namespace} that aren't the VCenter's have all names that it would get: delete or rename them",
                listed(&left_out)
            ),
        ),
    }
}

/// Why this operator publishes no hosts in a namespace.
fn out_of_scope(scope: &Scope, namespace: &str) -> Option<String> {
    if !scope.runs(Controller::HostInfo) {
        return Some("spec.publish.hosts: the operator's flag --controllers leaves out hostinfo".to_owned());
    }
    let why = || format!("spec.publish.namespace: the operator's flag --namespaces leaves out {namespace}");
    (!scope.reach.covers(namespace)).then(why)
}

/// HostInfos by namespace and name.
type ByKey<T> = BTreeMap<(Option<String>, String), T>;

/// The HostInfos that a vCenter's hosts are to have, and the hosts that can have none.
fn wanted(
    hosts: &BTreeSet<String>,
    vcenter: &VCenter,
    namespace: &str,
    ours: &[Arc<HostInfo>],
    others: &[Arc<HostInfo>],
) -> (ByKey<HostInfo>, BTreeSet<String>) {
    let is_here = |info: &&Arc<HostInfo>| info.metadata.namespace.as_deref() == Some(namespace);
    let taken = others.iter().filter(is_here).map(|info| info.name_any()).collect();
    let held = ours.iter().filter(is_here).map(|info| (info.name_any(), info.spec.hostname.clone())).collect();
    let HostNames { given, left_out } = host_names(hosts, &vcenter.name_any(), &taken, &held);
    let infos = given.iter().map(|(host, name)| host_info(host, name, vcenter, namespace));
    (infos.map(|info| ((info.namespace(), info.name_any()), info)).collect(), left_out)
}

async fn remove_superfluous(
    kube: &Client,
    ours: &ByKey<&HostInfo>,
    wanted: &ByKey<HostInfo>,
) -> Result<(), kube::Error> {
    let superfluous = ours.iter().filter(|(key, _)| !wanted.contains_key(key)).map(|(_, info)| info);
    // One that somebody holds back is on its way already.
    for info in superfluous.filter(|info| info.metadata.deletion_timestamp.is_none()).take(AT_ONCE) {
        info!(hostinfo = %named(*info), "HostInfo deleted; its host is gone or not to be published");
        remove(kube, *info).await?;
    }
    Ok(())
}

/// Makes or mends the HostInfos that aren't as they should be. One that the API server doesn't take keeps no other from it.
async fn write_all(kube: &Client, ours: &ByKey<&HostInfo>, wanted: &ByKey<HostInfo>) -> Result<(), kube::Error> {
    let mut first = Ok(());
    for (key, wanted) in wanted {
        let there = ours.get(key).copied();
        if there.is_some_and(|info| is_as_published(info, wanted) && info.spec == wanted.spec) {
            continue;
        }
        match write(kube, wanted, there).await {
            // The watch is behind: it is looked at again in a moment.
            Err(error) if is_stale(&error) => {}
            Err(error) if matches!(&error, kube::Error::Api(status) if matches!(status.code, 400 | 422)) => {
                first = first.and(Err(error));
            }
            outcome => outcome?,
        }
    }
    first
}

fn host_info(host: &str, name: &str, vcenter: &VCenter, namespace: &str) -> HostInfo {
    let label = vcenter.name_any();
    let mut info = HostInfo::new(name, HostInfoSpec { hostname: host.to_owned(), vcenter: Some(label.clone()) });
    info.metadata.namespace = Some(namespace.to_owned());
    info.labels_mut().insert(VCENTER_LABEL.to_owned(), names::label(&label));
    // They go with it. One that was read from the API server has a name and a UID, so it has a reference.
    info.metadata.owner_references = vcenter.controller_owner_ref(&()).map(|owner| vec![owner]);
    info
}

/// Whether an object has the labels and the owner that it was published with.
fn is_as_published<K: Resource>(is: &K, wanted: &K) -> bool {
    let labels = wanted.labels().iter().all(|(name, value)| is.labels().get(name) == Some(value));
    labels && wanted.owner_references().iter().all(|owner| is.owner_references().contains(owner))
}

/// Makes an object, or puts right one of ours. What somebody else has made or changed since it was looked at stays as it is.
async fn write<K>(kube: &Client, wanted: &K, there: Option<&K>) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
{
    let api: Api<K> = Api::namespaced(kube.clone(), &wanted.namespace().unwrap_or_default());
    let Some(there) = there else {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        return api.create(&params, wanted).await.map(drop);
    };
    let mut wanted = wanted.clone();
    wanted.meta_mut().uid = there.uid();
    wanted.meta_mut().resource_version = there.resource_version();
    api.patch(&wanted.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(&wanted)).await.map(drop)
}

async fn remove<K>(kube: &Client, info: &K) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(kube.clone(), &info.namespace().unwrap_or_default());
    // Another of its name may be somebody else's.
    let preconditions = Preconditions { uid: info.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&info.name_any(), &params).await {
        Err(kube::Error::Api(gone)) if matches!(gone.code, 404 | 409) => Ok(()),
        outcome => outcome.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab() -> VCenter {
        let spec = serde_json::json!({"server": "vc", "credentialsSecretRef": {"namespace": "ops", "name": "lab"}});
        let mut vcenter = VCenter::new("lab", serde_json::from_value(spec).unwrap());
        vcenter.metadata.uid = Some("uid".to_owned());
        vcenter
    }

    #[test]
    fn a_published_host_says_whose_it_is_and_leaves_a_name_that_is_taken() {
        let vcenter = lab();
        let hosts = BTreeSet::from(["ESXi-1".to_owned()]);
        let only = |others: &[Arc<HostInfo>]| {
            let (wanted, left_out) = wanted(&hosts, &vcenter, "ns", &[], others);
            assert!(left_out.is_empty());
            wanted.into_values().next().unwrap()
        };
        let info = only(&[]);
        assert_eq!((info.name_any().as_str(), info.spec.hostname.as_str()), ("esxi-1", "ESXi-1"));
        assert_eq!((info.namespace().as_deref(), info.spec.vcenter.as_deref()), (Some("ns"), Some("lab")));
        assert_eq!((info.labels()[VCENTER_LABEL].as_str(), info.owner_references()[0].uid.as_str()), ("lab", "uid"));
        let spec = HostInfoSpec { hostname: "mine".to_owned(), vcenter: None };
        let mut theirs = HostInfo::new("esxi-1", spec);
        theirs.metadata.namespace = Some("elsewhere".to_owned());
        assert_eq!(only(&[Arc::new(theirs.clone())]).name_any(), "esxi-1");
        theirs.metadata.namespace = Some("ns".to_owned());
        assert_eq!(only(&[Arc::new(theirs)]).name_any(), "esxi-1-lab");
    }

    #[test]
    fn only_the_first_few_of_many_names_are_listed() {
        let names = |count: usize| (0..count).map(|number| format!("a{number}")).collect();
        assert_eq!(listed(&names(1)), "a0 is");
        assert_eq!(listed(&names(2)), "a0, a1 are");
        assert_eq!(listed(&names(5)), "a0, a1, a2 and 2 more are");
    }
}
