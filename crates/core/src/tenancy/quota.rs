//! How much a namespace may have in a vCenter, and how much it has.
//!
//! Nothing is counted up and down: what is used follows each time from the VMs that are seen, from what is being done to them, and from the
//! records of the groups, which are written before anything is cloned. So there is no number that a crash could falsify.

use std::collections::BTreeSet;

use drover_api::vcenter::{Quota as Declared, QuotaUse, Use};

use crate::{
    Timestamp,
    names::Slot,
    vmgroup::{
        Desired, Hardware, Member, Observed, Room, Size, Slots,
        plan::to_be_replaced,
        record::{Incarnation, Record, Stage},
    },
};

/// What VMs take up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many they are.
    pub vms: u64,
    /// Their CPUs.
    pub cpus: u64,
    /// Their memory, in MiB.
    pub memory_mib: u64,
    /// Capacity of their disks, in MiB.
    pub storage_mib: u64,
}

impl Amount {
    /// That of one VM.
    #[must_use]
    pub fn of(size: Size) -> Self {
        Self { vms: 1, storage_mib: size.storage_mib, ..Self::of_growth(size.hardware) }
    }

    /// That of hardware alone, which a VM gets that is there.
    fn of_growth(hardware: Hardware) -> Self {
        Self { cpus: hardware.cpus.into(), memory_mib: hardware.memory_mib, ..Self::default() }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What is left without the other.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// So many of it.
    #[must_use]
    pub fn times(self, number: usize) -> Self {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        let all = Self { vms: number, cpus: number, memory_mib: number, storage_mib: number };
        self.with(all, u64::saturating_mul)
    }

    /// Whether there is less of anything than there was.
    #[must_use]
    pub fn is_less_than(self, before: Self) -> bool {
        before.minus(self) != Self::default()
    }

    fn with(self, other: Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            vms: both(self.vms, other.vms),
            cpus: both(self.cpus, other.cpus),
            memory_mib: both(self.memory_mib, other.memory_mib),
            storage_mib: both(self.storage_mib, other.storage_mib),
        }
    }
}

/// The most that a namespace may have. `None`: as much as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    vms: Option<u64>,
    cpus: Option<u64>,
    memory_mib: Option<u64>,
    storage_mib: Option<u64>,
}

/// A quota, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The most that there may be.
    pub quota: Quota,
    /// Whether more is refused, and not only told of.
    pub is_enforced: bool,
}

impl Terms {
    /// What is said before something is made of which so many VMs would wait.
    #[must_use]
    pub fn foretold(self, vcenter: &str, namespace: &str, used: Amount, waiting: usize) -> String {
        let vms = if waiting == 1 { "1 VM".to_owned() } else { format!("{waiting} VMs") };
        let enforced = if self.is_enforced { "" } else { "with spec.enforce: Enforce, " };
        let used = self.quota.in_words(used);
        format!(
            "{enforced}{vms} would wait for the quota of namespace {namespace:?} in VCenter {vcenter:?}: {used} are used now"
        )
    }
}

impl Quota {
    /// As it is declared.
    #[must_use]
    pub fn of(declared: &Declared) -> Self {
        let number = |number: Option<i64>| number.map(|number| u64::try_from(number).unwrap_or(0));
        let mib = |gib: Option<i64>| number(gib).map(|gib| gib.saturating_mul(MIB_PER_GIB));
        let (memory_mib, storage_mib) = (mib(declared.memory), mib(declared.storage));
        Self { vms: number(declared.vms), cpus: number(declared.cpus), memory_mib, storage_mib }
    }

