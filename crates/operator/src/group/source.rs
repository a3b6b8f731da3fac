//! What a group names, found in vCenter: where its machines go and what they are made from.

use drover_api::{
    VmGroupSpec,
    vmgroup::{CloneMode, Placement, Text},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use vim25::{
    Client, Inventory, LookupError, ManagedObject, ManagedObjectReference,
    props::{cluster_compute_resource, resource_pool, virtual_machine},
    refs::{
        ClusterComputeResourceRef, DatacenterRef, DatastoreRef, FolderRef, HostSystemRef, NetworkRef, ResourcePoolRef,
        VirtualMachineRef, VirtualMachineSnapshotRef,
    },
    types::VirtualDeviceConfigSpec,
};

use super::networks;
use crate::vcenter::{Live, host::Host, rights::Part};

/// The folder that the seed operator's users make for it.
const DEFAULT_FOLDER: &str = "vm-operator";

/// Where the group's folder is.
#[derive(Clone, Debug)]
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
    /// All that a clone needs, once one is needed.
    pub source: Option<Source>,
}

/// What the group's machines are made from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub template: VirtualMachineRef,
    pub pool: ResourcePoolRef,
    pub datastore: Option<DatastoreRef>,
    /// The hosts that machines can be put on.
    pub hosts: Vec<HostSystemRef>,
    /// Whether clones say which host: where the user has chosen some, or nothing in vCenter would.
    pub names_hosts: bool,
    /// The template's snapshot, for linked clones.
    pub snapshot: Option<VirtualMachineSnapshotRef>,
    /// Changes that put the network cards where they belong.
    pub cards: Vec<VirtualDeviceConfigSpec>,
    /// The networks that the group names.
    pub networks: Vec<NetworkRef>,
    pub user_data: Option<String>,
    pub metadata: Option<String>,
}

impl Base {
    /// Notes where rights are needed.
    pub(crate) fn concern(&self, live: &Live, placement: &Placement) {
        live.rights().concern(self.folder.reference(), Part::Folder, folder_name(placement));
    }
}

impl Source {
    /// Notes where rights are needed.
    pub(crate) fn concern(&self, live: &Live, spec: &VmGroupSpec) {
        let mut rights = live.rights();
        rights.concern(self.template.reference(), Part::Template, &spec.template);
        let placement = &spec.placement;
        let pool = placement.resource_pool.as_deref().or(placement.cluster.as_deref()).unwrap_or("that is the default");
        rights.concern(self.pool.reference(), Part::ResourcePool, pool);
        for (datastore, name) in self.datastore.iter().zip(&placement.datastore) {
            rights.concern(datastore.reference(), Part::Datastore, name);
        }
        for (network, name) in self.networks.iter().zip(&spec.networks) {
            rights.concern(network.reference(), Part::Network, name);
        }
    }
}

