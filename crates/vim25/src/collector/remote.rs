//! The collector in vCenter. What is set up there lives and dies with its session.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{Scope, Watch, watched::Installed};
use crate::{
    Client, Error, ManagedObject, ManagedObjectReference, Method, Result,
    client::Session,
    faults::{ManagedObjectNotFound, RequestCanceled},
    methods::{
        CancelWaitForUpdates, CreateContainerView, CreateFilter, CreateListView, CreatePropertyCollector,
        DestroyPropertyCollector, DestroyPropertyFilter, DestroyView, ModifyListView, WaitForUpdatesEx,
    },
    props,
    refs::{ContainerViewRef, ListViewRef, ManagedEntityRef, PropertyCollectorRef, ViewManagerRef, ViewRef},
    types::{PropertyFilterSpec, PropertySpec, UpdateSet, WaitOptions},
};

/// How long a poll may take beyond the time that vCenter is asked to hold it. A vCenter that takes calls and answers none is
/// noticed by the poll, and so within the sum of both.
const MARGIN: Duration = Duration::from_secs(15);
/// How long any other call may take, attempts included: none of them puts off for long what a poll would notice.
const CALL: Duration = Duration::from_secs(20);
/// How long to wait before a call is made again that failed for a reason that passes.
const MOMENTS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];
const CANCEL_AGAIN: Duration = Duration::from_millis(200);
/// How many objects vCenter may tell of in one answer. Without a limit it may be all there are.
const PAGE: i32 = 100;

pub(super) struct Remote {
    client: Client,
    pub session: Arc<Session>,
    collector: PropertyCollectorRef,
}

/// How a poll ended.
pub(super) enum Polled {
    Answer(Answer),
    Cancelled,
}

/// What vCenter has to say. `None`: nothing.
pub(super) type Answer = Option<UpdateSet>;

impl Remote {
    pub(super) async fn create(client: &Client, session: Arc<Session>) -> Result<Self> {
        let mut remote = Self { client: client.clone(), session, collector: PropertyCollectorRef::default() };
        let this = remote.session.content.property_collector.clone();
        remote.collector = remote.call(&CreatePropertyCollector { this }).await?;
        Ok(remote)
    }

    /// Has the collector watch.
    pub(super) async fn set_up(&self, watch: &Watch) -> Result<Installed> {
        let view = match &watch.scope {
            Scope::Container { root, recursive } => Some(self.create_view(root, watch, *recursive).await?),
            Scope::Object(_) | Scope::Listed { .. } => None,
        };
        let filter = watch.filter(view.as_ref().map(ManagedObject::reference));
        self.create_filter(filter, view.map(Into::into)).await
    }

    /// Has the collector watch a list of tasks, which is empty.
    pub(super) async fn set_up_list(&self) -> Result<(ListViewRef, Installed)> {
        let view = self.call(&CreateListView { this: self.view_manager(), obj: Vec::new() }).await?;
        let properties = vec![PropertySpec::of(&[&props::task::INFO])];
        let scope = Scope::Listed { by: view.reference().clone(), path: "view".to_owned() };
        let filter = Watch { scope, properties }.filter(None);
        let installed = self.create_filter(filter, Some(view.clone().into())).await?;
        Ok((view, installed))
    }

    /// Changes a list, and returns those to add that vCenter doesn't know.
    pub(super) async fn modify_list(&self, change: &ModifyListView) -> Result<Vec<ManagedObjectReference>> {
        self.call(change).await
    }

    /// Removes what was set up, which may be gone already.
    pub(super) async fn take_down(&self, installed: Installed) -> Result<()> {
        ignore_gone(self.call(&DestroyPropertyFilter { this: installed.filter }).await)?;
        match installed.view {
            Some(this) => ignore_gone(self.call(&DestroyView { this }).await),
            None => Ok(()),
        }
    }

    /// Waits for the next answer, and again from the same version where a moment may help: vCenter then says again what it said.
    pub(super) async fn poll(&self, version: Option<String>, wait: Duration) -> Result<Polled> {
        let deadline = Instant::now() + wait + MARGIN;
        let mut moments = MOMENTS.into_iter();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let seconds = left.saturating_sub(MARGIN).as_millis().div_ceil(1000);
            let options = WaitOptions {
                max_wait_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
                max_object_updates: Some(PAGE),
            };
            let request =
                WaitForUpdatesEx { this: self.collector.clone(), version: version.clone(), options: Some(options) };
            let error = match self.client.call_in(&self.session, &request, left).await {
                Ok(answer) => return Ok(Polled::Answer(answer)),
                Err(error) => error,
            };
            if error.fault().is_some_and(crate::Fault::is::<RequestCanceled>) {
                return Ok(Polled::Cancelled);
            }
            match moments.next() {
                Some(pause) if error.is_passing() => sleep(pause).await,
                _ => return Err(error),
            }
        }
    }

    /// Ends the poll that waits. It is said again and again, since it may overtake the poll; whoever sees the poll's end drops it.
    pub(super) async fn cancel_poll(&self) -> Result<Infallible> {
        loop {
            self.call(&CancelWaitForUpdates { this: self.collector.clone() }).await?;
            sleep(CANCEL_AGAIN).await;
        }
    }

    /// Removes the collector with all its filters, and views. What is left by a failure goes with the session.
    pub(super) async fn destroy(&self, views: Vec<ViewRef>) {
        let _ = self.call(&DestroyPropertyCollector { this: self.collector.clone() }).await;
        for this in views {
            let _ = self.call(&DestroyView { this }).await;
        }
    }

    async fn create_view(
        &self,
        root: &ManagedObjectReference,
        watch: &Watch,
        recursive: bool,
    ) -> Result<ContainerViewRef> {
        let container = ManagedEntityRef::try_from(root.clone())?;
        let type_ = watch.properties.iter().map(|properties| properties.type_.clone()).collect();
        self.call(&CreateContainerView { this: self.view_manager(), container, type_, recursive }).await
    }

    /// Only a server that isn't a vCenter lacks the view manager, and it answers so.
    fn view_manager(&self) -> ViewManagerRef {
        self.session.content.view_manager.clone().unwrap_or_default()
    }

    async fn create_filter(&self, spec: PropertyFilterSpec, view: Option<ViewRef>) -> Result<Installed> {
        let this = self.collector.clone();
        let error = match self.call(&CreateFilter { this, spec, partial_updates: false }).await {
            Ok(filter) => return Ok(Installed { filter, view }),
            Err(error) => error,
        };
        if let (Some(this), true) = (view, is_of_watch(&error)) {
            // It will be made anew with the next attempt, and they would add up.
            let _ = self.call(&DestroyView { this }).await;
        }
        Err(error)
    }

    /// Calls a method, and again where a moment may help: otherwise all that is set up would have to be set up anew.
    async fn call<M: Method>(&self, request: &M) -> Result<M::Response> {
        let deadline = Instant::now() + CALL;
        let mut moments = MOMENTS.into_iter();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let outcome = self.client.call_in(&self.session, request, left).await;
            match (&outcome, moments.next()) {
                (Err(error), Some(pause)) if error.is_passing() => sleep(pause).await,
                _ => return outcome,
            }
        }
    }
}

/// Whether a watch is to blame, and not its session or vCenter: others may well be set up.
pub(super) fn is_of_watch(error: &Error) -> bool {
    matches!(error, Error::Fault(_) | Error::WrongType(_)) && !error.is_session_lost()
}

fn ignore_gone(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if !error.fault().is_some_and(crate::Fault::is::<ManagedObjectNotFound>) => Err(error),
        _ => Ok(()),
    }
}
