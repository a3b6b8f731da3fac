//! A machine in vCenter.

use drover_core::{
    names::Slot,
    vmgroup::{Hardware, HotAdd, Power, inventory::Marker},
};

use super::world::Time;

/// Whose a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The group's.
    Own,
    /// A backup of one of the group's, restored beside it. Nothing tells one from the other.
    Twin,
    /// A copy of one of the group's, or another's.
    Foreign,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own, not a state in disguise")]
pub(crate) struct Machine {
    pub marker: Option<Marker>,
    pub instance: String,
    pub created: Time,
    pub name: String,
    pub folder: String,
    pub hardware: Hardware,
    pub hot_add: HotAdd,
    /// It says that it takes more while it runs, and doesn't.
    pub refuses_hot_add: bool,
    pub power: Power,
    /// When its guest is up, if it runs.
    pub ready_at: Time,
    pub tools: bool,
    /// A guest that was asked to shut down is off by then.
    pub off_at: Option<Time>,
    /// Whether its clone has not ended yet. Nothing else can be done to it until then.
    pub being_made: bool,
    pub kind: Kind,
    pub is_template: bool,
    /// Whether Drover's user may see it.
    pub is_hidden: bool,
    /// Since when its host has not answered for it.
    pub disconnected: Option<Time>,
    /// Since when vCenter has not been able to read its configuration.
    pub inaccessible: Option<Time>,
    /// Since when it has been out of sight, or was the last time, and until when.
    pub away: Option<(Time, Option<Time>)>,
}

impl Machine {
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.marker.as_ref().filter(|_| self.kind == Kind::Own).map(|marker| marker.slot)
    }

    /// It is in sight again, and can be reached.
    pub(crate) fn reappear(&mut self, now: Time) {
        self.come_back(now);
        (self.is_hidden, self.disconnected, self.inaccessible) = (false, None, None);
    }

    /// It goes out of sight. `looked` is when an operator last saw everything as it was.
    pub(crate) fn leave(&mut self, now: Time, looked: Time) {
        self.away = match self.away {
            // That it was back, for a moment or since then, nobody may have seen.
            Some((since, back)) if back.is_none_or(|back| now - back < 60 || back >= looked) => Some((since, None)),
            _ => Some((now, None)),
        };
    }

    /// It comes back into sight.
    pub(crate) fn come_back(&mut self, now: Time) {
        if let Some((since, None)) = self.away {
            self.away = Some((since, Some(now)));
        }
    }
}
