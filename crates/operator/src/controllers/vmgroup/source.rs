//! What a group names, found in vCenter: where its machines go and what they are made from.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::{
    VmGroupSpec,
    vcenter::Reach,
    vmgroup::{CloneMode, Placement, Text},
};
use drover_core::{
    group::{Power, Timestamp},
    names::Slot,
    placement::{Candidate, NoHost, Obstacle, place},
    tenancy::cloud_init::secret_obstacle,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use vim25::{
    Client, Inventory, LookupError, ManagedObject, ManagedObjectReference, Secret as Hidden,
    props::{cluster_compute_resource, resource_pool, virtual_machine},
    refs::{
        ClusterComputeResourceRef, DatacenterRef, DatastoreRef, FolderRef, HostSystemRef, NetworkRef, ResourcePoolRef,
        VirtualMachineRef, VirtualMachineSnapshotRef,
    },
    types::{ObjectSpec, PropertyFilterSpec, PropertySpec, VirtualDeviceConfigSpec},
};

use super::{networks, reach::Choice};
use crate::{
    kube::refusal::words,
    vcenter::{
        VCenterHandle,
        host::Host,
        machine::{disks_mib, power_of},
        mirror::Mirror,
        privileges::{Concern, Concerns, Part, Whose},
    },
};

/// The folder that the seed operator's users make for it.
const DEFAULT_FOLDER: &str = "vm-operator";

/// Where the group's folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub datacenter: DatacenterRef,
    pub folder: FolderRef,
}

/// What a group's spec names, as far as it has been looked for.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub base: Base,
    /// The template, if there is one: clones of it may be on their way.
    pub template: Option<VirtualMachineRef>,
    /// What the group means by what it names, where that is restricted.
    pub choice: Option<Choice>,
    /// What a clone needs of vCenter, once one is needed.
    pub source: Option<Source>,
    /// What guests are told, as of now. What is in a Secret is read for each plan that clones, and never kept.
    pub cloud_init: Option<CloudInit>,
    /// Whether the group may use what it names, where that is restricted, or why not.
    pub reach: Option<Result<(), String>>,
}

/// What the group's machines are made from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub template: VirtualMachineRef,
    pub make: Make,
    pub pool: ResourcePoolRef,
    pub datastore: Option<DatastoreRef>,
    pub hosts: Hosts,
    /// The template's snapshot, for linked clones.
    pub snapshot: Option<VirtualMachineSnapshotRef>,
    /// Changes that put the network cards where they belong.
    pub cards: Vec<VirtualDeviceConfigSpec>,
    /// The networks that the group names.
    pub networks: Vec<NetworkRef>,
    /// What was chosen of all this, where the group may not use everything.
    pub choice: Option<Choice>,
}

/// What is cloned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Make {
    /// Whether it is a template, and not a plain VM.
    pub is_template: bool,
    /// Its power state when it was looked for.
    pub power: Power,
    pub cores_per_socket: u32,
    /// Capacity of its disks, in MiB.
    pub storage_mib: u64,
}

/// Which hosts machines can be put on.
#[derive(Clone, Debug)]
pub(crate) enum Hosts {
    /// Those that the user has named, in the user's words.
    Named(Vec<(HostSystemRef, String)>),
    /// Those of a cluster, or a lone host. Clones say which, because nothing in vCenter would.
    Of(ManagedObjectReference),
    /// Those of a cluster that chooses by itself.
    ChosenBy(ManagedObjectReference),
    /// Nobody knows.
    Unknown,
}

/// The hosts that a group's clones can go to, as they are now.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostsNow {
    pub candidates: Vec<Candidate<ManagedObjectReference>>,
    /// Where the group's machines are.
    pub members: BTreeMap<Slot, ManagedObjectReference>,
}

/// What guests are told. It may hold passwords, and is never printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CloudInit {
    pub user_data: Option<Hidden>,
    pub metadata: Option<Hidden>,
}

