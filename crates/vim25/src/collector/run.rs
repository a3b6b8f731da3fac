//! The loop behind a [`Collector`](super::Collector).

use std::{collections::BTreeMap, convert::Infallible, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    Command, Event, POLL, Update, Watch, WatchId,
    remote::{Polled, Remote, is_of_watch},
    tasks::Tasks,
    watched::{Installed, Watched},
};
use crate::{
    Client, Error, Result,
    client::{Session, TransportError},
    faults::InvalidLogin,
    types::{PropertyFilterUpdate, UpdateSet},
};

/// How long to wait after a failure, before and after it has proved to last.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// After a session that ends sooner than this, the next one is not had at once.
const A_WHILE: Duration = Duration::from_secs(1);
/// A change seldom comes alone. Those that follow within this time come with one answer, instead of one each. It is also what keeps a
/// server that holds no poll from being asked without a pause.
const FOLLOW_UP: Duration = Duration::from_millis(50);
/// How long tidying up in vCenter may take.
const TIDYING: Duration = Duration::from_secs(5);

/// Runs until it is told to stop, or the handle or the stream is dropped, and tidies up after itself.
pub(super) async fn run(
    client: Client,
    orders: mpsc::UnboundedReceiver<Command>,
    events: mpsc::Sender<Event>,
    mut stop: watch::Receiver<()>,
) {
    let mut state = Loop {
        client,
        orders,
        events: events.clone(),
        watches: BTreeMap::new(),
        tasks: Tasks::new(),
        leftovers: Vec::new(),
        session: None,
        remote: None,
        sight: Sight::Blind,
        down: None,
    };
    tokio::select! {
        biased;
        _ = stop.changed() => {}
        () = events.closed() => {}
        _ = state.follow() => {}
    }
    state.tidy_up().await;
}

/// Whether what the stream has said can be relied on, as far as the stream has said.
#[derive(PartialEq, Eq)]
enum Sight {
    Blind,
    Seeing,
}

/// What is in the way, as far as it matters to whoever has to remove it.
#[derive(Clone, PartialEq, Eq)]
enum Obstacle {
    Login,
    /// What is wrong with it.
    Certificate(String),
    Other,
}

impl Obstacle {
    fn of(error: &Error) -> Self {
        match error {
            Error::Transport(TransportError::Certificate { reason, .. }) => Self::Certificate(reason.clone()),
            error if error.fault().is_some_and(crate::Fault::is::<InvalidLogin>) => Self::Login,
            Error::Login { source, .. } => Self::of(source),
            _ => Self::Other,
        }
    }
}

struct Loop {
    client: Client,
    orders: mpsc::UnboundedReceiver<Command>,
    events: mpsc::Sender<Event>,
    watches: BTreeMap<WatchId, (Watch, Watched)>,
    tasks: Tasks,
    /// What stands in vCenter for what is watched no more.
    leftovers: Vec<Installed>,
    session: Option<Arc<Session>>,
    remote: Option<Arc<Remote>>,
    sight: Sight,
    /// Why vCenter is away, as it was said last.
    down: Option<Obstacle>,
}

