//! The groups' machines that have left the view, and those that a task is known to have destroyed. That one isn't seen proves nothing.

use std::collections::{HashMap, HashSet, VecDeque};

use drover_core::Timestamp;
use vim25::ManagedObjectReference;

use super::mirror::GroupKey;

/// How many destroyed objects are remembered: more than vCenter lists tasks.
const REMEMBERED: usize = 20_000;

/// The machines that have left: hidden, removed with their host, unregistered or destroyed.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Those that a task has destroyed, the last ones.
    destroyed: HashSet<ManagedObjectReference>,
    in_order: VecDeque<ManagedObjectReference>,
    departed: HashMap<ManagedObjectReference, Departed>,
}

/// A machine that has left, with what it was in.
#[derive(Clone, Debug)]
struct Departed {
    containers: Vec<ManagedObjectReference>,
    owner: GroupKey,
    at: Timestamp,
}

impl Gone {
    /// Takes note of a machine that is seen no more.
    pub(super) fn note_left(
        &mut self,
        machine: &ManagedObjectReference,
        containers: Vec<ManagedObjectReference>,
        owner: GroupKey,
        now: Timestamp,
    ) {
        if self.is_destroyed(machine) {
            return;
        }
        if self.departed.len() > REMEMBERED {
            // What a task has destroyed is told of long before that.
            self.departed.retain(|_, departed| now.duration_since(departed.at).as_hours() < 1);
        }
        self.departed.insert(machine.clone(), Departed { containers, owner, at: now });
    }

    /// Takes note of a machine that a task has destroyed. What it was in is of no matter any more.
    pub(super) fn note_destroyed(&mut self, machine: ManagedObjectReference) {
        self.departed.remove(&machine);
        if self.destroyed.insert(machine.clone()) {
            self.in_order.push_back(machine);
        }
        if self.in_order.len() > REMEMBERED
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.destroyed.remove(&oldest);
        }
    }

    /// Takes note of a machine that is seen.
    pub(super) fn note_back(&mut self, machine: &ManagedObjectReference) {
        self.departed.remove(machine);
    }

    /// What was taken for a proof that a machine was destroyed is none.
    pub(super) fn retract_destroyed(&mut self, machine: &ManagedObjectReference) {
        self.destroyed.remove(machine);
    }

    pub(super) fn has_none_destroyed(&self) -> bool {
        self.destroyed.is_empty()
    }

    pub(super) fn is_destroyed(&self, machine: &ManagedObjectReference) -> bool {
        self.destroyed.contains(machine)
    }

    /// Whose a machine was that has left.
    pub(super) fn owner(&self, machine: &ManagedObjectReference) -> Option<&GroupKey> {
        self.departed.get(machine).map(|departed| &departed.owner)
    }

    /// The machines that were in something until they left, after this time.
    pub(super) fn left(
        &self,
        container: &ManagedObjectReference,
        since: Timestamp,
    ) -> impl Iterator<Item = &ManagedObjectReference> {
        let left =
            self.departed.iter().filter(move |(_, gone)| gone.at >= since && gone.containers.contains(container));
        left.map(|(machine, _)| machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_proved_destroyed_nothing_is_kept_but_that() {
        let mut gone = Gone::default();
        let (vm, folder) =
            (ManagedObjectReference::new("VirtualMachine", "vm-1"), ManagedObjectReference::new("Folder", "f-1"));
        let owner = || ("ns".to_owned(), "web".to_owned());
        let leave = |gone: &mut Gone| gone.note_left(&vm, vec![folder.clone()], owner(), Timestamp::UNIX_EPOCH);
        leave(&mut gone);
        assert_eq!((gone.owner(&vm), gone.left(&folder, Timestamp::MIN).count()), (Some(&owner()), 1));
        gone.note_destroyed(vm.clone());
        assert!(gone.is_destroyed(&vm) && gone.departed.is_empty());
        // It may be told to have left after its task has ended.
        leave(&mut gone);
        assert!(gone.departed.is_empty());
    }
}