impl Found {
    /// What is known of a group whose folder is here, and of which nothing else was looked for.
    pub(super) fn at(base: Base, spec: &VmGroupSpec) -> Self {
        let cloud_init = CloudInit::inline(spec);
        Self { base, template: None, choice: None, source: None, cloud_init, reach: None }
    }

    /// What VMs are cloned from, as far as it is known.
    pub(super) fn template(&self) -> Option<&VirtualMachineRef> {
        self.source.as_ref().map(|source| &source.template).or(self.template.as_ref())
    }

    /// Whether it names something that it may not use. Nothing tells when that changes in vCenter.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.reach, Some(Err(_)))
    }
}

impl Base {
    /// Notes where rights are needed.
    pub(crate) fn concern(&self, live: &VCenterHandle, whose: &Whose, placement: &Placement) {
        let folder = Concern { part: Part::Folder, name: folder_name(placement).to_owned() };
        let used = [(self.folder.reference().clone(), folder)].into();
        live.privileges().concern(whose, |concern| concern.part == Part::Folder, used);
    }
}

impl Source {
    /// Notes where rights are needed.
    pub(crate) fn concern(&self, live: &VCenterHandle, whose: &Whose, spec: &VmGroupSpec) {
        let used = |object: &ManagedObjectReference, part, name: &str| {
            (object.clone(), Concern { part, name: name.to_owned() })
        };
        let part = if self.make.is_template { Part::Template } else { Part::PlainVm };
        let mut all = Concerns::from([
            used(self.template.reference(), part, &spec.template),
            used(self.pool.reference(), Part::ResourcePool, pool_name(spec)),
        ]);
        let datastores = self.datastore.iter().zip(&spec.placement.datastore);
        all.extend(datastores.map(|(datastore, name)| used(datastore.reference(), Part::Datastore, name)));
        let networks = self.networks.iter().zip(&spec.networks);
        all.extend(networks.map(|(network, name)| used(network.reference(), Part::Network, name)));
        live.privileges().concern(whose, |concern| concern.part != Part::Folder, all);
    }
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
    let named: BTreeSet<_> = named
        .into_iter()
        .chain(placement.datastore.as_deref())
        .chain(spec.networks.iter().map(String::as_str))
        .collect();
    live.privileges().concern(whose, |concern| !named.contains(concern.name.as_str()), Concerns::new());
}

impl Hosts {
    /// Whether clones have to say which host they go to.
    pub(crate) fn are_named(&self) -> bool {
        matches!(self, Self::Named(_) | Self::Of(_))
    }

    /// The hosts as the mirror shows them now, and where a group's machines are. It is an error if clones have to say which host
    /// they go to, and none takes any. Where Drover may see no host at all, vCenter has to find one.
    pub(crate) fn now(&self, mirror: &Mirror, group: &str, now: Timestamp) -> Result<HostsNow, NoHost> {
        let candidates = self.candidates(mirror);
        if self.are_named() && !candidates.is_empty() {
            place(&candidates, group, Slot(0), now)?;
        }
        let placed = mirror.machines.values().filter_map(|machine| {
            let marker = machine.marker.as_ref().filter(|marker| marker.group == group)?;
            Some((marker.slot, machine.facts.host.clone()?))
        });
        Ok(HostsNow { candidates, members: placed.collect() })
    }

    /// How many of the hosts take machines now. It is an error if none does.
    pub(crate) fn able(&self, mirror: &Mirror) -> Result<usize, NoHost> {
        let candidates = self.candidates(mirror);
        place(&candidates, "", Slot(0), Timestamp::UNIX_EPOCH)?;
        Ok(candidates.iter().filter(|candidate| candidate.obstacle.is_none()).count())
    }

