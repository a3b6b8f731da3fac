//! The loop behind a [`Collector`](super::Collector).

use std::{collections::BTreeMap, convert::Infallible, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use super::{
    Command, Event, POLL, Scope, Update, Watch, WatchId,
    watched::{Installed, Watched},
};
use crate::{
    Client, Error, ManagedObjectReference, Result,
    client::{Session, TransportError},
    faults::{InvalidLogin, ManagedObjectNotFound, RequestCanceled},
    methods::{
        CancelWaitForUpdates, CreateContainerView, CreateFilter, CreatePropertyCollector, DestroyPropertyCollector,
        DestroyPropertyFilter, DestroyView, WaitForUpdatesEx,
    },
    refs::{ContainerViewRef, ManagedEntityRef, PropertyCollectorRef},
    types::{PropertyFilterUpdate, UpdateSet, WaitOptions},
};

/// How long to wait after a failure, before and after it has proved to last.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// A session that ends sooner than this is a failure like others.
const A_WHILE: Duration = Duration::from_secs(1);
/// How long to wait before a call is made again that failed for a reason that passes.
const MOMENTS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];
/// A change seldom comes alone. Those that follow within this time come with one answer, instead of one each.
const FOLLOW_UP: Duration = Duration::from_millis(50);
const CANCEL_AGAIN: Duration = Duration::from_millis(200);