/// Why something that the group names can't be used, as a sentence that names the field.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("spec.{0}: {1}")]
    Lookup(&'static str, LookupError),
    #[error("spec.{0}: {1}")]
    Field(&'static str, String),
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

pub(super) async fn source(
    live: &Live,
    secrets: Option<&Api<Secret>>,
    base: &Base,
    template: Option<VirtualMachineRef>,
    spec: &VmGroupSpec,
) -> Result<Source, Unusable> {
    let below = Some(base.datacenter.reference());
    let (client, inventory) = (&live.client, &live.inventory);
    let template = match template {
        Some(template) => template,
        None => find_template(live, base, &spec.template).await?,
    };
    let datastore = datastore(inventory, base, spec).await?;
    let pool = pool(client, inventory, base, spec).await?;
    let (hosts, names_hosts) = hosts(live, below, &pool, spec).await?;
    let networks = networks::named(inventory, below, spec).await?;
    let (user_data, metadata) = cloud_init(secrets, spec).await?;
    Ok(Source {
        pool,
        snapshot: snapshot(client, &template, spec).await?,
        cards: networks::cards(client, &networks, &template, spec).await?,
        networks,
        template,
        datastore,
        hosts,
        names_hosts,
        user_data,
        metadata,
    })
}

/// The template that a group names.
pub(super) async fn find_template(live: &Live, base: &Base, name: &str) -> Result<VirtualMachineRef, Unusable> {
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
    inventory: &Inventory,
    base: &Base,
    spec: &VmGroupSpec,
) -> Result<Option<DatastoreRef>, Unusable> {
    let Some(name) = &spec.placement.datastore else { return Ok(None) };
    let found = inventory.find(Some(base.datacenter.reference()), name).await;
    found.map(Some).map_err(|error| Unusable::Lookup("placement.datastore", error))
}

pub(super) async fn pool(
    client: &Client,
    inventory: &Inventory,
    base: &Base,
    spec: &VmGroupSpec,
) -> Result<ResourcePoolRef, Unusable> {
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

/// The hosts that machines can be put on, and whether clones have to say which.
pub(super) async fn hosts(
    live: &Live,
    below: Option<&ManagedObjectReference>,
    pool: &ResourcePoolRef,
    spec: &VmGroupSpec,
) -> Result<(Vec<HostSystemRef>, bool), Unusable> {
    let mut named = Vec::new();
    for name in &spec.placement.hosts {
        named.push(live.inventory.find(below, name).await.map_err(|error| Unusable::Lookup("placement.hosts", error))?);
    }
    if !named.is_empty() {
        return Ok((named, true));
    }
    let failed = |error: vim25::Error| Unusable::Lookup("placement.resourcePool", error.into());
    let Some(owner) = live.client.property(pool, resource_pool::OWNER).await.map_err(failed)? else {
        return Ok((Vec::new(), false));
    };
    let hosts = usable_hosts(live, owner.reference());
    let chooses = match ClusterComputeResourceRef::try_from(owner.reference().clone()) {
        Ok(cluster) => {
            let enabled =
                live.client.property(&cluster, cluster_compute_resource::CONFIGURATION_DRS_CONFIG_ENABLED).await;
            enabled.map_err(failed)?.unwrap_or(false)
        }
        Err(_) => false,
    };
    Ok((hosts, !chooses))
}

/// The hosts of a cluster, or the lone host, that take machines now.
fn usable_hosts(live: &Live, owner: &ManagedObjectReference) -> Vec<HostSystemRef> {
    let mirror = live.mirror();
    let is_usable = |host: &Host| {
        let is_connected = host.connection.as_deref() == Some("connected");
        host.parent.as_ref() == Some(owner) && is_connected && host.in_maintenance != Some(true)
    };
    let usable = mirror.hosts.iter().filter(|(_, host)| is_usable(host)).map(|(reference, _)| reference.clone());
    let mut usable: Vec<_> = usable.filter_map(|host| HostSystemRef::try_from(host).ok()).collect();
    usable.sort();
    usable
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

/// What cloud-init is told: the user data and the metadata.
pub(super) async fn cloud_init(
    secrets: Option<&Api<Secret>>,
    spec: &VmGroupSpec,
) -> Result<(Option<String>, Option<String>), Unusable> {
    let Some(cloud_init) = &spec.guest.cloud_init else { return Ok((None, None)) };
    Ok((text(secrets, cloud_init.user_data.as_ref()).await?, text(secrets, cloud_init.metadata.as_ref()).await?))
}

async fn text(secrets: Option<&Api<Secret>>, text: Option<&Text>) -> Result<Option<String>, Unusable> {
    let Some(text) = text else { return Ok(None) };
    let Some(reference) = &text.secret_key_ref else { return Ok(text.inline.clone()) };
    let unusable = |why: String| Unusable::Field("guest.cloudInit", why);
    let Some(secrets) = secrets else {
        return Err(unusable(format!("the Secret {} can't be read without a cluster", reference.name)));
    };
    let secret = secrets
        .get(&reference.name)
        .await
        .map_err(|error| unusable(format!("the Secret {}: {error}", reference.name)))?;
    let bytes = secret.data.and_then(|mut data| data.remove(&reference.key));
    let bytes = bytes.ok_or_else(|| unusable(format!("the Secret {} has no key {}", reference.name, reference.key)))?;
    let text =
        String::from_utf8(bytes.0).map_err(|_| unusable(format!("the key {} is not UTF-8 text", reference.key)))?;
    Ok(Some(text))
}
