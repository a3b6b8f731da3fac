//! What is said of a VCenter: its conditions, its figures and the events of what has changed, all from what is known of it.

use drover_api::{
    Unknown, VCenter, VCenterStatus,
    vcenter::{Enforce, QuotaUse, Reach},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{
    Timestamp,
    conditions::{ConditionUpdate, Conditions, Kstatus, find},
    events::Event,
    reasons::{ConditionType, Reason},
};

/// What is said of a vCenter whose reach is not restricted.
pub const OPEN: &str = "every namespace that may use this vCenter may use all that Drover's user may use there: docs/vcenters.md#tenants says how to restrict that";
/// How many groups are listed by name.
const NAMED: usize = 5;

/// What is known of a vCenter. What isn't known now stands as it was.
#[derive(Debug)]
pub struct Observed {
    /// Whether Drover is logged in.
    pub connection: Connection,
    /// Whether its user has the privileges that are needed.
    pub authorization: Authorization,
    /// Whether everything that makes or destroys is stopped.
    pub hold: Hold,
    /// Whether its hosts are published.
    pub publication: Publication,
    /// The groups that name what they may not use there. `None`: nobody knows.
    pub not_allowed: Option<Vec<String>>,
    /// What namespaces use of their quotas. `None`: nobody has counted.
    pub quotas: Option<Vec<QuotaUse>>,
}

/// Whether Drover is logged in to a vCenter.
#[derive(Debug)]
pub enum Connection {
    /// What is declared of it makes no sense, for this reason.
    Invalid(String),
    /// It is being connected to, or read.
    Connecting(String),
    /// It can't be worked with, for this reason.
    Away(Reason, String),
    /// It is logged in to, and read.
    Connected(Details),
}

/// What a vCenter is and has.
#[derive(Debug, Default)]
pub struct Details {
    /// Its version.
    pub version: Option<String>,
    /// The build of that.
    pub build: Option<String>,
    /// What tells it from all others.
    pub instance_uuid: Option<String>,
    /// When Drover logged in.
    pub session_since: Option<Timestamp>,
    /// How many VMs there are.
    pub machines: Option<i64>,
    /// How many hosts there are.
    pub hosts: Option<i64>,
    /// How many operations wait.
    pub queued: Option<i64>,
    /// How many operations are under way.
    pub under_way: Option<i64>,
}

/// Whether Drover's user has the privileges that are needed.
#[derive(Debug)]
pub enum Authorization {
    /// Nobody has looked.
    NotChecked,
    /// It has.
    Granted,
    /// It lacks these.
    Lacking(String),
}

/// Whether everything that makes or destroys is stopped in a vCenter.
#[derive(Debug)]
pub enum Hold {
    /// There is nothing to look at.
    NotChecked,
    /// It isn't known how many VMs are missing. What was so stands.
    Unknown,
    /// It is not.
    Free,
    /// It is.
    Held {
        /// The incident, as a person names it to go on.
        incident: String,
        /// What happened, for people to read.
        message: String,
    },
}

/// What became of publishing hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// Nobody asks for it.
    NotAsked,
    /// Nobody has looked.
    Unknown,
    /// Every host is published.
    Whole,
    /// Not all are, because the namespace is being deleted. It is tried again.
    Ending(String),
    /// Not all are, for this reason.
    Incomplete(Reason, String),
}

/// The status of a VCenter, and what people should come to know of, though they don't look.
#[must_use]
pub fn report(vcenter: &VCenter, observed: Observed, now: Timestamp) -> (VCenterStatus, Vec<Event>) {
    let before = vcenter.status.clone().unwrap_or_default();
    let generation = vcenter.metadata.generation;
    let conditions = Conditions { before: &before.conditions, generation, now };
    let updates = [
        connected(&observed.connection),
        authorized(&observed.authorization),
        safety_hold(&observed.hold, &conditions),
        restricted(vcenter, &conditions, observed.not_allowed.as_deref()),
    ];
    let details: Vec<_> = updates.iter().map(|update| conditions.write(update)).collect();
    let details: Vec<_> = details.into_iter().chain(published(&observed.publication, &conditions)).collect();
    let sums = summed_up(&details).map(|update| conditions.write(&update));
    let known = match observed.connection {
        Connection::Connected(known) => known,
        _ => Details::default(),
    };
    let status = VCenterStatus {
        version: known.version,
        build: known.build,
        instance_uuid: known.instance_uuid.or_else(|| before.instance_uuid.clone()),
        session_since: known.session_since.map(Time),
        machines: known.machines,
        hosts: known.hosts,
        queued: known.queued,
        under_way: known.under_way,
        // What was counted last stands, until it is known anew.
        quotas: observed.quotas.unwrap_or_else(|| before.quotas.clone()),
        incident: match observed.hold {
            Hold::NotChecked | Hold::Free => None,
            Hold::Unknown => before.incident.clone(),
            Hold::Held { incident, .. } => Some(incident),
        },
        observed_generation: generation,
        conditions: sums.into_iter().chain(details).collect(),
        unknown: Unknown::default(),
    };
    let events = events(&before, &status);
    (status, events)
}

