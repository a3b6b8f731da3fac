//! Several replicas on one cluster: each works on what it holds the leases of, and what it is and does can be watched.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::TcpListener,
    time::{Duration, Instant, SystemTime},
};

use drover_e2e::{Gate, Group, Operator, Rule, SOON, Sandbox, eventually, have_rolled, roll};
use serde_json::{Value, json};

const GENERAL: &str = "drover.vm.codeconnect.vmworld.com";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
/// How many leases there are: the general one, one for the environment's vCenter, and those of five that are declared.
const ALL: usize = 7;
const DAY: Duration = Duration::from_hours(24);
/// For how long a lease is respected at least, which is renewed every 2 s and runs out after 15.
const RESPECTED: Duration = Duration::from_secs(10);
/// Within how long what one that is told to stop held is taken, on a machine that is busy: long before it would have run out. How long
/// it takes on a quiet one, a benchmark measures.
const HANDED_OVER: Duration = Duration::from_secs(6);
/// Within how long what a crashed one held is taken: when it has run out, and another has noticed, on a machine that is busy.
const TAKEN: Duration = Duration::from_secs(25);

fn replica(name: &str, sandbox: &Sandbox) -> Operator {
    Operator::start_as(name, sandbox, sandbox.vcenter(), &["--enable-leader-election"]).unwrap()
}

/// What leases say, by what they are for: `general`, or a vCenter's name.
fn leases(sandbox: &Sandbox) -> Result<BTreeMap<String, Value>, String> {
    let listed = sandbox.get(LEASES).map_err(|failure| failure.to_string())?;
    let of = |lease: &Value| {
        let name = lease["metadata"]["name"].as_str()?;
        let vcenter = name.strip_prefix("vcenter.").and_then(|rest| rest.strip_suffix(GENERAL)?.strip_suffix('.'));
        let of = if name == GENERAL { "general" } else { vcenter? };
        Some((of.to_owned(), lease.clone()))
    };
    Ok(listed["items"].as_array().into_iter().flatten().filter_map(of).collect())
}

/// The name of the replica that holds a lease.
fn holder(lease: &Value) -> &str {
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    holder.split_once('_').map_or("", |(name, _)| name)
}

/// Waits until these replicas hold all leases, and no two of them differ by more than one.
#[track_caller]
fn is_even(sandbox: &Sandbox, names: &[&str]) -> BTreeMap<String, String> {
    eventually(sandbox, SOON, &format!("a fair share for {names:?}"), || {
        let leases = leases(sandbox)?;
        let holders: BTreeMap<_, _> = leases.iter().map(|(of, lease)| (of.clone(), holder(lease).to_owned())).collect();
        let held = |name: &&str| holders.values().filter(|holder| *holder == name).count();
        let (most, fewest) = (names.iter().map(held).max(), names.iter().map(held).min());
        let is_so = most.zip(fewest).is_some_and(|(most, fewest)| most - fewest <= 1);
        let are_all = names.iter().map(held).sum::<usize>() == ALL && holders.len() == ALL;
        if is_so && are_all { Ok(holders) } else { Err(format!("{holders:?}")) }
    })
}

/// What a replica has logged, without colours.
fn log(operator: &Operator) -> String {
    let log = operator.log();
    let mut parts = log.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or(part, |(_, text)| text))
}

/// Which groups a replica has asked vCenter to do something for.
fn worked_on(operator: &Operator, groups: &[Group]) -> BTreeSet<String> {
    let log = log(operator);
    let submitted = |name: &str| {
        let field = format!("/{name} ");
        log.lines().any(|line| line.contains("Operation started") && line.contains(&field))
    };
    groups.iter().map(|group| group.name().to_owned()).filter(|name| submitted(name)).collect()
}

fn metrics(operator: &Operator) -> String {
    operator.ask("GET", "/metrics").unwrap().1
}

