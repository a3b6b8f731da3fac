//! What is written of a VCenter, where that differs from what stands there.

use std::sync::Arc;

use drover_api::{
    VCenter, VCenterStatus,
    vcenter::{Enforce, QuotaUse, Reach as NamespaceReach},
};
use drover_core::{Timestamp, conditions::Conditions, events::News, reasons::Reason, tenancy::OPEN};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Api, Client};

use crate::{
    controllers::{info::Publication, reconcile::Error},
    kube::{
        events,
        status::{self, Reach},
    },
    vcenter::{VCenterHandle, privileges},
};

/// Whether Drover is logged in.
const CONNECTED: &str = "Connected";
/// Whether it may do all that it has to.
const AUTHORIZED: &str = "Authorized";
/// Whether nothing is cloned or destroyed, because too many VMs are missing.
const SAFETY_HOLD: &str = "SafetyHold";
/// Whether namespaces may use only what they are allowed.
const RESTRICTED: &str = "Restricted";
/// Whether each host has a HostInfo, where that is asked for.
const PUBLISHED: &str = "Published";

/// How many groups are listed by name.
const NAMED: usize = 5;

/// Brings the status of a VCenter up to what is so, and tells of what has changed for people.
pub(super) async fn write(
    kube: &Client,
    vcenter: &VCenter,
    outlook: Result<&Arc<VCenterHandle>, &str>,
    publication: Publication,
    not_allowed: Option<&[String]>,
    quotas: Option<Vec<QuotaUse>>,
) -> Result<(), Error> {
    let before = vcenter.status.clone().unwrap_or_default();
    let mut after = status(&before, vcenter.metadata.generation, outlook).await;
    after.conditions.push(restricted(&before, vcenter, not_allowed));
    // What was counted last stands, until it is known anew.
    after.quotas = quotas.unwrap_or_else(|| before.quotas.clone());
    after.conditions.extend(published(&before, vcenter.metadata.generation, publication));
    let sums = summed_up(&before, vcenter.metadata.generation, &after.conditions);
    after.conditions.splice(0..0, sums);
    // As they are written: vCenter's times are finer than what the API server keeps of them, and would always differ.
    let (written, wanted) = (status::standing(&before), status::value(&after));
    if written == wanted {
        return Ok(());
    }
    let outcome = status::apply(&Api::all(kube.clone()), vcenter, Reach::Status, wanted).await;
    if status::unless_overtaken(outcome)?.is_none() {
        return Ok(());
    }
    events::tell(kube, vcenter, &news(&before, &after));
    Ok(())
}

async fn status(
    before: &VCenterStatus,
    generation: Option<i64>,
    outlook: Result<&Arc<VCenterHandle>, &str>,
) -> VCenterStatus {
    let mut status = VCenterStatus {
        instance_uuid: before.instance_uuid.clone(),
        observed_generation: generation,
        ..VCenterStatus::default()
    };
    let (connected, authorized) = match outlook {
        Err(why) => ((Some(false), Reason::Invalid, why.to_owned()), unchecked()),
        Ok(live) => match live.away() {
            Some(away) if away.reason == Reason::Connecting => ((None, away.reason, away.why), unchecked()),
            Some(away) => ((Some(false), away.reason, away.sentence()), unchecked()),
            None if !live.is_in_sight() => ((None, Reason::Connecting, String::new()), unchecked()),
            None => {
                fill(&mut status, live).await;
                ((Some(true), Reason::Connected, String::new()), authorization(live))
            }
        },
    };
    let held = match outlook {
        Ok(live) => hold(live, before),
        Err(_) => (None, Reason::NotChecked, String::new()),
    };
    status.incident = match outlook {
        // What was so stands, until it is known how many VMs are missing.
        Ok(live) if !live.executor().is_foreseen() => before.incident.clone(),
        Ok(live) => live.executor().incident().map(|incident| incident.id.clone()),
        Err(_) => None,
    };
    let conditions = Conditions { before: &before.conditions, generation, now: Timestamp::now() };
    status.conditions = [(CONNECTED, connected), (AUTHORIZED, authorized), (SAFETY_HOLD, held)]
        .map(|(kind, (holds, reason, message))| conditions.judge(kind, holds, reason, message))
        .into();
    status
}