fn connected(connection: &Connection) -> ConditionUpdate {
    let (holds, reason, message) = match connection {
        Connection::Invalid(why) => (Some(false), Reason::Invalid, why.as_str()),
        Connection::Connecting(why) => (None, Reason::Connecting, why.as_str()),
        Connection::Away(reason, why) => (Some(false), *reason, why.as_str()),
        Connection::Connected(_) => (Some(true), Reason::Connected, ""),
    };
    ConditionUpdate::new(ConditionType::Connected, holds, reason, message)
}

fn authorized(authorization: &Authorization) -> ConditionUpdate {
    let (holds, reason, message) = match authorization {
        Authorization::NotChecked => (None, Reason::NotChecked, ""),
        Authorization::Granted => (Some(true), Reason::PrivilegesGranted, ""),
        Authorization::Lacking(missing) => (Some(false), Reason::PrivilegesMissing, missing.as_str()),
    };
    ConditionUpdate::new(ConditionType::Authorized, holds, reason, message)
}

fn safety_hold(hold: &Hold, conditions: &Conditions<'_>) -> ConditionUpdate {
    let was = conditions.find(ConditionType::SafetyHold).filter(|was| was.status == "True");
    let (holds, reason, message) = match (hold, was) {
        (Hold::Unknown, Some(was)) => (Some(true), Reason::SafetyHold, was.message.as_str()),
        (Hold::Unknown | Hold::NotChecked, _) => (None, Reason::NotChecked, ""),
        (Hold::Free, _) => (Some(false), Reason::NoVMsMissing, ""),
        (Hold::Held { message, .. }, _) => (Some(true), Reason::SafetyHold, message.as_str()),
    };
    ConditionUpdate::new(ConditionType::SafetyHold, holds, reason, message)
}

/// Whether namespaces may use only what they are allowed, and which groups name more.
fn restricted(vcenter: &VCenter, conditions: &Conditions<'_>, not_allowed: Option<&[String]>) -> ConditionUpdate {
    let (holds, reason, do_what) = match (vcenter.spec.reach, vcenter.spec.enforce) {
        (Reach::Open, _) => (false, Reason::ReachOpen, ""),
        (Reach::Restricted, Enforce::Warn) => (false, Reason::ReachNotEnforced, "would be refused"),
        (Reach::Restricted, Enforce::Enforce) => (true, Reason::ReachRestricted, "are refused"),
    };
    let was = conditions.find(ConditionType::Restricted).filter(|was| was.reason == reason.word());
    let message = match not_allowed {
        _ if reason == Reason::ReachOpen => OPEN.to_owned(),
        Some([]) => String::new(),
        Some(groups) => format!("VmGroups that {do_what}: {}", first_of(groups)),
        None => was.map(|was| was.message.clone()).unwrap_or_default(),
    };
    ConditionUpdate::new(ConditionType::Restricted, holds, reason, message)
}