#[test]
fn replicas_share_the_vcenters_and_take_over_from_those_that_are_killed_frozen_cut_off_and_told_to_stop() {
    let sandbox = &Sandbox::start("several", &["--vcenters=6", "--clone-delay=300ms"]).unwrap();
    without_the_kinds_it_is_told_how_to_get_them(sandbox);
    sandbox.install_kinds();
    let first = replica("first", sandbox);
    let spec = json!({"replicas": 3, "extraConfig": {"guestinfo.round": "0"}});
    let groups = ["va", "vb", "vc", "vd", "ve"].map(|name| Group::create_apart(sandbox, name, &spec));
    is_even(sandbox, &["first"]);
    let second = replica("second", sandbox);
    let holders = is_even(sandbox, &["first", "second"]);
    have_rolled(&groups, "0");

    // Each vCenter is worked in by the one that holds its lease.
    roll(&groups, "1");
    have_rolled(&groups, "1");
    let of_second = groups.iter().map(Group::name).filter(|name| holders[*name] == "second").map(ToOwned::to_owned);
    assert_eq!(worked_on(&second, &groups), of_second.collect());
    what_is_served_tells_who_holds_what(sandbox, &[("first", &first), ("second", &second)]);
    a_group_moves_from_one_holder_to_another(sandbox, &groups, &holders);

    // Two more join, and get their share in the midst of a roll.
    let gate = Gate::open(sandbox);
    roll(&groups, "2");
    let third =
        Operator::start_as_behind("third", &gate, sandbox, sandbox.vcenter(), &["--enable-leader-election"]).unwrap();
    let fourth = replica("fourth", sandbox);
    let all = ["first", "second", "third", "fourth"];
    is_even(sandbox, &all);
    have_rolled(&groups, "2");

    killed_frozen_and_cut_off(sandbox, &groups, first, &second, &third, &gate);

    // Told to stop in the midst of a roll, one hands over at once.
    is_even(sandbox, &["second", "third", "fourth"]);
    roll(&groups, "4");
    hands_over_at_once(sandbox, fourth, "fourth", &["second", "third"]);
    have_rolled(&groups, "4");
    sandbox.assert_nothing_tells(&[]);

    // The lease of a VCenter goes with it.
    groups[0].delete();
    sandbox.kubectl().run(&["delete", "vc", groups[0].name()]).unwrap();
    eventually(sandbox, SOON, "the lease is gone", || {
        let leases = leases(sandbox)?;
        if leases.contains_key(groups[0].name()) { Err(format!("{leases:?}")) } else { Ok(()) }
    });
}

/// One is killed, one frozen with a clone of its unanswered, and one cut off from the API server, all at once. The one that is left does
/// all the work, and what the others do when they are back harms nothing.
fn killed_frozen_and_cut_off(
    sandbox: &Sandbox,
    groups: &[Group],
    killed: Operator,
    frozen: &Operator,
    cut_off: &Operator,
    gate: &Gate,
) {
    let holders = is_even(sandbox, &["first", "second", "third", "fourth"]);
    let of_frozen = |group: &&Group| holders[group.name()] == "second";
    let first_clone = json!({"method": "CloneVM_Task", "client": "drover", "count": 1, "hold": "before"});
    let held: Vec<(&Group, Rule)> =
        groups.iter().filter(of_frozen).map(|group| (group, group.vcenter().rule(&first_clone))).collect();
    assert!(!held.is_empty(), "{holders:?}");
    roll(groups, "3");
    for (group, rule) in &held {
        eventually(sandbox, SOON, &format!("{} waits for its clone", group.name()), || match rule.hits() {
            0 => Err("no clone is asked for".to_owned()),
            _ => Ok(()),
        });
    }
    frozen.freeze();
    let began = Instant::now();
    drop(killed);
    gate.shut();
    is_even(sandbox, &["fourth"]);
    let took = began.elapsed();
    assert!(took > RESPECTED && took < TAKEN, "their leases are respected until they have run out: {took:?}");
    is_lost_before_it_is_taken(sandbox, cut_off, &holders);
    have_rolled(groups, "3");
    let before: Vec<_> = groups.iter().map(Group::identities).collect();
    let cloned: Vec<_> = groups.iter().map(|group| group.vcenter().calls("CloneVM_Task", "drover")).collect();

    // Back again: the one call that was being made lands, and makes nothing.
    for (_, rule) in held {
        assert_eq!(rule.remove(), 1);
    }
    frozen.thaw();
    gate.reopen();
    is_even(sandbox, &["second", "third", "fourth"]);
    have_rolled(groups, "3");
    for ((group, before), cloned) in groups.iter().zip(before).zip(cloned) {
        assert_eq!(group.identities(), before, "{}", group.name());
        assert_eq!(group.vcenter().calls("CloneVM_Task", "drover"), cloned, "{}: clones asked for", group.name());
    }
}

/// One that is cut off says that it has lost its leases before another has taken them.
fn is_lost_before_it_is_taken(sandbox: &Sandbox, cut_off: &Operator, holders: &BTreeMap<String, String>) {
    let leases = leases(sandbox).unwrap();
    let log = log(cut_off);
    for (of, _) in holders.iter().filter(|(_, holder)| *holder == "third") {
        let name = leases[of]["metadata"]["name"].as_str().unwrap();
        let mut lines = log.lines().rev();
        let line = lines
            .find(|line| line.contains("Lease lost") && line.contains(name))
            .unwrap_or_else(|| panic!("{of}: {log}"));
        let (lost, taken) =
            (line.split_whitespace().next().unwrap(), leases[of]["spec"]["acquireTime"].as_str().unwrap());
        let earlier = time_of_day(taken).saturating_sub(time_of_day(lost));
        assert!(!earlier.is_zero() && earlier < SOON, "{of}: lost at {lost}, taken at {taken}");
    }
}

/// How long after midnight it is, by a time such as `2026-01-02T03:04:05.678901Z`.
fn time_of_day(text: &str) -> Duration {
    let (_, time) = text.split_once('T').unwrap_or_else(|| panic!("{text:?} is no time"));
    let parts: Vec<f64> = time.trim_end_matches('Z').split(':').map(|part| part.parse().unwrap()).collect();
    Duration::from_secs_f64(parts.iter().fold(0.0, |sum, part| sum * 60.0 + part))
}

