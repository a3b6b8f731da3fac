//! What one replica knows of all leases, and what it does next about them. It asks nobody: what was read and written comes in.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use drover_core::vcenter::assignment::assign;
use k8s_openapi::{api::coordination::v1::LeaseSpec, jiff::Timestamp};
use tokio::time::Instant;

use super::{
    Timing,
    clock::{Deadline, Moment},
    election::{Candidate, Sighting, holder},
    names,
};

/// The state of one replica.
#[derive(Debug)]
pub(super) struct Ledger {
    pub candidate: Candidate,
    timing: Timing,
    seen: BTreeMap<String, Sighting>,
    /// Since when leases have been seen to be nobody's.
    free: BTreeMap<String, Instant>,
    /// Leases that were another's turn to take, who didn't. They are not given to it before then.
    kept: BTreeMap<String, Instant>,
    held: BTreeMap<String, Holding>,
    /// The replicas that are there, and since when each has been seen. `None`: it was there before this one.
    members: BTreeMap<String, Option<Instant>>,
}

#[derive(Clone, Copy, Debug)]
struct Holding {
    until: Deadline,
    /// When the last renewal was asked for.
    asked: Instant,
}

/// What a replica reads at a time.
pub(super) struct Read<'a> {
    /// The leases that there are, by name.
    pub listed: &'a BTreeMap<String, LeaseSpec>,
    /// The names of those that replicas are to share. Not all of them need to be there yet.
    pub wanted: &'a BTreeSet<String>,
    /// Whether the general lease is held by a replica of an earlier version, which works in all vCenters.
    pub is_of_before: bool,
}

/// What follows from it.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// The leases that are held no more, and why.
    pub lost: Vec<(String, Loss)>,
    /// What is to be written, side by side.
    pub writes: Vec<Write>,
}

/// A record to be written, if the lease is still as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    pub name: String,
    pub record: LeaseSpec,
    pub intent: Intent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// To take or renew it.
    Hold,
    /// To take it though it is another's turn.
    HoldOutOfTurn,
    /// To give it back.
    Return,
}

/// Why a lease is held no more.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum Loss {
    #[error("not renewed in time")]
    Lapsed,
    #[error("held by {0}")]
    Taken(String),
    #[error("emptied by somebody else")]
    Emptied,
    #[error("given back")]
    Returned,
}

impl Ledger {
    pub(super) fn new(candidate: Candidate, timing: Timing) -> Self {
        Self {
            candidate,
            timing,
            seen: BTreeMap::new(),
            free: BTreeMap::new(),
            kept: BTreeMap::new(),
            held: BTreeMap::new(),
            members: BTreeMap::new(),
        }
    }

    /// What to do about what was read. `let_go` has nothing new begun in the name of a lease, and says whether nothing is being done.
    pub(super) fn look(
        &mut self,
        read: &Read<'_>,
        mut let_go: impl FnMut(&str) -> bool,
        now: Moment,
        wall: Timestamp,
    ) -> Steps {
        let mut steps = Steps { lost: self.lapse(now), ..Steps::default() };
        self.see(read.listed, now.steady);
        steps.lost.extend(self.lose());
        let presence = self.presence(read.listed, now.steady);
        if self.is_due(&presence, now.steady) {
            steps.writes.push(self.hold(&presence, Intent::Hold, wall));
        }
        let is_member = self.held.contains_key(&presence);
        let members = self.settled(now.steady);
        let leases: BTreeMap<_, _> =
            read.wanted.iter().map(|name| (name.clone(), self.holder(name, now.steady))).collect();
        self.note_free(&leases, now.steady);
        let me = self.candidate.identity.clone();
        let targets = assign(&leases, &members);
        let is_all_anothers = read.is_of_before && self.is_anothers(names::GENERAL, now.steady);
        for (name, holder) in &leases {
            let is_mine = !is_all_anothers && (targets.get(name) == Some(&me) || self.is_kept(name, now.steady));
            match holder {
                Some(holder) if *holder != me => {}
                Some(_) if is_mine && self.is_due(name, now.steady) => {
                    steps.writes.push(self.hold(name, Intent::Hold, wall));
                }
                Some(_) if !is_mine && let_go(name) => steps.writes.extend(self.give_back(name, wall)),
                // Whoever isn't known to others yet would take what they take.
                None if !is_member => {}
                None if is_mine => steps.writes.push(self.hold(name, Intent::Hold, wall)),
                None if !is_all_anothers && self.is_overdue(name, now.steady) => {
                    steps.writes.push(self.hold(name, Intent::HoldOutOfTurn, wall));
                }
                // It was renewed a moment ago, or something is still being done in its name; or it is another's turn.
                _ => {}
            }
        }
        // What nobody wants any more.
        let superfluous = self.held.keys().filter(|name| !read.wanted.contains(*name) && !names::is_presence(name));
        for name in superfluous.cloned().collect::<Vec<_>>() {
            if let_go(&name) {
                steps.writes.extend(self.give_back(&name, wall));
            }
        }
        steps
    }