    /// What both allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        Self {
            vms: least(self.vms, other.vms),
            cpus: least(self.cpus, other.cpus),
            memory_mib: least(self.memory_mib, other.memory_mib),
            storage_mib: least(self.storage_mib, other.storage_mib),
        }
    }

    /// Whether it limits what a VM may have, and not only how many there may be.
    #[must_use]
    pub fn limits_hardware(self) -> bool {
        self.cpus.is_some() || self.memory_mib.is_some()
    }

    /// Whether it limits the disks of VMs.
    #[must_use]
    pub fn limits_storage(self) -> bool {
        self.storage_mib.is_some()
    }

    /// Each limit, with how much of it there is in an amount.
    fn limits(self, amount: Amount) -> impl Iterator<Item = (u64, u64)> {
        let all = [
            (self.vms, amount.vms),
            (self.cpus, amount.cpus),
            (self.memory_mib, amount.memory_mib),
            (self.storage_mib, amount.storage_mib),
        ];
        all.into_iter().filter_map(|(limit, of)| Some((limit?, of)))
    }

    /// Whether there may be so much.
    fn allows(self, amount: Amount) -> bool {
        self.limits(amount).all(|(limit, of)| of <= limit)
    }

    /// How many times something fits beside what is there. What it has nothing of may be over its limit.
    fn fitting(self, there: Amount, each: Amount) -> u32 {
        let limits = self.limits(there).zip(self.limits(each));
        let fitting = limits.filter_map(|((limit, there), (_, each))| limit.saturating_sub(there).checked_div(each));
        fitting.min().map_or(u32::MAX, |number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// What is shown of a namespace that uses so much.
    #[must_use]
    pub fn shown(self, namespace: &str, used: Amount) -> QuotaUse {
        let shown = |used: u64, limit: Option<u64>| {
            let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            limit.map(|limit| Use { used: number(used), limit: number(limit) })
        };
        QuotaUse {
            namespace: namespace.to_owned(),
            vms: shown(used.vms, self.vms),
            cpus: shown(used.cpus, self.cpus),
            memory: shown(gib(used.memory_mib), self.memory_mib.map(gib)),
            storage: shown(gib(used.storage_mib), self.storage_mib.map(gib)),
        }
    }

    /// Why so many VMs of a group wait.
    #[must_use]
    pub fn sentence(self, vcenter: &str, namespace: &str, used: Amount, waiting: usize) -> String {
        let (wait, used) = (wait(vcenter, namespace, waiting), self.in_words(used));
        format!(
            "{wait}: {used} are used. Ask for less, delete other VmGroups of \
             the namespace, or have the quota raised"
        )
    }

    /// What is said of a namespace that has more than it is to have, where that is not refused.
    #[must_use]
    pub fn excess(self, vcenter: &str, namespace: &str, used: Amount) -> Option<String> {
        let words = self.in_words(used);
        (!self.allows(used)).then(|| {
            format!(
                "namespace {namespace:?} has more in VCenter {vcenter:?} than its quota: {words} are used. With spec.enforce: Enforce, it \
                 would get no new VM"
            )
        })
    }

    /// What is used of each limit.
    #[must_use]
    pub fn in_words(self, used: Amount) -> String {
        let limits = [
            (used.vms, self.vms, "VMs"),
            (used.cpus, self.cpus, "CPUs"),
            (gib(used.memory_mib), self.memory_mib.map(gib), "GiB of memory"),
            (gib(used.storage_mib), self.storage_mib.map(gib), "GiB of disks"),
        ];
        let words = limits.into_iter().filter_map(|(used, limit, unit)| Some(format!("{used} of {} {unit}", limit?)));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Why so many VMs of a group wait while nobody knows how large the disks of others of its namespace are.
#[must_use]
pub fn unread_sentence(vcenter: &str, namespace: &str, unread: usize, waiting: usize) -> String {
    let wait = wait(vcenter, namespace, waiting);
    let vms = if unread == 1 { "1 VM".to_owned() } else { format!("{unread} VMs") };
    format!("{wait}: the disks of {vms} that the namespace has are still to be read")
}

fn wait(vcenter: &str, namespace: &str, waiting: usize) -> String {
    let wait = if waiting == 1 { "1 VM waits".to_owned() } else { format!("{waiting} VMs wait") };
    format!("{wait} for the quota of namespace {namespace:?} in VCenter {vcenter:?}")
}

const MIB_PER_GIB: u64 = 1024;

fn gib(mib: u64) -> u64 {
    mib.div_ceil(MIB_PER_GIB)
}

/// What is reserved for a group beside its VMs that are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The slots that have a VM which isn't seen, or whose clone may be on its way.
    pub kept: BTreeSet<Slot>,
    /// The slots whose clone was not begun. They can be given back.
    pub free: BTreeSet<Slot>,
    /// What the VM of each has, or gets.
    pub each: Size,
}

impl Reserved {
    /// What a record reserves for a group whose clones are to be of this size.
    pub fn of(
        record: &Record,
        declared: Size,
        is_seen: impl Fn(Slot, Incarnation) -> bool,
        may_be_begun: impl Fn(Slot) -> bool,
    ) -> Self {
        let mut reserved =
            Self { kept: BTreeSet::new(), free: BTreeSet::new(), each: record.asked().unwrap_or(declared) };
        for (slot, entry) in record.entries().filter(|(slot, entry)| !is_seen(*slot, entry.incarnation)) {
            // One that takes the place of a lost one is how that is known.
            let is_free = entry.stage == Stage::Pending && record.lost(slot).is_none() && !may_be_begun(slot);
            if is_free { &mut reserved.free } else { &mut reserved.kept }.insert(slot);
        }
        reserved
    }

    /// All of it.
    #[must_use]
    pub fn amount(&self) -> Amount {
        Amount::of(self.each).times(self.kept.len() + self.free.len())
    }

    /// What a clone counts as now, and all that is kept with it.
    fn each_with(&self, declared: Size) -> Size {
        if self.kept.is_empty() { declared } else { self.each.most(declared) }
    }

    /// What the record has to say that its VMs get, before one more is cloned as declared.
    #[must_use]
    pub fn asked(&self, before: Option<Size>, declared: Size, has_clones: bool) -> Option<Size> {
        match (self.kept.is_empty(), has_clones) {
            (_, true) => Some(self.each_with(declared)),
            (false, false) => before,
            (true, false) => Some(declared).filter(|_| !self.free.is_empty()),
        }
    }
}

/// How much more a group may have where its namespace may have so much and uses so much, `own` included, and the slots whose VMs are
/// counted already.
///
/// `storage_mib` is what the disks of a clone have. All that was not begun counts as not reserved here: each time, the group gets anew what there is room for, with the hardware that it
/// declares now. A VM is replaced only where all that are to be replaced would find room again.
#[must_use]
pub fn grant(
    quota: Quota,
    used: Amount,
    own: &Reserved,
    storage_mib: u64,
    desired: &Desired,
    observed: &Observed,
    now: Timestamp,
) -> (Room, BTreeSet<Slot>) {
    let declared = Size { hardware: desired.hardware, storage_mib };
    let each = Amount::of(own.each_with(declared));
    let others = used.minus(own.amount());
    let kept = u32::try_from(own.kept.len()).unwrap_or(u32::MAX);
    let fitting = quota.fitting(others, each);
    // One in a slot that the group doesn't have keeps none of its slots.
    let has_slot = |member: &&Member| desired.slots == Slots::Any || member.slot.0 < desired.replicas;
    let members = u32::try_from(observed.members.iter().filter(has_slot).count()).unwrap_or(u32::MAX);
    let most = desired.replicas.saturating_add(desired.update.max_surge).saturating_sub(members);
    let clones = fitting.saturating_sub(kept).min(most);
    let with = |number: u32| others.plus(each.times(number as usize));
    // What clones take, nothing else can have.
    let growth = observed.members.iter().map(|member| desired.hardware.beyond(member.hardware));
    let growth = growth.fold(Hardware::default(), Hardware::most);
    let growths = quota.fitting(with(kept.saturating_add(clones)), Amount::of_growth(growth));
    let replaced = to_be_replaced(desired, observed, now);
    let size = |member: &&Member| Size { hardware: member.hardware, storage_mib: member.storage_mib };
    let before = replaced.iter().map(size).map(Amount::of).fold(Amount::default(), Amount::plus);
    let after = with(kept).plus(Amount::of(declared).times(replaced.len())).minus(before);
    let room = Room { clones, replacements: quota.allows(after), growths };
    (room, if fitting >= kept { own.kept.clone() } else { BTreeSet::new() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vmgroup::{HotAdd, MachineId, Power, Revision, desired::tests::desired};

    const SMALL: Hardware = Hardware { cpus: 1, memory_mib: 1024 };
    /// What every VM has of disks.
    const DISKS: u64 = 10 * 1024;
    const LARGE: Hardware = Hardware { cpus: 4, memory_mib: 4096 };

    fn quota(vms: Option<i64>, cpus: Option<i64>, memory: Option<i64>) -> Quota {
        Quota::of(&Declared { vms, cpus, memory, storage: None })
    }

    fn sized(hardware: Hardware) -> Size {
        Size { hardware, storage_mib: DISKS }
    }

    fn group(replicas: u32, hardware: Hardware) -> Desired {
        Desired { hardware, ..desired(&json!({"replicas": replicas})) }
    }

    fn members(number: u32, hardware: Hardware, revision: Revision) -> Observed {
        let member = |slot| Member {
            id: MachineId(format!("vm-{slot}")),
            slot: Slot(slot),
            revision,
            created: Timestamp::UNIX_EPOCH,
            name: String::new(),
            in_folder: true,
            hardware,
            storage_mib: DISKS,
            hot_add: HotAdd::default(),
            refused: None,
            power: Power::On,
            unreachable_since: None,
            ready_since: None,
            guest_answers: false,
            shutdown_since: None,
            busy: false,
            marked: false,
            not_before: None,
        };
        Observed { members: (0..number).map(member).collect(), ..Observed::default() }
    }

    fn granted(quota: Quota, used: Amount, record: &Record, desired: &Desired, observed: &Observed) -> (Room, usize) {
        let own = Reserved::of(record, sized(desired.hardware), |_, _| false, |_| false);
        let (room, counted) =
            grant(quota, used.plus(own.amount()), &own, DISKS, desired, observed, Timestamp::UNIX_EPOCH);
        (room, counted.len())
    }

    #[test]
    fn as_many_are_cloned_as_fit_by_the_scarcest() {
        let clones = |quota: Quota, used: Amount| {
            granted(quota, used, &Record::default(), &group(10, LARGE), &Observed::default()).0.clones
        };
        let nothing = Amount::default();
        assert_eq!(clones(quota(None, None, None), nothing), 10, "no more than are declared");
        assert_eq!(clones(quota(Some(3), None, None), nothing), 3);
        assert_eq!(clones(quota(Some(3), Some(9), None), nothing), 2);
        assert_eq!(clones(quota(Some(3), Some(9), Some(7)), nothing), 1);
        assert_eq!(clones(quota(Some(3), None, None), Amount::of(sized(LARGE)).times(2)), 1);
        assert_eq!(clones(quota(Some(3), None, None), Amount::of(sized(LARGE)).times(5)), 0, "the quota was lowered");
        assert_eq!(clones(quota(Some(0), None, None), nothing), 0);
    }

    #[test]
    fn the_least_of_all_limits_counts() {
        let both = quota(Some(3), None, Some(8)).and(quota(Some(5), Some(2), None));
        assert_eq!(both, quota(Some(3), Some(2), Some(8)));
        assert!(both.limits_hardware() && !quota(Some(3), None, None).limits_hardware());
    }

    #[test]
    fn what_is_reserved_and_not_begun_is_asked_for_anew_with_what_is_declared_now() {
        let mut record = Record::default();
        record.reserve((0..4).map(Slot));
        record.ask(Some(sized(SMALL)));
        let four = quota(None, Some(4), None);
        let nothing = Amount::default();
        assert_eq!(granted(four, nothing, &record, &group(4, SMALL), &Observed::default()).0.clones, 4);
        assert_eq!(granted(four, nothing, &record, &group(4, LARGE), &Observed::default()).0.clones, 1);
        let begun = Reserved::of(&record, sized(SMALL), |_, _| false, |slot| slot == Slot(0));
        assert_eq!((begun.kept.len(), begun.free.len(), begun.amount().cpus), (1, 3, 4));
        let (room, counted) =
            grant(four, begun.amount(), &begun, DISKS, &group(4, LARGE), &Observed::default(), Timestamp::UNIX_EPOCH);
        assert_eq!((room.clones, counted.len()), (0, 1), "the one that is begun counts as large as the next would be");
    }

    #[test]
    fn what_is_on_its_way_counts_as_large_as_it_was_asked_for_until_it_is_seen() {
        let mut record = Record::default();
        record.reserve([Slot(0), Slot(1)]);
        record.ask(Some(sized(LARGE)));
        let own = Reserved::of(&record, sized(SMALL), |slot, _| slot == Slot(1), |_| true);
        assert_eq!(own.amount(), Amount::of(sized(LARGE)), "the spec was changed meanwhile");
        assert_eq!(own.asked(record.asked(), sized(SMALL), true), Some(sized(LARGE)));
        assert_eq!(own.asked(record.asked(), sized(SMALL), false), Some(sized(LARGE)));
        let seen = Reserved::of(&record, sized(SMALL), |_, _| true, |_| false);
        assert_eq!(seen.asked(record.asked(), sized(SMALL), true), Some(sized(SMALL)));
        assert_eq!(seen.asked(record.asked(), sized(SMALL), false), None);
    }

    #[test]
    fn a_vm_that_is_missing_keeps_its_place_and_another_may_take_it() {
        let mut record = Record::default();
        record.reserve([Slot(0)]);
        record.see(Slot(0));
        let full = quota(Some(1), None, None);
        let (room, counted) = granted(full, Amount::default(), &record, &group(1, SMALL), &Observed::default());
        assert_eq!((room.clones, counted), (0, 1));
        let over = granted(full, Amount::of(sized(SMALL)), &record, &group(1, SMALL), &Observed::default());
        assert_eq!((over.0.clones, over.1), (0, 0), "not where there are too many already");
    }

    #[test]
    fn vms_grow_as_far_as_clones_leave_room() {
        let two = |limit| {
            let used = Amount::of(sized(SMALL)).times(2);
            let grown = members(2, SMALL, desired(&json!({})).revision);
            granted(quota(None, Some(limit), None), used, &Record::default(), &group(3, LARGE), &grown).0
        };
        assert_eq!((two(4).clones, two(4).growths), (0, 0));
        assert_eq!((two(5).clones, two(5).growths), (0, 1));
        assert_eq!((two(6).clones, two(6).growths), (1, 0), "one is missing");
        assert_eq!((two(12).clones, two(12).growths), (1, 2));
        let smaller = members(2, LARGE, desired(&json!({})).revision);
        let used = Amount::of(sized(LARGE)).times(2);
        let room = granted(quota(Some(1), None, None), used, &Record::default(), &group(2, SMALL), &smaller).0;
        assert_eq!(room.growths, u32::MAX, "less is no growth");
    }

    #[test]
    fn a_vm_is_replaced_only_where_the_new_one_finds_room() {
        let replaces = |limit: Quota, hardware, number: u32| {
            let outdated = members(number, SMALL, Revision(0));
            let used = Amount::of(sized(SMALL)).times(number as usize);
            granted(limit, used, &Record::default(), &group(number, hardware), &outdated).0.replacements
        };
        assert!(replaces(quota(Some(3), None, None), SMALL, 3), "one takes the place of another");
        assert!(!replaces(quota(Some(2), None, None), SMALL, 3), "the quota was lowered");
        assert!(!replaces(quota(None, Some(11), None), LARGE, 3));
        assert!(replaces(quota(None, Some(12), None), LARGE, 3));
    }

    #[test]
    fn disks_are_limited_like_all_else_and_grow_with_no_edit_of_hardware() {
        let limit = |gib| Quota::of(&Declared { storage: Some(gib), ..Declared::default() });
        let granted = |gib, hardware, members: &Observed| {
            let used = Amount::of(sized(SMALL)).times(members.members.len());
            granted(limit(gib), used, &Record::default(), &group(5, hardware), members).0
        };
        let nothing = Observed::default();
        assert_eq!([9, 10, 39, 50, 99].map(|gib| granted(gib, SMALL, &nothing).clones), [0, 1, 3, 5, 5]);
        let mut two = members(2, SMALL, Revision(0));
        two.members.iter_mut().for_each(|member| member.storage_mib = DISKS);
        let full = granted(20, LARGE, &two);
        assert_eq!((full.clones, full.replacements, full.growths), (0, true, u32::MAX));
        two.members[0].storage_mib = DISKS - 1;
        let larger = granted(20, LARGE, &two);
        assert!(!larger.replacements, "the template has more than it had");
        assert!(
            limit(1).limits_storage() && !limit(1).limits_hardware() && !quota(Some(1), None, None).limits_storage()
        );
    }

    #[test]
    fn what_is_used_is_said_with_its_limits() {
        let used = Amount { vms: 10, cpus: 18, memory_mib: 40 * 1024 - 1, storage_mib: 399 * 1024 + 1 };
        let limits = quota(Some(10), Some(20), Some(64));
        assert_eq!(
            limits.sentence("lab", "team-a", used, 2),
            "2 VMs wait for the quota of namespace \"team-a\" in VCenter \"lab\": 10 of 10 VMs, 18 of 20 CPUs, 40 of 64 GiB of memory are \
             used. Ask for less, delete other VmGroups of the namespace, or have the quota raised"
        );
        let one = quota(None, Some(20), None).sentence("lab", "team-a", used, 1);
        assert!(one.starts_with("1 VM waits for ") && one.contains(": 18 of 20 CPUs are used. "), "{one}");
        let unread = unread_sentence("lab", "team-a", 1, 2);
        let words = "2 VMs wait for the quota of namespace \"team-a\" in VCenter \"lab\": the disks of 1 VM that the namespace has are still to be read";
        assert_eq!(unread, words);
        let foretold = |is_enforced| Terms { quota: limits, is_enforced }.foretold("lab", "team-a", used, 2);
        let words = "2 VMs would wait for the quota of namespace \"team-a\" in VCenter \"lab\": 10 of 10 VMs, ";
        assert!(foretold(true).starts_with(words), "{}", foretold(true));
        assert!(foretold(false).starts_with(&format!("with spec.enforce: Enforce, {words}")), "{}", foretold(false));
        assert_eq!(limits.excess("lab", "team-a", used), None);
        let over = quota(Some(9), None, None).excess("lab", "team-a", used).unwrap();
        assert!(over.contains(" has more in VCenter \"lab\" than its quota: 10 of 9 VMs are used. "), "{over}");
        let shown = limits.shown("team-a", used);
        assert_eq!(shown.memory.map(|memory| (memory.used, memory.limit)), Some((40, 64)));
        assert_eq!(quota(None, None, None).shown("team-a", used).vms.map(|vms| vms.used), None);
        let disks = Quota { storage_mib: Some(500 * 1024), ..Quota::default() };
        assert_eq!(disks.in_words(used), "400 of 500 GiB of disks");
        assert_eq!(disks.shown("team-a", used).storage.map(|disks| (disks.used, disks.limit)), Some((400, 500)));
    }
}
