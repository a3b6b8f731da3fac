//! What a person who looks after a group wants to be told, once: what was found, what is begun, what stands in the way.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::{
    Action, Plan, Subject,
    events::Event,
    names,
    reasons::{EventReason, Reason},
    vmgroup::{Desired, Lookalikes, Member, Observed, Power, status::Summary},
};

/// What is one piece of news for as long as it lasts, however its words change.
const LASTING: [Reason; 4] =
    [Reason::VCenterUnreachable, Reason::SafetyHold, Reason::VMsMissing, Reason::DeadlineExceeded];

/// How many VMs are told of by name for one cause. The rest of them are one piece of news together.
const HANDFUL: usize = 5;

/// What has been told already, so that nothing is told again and again.
#[derive(Clone, Debug, Default)]
pub struct EventHistory {
    generation: i64,
    /// Whether the group has been as declared at this generation. What is not so after that was changed in vCenter.
    was_settled: bool,
    topics: BTreeSet<String>,
    /// The VMs that were told of because they were changed in vCenter.
    drifted: BTreeSet<Subject>,
    /// The VMs that aren't the group's and look like it, which are told of once.
    lookalikes: BTreeSet<String>,
    /// The reasons for which more of these were told of together.
    more_lookalikes: BTreeSet<&'static str>,
}

/// What events are made from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What is declared.
    pub desired: &'a Desired,
    /// The generation of that.
    pub generation: i64,
    /// What was true before this plan: whether the group was as declared, at this generation.
    pub was_settled: bool,
    /// What is true, where it could be seen.
    pub observed: Option<&'a Observed>,
    /// What is to be done.
    pub plan: &'a Plan,
    /// What is said of it.
    pub summary: &'a Summary,
    /// What stood in its way when that was last written, if something did.
    pub obstacle_before: Option<&'a str>,
}

impl EventHistory {
    /// What is new. A group that settles may hear of everything again.
    pub fn events(&mut self, facts: &Facts<'_>) -> Vec<Event> {
        if self.generation != facts.generation {
            // What is so in vCenter, and what lasts, is no news for another spec.
            self.generation = facts.generation;
            self.was_settled = false;
            self.topics.retain(|topic| LASTING.iter().any(|reason| reason.word() == topic));
            self.drifted.clear();
        }
        self.was_settled |= facts.was_settled;
        let mut events = Vec::new();
        if let Some(observed) = facts.observed {
            if self.was_settled {
                self.tell_of_drift(facts, observed, &mut events);
            } else {
                self.tell_of_work(facts, &mut events);
            }
            self.tell_of_lookalikes(observed, &mut events);
        }
        // What was told by another operator, before this one was started.
        let lasts = LASTING.iter().map(|reason| reason.word()).find(|word| Some(*word) == facts.obstacle_before);
        self.topics.extend(lasts.map(ToOwned::to_owned));
        self.tell_of_obstacles(facts.summary, &mut events);
        let settled = facts.summary.conditions[0].reason == Reason::Reconciled;
        if settled && (!facts.was_settled || !self.topics.is_empty() || !self.drifted.is_empty()) {
            self.topics.clear();
            self.drifted.clear();
            let machines = count(facts.desired.replicas as usize, "VM");
            events.push(Event::normal(Reason::Reconciled, format!("{machines} as declared")));
        }
        events
    }

    /// Something was changed in vCenter, behind the group's back.
    fn tell_of_drift(&mut self, facts: &Facts<'_>, observed: &Observed, events: &mut Vec<Event>) {
        let mut untold = 0;
        for action in &facts.plan.actions {
            let subject = action.subject();
            let message = match &subject {
                Subject::Folder => "the group's folder is gone: making it again".to_owned(),
                // It was left by what the spec says.
                Subject::LeftFolder(_) => continue,
                Subject::Slot(slot) => {
                    let name = names::member(&facts.desired.name, &facts.desired.marker_uid, *slot);
                    format!("{name} is gone: cloning it again")
                }
                Subject::Machine(id) => match observed.members.iter().find(|member| member.id == *id) {
                    Some(member) => format!("{}: putting it right", finding(facts.desired, member)),
                    None => continue,
                },
            };
            if self.drifted.contains(&subject) {
                continue;
            }
            if subject == Subject::Folder || self.drifted.len() < HANDFUL {
                self.drifted.insert(subject);
                events.push(Event::normal(EventReason::Drift, message));
            } else {
                untold += 1;
            }
        }
        if untold > 0 && self.topics.insert("more drift".to_owned()) {
            events.push(Event::normal(
                EventReason::Drift,
                format!("more VMs were changed in vCenter ({untold} now): putting them right"),
            ));
        }
    }