    /// Takes up that something was written, which was asked for at a time. Says until when the lease is held.
    pub(super) fn written(&mut self, write: &Write, asked: Moment, now: Moment) -> Option<Deadline> {
        self.seen.insert(write.name.clone(), Sighting { record: write.record.clone(), since: now.steady });
        let until = Deadline::after(asked, self.timing.deadline);
        if write.intent == Intent::Return || until.has_passed(now) {
            self.held.remove(&write.name);
            return None;
        }
        if write.intent == Intent::HoldOutOfTurn {
            self.kept.insert(write.name.clone(), now.steady + self.timing.keep);
        }
        self.free.remove(&write.name);
        self.held.insert(write.name.clone(), Holding { until, asked: asked.steady });
        Some(until)
    }

    /// Forgets what is held no more by the clocks.
    pub(super) fn lapse(&mut self, now: Moment) -> Vec<(String, Loss)> {
        let lapsed: Vec<_> =
            self.held.iter().filter(|(_, held)| held.until.has_passed(now)).map(|(name, _)| name.clone()).collect();
        self.held.retain(|_, held| !held.until.has_passed(now));
        lapsed.into_iter().map(|name| (name, Loss::Lapsed)).collect()
    }

    /// Whether others know that this replica is there.
    pub(super) fn is_there(&self) -> bool {
        self.held.keys().any(|name| names::is_presence(name))
    }

    /// What is held by the clocks.
    #[cfg(test)]
    pub(super) fn held_at(&self, now: Moment) -> impl Iterator<Item = &str> {
        self.held.iter().filter(move |(_, held)| !held.until.has_passed(now)).map(|(name, _)| name.as_str())
    }

    /// The names of all leases that say that they are this replica's.
    pub(super) fn own(&self) -> Vec<String> {
        let is_own = |seen: &Sighting| holder(&seen.record) == Some(&self.candidate.identity);
        self.seen.iter().filter(|(_, seen)| is_own(seen)).map(|(name, _)| name.clone()).collect()
    }

    /// When the first of what is held ends, if nothing is renewed.
    pub(super) fn first_end(&self) -> Option<Instant> {
        self.held.values().map(|held| held.until.steady()).min()
    }

    /// The record that gives a lease back, if it is this replica's.
    pub(super) fn give_back(&self, name: &str, wall: Timestamp) -> Option<Write> {
        let record = self.candidate.returned(&self.seen.get(name)?.record, wall)?;
        Some(Write { name: name.to_owned(), record, intent: Intent::Return })
    }

    /// Takes up what leases say.
    pub(super) fn see(&mut self, listed: &BTreeMap<String, LeaseSpec>, now: Instant) {
        for (name, record) in listed {
            let seen = Sighting::next(self.seen.remove(name), record.clone(), now);
            self.seen.insert(name.clone(), seen);
        }
        // One that somebody has deleted is its holder's until it would have run out.
        let lease = self.candidate.lease;
        self.seen.retain(|name, seen| listed.contains_key(name) || !seen.has_run_out(now, lease));
        self.kept.retain(|_, until| *until > now);
    }

