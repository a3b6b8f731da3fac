//! What an edit does to machines, counted before it is made: what a person is told who is about to make it.

use std::fmt;

use super::{census::Census, upkeep};
use crate::{
    Timestamp,
    vmgroup::{DeletionPolicy, Desired, Member, Observed, Power, Slots},
};

/// How many machines something is done to, until the group is as declared. Machines that fail or go missing on the way are not foreseen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Impact {
    /// Made.
    pub created: usize,
    /// Destroyed, and not replaced.
    pub destroyed: usize,
    /// Destroyed, and made anew.
    pub replaced: usize,
    /// Given other CPUs and memory.
    pub reconfigured: usize,
    /// Of those, the ones that have to be down for it.
    pub restarted: usize,
    /// Brought into another power state, and nothing else.
    pub powered: usize,
    /// How many of those that are replaced or restarted may be down or too many at the same time.
    pub at_a_time: usize,
    end: End,
}

/// What becomes of the machines of a group that ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// It goes on, and its machines are to be in this power state.
    GoesOn(Power),
    /// It is left alone while it is paused.
    #[default]
    Paused,
    /// It is deleted, and so many stay in vCenter.
    Leaves(DeletionPolicy, usize),
}

/// Counts what is done to a group's machines until they are as declared.
#[must_use]
pub fn impact(desired: &Desired, observed: &Observed, now: Timestamp) -> Impact {
    let census = Census::take(desired, observed, now);
    let members = observed.members.len();
    match desired.deletion {
        Some(DeletionPolicy::Delete) => {
            Impact { destroyed: members, end: End::Leaves(DeletionPolicy::Delete, 0), ..Impact::default() }
        }
        Some(policy) => {
            let is_up = |member: &&Member| policy == DeletionPolicy::PowerOff && member.power != Power::Off;
            let powered = observed.members.iter().filter(is_up).count();
            Impact { powered, end: End::Leaves(policy, members), ..Impact::default() }
        }
        None if desired.paused => Impact::default(),
        None => of_edit(&census),
    }
}

fn of_edit(census: &Census<'_>) -> Impact {
    let (desired, observed) = (census.desired, census.observed);
    let replicas = desired.replicas as usize;
    let destroyed = match desired.slots {
        Slots::Any => census.seen().saturating_sub(replicas).min(observed.members.len()),
        Slots::Fixed => census.surplus().min(observed.members.iter().filter(|member| census.is_beyond(member)).count()),
    };
    let beyond = observed.members.iter().filter(|member| census.is_beyond(member)).count();
    let created = match desired.slots {
        Slots::Any => replicas.saturating_sub(census.taken().len()),
        // Of those that are missing, some take the place of one in a slot that the group doesn't have.
        Slots::Fixed => census.missing().saturating_sub(beyond.saturating_sub(destroyed)),
    };
    let mut impact = Impact {
        created: created.min(census.room_for_clones()),
        destroyed,
        at_a_time: (desired.update.max_unavailable + desired.update.max_surge).max(1) as usize,
        end: End::GoesOn(desired.power),
        ..Impact::default()
    };
    // Those that are to be replaced are the first to go where there are too many.
    for member in census.in_leaving_order().into_iter().skip(destroyed) {
        if census.may_be_replaced(member) {
            impact.replaced += 1;
        } else if upkeep::needs_other_hardware(census, member) {
            impact.reconfigured += 1;
            impact.restarted += usize::from(member.power != Power::Off && !member.takes_running(desired.hardware));
        } else if member.power != desired.power {
            impact.powered += 1;
        }
    }
    impact
}

impl Impact {
    /// Whether machines are destroyed, or go down.
    #[must_use]
    pub fn is_harsh(&self) -> bool {
        let goes_down = self.powered > 0 && self.end != End::GoesOn(Power::On);
        self.destroyed + self.replaced + self.restarted > 0 || goes_down
    }

    /// One sentence for each thing that is done, none where nothing is. Each is short enough for a warning of the API server.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        let mut say = |count: usize, sentence: fmt::Arguments<'_>| {
            if count > 0 {
                said.push(sentence.to_string());
            }
        };
        let (created, destroyed, replaced) = (vms(self.created), vms(self.destroyed), vms(self.replaced));
        let at_once = self.at_a_time;
        let its = |count: usize| if count == 1 { "its" } else { "their" };
        say(self.created, format_args!("creates {created}"));
        say(self.destroyed, format_args!("destroys {destroyed} and {} disks", its(self.destroyed)));
        say(
            self.replaced,
            format_args!("replaces {replaced}, {at_once} at a time: {} disks are lost", its(self.replaced)),
        );
        let running = self.reconfigured - self.restarted;
        say(running, format_args!("changes CPUs and memory of {}", vms(running)));
        let restarted = vms(self.restarted);
        say(self.restarted, format_args!("powers off {restarted} to change CPUs and memory, {at_once} at a time"));
        let powered = vms(self.powered);
        match self.end {
            End::GoesOn(Power::On) => say(self.powered, format_args!("powers on {powered}")),
            End::GoesOn(Power::Off) | End::Leaves(..) => say(self.powered, format_args!("powers off {powered}")),
            End::GoesOn(Power::Suspended) => say(self.powered, format_args!("suspends {powered}")),
            End::Paused => {}
        }
        if let End::Leaves(_, left) = self.end {
            say(left, format_args!("leaves {} in vCenter", vms(left)));
        }
        said
    }
}

