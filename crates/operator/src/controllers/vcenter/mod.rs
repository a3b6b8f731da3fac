//! The controller of VCenters: each is followed as it is declared, with what its Secret says now, and says how it is.

mod report;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use drover_api::{VCenter, vmgroup::RELEASE_ANNOTATION};
use drover_core::{Timestamp, vcenter::status::Publication};
use kube::{
    Api, ResourceExt,
    runtime::{
        Controller,
        controller::Action as Requeue,
        reflector::{ObjectRef, store::Writer},
        watcher,
    },
};
use tokio::{sync::mpsc, time::sleep};
use tracing::warn;

use crate::{
    controllers::{
        Context,
        binding::{RULES_HOLD, limits},
        info,
        reconcile::{self, Error},
        vmgroup,
    },
    kube::{guard::Guarded, leadership::Mandate, shared_watch::SharedWatch},
    loops::Running,
    vcenter::{Trigger, VCenterHandle, privileges},
};
use report::Findings;

/// How often the figures of a VCenter are looked at. It costs nothing where they are the same.
const LOOK: Duration = Duration::from_secs(3);

/// How long to wait for a vCenter that is being read.
const MOMENT: Duration = Duration::from_secs(1);

/// Starts the controller of VCenters. `orders` are those that have to be looked at again.
pub(crate) fn start(
    context: &Arc<Context>,
    shared_watch: &SharedWatch<VCenter>,
    writer: Writer<VCenter>,
    orders: mpsc::UnboundedReceiver<ObjectRef<VCenter>>,
) -> Running {
    let mut there = BTreeSet::new();
    let told = shared_watch.watch(&context.events, vec![Api::all(context.kube.clone())], writer, {
        let context = Arc::clone(context);
        move |event, _| match event {
            watcher::Event::Delete(vcenter) => retain(&context, |name| name != vcenter.name_any()),
            watcher::Event::Init => there.clear(),
            watcher::Event::InitApply(vcenter) => {
                if let Guarded(Err(unreadable)) = vcenter {
                    context.vcenters.note_unreadable(unreadable);
                }
                there.insert(vcenter.name_any());
            }
            // Those that went while nobody watched.
            watcher::Event::InitDone => retain(&context, |name| there.contains(name)),
            watcher::Event::Apply(Guarded(Err(unreadable))) => context.vcenters.note_unreadable(unreadable),
            watcher::Event::Apply(_) => {}
        }
    });
    reconcile::run(
        Controller::for_stream(told, shared_watch.store.clone()),
        orders,
        reconcile,
        context,
        ("vcenters", "VCenter"),
    )
}

/// Stops to follow those that are declared no more, and has an end come to one that counts though it is deleted.
fn retain(context: &Arc<Context>, is_there: impl Fn(&str) -> bool) {
    if context.vcenters.retain(is_there) {
        let context = Arc::clone(context);
        let loops = context.loops.clone();
        loops.spawn(async move {
            sleep(RULES_HOLD).await;
            context.vcenters.end_held_rules();
        });
    }
}

/// Follows a vCenter as it is declared.
async fn reconcile(vcenter: Arc<VCenter>, context: Arc<Context>) -> Result<Requeue, Error> {
    let outlook = context.vcenters.follow(&vcenter, &context.kube);
    let Some(outlook) = outlook else { return Ok(Requeue::await_change()) };
    if let Ok(live) = &outlook {
        let (limits, patience) = limits(vcenter.spec.limits);
        live.executor().set_limits(limits, patience);
        let released = vcenter.annotations().get(RELEASE_ANNOTATION).map(String::as_str).unwrap_or_default();
        live.set_released(
            released.split(',').map(|incident| incident.trim().to_owned()).filter(|it| !it.is_empty()).collect(),
        );
        live.wake_queue();
    }
    let Some(mandate) = context.vcenters.mandate(&vcenter.name_any()) else { return Ok(Requeue::requeue(LOOK)) };
    let reconciled = Box::pin(mandate.during(reconcile_as(&mandate, &vcenter, &context, &outlook))).await;
    reconciled.unwrap_or(Ok(Requeue::requeue(LOOK)))
}

/// Says how a vCenter is, and publishes its hosts.
async fn reconcile_as(
    mandate: &Mandate,
    vcenter: &VCenter,
    context: &Context,
    outlook: &Result<Arc<VCenterHandle>, String>,
) -> Result<Requeue, Error> {
    let mut findings = Findings {
        publication: Publication::Unknown,
        not_allowed: vmgroup::not_allowed_in(context, &vcenter.name_any()),
        quotas: None,
    };
    if let Ok(live) = outlook {
        live.enter(mandate);
        if live.away().is_none() && !live.is_in_sight() && was_told(vcenter) {
            // It is being read, and in a moment there is something to say of it.
            return Ok(Requeue::requeue(MOMENT));
        }
        if live.is_in_sight() {
            if vmgroup::load_records(context, live) {
                vmgroup::read_disks(context, live).await;
                findings.quotas = Some(vmgroup::quotas(context, live));
            }
            live.judge();
            check_privileges(live, vcenter).await;
            findings.publication = info::publish_hosts(context, live, vcenter).await;
        }
    }
    report::write(context, vcenter, outlook, findings).await?;
    Ok(Requeue::requeue(LOOK))
}

/// Whether anything has been said of a VCenter. The API server says nothing of a new one but that.
fn was_told(vcenter: &VCenter) -> bool {
    vcenter.status.as_ref().is_some_and(|status| !status.conditions.is_empty())
}

async fn check_privileges(live: &Arc<VCenterHandle>, vcenter: &VCenter) {
    vmgroup::require_defaults(live, &vcenter.spec.defaults);
    if live.executor().take_refusal() {
        live.privileges().doubt();
    }
    let lacks = || live.privileges().missing().is_some_and(|missing| !missing.is_empty());
    let lacked = lacks();
    if let Err(error) = privileges::check(live).await {
        warn!(vcenter = %live.name, %error, "Privileges not checked");
    }
    if lacked && !lacks() {
        // What was refused may well be done now.
        live.executor().start_over(Timestamp::now());
        live.trigger(Trigger::VCenter(live.name.clone()));
    }
}
