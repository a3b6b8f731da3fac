//! What wakes the controller of groups: their own watch, and all that happens in vCenters.

use std::{collections::HashSet, sync::Arc};

use drover_api::VmGroup;
use futures::{StreamExt, stream};
use kube::{
    Resource, ResourceExt,
    runtime::{
        Controller, controller,
        reflector::{ObjectRef, store::Writer},
        watcher,
    },
};
use tokio::sync::mpsc;

use super::{cant_be_read, reconcile};
use crate::{
    controllers::{Context, reconcile::Attempts},
    kube::{
        guard::Guarded,
        shared_watch::{drive, received},
    },
    vcenter::Trigger,
};

/// Keeps all groups as they are declared, until told to stop.
pub(crate) async fn run(
    context: &Arc<Context>,
    writer: Writer<VmGroup>,
    triggers: mpsc::UnboundedReceiver<Trigger>,
    told_to_stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let groups = &context.groups;
    let told = groups.watch(&context.events, context.scope.reach.apis(&context.kube), writer, {
        let context = Arc::clone(context);
        let mut there = HashSet::new();
        move |event, _| match event {
            watcher::Event::Delete(group) => {
                context.retain_groups(|uid| group.meta().uid.as_deref() != Some(uid));
            }
            watcher::Event::Init => there.clear(),
            watcher::Event::InitApply(group) => {
                context.note(group.meta());
                if let Guarded(Err(unreadable)) = group {
                    cant_be_read(&context, unreadable);
                }
                there.insert(group.uid().unwrap_or_default());
            }
            // Those that went while nobody watched.
            watcher::Event::InitDone => context.retain_groups(|uid| there.contains(uid)),
            watcher::Event::Apply(group) => {
                context.note(group.meta());
                if let Guarded(Err(unreadable)) = group {
                    cant_be_read(&context, unreadable);
                }
            }
        }
    });
    let all = groups.store.clone();
    let controller = Controller::for_stream(told, groups.store.clone());
    context.vcenters.metrics.at_scrape({
        let (all, context) = (all.clone(), Arc::clone(context));
        move |metrics| {
            let all = all.state();
            // Each is one replica's.
            metrics.set_groups(
                all.iter().filter(|group| context.vcenters.mandate_for(group).is_some()).map(|group| &**group),
            );
        }
    });
    let wanted = received(triggers).flat_map(move |trigger| {
        stream::iter(if let Trigger::Group((namespace, name)) = &trigger {
            vec![ObjectRef::new(name).within(namespace)]
        } else {
            let all = all.state();
            all.iter().filter(|group| trigger.concerns(group)).map(|group| ObjectRef::from_obj(&**group)).collect()
        })
    });
    let attempts = Attempts::new(&context.vcenters.metrics, "VmGroup");
    let on_error = attempts.on_error();
    let controller = controller
        // As many as want to: a reconcile waits for the API server alone, and what it orders waits in the vCenter's queue.
        .with_config(controller::Config::default().concurrency(0))
        .reconcile_on(wanted)
        .graceful_shutdown_on(told_to_stop)
        .run(
            move |group, context| attempts.clone().run(Arc::clone(&group), reconcile(group, context)),
            on_error,
            Arc::clone(context),
        );
    drive(controller, context.loops.pulse("groups")).await;
}
