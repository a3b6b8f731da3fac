//! What a reconcile came to.

use std::time::Duration;

use crate::{Plan, Trouble, vmgroup::Observed};

/// A group is planned again after this long, whatever was told. It costs vCenter nothing.
pub const RESYNC: Duration = Duration::from_mins(5);

/// What a reconcile came to.
#[derive(Debug)]
pub struct Outcome {
    /// What is to be done.
    pub plan: Plan,
    /// The group as it is, where that could be seen.
    pub observed: Option<Observed>,
    /// What stands in the way.
    pub trouble: Trouble,
    /// When to come back, if nothing changes before.
    pub wake: Duration,
    /// What keeps everything from being made or destroyed, if something does.
    pub incident: Option<String>,
    /// Whether nothing can be said of the group at this moment.
    pub is_blind: bool,
    /// What tells the vCenter from others that the group was seen in.
    pub instance: Option<String>,
    /// Whether the group may use what it names.
    pub allowed: Allowed,
}

/// Whether a group may use what it names.
#[derive(Clone, Debug)]
pub enum Allowed {
    /// Nothing is restricted.
    Everything,
    /// Nobody can say now.
    Unknown,
    /// As its vCenter's rules say, or why not.
    Judged(Result<(), String>),
    /// It may use what it names, and its namespace has more than it is to have.
    OverQuota(String),
}

impl Allowed {
    /// By what rules say of what it names, if there are any, and of what its namespace has too much of.
    #[must_use]
    pub fn of(reach: Option<Result<(), String>>, excess: Option<String>) -> Self {
        match (reach, excess) {
            (None | Some(Ok(())), Some(excess)) => Self::OverQuota(excess),
            (reach, _) => reach.map_or(Self::Everything, Self::Judged),
        }
    }
}

impl Outcome {
    /// Nothing can be done, or even seen, now.
    #[must_use]
    pub fn stuck(trouble: Trouble, wake: Duration) -> Self {
        Self {
            plan: Plan::default(),
            observed: None,
            trouble,
            wake,
            incident: None,
            is_blind: false,
            instance: None,
            allowed: Allowed::Unknown,
        }
    }

    /// vCenter is being read anew, which takes a moment: there is nothing to do or to say until it has been.
    #[must_use]
    pub fn blind() -> Self {
        Self { is_blind: true, ..Self::stuck(Trouble::None, Duration::from_secs(1)) }
    }

    /// Nothing is left to be done for a group that is being deleted.
    #[must_use]
    pub fn over() -> Self {
        Self { plan: Plan { settled: true, ..Plan::default() }, ..Self::stuck(Trouble::None, RESYNC) }
    }

    /// What the plan came to, in one word for those who count.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self { is_blind: true, .. } => "blind",
            Self { incident: Some(_), .. } => "held",
            Self { plan: Plan { settled: true, .. }, .. } => "settled",
            Self { observed: None, .. } => "stuck",
            Self { plan, .. } if plan.actions.is_empty() => "waiting",
            _ => "actions",
        }
    }

    /// Whether a group that goes has gone.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.plan.settled && self.trouble == Trouble::None
    }
}
