//! Where a group's VMs are, what they are made from, and where they can go: found by the controller, and used for clones.

use drover_core::{
    Timestamp,
    names::Slot,
    tenancy::{
        rules::{Kind, Rules},
        template_obstacle,
    },
    vmgroup::{
        placement::{Candidate, NoHost, Obstacle, place},
        queue,
    },
};
use vim25::{
    ManagedObject, ManagedObjectReference, Secret as Hidden,
    refs::{
        DatacenterRef, DatastoreRef, FolderRef, HostSystemRef, NetworkRef, ResourcePoolRef, VirtualMachineRef,
        VirtualMachineSnapshotRef,
    },
    types::{VirtualDeviceConfigSpec, VirtualMachineRelocateSpecDiskLocator},
};

use super::{host::Host, mirror::Mirror};

/// Where the group's folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub datacenter: DatacenterRef,
    pub folder: FolderRef,
}

/// All that a group names or leaves open, and may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub base: Base,
    pub template: VirtualMachineRef,
    pub pool: ResourcePoolRef,
    pub datastore: Option<DatastoreRef>,
    pub networks: Vec<NetworkRef>,
    /// Those that are allowed by a list, and not as the vCenter's default.
    pub listed: Vec<(Kind, ManagedObjectReference)>,
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
    /// How a clone's first disk differs from the template's.
    pub root_disk: RootDiskChange,
    /// The networks that the group names.
    pub networks: Vec<NetworkRef>,
    /// What was chosen of all this, where the group may not use everything.
    pub choice: Option<Choice>,
}

/// How a clone's first disk differs from the template's.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RootDiskChange {
    /// Has it grow.
    pub growth: Option<VirtualDeviceConfigSpec>,
    /// Has it provisioned otherwise.
    pub locator: Option<VirtualMachineRelocateSpecDiskLocator>,
}

/// What is cloned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Make {
    /// Whether it is a template, and not a plain VM.
    pub is_template: bool,
    pub cores_per_socket: u32,
    /// Capacity of a clone's disks, in MiB.
    pub storage_mib: u64,
    /// How many network cards a clone has.
    pub cards: usize,
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
pub(crate) type HostsNow = queue::Hosts<ManagedObjectReference>;

/// What guests are told. It may hold passwords, and is never printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CloudInit {
    pub user_data: Option<Hidden>,
    pub metadata: Option<Hidden>,
}

impl CloudInit {
    /// Whether guests are told anything.
    pub(crate) fn is_there(&self) -> bool {
        self.user_data.is_some() || self.metadata.is_some()
    }
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
        let placed = mirror
            .machines
            .marked(group)
            .filter_map(|(_, machine)| Some((machine.marker.as_ref()?.slot, machine.facts.host.clone()?)));
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

/// Whether a namespace may still use what lists have allowed it, where each of it is now.
pub(crate) fn allows(mirror: &Mirror, rules: &Rules, listed: &[(Kind, ManagedObjectReference)]) -> bool {
    listed.iter().all(|(kind, object)| mirror.path_of(object).is_some_and(|path| rules.allows(*kind, &path)))
}

/// Whether what could be used for a clone a moment ago can't any more.
pub(crate) fn is_barred(mirror: &Mirror, source: &Source, rules: Option<&Rules>) -> bool {
    let listed = source.choice.as_ref().map_or(&[][..], |choice| choice.listed.as_slice());
    let is_refused = |rules: &Rules| rules.is_enforced() && !allows(mirror, rules, listed);
    why_not_cloned(mirror, &source.template, "").is_some() || rules.is_some_and(is_refused)
}

/// Why nothing may be cloned from what the spec calls by this word, as far as the mirror knows it.
pub(crate) fn why_not_cloned(mirror: &Mirror, template: &VirtualMachineRef, word: &str) -> Option<String> {
    let machine = mirror.machines.get(template.reference())?;
    let obstacle = template_obstacle(machine.as_template())?;
    Some(format!("spec.template: {word:?} {obstacle}"))
}