    fn candidates(&self, mirror: &Mirror) -> Vec<Candidate<ManagedObjectReference>> {
        match self {
            Self::Named(hosts) => {
                let named = |(host, name): &(HostSystemRef, String)| {
                    let seen = mirror.hosts.get(host.reference());
                    candidate(host.reference(), name, seen.map_or(Some(Obstacle::Missing), Host::obstacle))
                };
                hosts.iter().map(named).collect()
            }
            Self::Of(owner) | Self::ChosenBy(owner) => {
                let all = mirror.hosts.iter().filter(|(_, host)| host.parent.as_ref() == Some(owner));
                let mut all: Vec<_> =
                    all.map(|(reference, host)| candidate(reference, &host.name, host.obstacle())).collect();
                all.sort_by(|one, other| one.name.cmp(&other.name));
                all
            }
            Self::Unknown => Vec::new(),
        }
    }
}

fn candidate(
    host: &ManagedObjectReference,
    name: &str,
    obstacle: Option<Obstacle>,
) -> Candidate<ManagedObjectReference> {
    Candidate { host: host.clone(), name: name.to_owned(), obstacle, members: 0, load: 0, failed_until: None }
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
}

/// What a group declares, with what it leaves open as its vCenter says.
pub(super) fn with_defaults(spec: &VmGroupSpec, defaults: &Placement) -> VmGroupSpec {
    VmGroupSpec { placement: spec.placement.or(defaults), ..spec.clone() }
}

pub(super) async fn base(inventory: &Inventory, placement: &Placement) -> Result<Base, Unusable> {
    let datacenter = match &placement.datacenter {
        Some(name) => inventory.find(None, name).await,
        None => inventory.default_datacenter().await,
    };
    let datacenter = datacenter.map_err(|error| Unusable::Lookup("placement.datacenter", error))?;
    let folder = inventory.find(Some(datacenter.reference()), folder_name(placement)).await;
    Ok(Base { folder: folder.map_err(|error| Unusable::Lookup("placement.folder", error))?, datacenter })
}

/// What the folder is called that groups' folders are made in.
pub(super) fn folder_name(placement: &Placement) -> &str {
    placement.folder.as_deref().unwrap_or(DEFAULT_FOLDER)
}

/// All that clones need of vCenter.
pub(super) async fn source(
    live: &VCenterHandle,
    base: &Base,
    template: Option<VirtualMachineRef>,
    choice: Option<&Choice>,
    spec: &VmGroupSpec,
) -> Result<Source, Unusable> {
    let client = &live.client;
    let template = match choice.map(|choice| choice.template.clone()).or(template) {
        Some(template) => template,
        None => find_template(live, base, &spec.template).await?,
    };
    let datastore = datastore(live, base, choice, spec).await?;
    let pool = pool(live, base, choice, spec).await?;
    let networks = networks::named(live, base, choice, spec).await?;
    Ok(Source {
        hosts: hosts(live, base, &pool, choice, spec).await?,
        choice: choice.cloned(),
        pool,
        make: make(client, &template).await?,
        snapshot: snapshot(client, &template, spec).await?,
        cards: networks::cards(client, &networks, &template, spec).await?,
        networks,
        template,
        datastore,
    })
}

async fn make(client: &Client, template: &VirtualMachineRef) -> Result<Make, Unusable> {
    let failed = |error: vim25::Error| Unusable::Lookup("template", error.into());
    let (is_template, power) = (virtual_machine::CONFIG_TEMPLATE, virtual_machine::RUNTIME_POWER_STATE);
    let cores = virtual_machine::CONFIG_HARDWARE_NUM_CORES_PER_SOCKET;
    let devices = virtual_machine::CONFIG_HARDWARE_DEVICE;
    let object = ObjectSpec { obj: template.reference().clone(), ..ObjectSpec::default() };
    let spec = PropertyFilterSpec {
        prop_set: vec![PropertySpec::of(&[&is_template, &power, &cores, &devices])],
        object_set: vec![object],
        report_missing_objects_in_results: None,
    };
    let mut found = client.retrieve(vec![spec]).await.map_err(failed)?.pop().unwrap_or_default();
    let is_template = found.take(is_template).map_err(|error| failed(error.into()))?.unwrap_or(false);
    let power = power_of(found.take(power).map_err(|error| failed(error.into()))?.as_ref());
    let cores = found.take(cores).map_err(|error| failed(error.into()))?.unwrap_or(0);
    let devices = found.take(devices).map_err(|error| failed(error.into()))?.unwrap_or_default();
    let storage_mib = disks_mib(&devices);
    Ok(Make { is_template, power, cores_per_socket: u32::try_from(cores).unwrap_or(0), storage_mib })
}

