//! What stands in the way of a group.

use drover_api::vmgroup::ABANDON_ANNOTATION as ABANDON;

/// What stands in the way of a group, other than time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    #[default]
    None,
    /// vCenter can't be reached or refuses the login.
    VCenterAway(String),
    /// Something that the group names isn't there, or is there twice.
    NotFound(String),
    /// No vCenter serves the group, or several do.
    NoVCenter(String),
    /// The group's folder is another's.
    Conflict(String),
    /// The spec makes no sense.
    Invalid(String),
    /// The group is being deleted, and nobody knows whether that is because its kind is.
    FateUnknown(String),
    /// Tasks fail; the sentences say which and why.
    TasksFail(Vec<String>),
    /// VMs can't be seen, or not well enough; the sentences say which.
    Unseen(Vec<String>),
    /// Nothing is made or destroyed, because too many VMs are missing at once.
    Stopped(String),
    /// The group names something that it may not use; the sentence says what to change.
    NotAllowed(String),
    /// The namespace may not have all that its groups declare; the sentence says what it uses.
    OverQuota(String),
    /// The group got no further for as long as it may take.
    Overdue,
    /// One of the above that passes, or is retried, without anybody's help.
    Passing(Box<Trouble>),
}

impl Trouble {
    /// The same, once it has lasted for as long as anything may take: then it needs a person.
    #[must_use]
    pub fn overdue(self) -> Self {
        match self {
            Self::None => Self::Overdue,
            Self::Passing(trouble) => *trouble,
            other => other,
        }
    }

    /// Whether a group that is being deleted may be given up for it, and so leave VMs behind. Not for what its own spec or annotations bring
    /// about: that would be a way to have VMs which nobody looks after.
    #[must_use]
    pub fn lets_abandon(&self) -> bool {
        match self {
            Self::VCenterAway(_)
            | Self::NoVCenter(_)
            | Self::Conflict(_)
            | Self::FateUnknown(_)
            | Self::TasksFail(_)
            | Self::Unseen(_)
            | Self::Stopped(_) => true,
            Self::None
            | Self::NotFound(_)
            | Self::Invalid(_)
            | Self::NotAllowed(_)
            | Self::OverQuota(_)
            | Self::Overdue => false,
            Self::Passing(trouble) => trouble.lets_abandon(),
        }
    }

    /// The same for a group that is being deleted, with what its user can do about it.
    #[must_use]
    pub fn with_way_out(self) -> Self {
        let add = |why: String| {
            if why.contains(ABANDON) {
                return why;
            }
            format!(
                "{why}; to give the group up with all that is left of it in vCenter, annotate it with {ABANDON}=true"
            )
        };
        match self {
            Self::VCenterAway(why) => Self::VCenterAway(add(why)),
            Self::NoVCenter(why) => Self::NoVCenter(add(why)),
            Self::FateUnknown(why) => Self::FateUnknown(add(why)),
            Self::Passing(trouble) => Self::Passing(Box::new(trouble.with_way_out())),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_abandoned_for_nothing_that_its_own_spec_brings_about() {
        let why = || "x".to_owned();
        let lets = [
            Trouble::VCenterAway(why()),
            Trouble::NoVCenter(why()),
            Trouble::Conflict(why()),
            Trouble::FateUnknown(why()),
            Trouble::TasksFail(vec![why()]),
            Trouble::Unseen(vec![why()]),
            Trouble::Stopped(why()),
        ];
        let refuses = [
            Trouble::None,
            Trouble::NotFound(why()),
            Trouble::Invalid(why()),
            Trouble::NotAllowed(why()),
            Trouble::OverQuota(why()),
            Trouble::Overdue,
        ];
        let passing = |trouble: &Trouble| Trouble::Passing(Box::new(trouble.clone()));
        assert!(lets.iter().all(|trouble| trouble.lets_abandon() && passing(trouble).lets_abandon()));
        assert!(!refuses.iter().any(|trouble| trouble.lets_abandon() || passing(trouble).lets_abandon()));
    }
}
