//! The operator itself: it runs until it is told to stop.

use std::{env, panic::AssertUnwindSafe, sync::Arc};

use drover_api::VmGroup;
use drover_core::reasons::Reason;
use futures::{
    FutureExt,
    future::{self, BoxFuture, Shared},
};
use kube::{Client, Config, runtime::reflector::store::Writer};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Notify, mpsc},
};
use tracing::{error, info, warn};

use crate::{
    cli::{
        cluster::{BadCluster, Origin, Target},
        flags::Flags,
        prepare,
    },
    controllers::{
        self, Context,
        binding::{self, DEFAULT, Namespaces, VCenters},
        duties,
        info::{self, Infos},
        myownshell, vmgroup,
    },
    http::{
        admission::{self, Admission},
        serve::{self, Readiness, Sources},
    },
    kube::{
        events::Recorder,
        leadership::{Leadership, LeaseScope, Leases},
        scope::{self, Reach, Scope},
        shared_watch::SharedWatch,
    },
    loops::{Loops, ended},
    telemetry::metrics::Metrics,
    vcenter::{
        self, Trigger,
        connection::{BadEnvironment, Connection},
    },
};

/// Why the operator can't start or go on, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Environment(#[from] BadEnvironment),
    #[error(transparent)]
    Serve(#[from] serve::Unavailable),
    #[error(transparent)]
    Cluster(#[from] BadCluster),
    #[error("the Kubernetes cluster can't be connected to: {0}")]
    Client(#[from] kube::Error),
    #[error(
        "--controllers leaves out vcenter, so the id of the cluster can't be read: give --cluster-id, and always the same"
    )]
    NoClusterId,
    #[error("{0}; to connect without checking who answers, use --insecure")]
    Untrusted(vim25::Error),
    #[error("{0}")]
    Ended(String),
    #[error("signals can't be received: {0}")]
    Signals(#[from] std::io::Error),
}

/// Runs the operator.
pub(crate) async fn run(flags: &Flags) -> Result<(), RunError> {
    let (metrics, ready) = (Metrics::new(), Readiness::default());
    let environment = Connection::of_environment(flags.insecure)?;
    let environment = environment.map(|it| it.client(Some(metrics.observer(DEFAULT)))).transpose();
    let environment = environment
        .map_err(|bad| BadEnvironment::Trust("VC_CA_FILE, GOVMOMI_TLS_CA_CERTS or GOVC_TLS_CA_CERTS", bad))?;
    let outcome = Box::pin(run_with(flags, &metrics, &ready, environment.as_ref())).await;
    // Whatever it came to: a session that nobody ends stays until vCenter tires of it.
    log_out(environment.as_ref()).await;
    outcome
}

/// Runs the operator with the vCenter that the environment names, if it names one.
async fn run_with(
    flags: &Flags,
    metrics: &Metrics,
    ready: &Readiness,
    environment: Option<&vim25::Client>,
) -> Result<(), RunError> {
    // Before anybody logs in.
    let told_to_stop = told_to_stop()?;
    let loops = Loops::default();
    let sources = Sources { metrics: metrics.clone(), ready: ready.clone(), loops: loops.clone() };
    let (_servers, access) = serve::start(&flags.metrics_addr, &flags.serving, &sources).await?;
    let Target { config, origin } = flags.cluster.find().await?;
    let scope = scope(flags, &config);
    // Whatever fails is tried again by who asked, soon and with a word in the log. The client's own retries go on for minutes in silence.
    let mut own = config.clone();
    own.default_retry = false;
    let kube = Client::try_from(own)?;
    access.ask(&kube);
    let served = admission::start(&flags.admission, &kube, &scope, ready, &loops).await?;
    let (admission, _webhook) = served.unzip();
    if !scope.runs(scope::Controller::VCenter) && flags.cluster_id.is_none() {
        return Err(RunError::NoClusterId);
    }
    announce(&config, &origin, &scope, environment);
    let prepared = tokio::select! {
        prepared = prepare::prepare(&kube, &scope, flags.cluster_id.as_deref()) => prepared,
        () = told_to_stop.clone() => return Ok(()),
    };
    // That of the environment isn't waited for where a VCenter has its name: it has another server, or says how that of the environment is.
    let needed = environment.filter(|_| !prepared.vcenters.contains(DEFAULT));
    match needed {
        Some(client) => tokio::select! {
            outcome = check_vcenter(client) => outcome?,
            () = told_to_stop.clone() => return Ok(()),
        },
        None if environment.is_none() && prepared.vcenters.is_empty() => warn_of_no_vcenter(&scope),
        _ => {}
    }
    ready.set();

    let (told, changes) = mpsc::unbounded_channel();
    let leadership = if flags.enable_leader_election {
        Leadership::seek(&config, &kube, &scope.namespace, &loops, told)?
    } else {
        Leadership::alone()
    };
    let leases = leadership.leases();
    watch_leases(metrics, &leases);
    let (triggers, orders) = mpsc::unbounded_channel();
    let (namespaces, _watch) = if scope.runs(scope::Controller::VCenter) {
        let (followed, watch) = Namespaces::follow(&kube, &scope.reach, &loops, triggers.clone());
        (followed, Some(watch))
    } else {
        (Namespaces::unread(), None)
    };
    let events = recorder(&kube, &leases, &namespaces, &loops);
    let again = Arc::new(Notify::new());
    let vcenters = VCenters::new(
        Arc::clone(&namespaces),
        leases.clone(),
        metrics.clone(),
        triggers.clone(),
        loops.clone(),
        scope.clone(),
    );
    let (infos, writers) = Infos::new();
    let (context, writer) =
        Context::new(kube.clone(), events.clone(), vcenters, prepared.cluster, infos, loops.clone(), scope.clone());
    let context = Arc::new(context);
    let are_read = scope.runs(scope::Controller::VmGroup) && scope.runs(scope::Controller::VMInfo);
    let told = || (context.groups.told(), context.infos.told_of_machines());
    let (is_run, claim) = (scope.runs(scope::Controller::MyOwnShell), leases.claim(&LeaseScope::General));
    let told = (is_run && are_read).then(told);
    let shells = async {
        if is_run {
            let duty = myownshell::Duty { claim, again: Arc::clone(&again), events: events.clone(), told };
            let (namespaces, metrics) = (Arc::clone(&namespaces), metrics.clone());
            myownshell::run(kube.clone(), &scope, duty, namespaces, metrics, told_to_stop.clone(), &loops).await;
        }
    };
    if let Some(admission) = &admission {
        Admission::begin(admission, &context);
    }
    let _duties = duties::start(&context, leases.clone(), changes, triggers, Arc::clone(&again));
    let work = work(&context, environment.cloned(), orders, (writers, writer), told_to_stop.clone());
    let all = future::try_join(work, shells.map(Ok));
    let outcome = tokio::select! {
        // What panics here has told so.
        Ok(outcome) = AssertUnwindSafe(all).catch_unwind() => outcome.map(drop),
        () = told_to_stop.clone() => Ok(()),
        why = ended() => Err(RunError::Ended(why)),
    };
    // Before anything that takes time: other replicas wait for it.
    leadership.release().await;
    context.vcenters.farewell().await;
    loops.end().await;
    outcome
}

/// By which everything is told.
fn recorder(kube: &Client, leases: &Leases, namespaces: &Arc<Namespaces>, loops: &Loops) -> Recorder {
    let (general, namespaces) = (leases.claim(&LeaseScope::General), Arc::clone(namespaces));
    Recorder::new(kube, loops, move || general.holds(), move |namespace| namespaces.is_ending(namespace))
}

/// Has it told which leases this replica holds.
fn watch_leases(metrics: &Metrics, leases: &Leases) {
    let general = leases.claim(&LeaseScope::General);
    metrics.at_scrape({
        let leases = leases.clone();
        move |metrics| {
            metrics.set_leader(general.holds());
            metrics.set_leases(leases.held());
        }
    });
}

async fn log_out(environment: Option<&vim25::Client>) {
    if let Some(client) = environment {
        binding::log_out(client).await;
    }
}

/// Works until told to stop, and then ends what it has begun.
async fn work(
    context: &Arc<Context>,
    environment: Option<vim25::Client>,
    orders: mpsc::UnboundedReceiver<Trigger>,
    (writers, group_writer): (info::Writers, Writer<VmGroup>),
    told_to_stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<(), RunError> {
    let (vcenters, vcenter_writer) = SharedWatch::new();
    let (others, _running) = info::start(context, writers, orders);
    context.vcenters.read_all(&context.kube, environment).await;
    let _running = context
        .scope
        .runs(scope::Controller::VCenter)
        .then(|| controllers::vcenter::start(context, &vcenters, vcenter_writer, others.vcenters));
    context.vcenters.metrics.at_scrape({
        let context = Arc::clone(context);
        move |metrics| context.vcenters.measure(metrics, &context.cluster)
    });
    if !context.scope.runs(scope::Controller::VmGroup) {
        info!("Drover runs");
        told_to_stop.await;
        return Ok(());
    }
    info!("Drover runs");
    vmgroup::run(context, group_writer, others.groups, told_to_stop).await;
    Ok(())
}

/// Returns, to each who waits for it, once a signal has come that ends the operator.
fn told_to_stop() -> Result<Shared<BoxFuture<'static, ()>>, RunError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let either = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(either.boxed().shared())
}

/// What the operator looks after.
fn scope(flags: &Flags, config: &Config) -> Scope {
    let namespace = flags.namespace.clone().or_else(|| env::var("POD_NAMESPACE").ok()).filter(|name| !name.is_empty());
    Scope {
        controllers: flags.controllers.clone(),
        reach: Reach::of(&flags.namespaces),
        // In a pod, that is the service account's.
        namespace: namespace.unwrap_or_else(|| config.default_namespace.clone()),
    }
}

/// Says what the operator is about to act on, before it does: a person may have meant another cluster.
fn announce(config: &Config, origin: &Origin, scope: &Scope, environment: Option<&vim25::Client>) {
    let vcenter = environment.map_or_else(|| "none".to_owned(), |client| client.endpoint().to_string());
    info!(
        server = %config.cluster_url,
        %origin,
        namespace = scope.namespace,
        controllers = %scope.controllers,
        namespaces = %scope.reach,
        environment_vcenter = vcenter,
        "drover starts on this cluster"
    );
}

fn warn_of_no_vcenter(scope: &Scope) {
    if scope.runs(scope::Controller::VCenter) {
        warn!(
            "no vCenter is named, and one is waited for: create a VCenter (config/samples/vm_v1alpha1_vcenter.yaml), or set VC_HOST, \
             VC_USER and VC_PASS in the operator's environment"
        );
    } else {
        warn!(
            "no vCenter is named, and --controllers leaves out vcenter: set VC_HOST, VC_USER and VC_PASS in the operator's environment"
        );
    }
}

/// What a person has to mend is said at the start. A vCenter that is only away is waited for, and so is one that refuses the
/// login: whoever restarts this again and again would have the account locked.
async fn check_vcenter(vcenter: &vim25::Client) -> Result<(), RunError> {
    let Err(error) = vcenter.session().await else { return Ok(()) };
    match vcenter::reason(&error) {
        Reason::CertificateUntrusted => Err(RunError::Untrusted(error)),
        Reason::LoginRefused => {
            error!(%error, "Login refused; no other is tried with these credentials");
            Ok(())
        }
        _ => Ok(()),
    }
}
