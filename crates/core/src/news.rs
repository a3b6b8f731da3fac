//! What a person who looks after a group wants to be told, once: what was found, what is begun, what stands in the way.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::{
    Action, Plan, Subject, Verdict,
    group::{Desired, Lookalikes, Member, Observed, Power},
    names,
    reasons::Reason,
};

/// What is one piece of news for as long as it lasts, however its words change.
const LASTING: [Reason; 3] = [Reason::VCenterAway, Reason::SafetyHold, Reason::VMsMissing];

/// Something to tell of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct News {
    /// Whether somebody should look.
    pub is_warning: bool,
    /// What it is about, in one word.
    pub reason: &'static str,
    /// What it is, as a sentence.
    pub message: String,
}

/// What has been told already, so that nothing is told again and again.
#[derive(Clone, Debug, Default)]
pub struct Told {
    generation: i64,
    /// Whether the group has been as declared at this generation. What is not so after that was changed in vCenter.
    was_settled: bool,
    topics: BTreeSet<String>,
    /// The VMs that aren't the group's and look like it, which are told of once.
    lookalikes: BTreeSet<String>,
}

/// What news are made from.
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
    pub verdict: &'a Verdict,
    /// Why it was stalled when that was last written, if it was.
    pub stalled_before: Option<&'a str>,
}

impl Told {
    /// What is new. A group that settles may hear of everything again.
    pub fn news(&mut self, facts: &Facts<'_>) -> Vec<News> {
        if self.generation != facts.generation {
            // What is so in vCenter is no news for another spec.
            let lookalikes = std::mem::take(&mut self.lookalikes);
            let mut topics = std::mem::take(&mut self.topics);
            topics.retain(|topic| LASTING.iter().any(|reason| reason.word() == topic));
            *self = Self { generation: facts.generation, lookalikes, topics, was_settled: false };
        }
        self.was_settled |= facts.was_settled;
        let mut news = Vec::new();
        if let Some(observed) = facts.observed {
            if self.was_settled {
                self.tell_of_drift(facts, observed, &mut news);
            } else {
                self.tell_of_work(facts, &mut news);
            }
            self.tell_of_lookalikes(observed, &mut news);
        }
        // What was told by another operator, before this one was started.
        let lasts = LASTING.iter().map(|reason| reason.word()).find(|word| Some(*word) == facts.stalled_before);
        self.topics.extend(lasts.map(ToOwned::to_owned));
        self.tell_of_obstacles(facts.verdict, &mut news);
        let settled = facts.verdict.conditions[0].reason == Reason::AsDeclared;
        if settled && (!facts.was_settled || !self.topics.is_empty()) {
            self.topics.clear();
            let machines = count(facts.desired.replicas as usize, "machine");
            news.push(normal(Reason::AsDeclared.word(), format!("{machines} as declared")));
        }
        news
    }

    /// Something was changed in vCenter, behind the group's back.
    fn tell_of_drift(&mut self, facts: &Facts<'_>, observed: &Observed, news: &mut Vec<News>) {
        for action in &facts.plan.actions {
            let message = match action.subject() {
                Subject::Folder => "the group's folder is gone: making it again".to_owned(),
                // It was left by what the spec says.
                Subject::LeftFolder(_) => continue,
                Subject::Slot(slot) => {
                    format!(
                        "{} is gone: cloning it again",
                        names::member(&facts.desired.name, &facts.desired.uid, slot)
                    )
                }
                Subject::Machine(id) => match observed.members.iter().find(|member| member.id == id) {
                    Some(member) => format!("{}: putting it right", finding(facts.desired, member)),
                    None => continue,
                },
            };
            if self.topics.insert(format!("drift {:?}", action.subject())) {
                news.push(normal("Drift", message));
            }
        }
    }

    /// VMs that somebody might take for the group's, and Drover doesn't.
    fn tell_of_lookalikes(&mut self, observed: &Observed, news: &mut Vec<News>) {
        let Lookalikes { copies, returned } = &observed.lookalikes;
        let copies = copies
            .iter()
            .map(|name| ("CopyFound", name, "is a copy of a member, with its marker: Drover leaves it alone"));
        let returned = returned.iter().map(|name| {
            (
                "VMReturned",
                name,
                "was a member, and came back after it was given up: Drover leaves it alone; keep it or delete it",
            )
        });
        let found: Vec<_> = copies.chain(returned).collect();
        self.lookalikes.retain(|told| found.iter().any(|(_, name, _)| *name == told));
        for (reason, name, what) in found {
            if self.lookalikes.insert(name.clone()) {
                news.push(News { is_warning: true, reason, message: format!("{name} {what}") });
            }
        }
    }

    fn tell_of_work(&mut self, facts: &Facts<'_>, news: &mut Vec<News>) {
        let mut kinds: BTreeMap<_, usize> = BTreeMap::new();
        for action in &facts.plan.actions {
            let kind = match action {
                Action::Clone(_) => ("Cloning", "cloning"),
                Action::Reconfigure(..) => ("Reconfiguring", "changing the CPUs and memory of"),
                Action::Destroy(_) => ("Removing", "removing"),
                _ => continue,
            };
            *kinds.entry(kind).or_default() += 1;
        }
        for ((reason, verb), machines) in kinds {
            if self.topics.insert(reason.to_owned()) {
                news.push(normal(reason, format!("{verb} {}", count(machines, "machine"))));
            }
        }
    }

