//! What clones need to know of templates beside what vCenter tells of every VM: it is much, so it is read when a group waits for it, and
//! again when it may be another.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::sleep_until;
use vim25::{
    Client, Error, ManagedObject, ManagedObjectReference,
    props::virtual_machine as vm,
    refs::{VirtualMachineRef, VirtualMachineSnapshotRef},
    types::{AnyVirtualDevice, ObjectSpec, PropertyFilterSpec, PropertySpec, VirtualDisk, VirtualEthernetCard},
};

use super::{
    Trigger, VCenterHandle,
    awaited::Change,
    machine::disks_mib,
    mirror::{Consequences, Mirror},
};
use crate::loops::Pulse;

/// How many are read beside each other.
const AT_ONCE: usize = 8;
/// When one is read again that could not be, at first and in the end.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);

/// What clones need to know of what they are made from.
#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateDetails {
    pub cores_per_socket: u32,
    /// Capacity of its disks, in MiB.
    pub storage_mib: u64,
    /// Its current snapshot, for linked clones.
    pub snapshot: Option<VirtualMachineSnapshotRef>,
    /// Its network cards.
    pub cards: Vec<AnyVirtualDevice>,
    /// Its first disk.
    pub root_disk: Option<VirtualDisk>,
}

/// Why a template's details aren't known.
#[derive(Clone, Debug)]
pub(crate) enum Unread {
    /// Nobody has read them yet.
    NotYet,
    /// vCenter shows a VM before it has a configuration.
    NotMade,
    Failed(Arc<Error>),
}

/// What is known of templates that groups have waited for.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    entries: HashMap<ManagedObjectReference, Entry>,
    readings: u64,
}

#[derive(Debug)]
struct Entry {
    known: Result<Arc<TemplateDetails>, Unread>,
    next: Next,
    /// Whether it has changed since it is being read.
    is_outdated: bool,
    /// How long to wait after the next reading, if it fails too.
    pause: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// It is to be read, from then on.
    Due(Instant),
    /// It is being read, by the reading of this number.
    Reading(u64),
    /// It is known.
    Nothing,
}

impl Templates {
    /// What clones of it need to know.
    pub(crate) fn get(&self, template: &VirtualMachineRef) -> Result<Arc<TemplateDetails>, Unread> {
        self.entries.get(template.reference()).map_or(Err(Unread::NotYet), |entry| entry.known.clone())
    }

    /// Has it read, if it isn't known.
    pub(crate) fn want(&mut self, template: &VirtualMachineRef) {
        self.entries.entry(template.reference().clone()).or_insert_with(|| Entry {
            known: Err(Unread::NotYet),
            next: Next::Due(Instant::now()),
            is_outdated: false,
            pause: AGAIN,
        });
    }

    /// Has it read again, if it is known: it may have changed and nobody was told. Until then it counts as it was.
    pub(crate) fn doubt(&mut self, template: &VirtualMachineRef) {
        if let Some(entry) = self.entries.get_mut(template.reference()).filter(|entry| entry.next == Next::Nothing) {
            entry.next = Next::Due(Instant::now());
        }
    }

    /// It has changed. What is known of it is not so any more, and what is being read of it may be of before.
    pub(crate) fn forget(&mut self, template: &ManagedObjectReference) {
        let Some(entry) = self.entries.get_mut(template) else { return };
        match entry.next {
            // Who needs it wants it again.
            Next::Nothing => return self.remove(template),
            Next::Reading(_) => entry.is_outdated = true,
            Next::Due(_) => entry.next = Next::Due(Instant::now()),
        }
        entry.pause = AGAIN;
        if entry.known.is_ok() {
            entry.known = Err(Unread::NotYet);
        }
    }

    /// It is gone, or nobody waits for it.
    pub(crate) fn remove(&mut self, template: &ManagedObjectReference) {
        self.entries.remove(template);
    }

    /// vCenter was away, and may be as it was at another time.
    pub(crate) fn forget_all(&mut self) {
        self.entries.clear();
    }

