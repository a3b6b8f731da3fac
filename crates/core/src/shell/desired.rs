//! A MyOwnShell that makes sense.

use drover_api::{
    MyOwnShell, bounds,
    myownshell::{Resources, Ttl},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::{FINALIZER, former_hosts_name, hosts_name, is_ours};
use crate::{
    Timestamp,
    reasons::{ConditionType, Reason},
};

const IMAGE: &str = "busybox:latest";
/// The seed's own words, down to the blank at their end.
const COMMAND: [&str; 3] =
    ["sh", "-c", "echo The app is running, You can now ssh into for a while! && sleep 99999999 "];

/// A MyOwnShell that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Whether it has Drover's finalizer.
    pub is_held: bool,
    /// Whether what it declares now has been told of before, with nothing in its way.
    pub is_known: bool,
    /// How it is being deleted, if it is.
    pub deletion: Option<Deletion>,
    /// How many shells there are.
    pub size: i32,
    /// What they are made from.
    pub image: String,
    /// What they run.
    pub command: Vec<String>,
    /// What they ask of their node.
    pub resources: Resources,
    /// How long they last, and until when.
    pub end: Option<(Ttl, Timestamp)>,
    /// The VmGroup whose machines they find.
    pub group: Option<String>,
    /// The name of the ConfigMap with the hosts file, and of the Service that the machines are found by.
    pub hosts: String,
}

/// What whoever deletes an object wants of what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It goes, in its time.
    Background,
    /// It goes first.
    Foreground,
    /// It stays.
    Orphan,
}

/// Why a spec makes no sense. The schema lets none of it in, where it is the current one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The size is below 0 or too great.
    #[error("spec.size is {0}: give a number from 0 to 10000")]
    Size(i32),
    /// The ttl is no time.
    #[error("spec.ttl is {0:?}: give a time above 0 such as 90m, 8h or 7d12h")]
    Ttl(String),
}

impl Desired {
    /// What a MyOwnShell asks for. One that is being deleted asks for that alone, whatever its spec says.
    pub fn of(shell: &MyOwnShell) -> Result<Self, Invalid> {
        let (meta, spec) = (&shell.metadata, &shell.spec);
        let is_deleted = meta.deletion_timestamp.is_some();
        if !(0..=bounds::REPLICAS).contains(&spec.size) && !is_deleted {
            return Err(Invalid::Size(spec.size));
        }
        let command = match &spec.command[..] {
            [] => COMMAND.map(str::to_owned).to_vec(),
            command => command.to_vec(),
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let has = |finalizer: &str| meta.finalizers.iter().flatten().any(|has| has == finalizer);
        let deletion = meta.deletion_timestamp.as_ref().map(|_| match () {
            () if has("orphan") => Deletion::Orphan,
            () if has("foregroundDeletion") => Deletion::Foreground,
            () => Deletion::Background,
        });
        Ok(Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            is_held: has(FINALIZER),
            is_known: is_known(shell),
            deletion,
            size: spec.size,
            image: spec.image.clone().unwrap_or_else(|| IMAGE.to_owned()),
            command,
            resources: spec.resources.clone(),
            end: if is_deleted { None } else { end(shell)? },
            group: spec.vm_group_ref.as_ref().map(|group| group.name.clone()),
            hosts: hosts_name(meta.name.as_deref().unwrap_or_default()),
        })
    }

    /// Keeps the name that an earlier version gave to the ConfigMap and the Service, if the MyOwnShell has a ConfigMap of that name:
    /// with another name in them, all its pods would be made anew.
    pub fn keep_former_hosts(&mut self, there: Option<&ObjectMeta>) {
        let former = former_hosts_name(&self.name);
        if let (Some(former), Some(there)) = (former, there)
            && there.name.as_ref() == Some(&former)
            && is_ours(there, &self.uid)
        {
            self.hosts = former;
        }
    }

    /// Whether its time is over.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.end.as_ref().is_some_and(|(_, end)| *end <= now)
    }
}

fn is_known(shell: &MyOwnShell) -> bool {
    let Some(status) = &shell.status else { return false };
    let is_free = |condition: &Condition| {
        let free = [Reason::Reconciled, Reason::Provisioning, Reason::Expired, Reason::Deleting];
        condition.type_ == ConditionType::Ready.word() && free.iter().any(|reason| reason.word() == condition.reason)
    };
    status.observed_generation == shell.metadata.generation && status.conditions.iter().any(is_free)
}

fn end(shell: &MyOwnShell) -> Result<Option<(Ttl, Timestamp)>, Invalid> {
    let Some(ttl) = &shell.spec.ttl else { return Ok(None) };
    let duration = ttl.duration().ok_or_else(|| Invalid::Ttl(ttl.to_string()))?;
    let created = shell.metadata.creation_timestamp.as_ref().map(|created| created.0);
    // One that the API server has given no time yet has all of its own left.
    Ok(created.map(|created| (ttl.clone(), created.checked_add(duration).unwrap_or(Timestamp::MAX))))
}
