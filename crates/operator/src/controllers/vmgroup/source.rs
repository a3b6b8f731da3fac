//! What a group names, found in vCenter: where its machines go and what they are made from.

use std::{collections::BTreeSet, sync::Arc};

use drover_api::{
    VmGroupSpec,
    vcenter::Reach,
    vmgroup::{CloneMode, GuestNetwork, Placement, Text},
};
use drover_core::{
    tenancy::cloud_init::secret_obstacle,
    vmgroup::{guest, placement::NoHost},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use vim25::{
    LookupError, ManagedObject, Secret as Hidden,
    refs::{
        ClusterComputeResourceRef, DatastoreRef, NetworkRef, ResourcePoolRef, VirtualMachineRef,
        VirtualMachineSnapshotRef,
    },
};

use super::{networks, root_disk};
use crate::{
    controllers::reconcile::Error as Failure,
    kube::refusal::words as words_of,
    vcenter::{
        VCenterHandle,
        mirror::Mirror,
        privileges::{Part, RequiredObjects, Whose, required},
        source::{Base, Choice, CloudInit, Hosts, Make, Source},
        templates::{TemplateDetails, Unread},
    },
};

/// The folder that the seed operator's users make for it.
const DEFAULT_FOLDER: &str = "vm-operator";
/// The resource pool that every cluster or lone host has by itself.
const DEFAULT_POOL: &str = "Resources";

/// What a group's spec names.
#[derive(Debug)]
pub(crate) struct Found {
    pub base: Base,
    /// The template, if there is one: clones of it may be on their way.
    pub template: Option<VirtualMachineRef>,
    /// What a clone needs of vCenter.
    pub source: Result<Source, Unusable>,
    /// What guests are told, as of now, once that is known. What is in a Secret is read for each plan that clones, and never kept.
    pub cloud_init: Option<Result<CloudInit, Unusable>>,
    /// Whether the group may use what it names, where that is restricted, or why not.
    pub reach: Option<Result<(), String>>,
}

impl Found {
    /// What is known of a group whose folder is here, and of which nothing else was looked for.
    pub(super) fn at(base: Base, spec: &VmGroupSpec) -> Self {
        let source = Err(Unusable::Field("template", "it was not looked for".to_owned()));
        let cloud_init = inline_cloud_init(spec).map(|told| can_be_told(told, spec));
        Self { base, template: None, source, cloud_init, reach: None }
    }

    /// Why clones can't be made, if that is known.
    pub(super) fn unusable(&self) -> Option<&Unusable> {
        let cloud_init = self.cloud_init.as_ref().and_then(|told| told.as_ref().err());
        self.source.as_ref().err().or(cloud_init)
    }

    /// What VMs are cloned from, as far as it is known.
    pub(super) fn template(&self) -> Option<&VirtualMachineRef> {
        self.source.as_ref().map(|source| &source.template).ok().or(self.template.as_ref())
    }

    /// Whether it names something that it may not use.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.reach, Some(Err(_)))
    }
}

/// Notes where rights are needed for a folder.
pub(super) fn require_base(base: &Base, live: &VCenterHandle, whose: &Whose, placement: &Placement) {
    let used = [required(base.folder.reference(), Part::Folder, folder_name(placement))].into();
    live.privileges().require(whose, |concern| concern.part == Part::Folder, used);
}

/// Notes where rights are needed for clones.
pub(super) fn require_source(source: &Source, base: &Base, live: &VCenterHandle, whose: &Whose, spec: &VmGroupSpec) {
    let part = if source.make.is_template { Part::Template } else { Part::PlainVm };
    let mut all = RequiredObjects::from([
        required(source.template.reference(), part, &spec.template),
        required(source.pool.reference(), Part::ResourcePool, pool_name(spec)),
    ]);
    let datastores = source.datastore.iter().zip(&spec.placement.datastore);
    all.extend(datastores.map(|(datastore, name)| required(datastore.reference(), Part::Datastore, name)));
    let networks = source.networks.iter().zip(spec.network_names());
    all.extend(networks.map(|(network, name)| required(network.reference(), Part::Network, name)));
    let customized = spec.guest.network.filter(|way| *way == GuestNetwork::Customization);
    all.extend(customized.map(|_| required(source.template.reference(), Part::Customized, &spec.template)));
    let grown = source.root_disk.growth.iter();
    all.extend(grown.map(|_| required(base.folder.reference(), Part::GrownDisks, folder_name(&spec.placement))));
    live.privileges().require(whose, |concern| concern.part != Part::Folder, all);
}

