//! How refusals and quotas reach the plan.

/// How much more a group may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// VMs that may be cloned.
    pub clones: u32,
    /// Whether a VM may be taken down for a new one.
    pub replacements: bool,
    /// VMs that may be given more CPUs or memory.
    pub growths: u32,
}

impl Room {
    /// That of a group whose VMs are kept, and that gets no new ones. What it may not use is no reason to refuse it other hardware.
    pub const NONE: Self = Self { clones: 0, replacements: false, growths: u32::MAX };

    /// What both leave.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            clones: self.clones.min(other.clones),
            replacements: self.replacements && other.replacements,
            growths: self.growths.min(other.growths),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_for_one_reason_is_refused_for_all() {
        let full = Room { clones: 3, replacements: true, growths: 0 };
        assert_eq!(full.and(Room::NONE), Room { clones: 0, replacements: false, growths: 0 });
        assert_eq!(full.and(Room { clones: 2, replacements: true, growths: 9 }), Room { clones: 2, ..full });
    }
}
