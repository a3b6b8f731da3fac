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

/// All that stands in a group's way.
#[derive(Clone, Debug, Default)]
pub struct Obstacles {
    /// Why everything that makes or destroys is stopped.
    pub incident: Option<String>,
    /// Why the group's folder is not its own.
    pub conflict: Option<String>,
    /// The VMs that can't be seen.
    pub unseen: Trouble,
    /// What the group may not use.
    pub not_allowed: Option<String>,
    /// Why no host takes a clone.
    pub no_host: Option<Trouble>,
    /// The tasks that fail.
    pub failing: Vec<String>,
    /// Whether a person has to put something right before these succeed.
    pub needs_person: bool,
    /// What its namespace has too much of.
    pub over_quota: Option<String>,
}

impl Obstacles {
    /// The gravest of them.
    #[must_use]
    pub fn gravest(self) -> Trouble {
        let failing = Some(self.failing).filter(|sentences| !sentences.is_empty()).map(Trouble::TasksFail);
        let passing = |trouble| Trouble::Passing(Box::new(trouble));
        let failing = failing.map(|trouble| if self.needs_person { trouble } else { passing(trouble) });
        self.incident
            .map(Trouble::Stopped)
            .or(self.conflict.map(Trouble::Conflict))
            .or(Some(self.unseen).filter(|unseen| *unseen != Trouble::None))
            .or(self.not_allowed.map(Trouble::NotAllowed))
            .or(self.no_host)
            .or(failing)
            .or(self.over_quota.map(Trouble::OverQuota).map(passing))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_of_all_obstacles_is_told() {
        let why = || Some("x".to_owned());
        let all = Obstacles {
            incident: why(),
            conflict: why(),
            unseen: Trouble::Unseen(vec!["x".to_owned()]),
            not_allowed: why(),
            no_host: Some(Trouble::NotFound("x".to_owned())),
            failing: vec!["x".to_owned()],
            needs_person: false,
            over_quota: why(),
        };
        let passing = |trouble| Trouble::Passing(Box::new(trouble));
        let (x, many) = (|| "x".to_owned(), || vec!["x".to_owned()]);
        let told = |obstacles: &Obstacles| obstacles.clone().gravest();
        let without = |change: fn(&mut Obstacles), mut obstacles: Obstacles| {
            change(&mut obstacles);
            obstacles
        };
        assert_eq!(told(&all), Trouble::Stopped(x()));
        let all = without(|all| all.incident = None, all);
        assert_eq!(told(&all), Trouble::Conflict(x()));
        let all = without(|all| all.conflict = None, all);
        assert_eq!(told(&all), Trouble::Unseen(many()));
        let all = without(|all| all.unseen = Trouble::None, all);
        assert_eq!(told(&all), Trouble::NotAllowed(x()));
        let all = without(|all| all.not_allowed = None, all);
        assert_eq!(told(&all), Trouble::NotFound(x()));
        let all = without(|all| all.no_host = None, all);
        assert_eq!(told(&all), passing(Trouble::TasksFail(many())));
        assert_eq!(told(&without(|all| all.needs_person = true, all.clone())), Trouble::TasksFail(many()));
        let all = without(|all| all.failing.clear(), all);
        assert_eq!(told(&all), passing(Trouble::OverQuota(x())));
        assert_eq!(told(&Obstacles::default()), Trouble::None);
    }

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