/// The template that a group names.
pub(super) async fn find_template(
    live: &VCenterHandle,
    base: &Base,
    name: &str,
) -> Result<VirtualMachineRef, Unusable> {
    if let Some(moref) = name.strip_prefix("moref:") {
        let template = VirtualMachineRef::new(moref);
        let is_there = live.mirror().machines.contains_key(template.reference());
        let nobody = || Unusable::Field("template", format!("there is no machine {moref} in vCenter"));
        return is_there.then_some(template).ok_or_else(nobody);
    }
    let found = live.inventory.find(Some(base.datacenter.reference()), name).await;
    found.map_err(|error| Unusable::Lookup("template", error))
}

pub(super) async fn datastore(
    live: &VCenterHandle,
    base: &Base,
    choice: Option<&Choice>,
    spec: &VmGroupSpec,
) -> Result<Option<DatastoreRef>, Unusable> {
    if let Some(choice) = choice {
        return Ok(choice.datastore.clone());
    }
    let Some(name) = &spec.placement.datastore else { return Ok(None) };
    let found = live.inventory.find(Some(base.datacenter.reference()), name).await;
    found.map(Some).map_err(|error| Unusable::Lookup("placement.datastore", error))
}

pub(super) async fn pool(
    live: &VCenterHandle,
    base: &Base,
    choice: Option<&Choice>,
    spec: &VmGroupSpec,
) -> Result<ResourcePoolRef, Unusable> {
    if let Some(choice) = choice {
        return Ok(choice.pool.clone());
    }
    let (client, inventory) = (&live.client, &live.inventory);
    let below = Some(base.datacenter.reference());
    let placement = &spec.placement;
    if let Some(name) = &placement.resource_pool {
        return inventory.find(below, name).await.map_err(|error| Unusable::Lookup("placement.resourcePool", error));
    }
    let Some(name) = &placement.cluster else {
        let pool = inventory.default_resource_pool(&base.datacenter).await;
        return pool.map_err(|error| Unusable::Lookup("placement.resourcePool", error));
    };
    let failed = |error| Unusable::Lookup("placement.cluster", error);
    let cluster: ClusterComputeResourceRef = inventory.find(below, name).await.map_err(failed)?;
    let pool = client
        .property(&cluster, cluster_compute_resource::RESOURCE_POOL)
        .await
        .map_err(|error| failed(error.into()))?;
    pool.ok_or_else(|| Unusable::Field("placement.cluster", format!("{name} has no resource pool")))
}

/// Which hosts machines can be put on. How they are is read when they are needed.
pub(super) async fn hosts(
    live: &VCenterHandle,
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
            let host = live.mirror().host_called(&base.datacenter, pool, name);
            host.ok_or_else(|| {
                Unusable::Field("placement.hosts", format!("there is no host {name:?} for its resource pool"))
            })
        } else {
            let host = live.inventory.find(Some(base.datacenter.reference()), name).await;
            host.map_err(|error| Unusable::Lookup("placement.hosts", error))
        };
        named.push((host?, name.clone()));
    }
    if !named.is_empty() {
        return Ok(Hosts::Named(named));
    }
    let failed = |error: vim25::Error| Unusable::Lookup("placement.resourcePool", error.into());
    let Some(owner) = live.client.property(pool, resource_pool::OWNER).await.map_err(failed)? else {
        return Ok(Hosts::Unknown);
    };
    let owner: ManagedObjectReference = owner.into();
    let Ok(cluster) = ClusterComputeResourceRef::try_from(owner.clone()) else { return Ok(Hosts::Of(owner)) };
    let chooses = live.client.property(&cluster, cluster_compute_resource::CONFIGURATION_DRS_CONFIG_ENABLED).await;
    let chooses = chooses.map_err(failed)?.unwrap_or(false);
    Ok(if chooses { Hosts::ChosenBy(owner) } else { Hosts::Of(owner) })
}