/// The first few of some names, and how many more there are.
fn first_of(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Whether the hosts are published, where that is asked for.
fn published(publication: &Publication, conditions: &Conditions<'_>) -> Option<Condition> {
    let (holds, reason, message) = match publication {
        Publication::NotAsked => return None,
        Publication::Unknown => return conditions.find(ConditionType::Published).cloned(),
        Publication::Whole => (Some(true), Reason::Reconciled, ""),
        Publication::Ending(why) => (None, Reason::RequestRefused, why.as_str()),
        Publication::Incomplete(reason, why) => (Some(false), *reason, why.as_str()),
    };
    Some(conditions.write(&ConditionUpdate::new(ConditionType::Published, holds, reason, message)))
}

/// `Ready`, `Reconciling` and `Stalled`, from the conditions that say more: the first that isn't as it should be decides.
fn summed_up(details: &[Condition]) -> [ConditionUpdate; 3] {
    let good = [
        (ConditionType::Connected, "True"),
        (ConditionType::SafetyHold, "False"),
        (ConditionType::Authorized, "True"),
        (ConditionType::Published, "True"),
    ];
    let bad = good.into_iter().find_map(|(kind, good)| {
        let condition = find(details, kind).filter(|condition| condition.status != good)?;
        let reason = Reason::of(&condition.reason)?;
        // What nobody has checked yet is in nobody's way once vCenter is there.
        (reason != Reason::NotChecked).then_some((reason, condition))
    });
    let Some((reason, bad)) = bad else {
        let connected = Reason::Connected;
        return Kstatus { is_ready: true, reason: connected, message: "", progress: "", stalled: None }.conditions();
    };
    // What isn't known yet, or comes back, waits for nobody.
    let is_passing = bad.status == "Unknown" || matches!(reason, Reason::VCenterUnreachable | Reason::Connecting);
    let message = bad.message.as_str();
    let stalled = (!is_passing).then_some((reason, message));
    Kstatus { is_ready: false, reason, message, progress: message, stalled }.conditions()
}

/// What has changed for people, once for each change.
fn events(before: &VCenterStatus, after: &VCenterStatus) -> Vec<Event> {
    let mut events = Vec::new();
    for (kind, good, well) in [
        (ConditionType::Connected, "True", "vCenter is connected"),
        (ConditionType::Authorized, "True", "the user has all privileges that are needed"),
        (ConditionType::SafetyHold, "False", "no more VMs are missing than may be: cloning and destroying go on"),
        (ConditionType::Published, "True", "all hosts are published"),
    ] {
        let (Some(is), was) = (find(&after.conditions, kind), find(&before.conditions, kind)) else { continue };
        let Some(reason) = Reason::of(&is.reason) else { continue };
        let was_so = |status: &str| was.is_some_and(|was| was.status == status);
        match is.status.as_str() {
            status if was_so(status) && was.is_some_and(|was| was.reason == is.reason) => {}
            // That nothing is missing is news only after something was.
            "False" if good == "False" && !was_so("True") => {}
            "True" if kind == ConditionType::Published && !was_so("False") => {}
            "Unknown" => {}
            status if status == good => events.push(Event::normal(reason, well)),
            _ => events.push(Event::warning(reason, is.message.clone())),
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    type Detail = (ConditionType, Option<bool>, Reason);

    fn sums(details: &[Detail]) -> Vec<(String, String)> {
        let conditions = Conditions { before: &[], generation: Some(1), now: Timestamp::UNIX_EPOCH };
        let write =
            |(kind, holds, reason): &Detail| conditions.write(&ConditionUpdate::new(*kind, *holds, *reason, ""));
        let details: Vec<_> = details.iter().map(write).collect();
        let sums = summed_up(&details).map(|update| conditions.write(&update));
        sums.map(|condition| (condition.status, condition.reason)).into()
    }

    fn words(words: [(&str, &str); 3]) -> Vec<(String, String)> {
        words.map(|(status, reason)| (status.to_owned(), reason.to_owned())).into()
    }

    #[test]
    fn a_vcenter_is_stalled_only_where_a_person_has_to_act() {
        let connected = (ConditionType::Connected, Some(true), Reason::Connected);
        let unheld = (ConditionType::SafetyHold, Some(false), Reason::NoVMsMissing);
        let granted = (ConditionType::Authorized, Some(true), Reason::PrivilegesGranted);
        let unchecked = (ConditionType::Authorized, None, Reason::NotChecked);
        let ready = words([("True", "Connected"), ("False", "Connected"), ("False", "NotStalled")]);
        assert_eq!(sums(&[connected, granted, unheld]), ready);
        assert_eq!(sums(&[connected, unchecked, unheld]), ready, "no group uses it");
        for reason in [Reason::VCenterUnreachable, Reason::Connecting] {
            let away = sums(&[(ConditionType::Connected, Some(false), reason), unchecked]);
            assert_eq!(away, words([("False", reason.word()), ("True", reason.word()), ("False", "NotStalled")]));
        }
        for bad in [
            (ConditionType::Connected, Some(false), Reason::LoginRefused),
            (ConditionType::SafetyHold, Some(true), Reason::SafetyHold),
            (ConditionType::Authorized, Some(false), Reason::PrivilegesMissing),
            (ConditionType::Published, Some(false), Reason::RequestRefused),
        ] {
            let word = bad.2.word();
            let others = [connected, unheld, granted].into_iter().filter(|other| other.0 != bad.0);
            let all: Vec<_> = others.chain([bad]).collect();
            assert_eq!(sums(&all), words([("False", word), ("False", word), ("True", word)]));
        }
    }

    #[test]
    fn a_hold_lasts_until_it_is_known_that_nothing_is_missing_and_its_end_is_told() {
        let observe = |hold| Observed {
            connection: Connection::Connected(Details::default()),
            authorization: Authorization::NotChecked,
            hold,
            publication: Publication::NotAsked,
            not_allowed: None,
            quotas: None,
        };
        let mut vcenter: VCenter = serde_json::from_value(serde_json::json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": {"name": "a"},
            "spec": {"server": "vc", "credentialsSecretRef": {"namespace": "n", "name": "s"}},
        }))
        .unwrap();
        let mut tell = |hold| {
            let (status, events) = report(&vcenter, observe(hold), Timestamp::UNIX_EPOCH);
            let held = find(&status.conditions, ConditionType::SafetyHold).unwrap().status.clone();
            let told = (held, status.incident.clone(), events.iter().map(|event| event.reason).collect::<Vec<_>>());
            vcenter.status = Some(status);
            told
        };
        let (so, not, incident) = (|| "True".to_owned(), || "False".to_owned(), || Some("x".to_owned()));
        let held = || Hold::Held { incident: "x".to_owned(), message: "5 are missing".to_owned() };
        assert_eq!(tell(Hold::Free), (not(), None, vec!["Connected"]));
        assert_eq!(tell(held()), (so(), incident(), vec!["SafetyHold"]));
        assert_eq!(tell(Hold::Unknown), (so(), incident(), vec![]));
        assert_eq!(tell(Hold::Free), (not(), None, vec!["NoVMsMissing"]));
    }
}