/// Runs until the handle or the stream is dropped.
pub(super) async fn run(client: Client, orders: mpsc::UnboundedReceiver<Command>, events: mpsc::Sender<Event>) {
    let mut state = Loop { client, orders, events, watches: BTreeMap::new(), down: None };
    let mut pause = FIRST_PAUSE;
    loop {
        // Without a watch there is nothing to log in for.
        while state.watches.is_empty() {
            match state.orders.recv().await {
                Some(command) => state.note(command),
                None => return,
            }
        }
        let began = Instant::now();
        let Err(stop) = state.follow_vcenter().await;
        let Stop::Failure(error) = stop else { return };
        if began.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        if error.is_session_lost() && began.elapsed() > A_WHILE {
            // Sessions end; a new one is to be had at once.
            continue;
        }
        let refused = error.fault().is_some_and(crate::Fault::is::<InvalidLogin>);
        if !error.is_session_lost() && state.report_down(error).await.is_err() {
            return;
        }
        if state.rest(pause, refused).await.is_err() {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Why the loop stops following.
enum Stop {
    /// The handle or the stream is gone.
    Dropped,
    Failure(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failure(error)
    }
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
    watches: BTreeMap<WatchId, Watched>,
    /// Why vCenter is away, as it was said last.
    down: Option<Obstacle>,
}

/// The collector in vCenter, which lives and dies with its session.
struct Remote {
    session: Arc<Session>,
    collector: PropertyCollectorRef,
    version: Option<String>,
}

impl Loop {
    /// Passes on what vCenter says, for as long as a session lasts.
    async fn follow_vcenter(&mut self) -> Result<Infallible, Stop> {
        let session = self.client.session().await?;
        let outcome = self.follow_session(&session).await;
        if let Err(Stop::Failure(error)) = &outcome
            && error.is_session_lost()
        {
            self.client.forget(&session).await;
        }
        outcome
    }

    /// Sets everything up in a session, and removes it at the end, in case the session itself goes on.
    async fn follow_session(&mut self, session: &Arc<Session>) -> Result<Infallible, Stop> {
        let this = session.content.property_collector.clone();
        let collector = self.call(session, &CreatePropertyCollector { this }).await?;
        let mut remote = Remote { session: Arc::clone(session), collector, version: None };
        let outcome = self.follow_collector(&mut remote).await;
        if !matches!(&outcome, Err(Stop::Failure(error)) if error.is_session_lost()) {
            // If this fails too, the session's end removes it.
            let _ = self.call(session, &DestroyPropertyCollector { this: remote.collector }).await;
            for view in self.watches.values_mut().filter_map(|watched| watched.installed.take()?.view) {
                let _ = self.client.call_in(session, &DestroyView { this: view.into() }, Duration::ZERO).await;
            }
        }
        outcome
    }

    async fn follow_collector(&mut self, remote: &mut Remote) -> Result<Infallible, Stop> {
        let ids: Vec<_> = self.watches.keys().copied().collect();
        for id in ids {
            self.install(remote, id).await?;
        }
        if self.down.take().is_some() {
            self.send(Event::Up).await?;
        }
        let mut behind = true;
        let mut truncated = false;
        // The rest of an answer is to come, and may say nothing of a filter that was made since it began.
        let mut overtaken = false;
        loop {
            while let Ok(command) = self.orders.try_recv() {
                self.obey(remote, command).await?;
                behind = true;
                overtaken |= truncated;
            }
            let wait = if behind { Duration::ZERO } else { POLL };
            let (set, command) = self.poll_patiently(remote, wait).await?;
            truncated = set.as_ref().is_some_and(|set| set.truncated == Some(true));
            let mut updates = Vec::new();
            if let Some(set) = set {
                remote.version = Some(set.version);
                for filter in set.filter_set {
                    self.take_up(filter, &mut updates);
                }
            }
            let is_all = !truncated && !overtaken;
            if behind && is_all {
                self.complete(&mut updates);
            }
            overtaken &= truncated;
            if !updates.is_empty() {
                self.send(Event::Updates(updates)).await?;
                sleep(FOLLOW_UP).await;
            }
            self.uninstall_finished(remote).await?;
            behind = !is_all;
            if let Some(command) = command {
                self.obey(remote, command).await?;
                // The new filter has something to say, and so may the poll that was cut short.
                behind = true;
                overtaken |= truncated;
            }
        }
    }

    /// Polls, and again from the same version where a moment may help: vCenter then says again what it said.
    async fn poll_patiently(
        &mut self,
        remote: &Remote,
        wait: Duration,
    ) -> Result<(Option<UpdateSet>, Option<Command>), Stop> {
        for pause in MOMENTS {
            let watches = self.watches.len();
            match self.poll(remote, wait).await {
                // With a watch that came meanwhile, everything is set up anew.
                Err(Stop::Failure(error)) if error.is_passing() && watches == self.watches.len() => sleep(pause).await,
                outcome => return outcome,
            }
        }
        self.poll(remote, wait).await
    }

    /// Waits for the next updates, or for a command, which cuts the wait short.
    async fn poll(&mut self, remote: &Remote, wait: Duration) -> Result<(Option<UpdateSet>, Option<Command>), Stop> {
        let seconds = i32::try_from(wait.as_secs()).unwrap_or(i32::MAX);
        let request = WaitForUpdatesEx {
            this: remote.collector.clone(),
            version: remote.version.clone(),
            options: Some(WaitOptions { max_wait_seconds: Some(seconds), max_object_updates: None }),
        };
        let client = self.client.clone();
        let mut poll = pin!(client.call_in(&remote.session, &request, wait));
        let command = tokio::select! {
            biased;
            set = &mut poll => return Ok((set?, None)),
            command = self.orders.recv() => command.ok_or(Stop::Dropped)?,
            () = self.events.closed() => return Err(Stop::Dropped),
        };
        let outcome = loop {
            if !wait.is_zero() {
                self.call(&remote.session, &CancelWaitForUpdates { this: remote.collector.clone() }).await?;
            }
            // The cancellation may have overtaken the poll, and then has to be said again.
            if let Ok(outcome) = timeout(CANCEL_AGAIN, &mut poll).await {
                break outcome;
            }
        };
        match outcome {
            Ok(set) => Ok((set, Some(command))),
            Err(error) if error.fault().is_some_and(crate::Fault::is::<RequestCanceled>) => Ok((None, Some(command))),
            Err(error) => {
                self.note(command);
                Err(error.into())
            }
        }
    }

    async fn obey(&mut self, remote: &Remote, command: Command) -> Result<(), Stop> {
        match command {
            Command::Unwatch(id) => {
                if let Some(installed) = self.watches.remove(&id).and_then(|watched| watched.installed) {
                    self.uninstall(remote, installed).await?;
                }
            }
            Command::Watch(id, ..) => {
                self.note(command);
                self.install(remote, id).await?;
            }
        }
        Ok(())
    }

    /// Takes up a command while there is nothing in vCenter to change.
    fn note(&mut self, command: Command) {
        match command {
            Command::Watch(id, watch, sink) => {
                self.watches.insert(id, Watched::new(id, watch, sink));
            }
            Command::Unwatch(id) => {
                self.watches.remove(&id);
            }
        }
    }

    /// Sets a watch up in vCenter. What is wrong with the watch is told of it; only what is wrong with vCenter is an error.
    async fn install(&mut self, remote: &Remote, id: WatchId) -> Result<(), Stop> {
        let Some(watched) = self.watches.get_mut(&id) else { return Ok(()) };
        watched.begin();
        let watch = watched.watch.clone();
        match self.create_filter(remote, &watch).await {
            Ok(installed) => {
                if let Some(watched) = self.watches.get_mut(&id) {
                    watched.installed = Some(installed);
                }
                Ok(())
            }
            Err(error) if matches!(error, Error::Fault(_) | Error::WrongType(_)) && !error.is_session_lost() => {
                self.fail(id, error).await
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn create_filter(&self, remote: &Remote, watch: &Watch) -> Result<Installed> {
        let view = match &watch.scope {
            Scope::Container { root, recursive } => Some(self.create_view(remote, root, watch, *recursive).await?),
            Scope::Object(_) | Scope::Listed { .. } => None,
        };
        let spec = watch.filter(view.as_ref());
        let this = remote.collector.clone();
        let filter = self.call(&remote.session, &CreateFilter { this, spec, partial_updates: false }).await?;
        Ok(Installed { filter, view })
    }

    async fn create_view(
        &self,
        remote: &Remote,
        root: &ManagedObjectReference,
        watch: &Watch,
        recursive: bool,
    ) -> Result<ContainerViewRef> {
        let container = ManagedEntityRef::try_from(root.clone())?;
        let types = watch.properties.iter().map(|properties| properties.type_.clone()).collect();
        // Only a server that isn't a vCenter lacks the view manager, and it answers so.
        let this = remote.session.content.view_manager.clone().unwrap_or_default();
        self.call(&remote.session, &CreateContainerView { this, container, type_: types, recursive }).await
    }

    async fn uninstall(&self, remote: &Remote, installed: Installed) -> Result<(), Stop> {
        let filter = self.call(&remote.session, &DestroyPropertyFilter { this: installed.filter }).await;
        ignore_gone(filter)?;
        if let Some(view) = installed.view {
            ignore_gone(self.call(&remote.session, &DestroyView { this: view.into() }).await)?;
        }
        Ok(())
    }

    /// A watch on a task is over when the task is.
    async fn uninstall_finished(&mut self, remote: &Remote) -> Result<(), Stop> {
        let finished: Vec<_> =
            self.watches.iter().filter(|(_, watched)| watched.is_finished()).map(|(id, _)| *id).collect();
        for id in finished {
            if let Some(installed) = self.watches.remove(&id).and_then(|watched| watched.installed) {
                self.uninstall(remote, installed).await?;
            }
        }
        Ok(())
    }

    /// Turns what vCenter says of one filter into news.
    fn take_up(&mut self, filter: PropertyFilterUpdate, updates: &mut Vec<Update>) {
        let is_it =
            |watched: &Watched| watched.installed.as_ref().is_some_and(|installed| installed.filter == filter.filter);
        let Some(watched) = self.watches.values_mut().find(|watched| is_it(watched)) else { return };
        watched.take_up(filter, updates);
    }

    /// All filters have said all they have to say.
    fn complete(&mut self, updates: &mut Vec<Update>) {
        for watched in self.watches.values_mut() {
            watched.complete(updates);
        }
    }

    async fn fail(&mut self, watch: WatchId, error: Error) -> Result<(), Stop> {
        let Some(watched) = self.watches.get_mut(&watch) else { return Ok(()) };
        let mut updates = Vec::new();
        watched.fail(error, &mut updates);
        if watched.is_finished() {
            self.watches.remove(&watch);
        }
        if updates.is_empty() { Ok(()) } else { self.send(Event::Updates(updates)).await }
    }

    async fn report_down(&mut self, error: Error) -> Result<(), Stop> {
        let obstacle = Obstacle::of(&error);
        if self.down.as_ref() == Some(&obstacle) {
            return Ok(());
        }
        self.down = Some(obstacle);
        self.send(Event::Down(Arc::new(error))).await
    }

    /// Pauses before the next attempt. A refused login is not tried again before the credentials change.
    async fn rest(&mut self, pause: Duration, refused: bool) -> Result<(), Stop> {
        let client = self.client.clone();
        let mut over =
            pin!(async move { if refused { client.credentials_replaced().await } else { sleep(pause).await } });
        loop {
            tokio::select! {
                () = &mut over => return Ok(()),
                () = self.events.closed() => return Err(Stop::Dropped),
                command = self.orders.recv() => {
                    let command = command.ok_or(Stop::Dropped)?;
                    self.note(command);
                }
            }
        }
    }

    async fn send(&self, event: Event) -> Result<(), Stop> {
        self.events.send(event).await.map_err(|_| Stop::Dropped)
    }

    /// Calls a method, and again where a moment may help: otherwise all that is set up would have to be set up anew.
    async fn call<M: crate::Method>(&self, session: &Session, request: &M) -> Result<M::Response> {
        for pause in MOMENTS {
            match self.client.call_in(session, request, Duration::ZERO).await {
                Err(error) if error.is_passing() => sleep(pause).await,
                outcome => return outcome,
            }
        }
        self.client.call_in(session, request, Duration::ZERO).await
    }
}

/// What was to be removed may be gone already.
fn ignore_gone(outcome: Result<()>) -> Result<(), Stop> {
    match outcome {
        Err(error) if !error.fault().is_some_and(crate::Fault::is::<ManagedObjectNotFound>) => Err(error.into()),
        _ => Ok(()),
    }
}