    /// What another holds by now.
    fn lose(&mut self) -> Vec<(String, Loss)> {
        let mut lost = Vec::new();
        for name in self.held.keys() {
            let record = self.seen.get(name).map(|seen| &seen.record);
            match record.and_then(holder) {
                Some(holder) if holder == self.candidate.identity => {}
                Some(holder) => lost.push((name.clone(), Loss::Taken(holder.to_owned()))),
                None if record.is_some() => lost.push((name.clone(), Loss::Emptied)),
                None => {}
            }
        }
        self.held.retain(|name, _| !lost.iter().any(|(lost, _)| lost == name));
        lost
    }

    /// Who holds a lease, as far as was seen.
    fn holder(&self, name: &str, now: Instant) -> Option<String> {
        let seen = self.seen.get(name)?;
        let holder = holder(&seen.record)?;
        let is_held = holder == self.candidate.identity || !seen.has_run_out(now, self.candidate.lease);
        is_held.then(|| holder.to_owned())
    }

    /// Whether another holds a lease.
    fn is_anothers(&self, name: &str, now: Instant) -> bool {
        self.holder(name, now).is_some_and(|holder| holder != self.candidate.identity)
    }

    /// The replicas that leases are given to: those that have renewed their presence for a while, or else this one, because all others have
    /// come later. One that starts again and again would leave what it is given without a holder each time.
    fn settled(&mut self, now: Instant) -> BTreeSet<String> {
        let me = &self.candidate.identity;
        let presences = self.seen.iter().filter(|(name, _)| names::is_presence(name));
        let mut present: BTreeMap<_, _> =
            presences.filter_map(|(name, seen)| Some((self.holder(name, now)?, seen.since))).collect();
        let is_first_look = self.members.is_empty();
        let is_alone = present.keys().all(|member| member == me);
        present.insert(me.clone(), now);
        self.members.retain(|member, _| present.contains_key(member));
        for member in present.keys() {
            let was_there = is_first_look && (is_alone || member != me);
            self.members.entry(member.clone()).or_insert((!was_there).then_some(now));
        }
        let has_stayed = |(member, first): &(&String, &Option<Instant>)| {
            first.is_none_or(|first| present[*member].duration_since(first) >= self.timing.settle)
        };
        let settled: BTreeSet<_> = self.members.iter().filter(has_stayed).map(|(member, _)| member.clone()).collect();
        if settled.is_empty() { BTreeSet::from([me.clone()]) } else { settled }
    }

    /// The lease by which this replica tells others that it is there: its own, or one that nobody has, or a new one.
    fn presence(&self, listed: &BTreeMap<String, LeaseSpec>, now: Instant) -> String {
        let all = || listed.keys().filter(|name| names::is_presence(name));
        let mine = all().find(|name| self.holder(name, now).as_ref() == Some(&self.candidate.identity));
        let free = || all().find(|name| self.holder(name, now).is_none());
        // One of these isn't there: they are one more than there are.
        let new = || (0..=listed.len()).map(names::presence).find(|name| !listed.contains_key(name));
        mine.or_else(free).cloned().or_else(new).unwrap_or_default()
    }

    fn note_free(&mut self, leases: &BTreeMap<String, Option<String>>, now: Instant) {
        self.free.retain(|name, _| leases.get(name).is_some_and(Option::is_none));
        for (name, _) in leases.iter().filter(|(_, holder)| holder.is_none()) {
            self.free.entry(name.clone()).or_insert(now);
        }
    }

    fn is_due(&self, name: &str, now: Instant) -> bool {
        self.held.get(name).is_none_or(|held| now.duration_since(held.asked) >= self.timing.period)
    }

    /// Whether the one whose turn it is has not taken it in time.
    fn is_overdue(&self, name: &str, now: Instant) -> bool {
        self.free.get(name).is_some_and(|since| now.duration_since(*since) >= self.timing.turn)
    }

    fn is_kept(&self, name: &str, now: Instant) -> bool {
        self.kept.get(name).is_some_and(|until| *until > now)
    }

    fn hold(&self, name: &str, intent: Intent, wall: Timestamp) -> Write {
        let record = self.seen.get(name).map(|seen| &seen.record).cloned().unwrap_or_default();
        let is_mine = holder(&record) == Some(&self.candidate.identity);
        let record = if is_mine { self.candidate.renewed(&record, wall) } else { self.candidate.taken(&record, wall) };
        Write { name: name.to_owned(), record, intent }
    }
}