    /// When the next is to be read.
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = |entry: &Entry| if let Next::Due(at) = entry.next { Some(at) } else { None };
        self.entries.values().filter_map(due).min()
    }

    /// Begins to read some of those that are due.
    fn begin(&mut self, room: usize, now: Instant) -> Vec<(VirtualMachineRef, u64)> {
        let due = self.entries.iter_mut().filter(|(_, entry)| matches!(entry.next, Next::Due(at) if at <= now));
        due.take(room)
            .filter_map(|(template, entry)| {
                self.readings += 1;
                entry.next = Next::Reading(self.readings);
                Some((VirtualMachineRef::try_from(template.clone()).ok()?, self.readings))
            })
            .collect()
    }

    /// Takes up what was read, unless it may be of before a change. Says whether that is something else than was known.
    fn end(&mut self, template: &VirtualMachineRef, reading: u64, read: Read, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(template.reference()) else { return false };
        if entry.next != Next::Reading(reading) {
            return false;
        }
        if std::mem::take(&mut entry.is_outdated) {
            entry.next = Next::Due(now);
            return false;
        }
        match read {
            Ok(details) => {
                (entry.known, entry.next) = (Ok(Arc::new(details)), Next::Nothing);
                true
            }
            Err(why) => {
                entry.next = Next::Due(now + entry.pause);
                entry.pause = (entry.pause * 2).min(LONGEST);
                let is_another = entry.known.as_ref().err().is_none_or(|before| !before.is_same(&why));
                entry.known = Err(why);
                is_another
            }
        }
    }
}

impl Unread {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Failed(one), Self::Failed(other)) => one.to_string() == other.to_string(),
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        }
    }
}

impl Mirror {
    /// Begins to read templates. What could not be read is read again only while somebody waits for it.
    fn begin_templates(&mut self, room: usize) -> Vec<(VirtualMachineRef, u64)> {
        let begun = self.templates.begin(room, Instant::now());
        let is_waited_for = |(template, _): &(VirtualMachineRef, u64)| {
            let known = self.templates.get(template);
            matches!(known, Ok(_) | Err(Unread::NotYet)) || self.is_awaited(template.reference())
        };
        let (begun, vain): (Vec<_>, Vec<_>) = begun.into_iter().partition(is_waited_for);
        for (template, _) in vain {
            self.templates.remove(template.reference());
        }
        begun
    }

    /// Whether a group waits for a machine that it names.
    fn is_awaited(&self, machine: &ManagedObjectReference) -> bool {
        let mut then = Consequences::default();
        self.tell_awaiting_machine(machine, &mut then);
        !then.groups.is_empty()
    }

    /// Tells those who wait for a machine that they name.
    fn tell_awaiting_machine(&self, machine: &ManagedObjectReference, then: &mut Consequences) {
        if let Some(known) = self.machines.get(machine) {
            self.tell_awaiting(Change::Itself, [&known.name, &format!("moref:{}", machine.value())], then);
        }
    }

    fn end_template(&mut self, template: &VirtualMachineRef, reading: u64, read: Read, then: &mut Consequences) {
        if self.templates.end(template, reading, read, Instant::now()) {
            self.tell_awaiting_machine(template.reference(), then);
        }
    }
}

/// Reads what groups wait for.
pub(crate) async fn read_templates(live: Arc<VCenterHandle>, pulse: Pulse) {
    let mut readings = FuturesUnordered::new();
    loop {
        let due = {
            let is_in_sight = live.is_in_sight();
            let mut mirror = live.mirror();
            if is_in_sight {
                let begun = mirror.begin_templates(AT_ONCE - readings.len());
                readings.extend(
                    begun.into_iter().map(|(template, reading)| read_numbered(&live.client, template, reading)),
                );
            }
            mirror.templates.due().filter(|_| is_in_sight && readings.len() < AT_ONCE)
        };
        let turn = async {
            tokio::select! {
                Some(ended) = readings.next() => Some(ended),
                () = live.templates_wanted() => None,
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => None,
            }
        };
        if let Some((template, reading, read)) = pulse.wait(turn).await {
            let mut then = Consequences::default();
            live.mirror().end_template(&template, reading, read, &mut then);
            for group in then.groups {
                live.trigger(Trigger::Group(group));
            }
        }
    }
}

/// Reads a template at once, for those who wait for nothing else.
pub(crate) async fn read_at_once(live: &VCenterHandle, template: &VirtualMachineRef) {
    let read = read(&live.client, template).await;
    let known = read.map(Arc::new);
    let entry = Entry { known, next: Next::Nothing, is_outdated: false, pause: AGAIN };
    live.mirror().templates.entries.insert(template.reference().clone(), entry);
}