    /// VMs that somebody might take for the group's, and Drover doesn't.
    fn tell_of_lookalikes(&mut self, observed: &Observed, events: &mut Vec<Event>) {
        let Lookalikes { copies, returned } = &observed.lookalikes;
        self.lookalikes.retain(|told| copies.contains(told) || returned.contains(told));
        let kinds = [
            (
                EventReason::CopyFound.word(),
                copies,
                "is a copy of a member, with its marker: Drover leaves it alone",
                "are copies of members, with their markers: Drover leaves them alone",
            ),
            (
                EventReason::VMReturned.word(),
                returned,
                "was a member, and came back after it was given up: Drover leaves it alone; keep it or delete it",
                "were members, and came back after they were given up: Drover leaves them alone; keep them or delete them",
            ),
        ];
        for (reason, names, is_one, are_more) in kinds {
            let untold: Vec<_> = names.iter().filter(|name| !self.lookalikes.contains(*name)).collect();
            let room = HANDFUL.saturating_sub(names.len() - untold.len());
            let (by_name, more) = untold.split_at(room.min(untold.len()));
            for name in by_name {
                self.lookalikes.insert((*name).clone());
                events.push(Event::warning(reason, format!("{name} {is_one}")));
            }
            if more.is_empty() {
                self.more_lookalikes.remove(reason);
            } else if self.more_lookalikes.insert(reason) {
                events.push(Event::warning(reason, format!("more VMs ({} now) {are_more}", more.len())));
            }
        }
    }

    fn tell_of_work(&mut self, facts: &Facts<'_>, events: &mut Vec<Event>) {
        let mut kinds: BTreeMap<_, usize> = BTreeMap::new();
        for action in &facts.plan.actions {
            let kind = match action {
                Action::Clone(_) => (EventReason::Cloning.word(), "cloning"),
                Action::Reconfigure(..) => (EventReason::Reconfiguring.word(), "changing the CPUs and memory of"),
                Action::Destroy(_) => (EventReason::Removing.word(), "removing"),
                _ => continue,
            };
            *kinds.entry(kind).or_default() += 1;
        }
        for ((reason, verb), machines) in kinds {
            if self.topics.insert(reason.to_owned()) {
                events.push(Event::normal(reason, format!("{verb} {}", count(machines, "VM"))));
            }
        }
    }

    fn tell_of_obstacles(&mut self, summary: &Summary, events: &mut Vec<Event>) {
        let Some(obstacle) = &summary.obstacle else {
            self.topics.retain(|topic| LASTING.iter().all(|reason| reason.word() != topic));
            return;
        };
        let topic = match obstacle.reason {
            reason if LASTING.contains(&reason) => reason.word().to_owned(),
            reason @ Reason::TasksFailing => format!("{} {}", reason.word(), cause(&obstacle.message)),
            reason => format!("{} {}", reason.word(), obstacle.message),
        };
        if self.topics.insert(topic) {
            events.push(Event::warning(obstacle.reason, obstacle.message.clone()));
        }
    }
}

/// What a sentence says, but for numbers and for which of the group's VMs it says that of: the cause is the same for each of them.
fn cause(sentence: &str) -> String {
    let is_changing = |word: &&str| {
        let word = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        let number = word.strip_prefix("vm-").unwrap_or(word);
        word.contains("-replica-") || !number.is_empty() && number.chars().all(|letter| letter.is_ascii_digit())
    };
    let sentence =
        sentence.rsplit_once(" (and ").filter(|(_, more)| more.ends_with(" more)")).map_or(sentence, |it| it.0);
    sentence.split_whitespace().filter(|word| !is_changing(word)).collect::<Vec<_>>().join(" ")
}