impl Loop {
    /// Follows vCenter through one session after the other.
    async fn follow(&mut self) -> Infallible {
        let mut pause = FIRST_PAUSE;
        loop {
            // Without a watch there is nothing to log in for.
            while self.watches.is_empty() && self.tasks.is_empty() {
                let command = next(&mut self.orders).await;
                self.note(command);
            }
            let began = Instant::now();
            let Err(error) = self.follow_session().await;
            let (error, lasted) = (Arc::new(error), began.elapsed());
            // Sessions end, and a new one is to be had at once. One that ends before it was of any use is a failure like others.
            let is_ordinary = error.is_session_lost() && self.sight == Sight::Seeing;
            self.go_blind(&error).await;
            if !is_ordinary {
                self.report_down(&error).await;
            }
            self.leave(&error).await;
            if is_ordinary && lasted > A_WHILE {
                continue;
            }
            if lasted > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            self.rest(pause, &error).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Passes on what vCenter says, for as long as a session lasts.
    async fn follow_session(&mut self) -> Result<Infallible> {
        let session = self.client.session().await?;
        self.session = Some(Arc::clone(&session));
        let remote = Arc::new(Remote::create(&self.client, session).await?);
        self.remote = Some(Arc::clone(&remote));
        self.put_right(&remote).await?;
        if self.down.take().is_some() {
            self.send(Event::Up).await;
        }
        let mut version = None;
        let mut is_cut = false;
        loop {
            self.put_right(&remote).await?;
            if !is_cut {
                // The rest of an answer need not speak of what was set up since it began.
                self.all_watched().for_each(Watched::begin_answer);
            }
            let is_behind = is_cut || self.all_watched().any(|watched| watched.is_behind());
            let wait = if is_behind { Duration::ZERO } else { POLL };
            let Polled::Answer(answer) = self.poll(&remote, version.clone(), wait).await? else { continue };
            is_cut = answer.as_ref().is_some_and(|set| set.truncated == Some(true));
            let mut updates = Vec::new();
            if let Some(UpdateSet { version: reached, filter_set, .. }) = answer {
                version = Some(reached);
                for filter in filter_set {
                    self.take_up(filter, &mut updates);
                }
            }
            if !is_cut {
                self.end_answer(&mut updates);
            }
            let is_news = !updates.is_empty();
            if is_news {
                self.send(Event::Updates(updates)).await;
            }
            if !is_cut && (is_news || !is_behind) {
                sleep(FOLLOW_UP).await;
            }
        }
    }

    /// Waits for the next answer. The wait is cut short where something has to be set up or removed first.
    async fn poll(&mut self, remote: &Arc<Remote>, version: Option<String>, wait: Duration) -> Result<Polled> {
        let mut poll = pin!(remote.poll(version, wait));
        loop {
            self.tasks.begin_change(remote);
            self.tell_of_tasks().await;
            if !wait.is_zero() && self.has_to_put_right() {
                return tokio::select! {
                    outcome = &mut poll => outcome,
                    outcome = remote.cancel_poll() => {
                        let Err(error) = outcome;
                        Err(error)
                    }
                };
            }
            let due = [self.put_right_due().filter(|_| !wait.is_zero()), self.tasks.change_due()];
            tokio::select! {
                biased;
                outcome = &mut poll => return outcome,
                command = next(&mut self.orders) => self.note(command),
                outcome = self.tasks.change_ended() => self.tasks.changed(outcome)?,
                () = at(due.into_iter().flatten().min()) => {}
            }
        }
    }

    /// Takes up a command. What it changes in vCenter is put right later.
    fn note(&mut self, command: Command) {
        match command {
            Command::Watch(id, watch) => {
                self.watches.insert(id, (watch, Watched::new(id)));
            }
            Command::Unwatch(id) => {
                let removed = self.watches.remove(&id);
                self.leftovers.extend(removed.and_then(|(_, mut watched)| watched.take_installed()));
            }
            Command::Track(task, listener) => self.tasks.add(task.into(), listener),
        }
    }

    /// When something has to be set up or removed, if anything has.
    fn put_right_due(&self) -> Option<Instant> {
        let leftovers = (!self.leftovers.is_empty() || self.tasks.has_leftover()).then(Instant::now);
        let watches = self.watches.values().filter_map(|(_, watched)| watched.due());
        watches.chain(self.tasks.set_up_due()).chain(leftovers).min()
    }

    fn has_to_put_right(&self) -> bool {
        self.put_right_due().is_some_and(|due| due <= Instant::now())
    }

    /// Sets up in vCenter what is watched and due, and removes what isn't watched any more. What is wrong with a watch is told
    /// of it; only what is wrong with vCenter is an error.
    async fn put_right(&mut self, remote: &Arc<Remote>) -> Result<()> {
        while let Ok(command) = self.orders.try_recv() {
            self.note(command);
        }
        self.leftovers.extend(self.tasks.take_leftover());
        while let Some(leftover) = self.leftovers.pop() {
            remote.take_down(leftover).await?;
        }
        let now = Instant::now();
        let mut updates = Vec::new();
        for (watch, watched) in self.watches.values_mut() {
            if watched.due().is_none_or(|due| due > now) {
                continue;
            }
            match remote.set_up(watch).await {
                Ok(installed) => watched.set_up(Some(installed)),
                Err(error) if is_of_watch(&error) => updates.extend(watched.fail(error)),
                Err(error) => return Err(error),
            }
        }
        if !updates.is_empty() {
            self.send(Event::Updates(updates)).await;
        }
        if self.tasks.set_up_due().is_some_and(|due| due <= now) {
            self.tasks.set_up(remote).await?;
        }
        self.tell_of_tasks().await;
        Ok(())
    }

    fn all_watched(&mut self) -> impl Iterator<Item = &mut Watched> {
        self.watches.values_mut().map(|(_, watched)| watched).chain([&mut self.tasks.list])
    }

    /// Turns what vCenter says of one filter into news.
    fn take_up(&mut self, filter: PropertyFilterUpdate, updates: &mut Vec<Update>) {
        if self.tasks.list.is_of(&filter.filter) {
            self.tasks.take_up(filter, updates);
        } else if let Some((_, watched)) = self.watches.values_mut().find(|(_, watched)| watched.is_of(&filter.filter))
        {
            watched.take_up(filter, updates);
        }
    }

    /// All that was to be said is said.
    fn end_answer(&mut self, updates: &mut Vec<Update>) {
        for (_, watched) in self.watches.values_mut() {
            watched.end_answer(updates);
        }
        self.tasks.end_answer(updates);
    }

    async fn tell_of_tasks(&mut self) {
        if !self.tasks.news.is_empty() {
            let updates = std::mem::take(&mut self.tasks.news);
            self.send(Event::Updates(updates)).await;
        }
    }

    /// Says before anything else that what was said can't be relied on any more.
    async fn go_blind(&mut self, error: &Arc<Error>) {
        if self.sight == Sight::Seeing {
            self.send(Event::Blind(Arc::clone(error))).await;
            self.sight = Sight::Blind;
        }
    }

    async fn report_down(&mut self, error: &Arc<Error>) {
        let obstacle = Obstacle::of(error);
        if self.down.as_ref() != Some(&obstacle) {
            self.down = Some(obstacle);
            self.send(Event::Down(Arc::clone(error))).await;
        }
    }

    /// Leaves a session that can't be followed, which itself may well go on.
    async fn leave(&mut self, error: &Error) {
        if let Some(session) = self.session.take()
            && error.is_session_lost()
        {
            self.client.forget(&session).await;
            self.remote = None;
        }
        self.tidy_up().await;
        self.watches.values_mut().for_each(|(_, watched)| watched.reset());
        self.tasks.reset();
        self.leftovers.clear();
    }

    /// Removes from vCenter what was set up there, if the session goes on.
    async fn tidy_up(&mut self) {
        let Some(remote) = self.remote.take() else { return };
        let installed = self.watches.values_mut().filter_map(|(_, watched)| watched.take_installed());
        let installed = installed.chain(self.tasks.list.take_installed()).chain(self.leftovers.drain(..));
        let views = installed.filter_map(|installed| installed.view).collect();
        // What takes longer goes with the session.
        let _ = timeout(TIDYING, remote.destroy(views)).await;
    }

    /// Pauses before the next attempt. A refused login is not tried again before that can do no harm.
    async fn rest(&mut self, pause: Duration, error: &Error) {
        let (client, refused) = (self.client.clone(), Obstacle::of(error) == Obstacle::Login);
        let mut over = pin!(async move { if refused { client.login_allowed().await } else { sleep(pause).await } });
        loop {
            tokio::select! {
                () = &mut over => return,
                command = next(&mut self.orders) => self.note(command),
            }
        }
    }

    /// Nobody may be there to be told, and then the loop ends.
    async fn send(&mut self, event: Event) {
        if let Event::Updates(_) = event {
            self.sight = Sight::Seeing;
        }
        let _ = self.events.send(event).await;
    }
}

/// The next command. Without a handle there is none, and the loop ends.
async fn next(orders: &mut mpsc::UnboundedReceiver<Command>) -> Command {
    match orders.recv().await {
        Some(command) => command,
        None => std::future::pending().await,
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
