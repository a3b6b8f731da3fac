//! How much hosts and machines use is asked for, once a minute and in one call to each vCenter, for all that is shown.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use drover_core::info::figures::Reading;
use kube::ResourceExt;
use tokio::{task::JoinHandle, time::sleep};
use vim25::ManagedObjectReference;

use crate::{controllers::Context, loops::Pulse, vcenter::VCenterHandle};

/// What is shown for the first time is gathered for so long, so that many are read in one call.
const GATHER: Duration = Duration::from_secs(1);
/// How often to look at what is shown, if nothing else asks for it.
const LOOK: Duration = Duration::from_mins(1);

/// What is read of one vCenter.
#[derive(Default)]
struct Asked {
    reading: Reading<ManagedObjectReference>,
    under_way: Option<JoinHandle<()>>,
}

/// Reads figures for as long as the operator runs.
pub(super) async fn run(context: Arc<Context>, pulse: Pulse) {
    let mut vcenters: HashMap<String, Asked> = HashMap::new();
    loop {
        let now = Instant::now();
        let rest = vcenters.values().filter_map(|vcenter| vcenter.reading.rest(now)).min();
        let due = async {
            tokio::select! {
                () = context.infos.figures_wanted.notified() => sleep(GATHER).await,
                () = sleep(rest.unwrap_or(LOOK).max(GATHER)) => {}
            }
        };
        pulse.wait(due).await;
        look(&context, &mut vcenters);
    }
}

/// Has read what is due, of the vCenters that are there.
fn look(context: &Context, vcenters: &mut HashMap<String, Asked>) {
    let mut shown = shown(context);
    let lives = context.vcenters.lives();
    // One that is away is read anew when it is back.
    vcenters.retain(|name, _| lives.iter().any(|live| live.name == *name && live.is_in_sight()));
    // Who writes no figures needs none.
    for live in lives.into_iter().filter(|live| live.is_in_sight() && live.mandate().is_some()) {
        let vcenter = vcenters.entry(live.name.clone()).or_default();
        if vcenter.under_way.as_ref().is_some_and(|task| !task.is_finished()) {
            // A slow vCenter isn't asked a second time before it has answered.
            context.infos.want_figures();
            continue;
        }
        let shown = of_mirror(&live, shown.remove(&live.name).unwrap_or_default());
        let due = vcenter.reading.due(&shown, Instant::now());
        if !due.is_empty() {
            vcenter.under_way = Some(context.loops.spawn(async move { live.read_figures(due).await }));
        }
    }
}

/// Those that vCenter has now. The figures of all others are forgotten.
fn of_mirror(live: &VCenterHandle, mut shown: BTreeSet<ManagedObjectReference>) -> BTreeSet<ManagedObjectReference> {
    let mut mirror = live.mirror();
    shown.retain(|object| mirror.machines.contains_key(object) || mirror.hosts.contains_key(object));
    mirror.keep_figures_of(&shown);
    shown
}

/// The hosts and machines that statuses show, by the names of their vCenters.
fn shown(context: &Context) -> HashMap<String, BTreeSet<ManagedObjectReference>> {
    let hosts = context.infos.hosts.all().filter_map(|info| {
        let moref = info.status.as_ref()?.moref.as_deref()?;
        Some((info.namespace(), info.spec.vcenter.clone(), ManagedObjectReference::new("HostSystem", moref)))
    });
    let machines = context.infos.machines.all().filter_map(|info| {
        let moref = info.status.as_ref()?.moref.as_deref()?;
        Some((info.namespace(), info.spec.vcenter.clone(), ManagedObjectReference::new("VirtualMachine", moref)))
    });
    let mut homes: HashMap<(Option<String>, Option<String>), Option<String>> = HashMap::new();
    let mut shown: HashMap<String, BTreeSet<ManagedObjectReference>> = HashMap::new();
    for (namespace, named, object) in hosts.chain(machines) {
        let home = homes.entry((namespace, named)).or_insert_with_key(|(namespace, named)| {
            let bound = context.vcenters.choose(namespace.as_deref().unwrap_or_default(), named.as_deref());
            bound.ok().map(|bound| bound.live.name.clone())
        });
        if let Some(vcenter) = home {
            shown.entry(vcenter.clone()).or_default().insert(object);
        }
    }
    shown
}