/// Whether namespaces may use only what they are allowed, and which groups name more. Until that is known, what was known last stands.
fn restricted(before: &VCenterStatus, vcenter: &VCenter, not_allowed: Option<&[String]>) -> Condition {
    let generation = vcenter.metadata.generation;
    let (holds, reason, do_what) = match (vcenter.spec.reach, vcenter.spec.enforce) {
        (NamespaceReach::Open, _) => (false, Reason::ReachOpen, ""),
        (NamespaceReach::Restricted, Enforce::Warn) => (false, Reason::ReachNotEnforced, "would be refused"),
        (NamespaceReach::Restricted, Enforce::Enforce) => (true, Reason::ReachRestricted, "are refused"),
    };
    let was = before.conditions.iter().find(|was| was.type_ == RESTRICTED && was.reason == reason.word());
    let message = match not_allowed {
        _ if reason == Reason::ReachOpen => OPEN.to_owned(),
        Some([]) => String::new(),
        Some(groups) => format!("VmGroups that {do_what}: {}", first_of(groups)),
        None => was.map(|was| was.message.clone()).unwrap_or_default(),
    };
    let conditions = Conditions { before: &before.conditions, generation, now: Timestamp::now() };
    conditions.judge(RESTRICTED, holds, reason, message)
}

/// The first few of some names, and how many more there are.
fn first_of(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Whether the hosts are published, where that is asked for. Until it is known, what was known last stands.
fn published(before: &VCenterStatus, generation: Option<i64>, publication: Publication) -> Option<Condition> {
    let conditions = Conditions { before: &before.conditions, generation, now: Timestamp::now() };
    match publication {
        Publication::NotAsked => None,
        Publication::Unknown => before.conditions.iter().find(|condition| condition.type_ == PUBLISHED).cloned(),
        Publication::Whole => Some(conditions.judge(PUBLISHED, true, Reason::Reconciled, "")),
        Publication::Ending(why) => Some(conditions.judge(PUBLISHED, None, Reason::RequestRefused, why)),
        Publication::Incomplete(reason, why) => Some(conditions.judge(PUBLISHED, false, reason, why)),
    }
}

/// `Ready`, `Reconciling` and `Stalled`, from the conditions that say more: the first that isn't as it should be decides.
fn summed_up(before: &VCenterStatus, generation: Option<i64>, details: &[Condition]) -> [Condition; 3] {
    let good = [(CONNECTED, "True"), (SAFETY_HOLD, "False"), (AUTHORIZED, "True"), (PUBLISHED, "True")];
    let bad = good.into_iter().find_map(|(kind, good)| {
        let condition = details.iter().find(|condition| condition.type_ == kind && condition.status != good)?;
        let reason = Reason::ALL.iter().copied().find(|reason| reason.word() == condition.reason)?;
        // What nobody has checked yet is in nobody's way once vCenter is there.
        (reason != Reason::NotChecked).then_some((reason, condition))
    });
    let conditions = Conditions { before: &before.conditions, generation, now: Timestamp::now() };
    let Some((reason, bad)) = bad else {
        return [
            conditions.judge("Ready", true, Reason::Connected, ""),
            conditions.judge("Reconciling", false, Reason::Connected, ""),
            conditions.judge("Stalled", false, Reason::NotStalled, ""),
        ];
    };
    // What isn't known yet, or comes back, waits for nobody.
    let is_passing = bad.status == "Unknown" || matches!(reason, Reason::VCenterUnreachable | Reason::Connecting);
    let stalled = if is_passing { (Reason::NotStalled, "") } else { (reason, bad.message.as_str()) };
    [
        conditions.judge("Ready", false, reason, bad.message.clone()),
        conditions.judge("Reconciling", is_passing, reason, bad.message.clone()),
        conditions.judge("Stalled", !is_passing, stalled.0, stalled.1),
    ]
}

type ConditionUpdate = (Option<bool>, Reason, String);

fn unchecked() -> ConditionUpdate {
    (None, Reason::NotChecked, String::new())
}

/// Whether everything that makes or destroys is stopped. It is while vCenter is away, if it was before.
fn hold(live: &VCenterHandle, before: &VCenterStatus) -> ConditionUpdate {
    if !live.is_in_sight() || !live.executor().is_foreseen() {
        let was =
            before.conditions.iter().find(|condition| condition.type_ == SAFETY_HOLD && condition.status == "True");
        return match was {
            Some(was) => (Some(true), Reason::SafetyHold, was.message.clone()),
            None => (None, Reason::NotChecked, String::new()),
        };
    }
    match live.executor().incident() {
        Some(incident) => (Some(true), Reason::SafetyHold, incident.sentence()),
        None => (Some(false), Reason::NoVMsMissing, String::new()),
    }
}

fn authorization(live: &VCenterHandle) -> ConditionUpdate {
    match live.privileges().missing() {
        None => unchecked(),
        Some([]) => (Some(true), Reason::PrivilegesGranted, String::new()),
        Some(missing) => (Some(false), Reason::PrivilegesMissing, privileges::sentence(missing)),
    }
}

/// What can be said of a vCenter that is there.
async fn fill(status: &mut VCenterStatus, live: &VCenterHandle) {
    if let Some(about) = live.about() {
        status.version = Some(about.version);
        status.build = Some(about.build);
        status.instance_uuid = about.instance_uuid.or_else(|| status.instance_uuid.clone());
    }
    if let Some(session) = live.client.current_session().await {
        status.session_since = Some(Time(session.user.login_time));
    }
    let number = |count: usize| i64::try_from(count).ok();
    let (queued, under_way) = live.executor().load();
    let mirror = live.mirror();
    status.machines = number(mirror.machines.len());
    status.hosts = number(mirror.hosts.len());
    status.queued = number(queued);
    status.under_way = number(under_way);
}

/// What people should come to know of, though they don't look: once for each change.
fn news(before: &VCenterStatus, after: &VCenterStatus) -> Vec<News> {
    let find = |status: &VCenterStatus, kind: &str| -> Option<Condition> {
        status.conditions.iter().find(|condition| condition.type_ == kind).cloned()
    };
    let mut news = Vec::new();
    for (kind, good, well) in [
        (CONNECTED, "True", "vCenter is connected"),
        (AUTHORIZED, "True", "the user has all privileges that are needed"),
        (SAFETY_HOLD, "False", "no more VMs are missing than may be: cloning and destroying go on"),
        (PUBLISHED, "True", "all hosts are published"),
    ] {
        let (Some(is), was) = (find(after, kind), find(before, kind)) else { continue };
        let is_same = was.as_ref().is_some_and(|was| was.status == is.status && was.reason == is.reason);
        let was_so = |status: &str| was.as_ref().is_some_and(|was| was.status == status);
        let reason = Reason::ALL.iter().find(|reason| reason.word() == is.reason).map_or("", |reason| reason.word());
        match is.status.as_str() {
            _ if is_same => {}
            // That nothing is missing is news only after something was.
            "False" if good == "False" && !was_so("True") => {}
            "True" if kind == PUBLISHED && !was_so("False") => {}
            "Unknown" => {}
            status if status == good => news.push(News { is_warning: false, reason, message: well.to_owned() }),
            _ => news.push(News { is_warning: true, reason, message: is.message }),
        }
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(details: &[(&str, Option<bool>, Reason)]) -> Vec<(String, String)> {
        let conditions = Conditions { before: &[], generation: Some(1), now: Timestamp::UNIX_EPOCH };
        let details: Vec<_> =
            details.iter().map(|(kind, is, reason)| conditions.judge(kind, *is, *reason, "")).collect();
        let sums = summed_up(&VCenterStatus::default(), Some(1), &details);
        sums.map(|condition| (condition.status, condition.reason)).into()
    }

    fn words(words: [(&str, &str); 3]) -> Vec<(String, String)> {
        words.map(|(status, reason)| (status.to_owned(), reason.to_owned())).into()
    }

    #[test]
    fn a_vcenter_is_stalled_only_where_a_person_has_to_act() {
        let connected = (CONNECTED, Some(true), Reason::Connected);
        let unheld = (SAFETY_HOLD, Some(false), Reason::NoVMsMissing);
        let granted = (AUTHORIZED, Some(true), Reason::PrivilegesGranted);
        let ready = words([("True", "Connected"), ("False", "Connected"), ("False", "NotStalled")]);
        assert_eq!(sums(&[connected, granted, unheld]), ready);
        assert_eq!(sums(&[connected, (AUTHORIZED, None, Reason::NotChecked), unheld]), ready, "no group uses it");
        for reason in [Reason::VCenterUnreachable, Reason::Connecting] {
            let away = sums(&[(CONNECTED, Some(false), reason), (AUTHORIZED, None, Reason::NotChecked)]);
            assert_eq!(away, words([("False", reason.word()), ("True", reason.word()), ("False", "NotStalled")]));
        }
        for bad in [
            (CONNECTED, Some(false), Reason::LoginRefused),
            (SAFETY_HOLD, Some(true), Reason::SafetyHold),
            (AUTHORIZED, Some(false), Reason::PrivilegesMissing),
            (PUBLISHED, Some(false), Reason::RequestRefused),
        ] {
            let word = bad.2.word();
            let others = [connected, unheld, granted].into_iter().filter(|other| other.0 != bad.0);
            let all: Vec<_> = others.chain([bad]).collect();
            assert_eq!(sums(&all), words([("False", word), ("False", word), ("True", word)]));
        }
    }
}