    fn tell_of_obstacles(&mut self, verdict: &Verdict, news: &mut Vec<News>) {
        let stalled = &verdict.conditions[2];
        let topic = match stalled.reason {
            Reason::NotStalled => {
                self.topics.retain(|topic| LASTING.iter().all(|reason| reason.word() != topic));
                return;
            }
            reason if LASTING.contains(&reason) => reason.word().to_owned(),
            _ => format!("{} {}", stalled.reason.word(), stalled.message),
        };
        if self.topics.insert(topic) {
            news.push(News { is_warning: true, reason: stalled.reason.word(), message: stalled.message.clone() });
        }
    }
}

fn normal(reason: &'static str, message: String) -> News {
    News { is_warning: false, reason, message }
}

/// How a machine was found, where that isn't as declared.
fn finding(desired: &Desired, member: &Member) -> String {
    let name = names::member(&desired.name, &desired.uid, member.slot);
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
        Counts, Trouble,
        desired::tests::desired as spec,
        group::{Folder, Hardware, HotAdd, MachineId, Timestamp},
        names::Slot,
        verdict,
    };

    fn desired() -> Desired {
        Desired { uid: "uid".to_owned(), ..spec(&json!({"cpu": 1, "replicas": 2})) }
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
        told: &mut Told,
        was_settled: bool,
        members: Vec<Member>,
        actions: Vec<Action>,
        trouble: &Trouble,
    ) -> Vec<String> {
        let desired = desired();
        let settled = actions.is_empty() && *trouble == Trouble::None;
        let plan = Plan { actions, counts: Counts::default(), settled, wake: None, given_up: Vec::new() };
        let verdict = verdict(&desired, &plan, trouble);
        let observed = Some(&Observed { folder: Folder::Occupied, members, ..Observed::default() });
        let facts = Facts {
            desired: &desired,
            generation: 1,
            was_settled,
            observed,
            plan: &plan,
            verdict: &verdict,
            stalled_before: None,
        };
        told.news(&facts).into_iter().map(|news| format!("{} {}", news.reason, news.message)).collect()
    }

    #[test]
    fn what_is_begun_is_told_once_and_its_end_too() {
        let mut told = Told::default();
        let clones = vec![Action::Clone(Slot(0)), Action::Clone(Slot(1))];
        assert_eq!(tell(&mut told, false, vec![], clones.clone(), &Trouble::None), ["Cloning cloning 2 machines"]);
        assert!(tell(&mut told, false, vec![], clones, &Trouble::None).is_empty());
        assert_eq!(tell(&mut told, false, vec![], vec![], &Trouble::None), ["AsDeclared 2 machines as declared"]);
        assert!(tell(&mut told, true, vec![], vec![], &Trouble::None).is_empty());
    }

    #[test]
    fn drift_says_what_was_found_and_that_it_was_put_right() {
        let mut told = Told::default();
        let found = |told: &mut Told| {
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
        assert_eq!(tell(&mut told, true, vec![], vec![], &Trouble::None), ["AsDeclared 2 machines as declared"]);
        assert_eq!(found(&mut told), expected, "after it was put right, it is news again");
    }

    #[test]
    fn a_copy_is_told_of_once_and_again_when_it_comes_again() {
        let mut told = Told::default();
        let desired = desired();
        let plan = Plan { actions: vec![], counts: Counts::default(), settled: true, wake: None, given_up: Vec::new() };
        let verdict = verdict(&desired, &plan, &Trouble::None);
        let mut tell = |copies: &[&str]| {
            let lookalikes = Lookalikes { copies: copies.iter().map(ToString::to_string).collect(), returned: vec![] };
            let observed = Some(&Observed { lookalikes, ..Observed::default() });
            let facts = Facts {
                desired: &desired,
                generation: 1,
                was_settled: true,
                observed,
                plan: &plan,
                verdict: &verdict,
                stalled_before: None,
            };
            told.news(&facts).into_iter().map(|news| news.reason).collect::<Vec<_>>()
        };
        assert_eq!(tell(&["/DC0/vm/copy"]), ["CopyFound"]);
        assert!(tell(&["/DC0/vm/copy"]).is_empty());
        assert!(tell(&[]).is_empty());
        assert_eq!(tell(&["/DC0/vm/copy", "/DC0/vm/other"]), ["CopyFound", "CopyFound"]);
    }

    #[test]
    fn an_outage_is_told_once_and_a_failure_once_for_each_of_its_messages() {
        let mut told = Told::default();
        let away = |why: &str| Trouble::VCenterAway(why.to_owned());
        assert_eq!(tell(&mut told, false, vec![], vec![], &away("refused")), ["VCenterAway refused"]);
        assert!(tell(&mut told, false, vec![], vec![], &away("timed out")).is_empty());
        let fails = |what: &str| Trouble::TasksFail(vec![what.to_owned()]);
        for (what, news) in [("a", 1), ("b", 1), ("a", 0), ("b", 0)] {
            assert_eq!(tell(&mut told, false, vec![], vec![], &fails(what)).len(), news, "{what}");
        }
    }
}