pub(super) async fn snapshot(
    client: &Client,
    template: &VirtualMachineRef,
    spec: &VmGroupSpec,
) -> Result<Option<VirtualMachineSnapshotRef>, Unusable> {
    if spec.clone.mode == CloneMode::Full {
        return Ok(None);
    }
    let found = client.property(template, virtual_machine::SNAPSHOT).await;
    let found = found.map_err(|error| Unusable::Lookup("template", error.into()))?;
    match found.and_then(|snapshots| snapshots.current_snapshot) {
        Some(snapshot) => Ok(Some(snapshot)),
        None => Err(Unusable::Field(
            "clone.mode",
            format!("{} has no snapshot to link to: make one, or use Full", spec.template),
        )),
    }
}

impl CloudInit {
    /// What a group's guests are told, if that is all in its spec.
    pub(super) fn inline(spec: &VmGroupSpec) -> Option<Self> {
        let Some(cloud_init) = &spec.guest.cloud_init else { return Some(Self::default()) };
        let inline = |text: Option<&Text>| match text {
            Some(Text { secret_key_ref: Some(_), .. }) => None,
            Some(text) => Some(text.inline.clone().map(Hidden::new)),
            None => Some(None),
        };
        Some(Self {
            user_data: inline(cloud_init.user_data.as_ref())?,
            metadata: inline(cloud_init.metadata.as_ref())?,
        })
    }

    /// Whether guests are told anything.
    pub(crate) fn is_there(&self) -> bool {
        self.user_data.is_some() || self.metadata.is_some()
    }
}

/// What a group's guests are told now.
pub(super) async fn cloud_init(
    secrets: Option<&Api<Secret>>,
    spec: &VmGroupSpec,
    reach: Reach,
) -> Result<CloudInit, Unusable> {
    let Some(cloud_init) = &spec.guest.cloud_init else { return Ok(CloudInit::default()) };
    let user_data = text(secrets, cloud_init.user_data.as_ref(), reach).await?;
    Ok(CloudInit { user_data, metadata: text(secrets, cloud_init.metadata.as_ref(), reach).await? })
}

async fn text(secrets: Option<&Api<Secret>>, text: Option<&Text>, reach: Reach) -> Result<Option<Hidden>, Unusable> {
    let Some(text) = text else { return Ok(None) };
    let Some(reference) = &text.secret_key_ref else { return Ok(text.inline.clone().map(Hidden::new)) };
    let unusable = |why: String| Unusable::Field("guest.cloudInit", why);
    let Some(secrets) = secrets else {
        return Err(unusable(format!("the Secret {} can't be read without a cluster", reference.name)));
    };
    let secret = secrets.get_opt(&reference.name).await;
    let secret = secret.map_err(|error| unusable(format!("the Secret {}: {}", reference.name, words(&error))))?;
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
        let told = CloudInit::inline(&spec(&both)).unwrap();
        assert_eq!(told.user_data.as_ref().map(Hidden::expose), Some("hush"));
        assert!(!format!("{told:?}").contains("hush"));
        assert_eq!(CloudInit::inline(&spec(&json!({}))), Some(CloudInit::default()));
        let secret = json!({"cloudInit": {"userData": {"secretKeyRef": {"name": "s", "key": "k"}}}});
        assert_eq!(CloudInit::inline(&spec(&secret)), None);
    }
}