/// Tells a replica to stop, and looks when others have taken what it held.
fn hands_over_at_once(sandbox: &Sandbox, mut leaving: Operator, name: &str, others: &[&str]) {
    let before = leases(sandbox).unwrap();
    let told = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let told = Duration::new(told.as_secs() % DAY.as_secs(), told.subsec_nanos());
    leaving.terminate();
    is_even(sandbox, others);
    let after = leases(sandbox).unwrap();
    let moved: Vec<_> = before.iter().filter(|(_, lease)| holder(lease) == name).collect();
    assert!(!moved.is_empty(), "{before:?}");
    for (of, lease) in moved {
        let taken = time_of_day(after[of]["spec"]["acquireTime"].as_str().unwrap());
        // It may be midnight.
        let took = taken.checked_sub(told).unwrap_or(taken + DAY.saturating_sub(told));
        assert!(took < HANDED_OVER, "{of} was without a holder for {took:?}");
        let transitions = |lease: &Value| lease["spec"]["leaseTransitions"].as_i64().unwrap();
        assert_eq!(transitions(&after[of]), transitions(lease) + 1, "{of}");
    }
    assert!(leaving.succeeds_within(SOON), "{}", leaving.log());
}

/// Scales a group to none, and has it made in a vCenter that another replica works in; and back.
fn a_group_moves_from_one_holder_to_another(sandbox: &Sandbox, groups: &[Group], holders: &BTreeMap<String, String>) {
    let of = |name: &str| groups.iter().find(|group| holders[group.name()] == name).unwrap();
    let (from, to) = (of("first"), of("second"));
    let there = || -> BTreeSet<String> {
        let machines = to.vcenter().machines().into_iter();
        machines.filter(|path| path.contains(&format!("/{0}.{0}/", from.name()))).collect()
    };
    from.patch(&json!({"replicas": 0})).unwrap();
    from.runs_with(0);
    from.patch(&json!({"replicas": 2, "vcenter": to.name()})).unwrap();
    eventually(sandbox, SOON, "two machines in the other vCenter", || {
        let status = from.status()?;
        let is_so = status["vcenter"] == to.name() && status["readyReplicas"] == 2 && there().len() == 2;
        if is_so { Ok(()) } else { Err(format!("{status}, {:?}", there())) }
    });
    assert_eq!(from.everywhere(), [""; 0]);
    from.patch(&json!({"replicas": 0})).unwrap();
    eventually(sandbox, SOON, "none is left there", || {
        let status = from.status()?;
        let is_so = status["currentReplicas"] == 0 && there().is_empty();
        if is_so { Ok(()) } else { Err(format!("{status}, {:?}", there())) }
    });
    from.patch(&json!({"replicas": 3, "vcenter": from.name()})).unwrap();
    from.runs_with(3);
}

fn without_the_kinds_it_is_told_how_to_get_them(sandbox: &Sandbox) {
    let mut operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let expected = "kinds are not installed, and are waited for: drover crds | kubectl apply --server-side -f -";
    eventually(sandbox, SOON, "it says so", || {
        let log = operator.log();
        if log.contains(expected) { Ok(()) } else { Err(log) }
    });
    operator.terminate();
    assert!(operator.succeeds_within(SOON), "{}", operator.log());
}

/// Looks at replicas with the eyes of Prometheus and the kubelet, and of a person with kubectl.
fn what_is_served_tells_who_holds_what(sandbox: &Sandbox, operators: &[(&str, &Operator)]) {
    let leases = leases(sandbox).unwrap();
    for (name, operator) in operators {
        for path in ["/healthz", "/readyz"] {
            assert_eq!(operator.ask("GET", path).unwrap(), (200, "ok\n".to_owned()));
        }
        let metrics = metrics(operator);
        assert!(metrics.contains("\nprocess_resident_memory_bytes "), "{metrics}");
        for (of, lease) in &leases {
            let is_held = u8::from(holder(lease) == *name);
            let lease = lease["metadata"]["name"].as_str().unwrap();
            let line = format!("drover_lease_held{{lease=\"{lease}\"}} {is_held}\n");
            assert!(metrics.contains(&line), "{line} is missing:\n{metrics}");
            if of == "general" {
                assert!(metrics.contains(&format!("drover_leader {is_held}\n")), "{metrics}");
            }
        }
        // All replicas follow all vCenters.
        let log = operator.log();
        assert_eq!(log.matches("vCenter mirrored").count(), 6, "{log}");
    }
    let table = sandbox.kubectl().run(&["get", "lease", "-n", "default"]).unwrap();
    for word in
        ["replica-0.drover", "replica-1.drover", "vcenter.va.drover", "vcenter.default.drover", "first_", "second_"]
    {
        assert!(table.contains(word), "{word}: {table}");
    }
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