/// What the resource pool is called that clones go to.
fn pool_name(spec: &VmGroupSpec) -> &str {
    let placement = &spec.placement;
    placement.resource_pool.as_deref().or(placement.cluster.as_deref()).unwrap_or("that is the default")
}

/// Forgets where rights were needed for what a spec names no more. What it still names is noted anew when it is looked for.
pub(super) fn forget_unnamed(live: &VCenterHandle, whose: &Whose, spec: &VmGroupSpec) {
    let placement = &spec.placement;
    let named = [folder_name(placement), pool_name(spec), &spec.template];
    let named: BTreeSet<_> =
        named.into_iter().chain(placement.datastore.as_deref()).chain(spec.network_names()).collect();
    live.privileges().require(whose, |concern| !named.contains(concern.name.as_str()), RequiredObjects::new());
}

/// Why something that the group names can't be used, as a sentence that names the field.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("spec.{0}: {1}")]
    Lookup(&'static str, LookupError),
    #[error("spec.{0}: {1}")]
    Field(&'static str, String),
    /// Something is there that the group may not use.
    #[error("{0}")]
    NotAllowed(String),
    #[error("spec.placement: {0}")]
    NoHost(#[from] NoHost),
    /// Whose VMs the group has.
    #[error("{0}")]
    Unclear(String),
    /// It may be usable in a moment.
    #[error("spec.{0}: {1}")]
    NotNow(&'static str, String),
    /// What clones need to know of the template that is called so is not known.
    #[error("spec.template: {}", unread(.0, .1))]
    Unread(String, Unread),
}

fn unread(template: &str, why: &Unread) -> String {
    match why {
        Unread::NotYet => format!("{template:?} has not been read yet"),
        Unread::NotMade => format!("{template:?} has no configuration yet"),
        Unread::Failed(error) => error.to_string(),
    }
}

/// What a group declares, with what it leaves open as its vCenter says.
pub(super) fn with_defaults(spec: &VmGroupSpec, defaults: &Placement) -> VmGroupSpec {
    VmGroupSpec { placement: spec.placement.or(defaults), ..spec.clone() }
}

pub(super) fn base(mirror: &Mirror, placement: &Placement) -> Result<Base, Unusable> {
    let datacenter = match &placement.datacenter {
        Some(name) => mirror.find(None, name),
        None => mirror.only_datacenter(),
    };
    let datacenter = datacenter.map_err(|error| Unusable::Lookup("placement.datacenter", error))?;
    let folder = mirror.find(Some(&datacenter), folder_name(placement));
    Ok(Base { folder: folder.map_err(|error| Unusable::Lookup("placement.folder", error))?, datacenter })
}

/// What the folder is called that groups' folders are made in.
pub(super) fn folder_name(placement: &Placement) -> &str {
    placement.folder.as_deref().unwrap_or(DEFAULT_FOLDER)
}

/// All that a spec names, or leaves to be found, as it names it.
pub(super) fn words(spec: &VmGroupSpec) -> impl Iterator<Item = &str> {
    let Placement { datacenter, resource_pool, cluster, datastore, hosts, .. } = &spec.placement;
    let places = [datacenter, resource_pool, cluster, datastore].into_iter().flatten().chain(hosts);
    places.map(String::as_str).chain(spec.network_names()).chain([
        folder_name(&spec.placement),
        &spec.template,
        DEFAULT_POOL,
    ])
}

/// All that clones need of vCenter, by what it has told.
pub(super) fn source(
    mirror: &Mirror,
    base: &Base,
    template: Option<VirtualMachineRef>,
    choice: Option<&Choice>,
    spec: &VmGroupSpec,
) -> Result<Source, Unusable> {
    let template = match choice.map(|choice| choice.template.clone()).or(template) {
        Some(template) => template,
        None => find_template(mirror, base, &spec.template)?,
    };
    let datastore = datastore(mirror, base, choice, spec)?;
    let pool = pool(mirror, base, choice, spec)?;
    let networks = named_networks(mirror, base, choice, spec)?;
    let hosts = hosts(mirror, base, &pool, choice, spec)?;
    let details = details(mirror, &template, spec)?;
    let root_disk = root_disk::change(&details, datastore.as_ref(), spec)?;
    let make = Make {
        is_template: mirror.machines.get(template.reference()).is_some_and(|machine| machine.is_template),
        cores_per_socket: details.cores_per_socket,
        storage_mib: details.storage_mib + root_disk.growth_mib(&details),
        cards: details.cards.len(),
    };
    let snapshot = snapshot(&details, spec)?;
    let cards = networks::cards(networks::backings(mirror, &networks, spec)?, &details, spec)?;
    Ok(Source { template, make, pool, datastore, hosts, snapshot, cards, root_disk, networks, choice: choice.cloned() })
}

/// What clones need to know of a template.
pub(super) fn details(
    mirror: &Mirror,
    template: &VirtualMachineRef,
    spec: &VmGroupSpec,
) -> Result<Arc<TemplateDetails>, Unusable> {
    mirror.templates.get(template).map_err(|why| Unusable::Unread(spec.template.clone(), why))
}

/// The template that a group names.
pub(super) fn find_template(mirror: &Mirror, base: &Base, name: &str) -> Result<VirtualMachineRef, Unusable> {
    if let Some(moref) = name.strip_prefix("moref:") {
        let template = VirtualMachineRef::new(moref);
        let is_there = mirror.machines.contains_key(template.reference());
        let nobody = || Unusable::Field("template", format!("there is no machine {moref} in vCenter"));
        return is_there.then_some(template).ok_or_else(nobody);
    }
    mirror.find(Some(&base.datacenter), name).map_err(|error| Unusable::Lookup("template", error))
}

pub(super) fn datastore(
    mirror: &Mirror,
    base: &Base,
    choice: Option<&Choice>,
    spec: &VmGroupSpec,
) -> Result<Option<DatastoreRef>, Unusable> {
    if let Some(choice) = choice {
        return Ok(choice.datastore.clone());
    }
    let Some(name) = &spec.placement.datastore else { return Ok(None) };
    let found = mirror.find(Some(&base.datacenter), name);
    found.map(Some).map_err(|error| Unusable::Lookup("placement.datastore", error))
}

pub(super) fn pool(
    mirror: &Mirror,
    base: &Base,
    choice: Option<&Choice>,
    spec: &VmGroupSpec,
) -> Result<ResourcePoolRef, Unusable> {
    if let Some(choice) = choice {
        return Ok(choice.pool.clone());
    }
    let datacenter = Some(&base.datacenter);
    let placement = &spec.placement;
    let Some(name) = placement.cluster.as_ref().filter(|_| placement.resource_pool.is_none()) else {
        let pool = mirror.find(datacenter, placement.resource_pool.as_deref().unwrap_or(DEFAULT_POOL));
        return pool.map_err(|error| Unusable::Lookup("placement.resourcePool", error));
    };
    let cluster = mirror.find::<ClusterComputeResourceRef>(datacenter, name);
    let cluster = cluster.map_err(|error| Unusable::Lookup("placement.cluster", error))?;
    let none = || Unusable::Field("placement.cluster", format!("{name} has no resource pool"));
    mirror.own_pool(cluster.reference()).ok_or_else(none)
}

/// The networks that a group names.
pub(super) fn named_networks(
    mirror: &Mirror,
    base: &Base,
    choice: Option<&Choice>,
    spec: &VmGroupSpec,
) -> Result<Vec<NetworkRef>, Unusable> {
    if let Some(choice) = choice {
        return Ok(choice.networks.clone());
    }
    let found = spec.network_names().map(|name| mirror.find(Some(&base.datacenter), name));
    found.collect::<Result<_, _>>().map_err(|error| Unusable::Lookup("networks", error))
}

/// Which hosts machines can be put on. How they are is read when they are needed.
pub(super) fn hosts(
    mirror: &Mirror,
    base: &Base,
    pool: &ResourcePoolRef,
    choice: Option<&Choice>,
    spec: &VmGroupSpec,
) -> Result<Hosts, Unusable> {
    let mut named = Vec::new();
    // One that is named twice is looked for once.
    for name in spec.placement.hosts.iter().collect::<BTreeSet<_>>() {
        let host = if choice.is_some() {
            // Which hosts there are elsewhere is not for its namespace to know.
            let host = mirror.host_called(&base.datacenter, pool, name);
            host.ok_or_else(|| {
                Unusable::Field("placement.hosts", format!("there is no host {name:?} for its resource pool"))
            })
        } else {
            let host = mirror.find(Some(&base.datacenter), name);
            host.map_err(|error| Unusable::Lookup("placement.hosts", error))
        };
        named.push((host?, name.clone()));
    }
    if !named.is_empty() {
        return Ok(Hosts::Named(named));
    }
    let Some(owner) = mirror.owner_of(pool) else { return Ok(Hosts::Unknown) };
    let chooses = mirror.places.get(&owner).is_some_and(|place| place.chooses_hosts);
    Ok(if chooses { Hosts::ChosenBy(owner) } else { Hosts::Of(owner) })
}

/// The snapshot that clones are linked to, if they are.
pub(super) fn snapshot(
    template: &TemplateDetails,
    spec: &VmGroupSpec,
) -> Result<Option<VirtualMachineSnapshotRef>, Unusable> {
    if spec.clone.mode == CloneMode::Full {
        return Ok(None);
    }
    let none = || {
        Unusable::Field("clone.mode", format!("{} has no snapshot to link to: make one, or use Full", spec.template))
    };
    template.snapshot.clone().map(Some).ok_or_else(none)
}

/// What a group's guests are told, if that is all in its spec.
pub(super) fn inline_cloud_init(spec: &VmGroupSpec) -> Option<CloudInit> {
    let Some(cloud_init) = &spec.guest.cloud_init else { return Some(CloudInit::default()) };
    let inline = |text: Option<&Text>| match text {
        Some(Text { secret_key_ref: Some(_), .. }) => None,
        Some(text) => Some(text.inline.clone().map(Hidden::new)),
        None => Some(None),
    };
    Some(CloudInit {
        user_data: inline(cloud_init.user_data.as_ref())?,
        metadata: inline(cloud_init.metadata.as_ref())?,
    })
}

/// What guests are told, if the hostname and network of each can be told with it.
fn can_be_told(told: CloudInit, spec: &VmGroupSpec) -> Result<CloudInit, Unusable> {
    let whole = guest::can_be_told(told.metadata.as_ref().map(Hidden::expose), spec);
    whole.map_err(|bad| Unusable::Field("guest.cloudInit", bad.to_string()))?;
    Ok(told)
}

/// What a group's guests are told now.
pub(super) async fn cloud_init(
    secrets: Option<&Api<Secret>>,
    spec: &VmGroupSpec,
    reach: Reach,
) -> Result<CloudInit, Unusable> {
    let Some(cloud_init) = &spec.guest.cloud_init else { return Ok(CloudInit::default()) };
    let user_data = text(secrets, cloud_init.user_data.as_ref(), reach).await?;
    let metadata = text(secrets, cloud_init.metadata.as_ref(), reach).await?;
    can_be_told(CloudInit { user_data, metadata }, spec)
}

async fn text(secrets: Option<&Api<Secret>>, text: Option<&Text>, reach: Reach) -> Result<Option<Hidden>, Unusable> {
    let Some(text) = text else { return Ok(None) };
    let Some(reference) = &text.secret_key_ref else { return Ok(text.inline.clone().map(Hidden::new)) };
    let field = "guest.cloudInit";
    let unusable = |why: String| Unusable::Field(field, why);
    let Some(secrets) = secrets else {
        return Err(unusable(format!("the Secret {} can't be read without a cluster", reference.name)));
    };
    let secret = secrets.get_opt(&reference.name).await;
    let secret = secret.map_err(|error| {
        let why = format!("the Secret {}: {}", reference.name, words_of(&error));
        // What the API server refuses it will refuse again. Anything else passes.
        if Failure::from(error).is_refusal() { unusable(why) } else { Unusable::NotNow(field, why) }
    })?;
    let secret = secret.ok_or_else(|| unusable(format!("the Secret {} isn't there", reference.name)))?;
    if let Some(obstacle) = secret_obstacle(&reference.name, &secret, reach) {
        return Err(Unusable::NotAllowed(format!("spec.guest.cloudInit: {obstacle}")));
    }
    let bytes = secret.data.and_then(|mut data| data.remove(&reference.key));
    let bytes = bytes.ok_or_else(|| unusable(format!("the Secret {} has no key {}", reference.name, reference.key)))?;
    let text =
        String::from_utf8(bytes.0).map_err(|_| unusable(format!("the key {} is not UTF-8 text", reference.key)))?;
    Ok(Some(Hidden::new(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(guest: &Value) -> VmGroupSpec {
        serde_json::from_value(json!({"cpu": 1, "memory": 1, "replicas": 1, "template": "t", "guest": guest})).unwrap()
    }

    #[test]
    fn what_guests_are_told_is_read_for_each_plan_only_where_a_secret_has_it() {
        let both = json!({"cloudInit": {"userData": {"inline": "hush"}, "metadata": {"inline": "{}"}}});
        let told = inline_cloud_init(&spec(&both)).unwrap();
        assert_eq!(told.user_data.as_ref().map(Hidden::expose), Some("hush"));
        assert!(!format!("{told:?}").contains("hush"));
        assert_eq!(inline_cloud_init(&spec(&json!({}))), Some(CloudInit::default()));
        let secret = json!({"cloudInit": {"userData": {"secretKeyRef": {"name": "s", "key": "k"}}}});
        assert_eq!(inline_cloud_init(&spec(&secret)), None);
    }
}