type Read = Result<TemplateDetails, Unread>;

async fn read_numbered(client: &Client, template: VirtualMachineRef, reading: u64) -> (VirtualMachineRef, u64, Read) {
    let read = read(client, &template).await;
    (template, reading, read)
}

async fn read(client: &Client, template: &VirtualMachineRef) -> Read {
    let read = retrieve(client, template).await.map_err(|error| Unread::Failed(Arc::new(error)))?;
    read.ok_or(Unread::NotMade)
}

async fn retrieve(client: &Client, template: &VirtualMachineRef) -> vim25::Result<Option<TemplateDetails>> {
    let (cores, devices) = (vm::CONFIG_HARDWARE_NUM_CORES_PER_SOCKET, vm::CONFIG_HARDWARE_DEVICE);
    let object = ObjectSpec { obj: template.reference().clone(), ..ObjectSpec::default() };
    let spec = PropertyFilterSpec {
        prop_set: vec![PropertySpec::of(&[&cores, &devices, &vm::SNAPSHOT])],
        object_set: vec![object],
        report_missing_objects_in_results: None,
    };
    let mut found = client.retrieve(vec![spec]).await?.pop().unwrap_or_default();
    let (Some(mut cards), Some(cores)) = (found.take(devices)?, found.take(cores)?) else {
        // It may not be read, or vCenter shows it before it has a configuration.
        return found.missing_set.into_iter().next().map_or(Ok(None), |missing| Err(Error::from(missing.fault)));
    };
    let storage_mib = disks_mib(&cards);
    // vCenter numbers them in the order in which they are called: the first is "Hard disk 1".
    let disks = cards.iter().filter_map(|device| device.downcast_ref::<VirtualDisk>());
    let root_disk = disks.min_by_key(|disk| disk.base.key).cloned();
    cards.retain(|device| device.downcast_ref::<VirtualEthernetCard>().is_some());
    Ok(Some(TemplateDetails {
        cores_per_socket: u32::try_from(cores).unwrap_or(0),
        storage_mib,
        snapshot: found.take(vm::SNAPSHOT)?.and_then(|snapshots| snapshots.current_snapshot),
        cards,
        root_disk,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cores_per_socket: u32) -> TemplateDetails {
        TemplateDetails { cores_per_socket, ..TemplateDetails::default() }
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let (mut templates, vm) = (Templates::default(), VirtualMachineRef::new("vm-1"));
        let cores = |templates: &Templates| templates.get(&vm).ok().map(|details| details.cores_per_socket);
        templates.want(&vm);
        let now = Instant::now();
        let first = templates.begin(9, now).remove(0).1;
        assert!(templates.begin(9, now).is_empty(), "it is read once");
        templates.forget(vm.reference());
        assert!(templates.begin(9, Instant::now()).is_empty(), "nothing is read twice at a time");
        assert!(!templates.end(&vm, first, Ok(of(1)), now), "it may be of before");
        let second = templates.begin(9, now).remove(0).1;
        assert!(templates.end(&vm, second, Ok(of(2)), now));
        assert_eq!((cores(&templates), templates.due()), (Some(2), None));
        templates.doubt(&vm);
        assert_eq!(cores(&templates), Some(2), "it counts as it was until it is read");
        let doubted = templates.begin(9, Instant::now()).remove(0).1;
        assert!(templates.end(&vm, doubted, Ok(of(3)), now));
        templates.forget(vm.reference());
        assert_eq!(cores(&templates), None);
        templates.want(&vm);
        let third = templates.begin(9, Instant::now()).remove(0).1;
        templates.forget_all();
        assert!(!templates.end(&vm, third, Ok(of(4)), now), "vCenter was away");
    }

    #[test]
    fn one_that_cant_be_read_is_read_ever_more_seldom_and_said_once() {
        let (mut templates, vm) = (Templates::default(), VirtualMachineRef::new("vm-1"));
        templates.want(&vm);
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for turn in 0..8 {
            let reading = templates.begin(9, now).remove(0).1;
            assert_eq!(templates.end(&vm, reading, Err(Unread::NotMade), now), turn == 0);
            let due = templates.due().unwrap();
            pauses.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        templates.forget(vm.reference());
        assert!(templates.due().unwrap() < now, "it has changed, so it is read at once");
    }
}
