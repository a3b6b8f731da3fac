//! Several operators on one cluster: one works, and what it is and does can be watched.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use drover_e2e::{Namespace, Operator, Sandbox, eventually, process, vm_group};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(1);
const LEASE: &str = "drover.vm.codeconnect.vmworld.com";

/// An operator that takes part in the election, with the address that it is watched at.
fn candidate(name: &str, sandbox: &Sandbox) -> (Operator, String) {
    // The port is free again when the operator takes it.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let arguments = ["--enable-leader-election", &format!("--metrics-addr={address}")];
    (Operator::start_as(name, sandbox, sandbox.vcenter(), &arguments).unwrap(), address)
}

/// Waits until the operator of this name holds the lease, and returns the lease.
fn leads(name: &str, sandbox: &Sandbox) -> Value {
    eventually(sandbox, SOON, &format!("{name} holds the lease"), || {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/{LEASE}");
        let lease = sandbox.get(&path).map_err(|failure| failure.to_string())?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if holder.starts_with(&format!("{name}_")) { Ok(lease) } else { Err(format!("{holder:?} holds it")) }
    })
}

fn stands_by(operator: &Operator, behind: &str, sandbox: &Sandbox) {
    eventually(sandbox, SOON, "it says that it waits, and for whom", || {
        let log = operator.log();
        let says = |line: &str| line.contains("this one waits") && line.contains(&format!("{behind}_"));
        if log.lines().any(says) { Ok(()) } else { Err(log) }
    });
}

fn get(address: &str, path: &str) -> Result<String, String> {
    let mut answer = ureq::get(format!("http://{address}{path}")).call().map_err(|error| error.to_string())?;
    answer.body_mut().read_to_string().map_err(|error| error.to_string())
}

/// Waits until the group has this many machines that run.
fn runs_with(replicas: usize, namespace: &Namespace, sandbox: &Sandbox) {
    eventually(sandbox, SOON, &format!("{replicas} machines in {}", namespace.name), || {
        let group = namespace.get("vg", "web").map_err(|failure| failure.to_string())?;
        let folder = format!("/{}.web/", namespace.name);
        let machines = sandbox.vcenter().machines().into_iter().filter(|path| path.contains(&folder)).count();
        let status = &group["status"];
        let is_so = status["phase"] == "RUNNING" && status["readyReplicas"] == replicas && machines == replicas;
        if is_so { Ok(()) } else { Err(format!("{machines} machines, {status}")) }
    });
}

fn create_group(namespace: &Namespace) {
    let manifest = vm_group("web", &json!({"replicas": 1}));
    namespace.declare(&manifest).unwrap();
}

#[test]
fn one_operator_works_and_another_takes_over_when_it_is_killed_told_to_stop_or_cut_off() {
    let sandbox = Sandbox::start("several", &[]).unwrap();
    without_the_kinds_it_is_told_how_to_get_them(&sandbox);
    sandbox.install_kinds();
    let (first, first_address) = candidate("first", &sandbox);
    leads("first", &sandbox);
    let (mut second, second_address) = candidate("second", &sandbox);
    stands_by(&second, "first", &sandbox);
    assert_eq!(sandbox.vcenter().calls("Login", "drover"), 1, "only the one that works logs in");
    let before = sandbox.namespace("before");
    create_group(&before);
    runs_with(1, &before, &sandbox);
    what_is_served_tells_who_works(&sandbox, &first_address, &second_address);

    // Killed, it can't give its lease back, and that is respected.
    let killed = Instant::now();
    drop(first);
    leads("second", &sandbox);
    let expired = killed.elapsed();
    assert!(expired > Duration::from_secs(10), "after {expired:?}");
    let after = sandbox.namespace("after");
    create_group(&after);
    runs_with(1, &after, &sandbox);

    let (third, _) = candidate("third", &sandbox);
    stands_by(&third, "second", &sandbox);
    let told = Instant::now();
    second.terminate();
    let lease = leads("third", &sandbox);
    assert!(told.elapsed() < expired / 2, "after {:?}, and {expired:?} when killed", told.elapsed());
    assert_eq!(lease["spec"]["leaseTransitions"], 2);
    assert!(second.succeeds_within(SOON), "{}", second.log());
    after.kubectl(&["scale", "vg/web", "--replicas=2"]).unwrap();
    runs_with(2, &after, &sandbox);
    for operator in [&second, &third] {
        assert!(!operator.log().contains(&sandbox.vcenter().password), "{}", operator.log());
    }
    a_leader_that_is_not_answered_ends(third, &sandbox);
}

fn without_the_kinds_it_is_told_how_to_get_them(sandbox: &Sandbox) {
    let mut operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    assert!(!operator.succeeds_within(SOON));
    let expected = "drover: the kind VmGroup is not installed: drover crds | kubectl apply --server-side -f -";
    assert_eq!(operator.log().lines().last(), Some(expected), "{}", operator.log());
}

/// Looks at two operators with the eyes of Prometheus and the kubelet.
fn what_is_served_tells_who_works(sandbox: &Sandbox, leader: &str, other: &str) {
    for address in [leader, other] {
        assert_eq!(get(address, "/healthz").unwrap(), "ok\n");
        assert_eq!(get(address, "/readyz").unwrap(), "ok\n");
        let metrics = get(address, "/metrics").unwrap();
        assert!(metrics.contains("\nprocess_resident_memory_bytes "), "{metrics}");
        assert!(!metrics.contains(&sandbox.vcenter().password), "{metrics}");
    }
    let (leader, other) = (get(leader, "/metrics").unwrap(), get(other, "/metrics").unwrap());
    for line in ["drover_leader 1\n", "drover_groups{phase=\"RUNNING\"} 1\n", "drover_reconcile_total{kind=\"VmGroup\""]
    {
        assert!(leader.contains(line), "{line} is missing:\n{leader}");
    }
    assert!(other.contains("drover_leader 0\n") && !other.contains("drover_reconcile_total{"), "{other}");
}

/// Stops the API server: a leader ends before another may begin.
fn a_leader_that_is_not_answered_ends(mut leader: Operator, sandbox: &Sandbox) {
    let servers = process::of_program(sandbox.dir(), "kube-apiserver");
    assert_eq!(servers.len(), 1, "{:?}", process::of_folder(sandbox.dir()));
    process::signal(servers[0], "STOP");
    let succeeded = leader.succeeds_within(SOON);
    process::signal(servers[0], "CONT");
    let log = leader.log();
    let last = log.lines().last().unwrap_or_default();
    let expected = format!("drover: the lease {LEASE} is lost: it could not be renewed in time; ");
    assert!(!succeeded && last.starts_with(&expected), "{log}");
    let vcenter = sandbox.vcenter();
    let (logins, logouts) = (vcenter.calls("Login", "drover"), vcenter.calls("Logout", "drover"));
    assert_eq!((logins, logouts), (3, 2), "only the one that was killed leaves its session behind");
}

#[test]
fn a_port_that_is_taken_is_said_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = std::process::Command::new(drover_e2e::binary());
    command.args(["--insecure", "--metrics-addr", &address]);
    // It is noticed before anything is connected to.
    let nowhere = [("VC_HOST", "localhost"), ("VC_USER", "u"), ("VC_PASS", "hunter2"), ("KUBECONFIG", "/nowhere")];
    let output = command.env_clear().envs(nowhere).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("drover: --metrics-addr: {address} can't be listened on: ");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with(&expected) && stderr.lines().count() == 1, "{stderr}");
}
