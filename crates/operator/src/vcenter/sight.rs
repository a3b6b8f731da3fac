//! Whether what is known of a vCenter can be relied on, and who may change anything in it.
//!
//! Three things have to be so at the moment of a call: everything that is watched has been told whole, the server is the vCenter that
//! it always was, and this operator has the claim. A [`Token`] proves the three.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use drover_core::{Timestamp, reasons::Reason};
use vim25::{WatchId, client::Session, types::AboutInfo};

use super::Away;

/// A session that is renewed, or an operator that begins, is worth no word; one that isn't there after this long is.
const MOMENT: Duration = Duration::from_secs(5);

/// The proof that a vCenter may be changed, in this session and no other.
#[derive(Clone, Debug)]
pub(crate) struct Token(pub Arc<Session>);

/// What is known of the connection to a vCenter.
#[derive(Debug)]
pub(crate) struct Sight {
    /// What is watched, and whether that has been told whole.
    watches: BTreeMap<WatchId, bool>,
    /// The session in which all of it was, if the server is the one it was before.
    session: Option<Arc<Session>>,
    /// The last that was logged in, whoever answered.
    met: Option<Arc<Session>>,
    /// Whether it ever was wholly in sight.
    has_been_there: bool,
    /// What is in the way, if something is.
    away: Option<Away>,
    /// Since when nothing could be relied on, and why.
    blind: Option<(Timestamp, String)>,
}

impl Sight {
    /// Nothing has been told yet.
    pub(crate) fn new(now: Timestamp) -> Self {
        let why = "vCenter has not been read yet".to_owned();
        Self {
            watches: BTreeMap::new(),
            session: None,
            met: None,
            away: None,
            blind: Some((now, why)),
            has_been_there: false,
        }
    }

    /// Adds something that is watched.
    pub(crate) fn watch(&mut self, watch: WatchId) {
        self.watches.insert(watch, false);
        self.session = None;
    }

    /// Nothing that was told can be relied on any more.
    pub(crate) fn lose(&mut self, why: String, now: Timestamp) {
        self.watches.values_mut().for_each(|is_synced| *is_synced = false);
        self.session = None;
        self.blind.get_or_insert((now, why));
    }

    /// One of the watches can't be relied on.
    pub(crate) fn lose_watch(&mut self, watch: WatchId, why: String, now: Timestamp) {
        self.watches.insert(watch, false);
        self.session = None;
        self.blind.get_or_insert((now, why));
    }

    /// One of the watches has been told whole. Says whether all have, and who told it is to be looked at.
    pub(crate) fn sync(&mut self, watch: WatchId) -> bool {
        if let Some(is_synced) = self.watches.get_mut(&watch) {
            *is_synced = true;
        }
        self.is_synced() && self.session.is_none()
    }

    fn is_synced(&self) -> bool {
        !self.watches.is_empty() && self.watches.values().all(|is_synced| *is_synced)
    }

    /// Takes note of who has answered.
    pub(crate) fn meet(&mut self, session: &Arc<Session>) {
        self.met = Some(Arc::clone(session));
    }

    /// What the server said of itself, once it has.
    pub(crate) fn about(&self) -> Option<&AboutInfo> {
        self.met.as_ref().map(|session| &session.content.about)
    }

    /// Who is logged in, as vCenter says it of tasks.
    pub(crate) fn user(&self) -> &str {
        self.met.as_ref().map_or("", |session| &session.user.user_name)
    }

    /// The server is the one that it was before, and everything has been told in this session. Says whether that still holds.
    pub(crate) fn trust(&mut self, session: Arc<Session>) -> bool {
        let is_synced = self.is_synced();
        if is_synced {
            self.session = Some(session);
            self.away = None;
            self.blind = None;
            self.has_been_there = true;
        }
        is_synced
    }

    /// Something is in the way.
    pub(crate) fn obstruct(&mut self, reason: Reason, why: String, now: Timestamp) {
        self.session = None;
        let since = self.away.as_ref().map_or(now, |away| away.since);
        self.away = Some(Away { reason, why, since });
    }

    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref()
    }

    /// What is in the way, if that is worth a word.
    pub(crate) fn away(&self, now: Timestamp) -> Option<Away> {
        let is_long = |since: &Timestamp| since.checked_add(MOMENT).is_ok_and(|end| end <= now);
        let reason = if self.has_been_there { Reason::VCenterUnreachable } else { Reason::Connecting };
        let blind = self.blind.as_ref().filter(|(since, _)| is_long(since));
        let blind = blind.map(|(since, why)| Away { reason, why: why.clone(), since: *since });
        self.away.clone().or(blind)
    }
}