fn vms(count: usize) -> String {
    if count == 1 { "1 VM".to_owned() } else { format!("{count} VMs") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        Action,
        vmgroup::{
            desired::tests::desired,
            forecast::{forecast, foreseen},
        },
    };

    /// A spec by chance, from a number.
    fn spec(mut number: u64) -> Value {
        let mut choose = |choices: &[Value]| {
            let choice = choices[usize::try_from(number % choices.len() as u64).unwrap()].clone();
            number /= choices.len() as u64;
            choice
        };
        json!({
            "replicas": choose(&[json!(0), json!(1), json!(3), json!(6)]),
            "cpu": choose(&[json!(2), json!(4)]),
            "template": choose(&[json!("one"), json!("two")]),
            "powerState": choose(&[json!("On"), json!("On"), json!("Off")]),
            "update": {
                "strategy": choose(&[json!("InPlaceFirst"), json!("Replace"), json!("OnDelete")]),
                "maxUnavailable": choose(&[json!(1), json!(2), json!(0)]),
                "maxSurge": choose(&[json!(1), json!(0), json!(2)]),
            },
        })
    }
    const SPECS: u64 = 4 * 2 * 2 * 3 * 3 * 3 * 3;

    fn count(actions: &[Action], is_one: impl Fn(&Action) -> bool) -> usize {
        actions.iter().filter(|action| is_one(action)).count()
    }

    #[test]
    fn what_is_counted_is_what_is_done() {
        let now = Timestamp::UNIX_EPOCH;
        // Steps that meet every pair of choices, and few enough to be played.
        for first in (0..SPECS).step_by(11) {
            let before = foreseen(&desired(&spec(first)), now);
            for then in (first % 7..SPECS).step_by(37) {
                let then = spec(then);
                let desired = desired(&then);
                let (told, done) = (impact(&desired, &before, now), forecast(&desired, &before, now));
                let context = format!("{} then {then}: {told:?}, {done:?}", spec(first));
                let cloned = count(&done, |action| matches!(action, Action::Clone(_)));
                let destroyed = count(&done, |action| matches!(action, Action::Destroy(_)));
                assert_eq!(cloned, told.created + told.replaced, "{context}");
                assert_eq!(destroyed, told.destroyed + told.replaced, "{context}");
                let reconfigured = count(&done, |action| matches!(action, Action::Reconfigure(..)));
                assert_eq!(reconfigured, told.reconfigured, "{context}");
                assert_eq!(told.sentences().is_empty(), done.iter().all(Action::is_of_folder), "{context}");
            }
        }
    }

    #[test]
    fn what_is_said_is_short_and_plain() {
        let now = Timestamp::UNIX_EPOCH;
        let before = foreseen(&desired(&json!({"replicas": 6})), now);
        let said = |spec: Value| impact(&desired(&spec), &before, now).sentences();
        assert_eq!(said(json!({"replicas": 6})), Vec::<String>::new());
        assert_eq!(said(json!({"replicas": 3})), ["destroys 3 VMs and their disks"]);
        assert_eq!(said(json!({"replicas": 7})), ["creates 1 VM"]);
        let replaced = "replaces 6 VMs, 1 at a time: their disks are lost";
        assert_eq!(said(json!({"replicas": 6, "template": "another"})), [replaced]);
        assert_eq!(said(json!({"replicas": 6, "cpu": 4})), ["powers off 6 VMs to change CPUs and memory, 1 at a time"]);
        assert_eq!(said(json!({"replicas": 6, "powerState": "Off"})), ["powers off 6 VMs"]);
        assert_eq!(said(json!({"replicas": 0, "paused": true})), Vec::<String>::new());
        let going = |policy| {
            let going = Desired { deletion: Some(policy), ..desired(&json!({})) };
            impact(&going, &before, now).sentences()
        };
        assert_eq!(going(DeletionPolicy::Delete), ["destroys 6 VMs and their disks"]);
        assert_eq!(going(DeletionPolicy::PowerOff), ["powers off 6 VMs", "leaves 6 VMs in vCenter"]);
        assert_eq!(going(DeletionPolicy::Retain), ["leaves 6 VMs in vCenter"]);
    }
}
