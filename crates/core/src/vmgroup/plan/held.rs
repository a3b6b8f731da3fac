//! Slots whose VM can't be seen, in words.

use crate::{
    Timestamp, names,
    vmgroup::{Desired, Held, HeldFor, Observed, trouble::Trouble},
};

/// When something that isn't seen is worth a word.
pub(super) fn told_at(since: Timestamp) -> Option<Timestamp> {
    since.checked_add(Held::WORTH_A_WORD).ok()
}

/// What there is to say of VMs that can't be seen, or not well enough.
#[must_use]
pub fn trouble(desired: &Desired, observed: &Observed, now: Timestamp) -> Trouble {
    let is_told = |since: Timestamp| told_at(since).is_some_and(|time| time <= now);
    let held = observed.held.iter().filter(|(_, held)| is_told(held.since));
    let mut sentences: Vec<_> = held
        .map(|(slot, held)| sentence(&names::member(&desired.name, &desired.marker_uid, *slot), desired, held))
        .collect();
    let unreachable = observed.members.iter().filter(|member| member.unreachable_since.is_some_and(is_told));
    sentences.extend(unreachable.map(|member| {
        format!("{}: vCenter has no connection to it, so Drover leaves it alone until it has", member.name)
    }));
    if sentences.is_empty() {
        return Trouble::None;
    }
    // A VM that has no connection may get it back, and one that is missing is given up in its time.
    let needs_person =
        |held: &Held| held.why != HeldFor::Missing || desired.lost_after.is_none() || desired.deletion.is_some();
    if observed.held.values().any(|held| is_told(held.since) && needs_person(held)) {
        return Trouble::Unseen(sentences);
    }
    Trouble::Passing(Box::new(Trouble::Unseen(sentences)))
}

fn sentence(name: &str, desired: &Desired, held: &Held) -> String {
    match &held.why {
        HeldFor::Missing => {
            let then = match desired.lost_after.and_then(|after| held.since.checked_add(after).ok()) {
                _ if desired.deletion.is_some() => {
                    "the group goes when its VM is back or proved gone, or when the group is abandoned".to_owned()
                }
                Some(time) => format!("another is made in its place at {}", time.strftime("%FT%TZ")),
                None => "no other is made in its place while spec.lostAfterSeconds is 0".to_owned(),
            };
            format!(
                "{name} is missing, and nothing proves that it was destroyed: its host may have been removed, a permission \
                 taken away, or the VM unregistered; {then}"
            )
        }
        HeldFor::Unproved(names) => format!(
            "{name}: {} can't be proved to be this group's VM: it can't be read, or its instance UUID is not the one written down; \
             Drover leaves it alone and keeps its place",
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{names::Slot, vmgroup::desired::tests::desired};

    #[test]
    fn what_is_not_seen_is_told_after_a_minute_with_what_comes_of_it() {
        let since = Timestamp::UNIX_EPOCH;
        let mut observed = Observed::default();
        observed.held.insert(Slot(0), Held { since, why: HeldFor::Missing });
        let said = |seconds: i64, spec| {
            let now = Timestamp::from_second(seconds).unwrap();
            match trouble(&desired(&spec), &observed, now) {
                Trouble::Unseen(sentences) => sentences.join("\n"),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(said(59, json!({})), "None");
        assert!(said(60, json!({})).contains("is missing") && said(60, json!({})).contains("1970-01-01T00:05:00Z"));
        assert!(said(60, json!({"lostAfterSeconds": 0})).contains("no other is made"));
    }
}