/// How a machine was found, where that isn't as declared.
fn finding(desired: &Desired, member: &Member) -> String {
    let name = names::member(&desired.name, &desired.marker_uid, member.slot);
    let mut found = Vec::new();
    if member.name != name {
        found.push(format!("was renamed to {}", member.name));
    }
    if !member.in_folder {
        found.push("was moved out of the group's folder".to_owned());
    }
    if member.hardware != desired.hardware {
        let mut now = format!("has {}", count(member.hardware.cpus as usize, "CPU"));
        let _ = write!(now, " and {} MiB of memory", member.hardware.memory_mib);
        found.push(now);
    }
    if member.power != desired.power {
        found.push(
            match member.power {
                Power::On => "is powered on",
                Power::Off => "is powered off",
                Power::Suspended => "is suspended",
            }
            .to_owned(),
        );
    }
    if found.is_empty() {
        return format!("{name} is not wanted");
    }
    format!("{name} {}", found.join(" and "))
}

fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Timestamp, Trouble,
        names::Slot,
        vmgroup::{Folder, Hardware, HotAdd, MachineId, desired::tests::desired as spec, status::summarize},
    };

    fn desired() -> Desired {
        Desired { uid: "uid".to_owned(), marker_uid: "uid".to_owned(), ..spec(&json!({"cpu": 1, "replicas": 2})) }
    }

    fn member(power: Power, cpus: u32) -> Member {
        Member {
            id: MachineId("vm-1".to_owned()),
            slot: Slot(0),
            revision: desired().revision,
            created: Timestamp::UNIX_EPOCH,
            name: names::member("sample", "uid", Slot(0)),
            in_folder: true,
            hardware: Hardware { cpus, memory_mib: 1024 },
            storage_mib: 0,
            hot_add: HotAdd::default(),
            refused: None,
            power,
            unreachable_since: None,
            ready_since: None,
            guest_answers: false,
            shutdown_since: None,
            busy: false,
            marked: false,
            not_before: None,
        }
    }

    fn tell(
        told: &mut EventHistory,
        was_settled: bool,
        members: Vec<Member>,
        actions: Vec<Action>,
        trouble: &Trouble,
    ) -> Vec<String> {
        let desired = desired();
        let settled = actions.is_empty() && *trouble == Trouble::None;
        let plan = Plan { actions, settled, ..Plan::default() };
        let summary = summarize(&desired, &plan, trouble);
        let observed = Some(&Observed { folder: Folder::Occupied, members, ..Observed::default() });
        let facts = Facts {
            desired: &desired,
            generation: 1,
            was_settled,
            observed,
            plan: &plan,
            summary: &summary,
            obstacle_before: None,
        };
        told.events(&facts).into_iter().map(|event| format!("{} {}", event.reason, event.message)).collect()
    }

    #[test]
    fn what_is_begun_is_told_once_and_its_end_too() {
        let mut told = EventHistory::default();
        let clones = vec![Action::Clone(Slot(0)), Action::Clone(Slot(1))];
        assert_eq!(tell(&mut told, false, vec![], clones.clone(), &Trouble::None), ["Cloning cloning 2 VMs"]);
        assert!(tell(&mut told, false, vec![], clones, &Trouble::None).is_empty());
        assert_eq!(tell(&mut told, false, vec![], vec![], &Trouble::None), ["Reconciled 2 VMs as declared"]);
        assert!(tell(&mut told, true, vec![], vec![], &Trouble::None).is_empty());
    }

    #[test]
    fn drift_says_what_was_found_and_that_it_was_put_right() {
        let mut told = EventHistory::default();
        let found = |told: &mut EventHistory| {
            let actions = vec![Action::PowerOff(MachineId("vm-1".to_owned())), Action::Clone(Slot(1))];
            tell(told, true, vec![member(Power::Off, 7)], actions, &Trouble::None)
        };
        let (first, second) = (names::member("sample", "uid", Slot(0)), names::member("sample", "uid", Slot(1)));
        let expected = [
            format!("Drift {first} has 7 CPUs and 1024 MiB of memory and is powered off: putting it right"),
            format!("Drift {second} is gone: cloning it again"),
        ];
        assert_eq!(found(&mut told), expected);
        assert!(found(&mut told).is_empty(), "the same drift is told once");
        assert_eq!(tell(&mut told, true, vec![], vec![], &Trouble::None), ["Reconciled 2 VMs as declared"]);
        assert_eq!(found(&mut told), expected, "after it was put right, it is news again");
    }

    #[test]
    fn a_copy_is_told_of_once_and_again_when_it_comes_again() {
        let mut told = EventHistory::default();
        let desired = desired();
        let plan = Plan { settled: true, ..Plan::default() };
        let summary = summarize(&desired, &plan, &Trouble::None);
        let mut tell = |copies: &[&str]| {
            let lookalikes = Lookalikes { copies: copies.iter().map(ToString::to_string).collect(), returned: vec![] };
            let observed = Some(&Observed { lookalikes, ..Observed::default() });
            let facts = Facts {
                desired: &desired,
                generation: 1,
                was_settled: true,
                observed,
                plan: &plan,
                summary: &summary,
                obstacle_before: None,
            };
            told.events(&facts).into_iter().map(|event| event.reason).collect::<Vec<_>>()
        };
        assert_eq!(tell(&["/DC0/vm/copy"]), ["CopyFound"]);
        assert!(tell(&["/DC0/vm/copy"]).is_empty());
        assert!(tell(&[]).is_empty());
        assert_eq!(tell(&["/DC0/vm/copy", "/DC0/vm/other"]), ["CopyFound", "CopyFound"]);
        let many: Vec<_> = (0..30).map(|number| format!("/DC0/vm/{number}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(tell(&many), ["CopyFound"; HANDFUL + 1], "a handful by name, and the rest together");
        for _ in 0..3 {
            assert!(tell(&many).is_empty(), "nothing is told again while they are there");
        }
    }

    #[test]
    fn many_that_drift_are_a_handful_of_news_and_one_for_the_rest() {
        let mut told = EventHistory::default();
        let cloned = |slots: u32| (0..slots).map(|slot| Action::Clone(Slot(slot))).collect::<Vec<_>>();
        let news = tell(&mut told, true, vec![], cloned(30), &Trouble::None);
        assert_eq!(news.len(), HANDFUL + 1);
        assert_eq!(news.last().unwrap(), "Drift more VMs were changed in vCenter (25 now): putting them right");
        for slots in [30, 31, 7, 40] {
            assert!(
                tell(&mut told, true, vec![], cloned(slots), &Trouble::None).is_empty(),
                "another count is no news"
            );
        }
        assert_eq!(tell(&mut told, true, vec![], vec![], &Trouble::None), ["Reconciled 2 VMs as declared"]);
        assert_eq!(tell(&mut told, true, vec![], cloned(30), &Trouble::None).len(), HANDFUL + 1);
    }

    #[test]
    fn a_failure_of_another_vm_or_of_more_of_them_is_the_same_news() {
        let mut told = EventHistory::default();
        let fails = |sentences: &[&str]| Trouble::TasksFail(sentences.iter().map(ToString::to_string).collect());
        let mut tell = |sentences: &[&str]| tell(&mut told, false, vec![], vec![], &fails(sentences)).len();
        assert_eq!(tell(&["cloning into slot 3: no room"]), 1);
        assert_eq!(tell(&["cloning into slot 4: no room", "cloning into slot 5: no room"]), 0);
        assert_eq!(tell(&["cloning into slot 4: no room", "b", "c"]), 0);
        assert_eq!(tell(&["powering vm-12 on: no room"]), 1);
        assert_eq!(tell(&["powering vm-13 on: no room"]), 0);
        assert_eq!(tell(&["powering vm-13 on: no host"]), 1);
        assert_eq!(tell(&["web-replica-abcdefgh: a snapshot"]), 1);
        assert_eq!(tell(&["web-replica-hgfedcba: a snapshot"]), 0);
    }

    #[test]
    fn an_outage_is_told_once_and_a_failure_once_for_each_of_its_messages() {
        let mut told = EventHistory::default();
        let away = |why: &str| Trouble::VCenterAway(why.to_owned());
        assert_eq!(tell(&mut told, false, vec![], vec![], &away("refused")), ["VCenterUnreachable refused"]);
        assert!(tell(&mut told, false, vec![], vec![], &away("timed out")).is_empty());
        let fails = |what: &str| Trouble::TasksFail(vec![what.to_owned()]);
        for (what, news) in [("a", 1), ("b", 1), ("a", 0), ("b", 0)] {
            assert_eq!(tell(&mut told, false, vec![], vec![], &fails(what)).len(), news, "{what}");
        }
    }
}
