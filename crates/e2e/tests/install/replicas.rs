//! Two replicas of the manifests that people get share five vCenters. One of them is killed, frozen and cut off from the API server in the
//! midst of its work: the work is done all the same, and no VM is doubled or left.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Group, Page, Rule, SOON, Sandbox, eventually, have_rolled, process, roll};
use serde_json::{Value, json};

use crate::{
    installation::{Installation, pod_of},
    page::{APPLY, BUILD},
};

/// The vCenters, and the groups in them.
const NAMES: [&str; 5] = ["va", "vb", "vc", "vd", "ve"];
/// After how long a Lease runs out that is not renewed.
const LEASE: Duration = Duration::from_secs(15);
/// How long a Lease is respected at least by others, though it may not have been renewed for a while.
const RESPECTED: Duration = Duration::from_secs(10);

#[test]
fn a_replica_that_is_killed_frozen_or_cut_off_is_made_up_for() {
    let Some(sandbox) = Sandbox::start_with_node("replicas", &["--vcenters=6", "--clone-delay=300ms"]) else { return };
    let page = Page::open(&sandbox, "docs/install.md");
    let here = Installation { sandbox: &sandbox, namespace: "drover-system" };
    page.run(BUILD);
    page.run(APPLY);
    let own = sandbox.existing_namespace("drover-system");
    let groups = NAMES.map(|name| {
        let vcenter = sandbox.own_vcenter();
        vcenter.declare_in(&own, &sandbox, name, &json!({}));
        let group = Group::of(sandbox.namespace(name), &sandbox).in_vcenter(&vcenter);
        group.apply(&json!({"replicas": 3, "extraConfig": {"guestinfo.round": "0"}}));
        group
    });
    here.is_ready();
    have_rolled(&groups, "0");

    let scene = Scene { page: &page, here: &here, groups: &groups };
    scene.one_is_killed();
    scene.one_is_frozen();
    scene.one_is_cut_off();
    here.is_ready();
    assert_eq!(scene.restarts(), 1, "nobody but the killed one was started again");
    sandbox.assert_nothing_tells(&[]);
}

struct Scene<'a> {
    page: &'a Page,
    here: &'a Installation<'a>,
    groups: &'a [Group<'a>],
}

/// A replica that something happens to.
struct Victim<'a> {
    pod: String,
    process: u32,
    /// The groups that it works on.
    groups: Vec<&'a Group<'a>>,
    /// The Leases that it holds, by their names.
    leases: BTreeMap<String, Value>,
}

impl<'a> Scene<'a> {
    /// What it held is respected until that has run out, though its pod runs again at once. Of the clones that it had asked for, it was not
    /// told.
    fn one_is_killed(&self) {
        let killed = self.victim();
        let clones = held(&killed, "after");
        roll(self.groups, "1");
        are_asked_for(&clones);
        process::signal(killed.process, "KILL");
        eventually(self.here.sandbox, SOON, "nothing is held by the one that was killed", || {
            let now = self.here.leases();
            let same = |name: &String| now[name]["holderIdentity"] == killed.leases[name]["holderIdentity"];
            if killed.leases.keys().any(same) { Err(format!("{now:?}")) } else { Ok(()) }
        });
        have_rolled(self.groups, "1");
        assert_eq!(self.restarts(), 1, "the kubelet has started it again");
    }

    /// The other does all the work. The one call that the frozen one was making lands when it goes on, and makes nothing.
    fn one_is_frozen(&self) {
        let frozen = self.victim();
        let clones = held(&frozen, "before");
        roll(self.groups, "2");
        are_asked_for(&clones);
        process::signal(frozen.process, "STOP");
        let began = Instant::now();
        self.other_has_all(&frozen);
        have_rolled(self.groups, "2");
        let done = self.done();
        thread::sleep(LEASE.saturating_sub(began.elapsed()));

        for (_, clone) in clones {
            assert_eq!(clone.remove(), 1);
        }
        process::signal(frozen.process, "CONT");
        self.victim();
        have_rolled(self.groups, "2");
        assert_eq!(self.done(), done);
    }

    /// It still reaches its vCenters, but stops by its own clock, before the other takes over, and gives up the calls that wait.
    fn one_is_cut_off(&self) {
        let cut_off = self.victim();
        let server = self.page.terminal.run("kubectl get service kubernetes -o jsonpath='{.spec.clusterIP}'");
        // What the pod sends to the API server is lost without a word.
        let firewall = |verb: &str| {
            let rule = format!("iptables --wait {verb} OUTPUT --destination {server} --jump DROP");
            let enter = format!("nsenter --target {} --net", cut_off.process);
            self.page.terminal.run(&format!("PATH=$PATH:/usr/sbin:/sbin {enter} {rule}"));
        };
        let clones = held(&cut_off, "before");
        roll(self.groups, "3");
        are_asked_for(&clones);
        firewall("--append");
        self.other_has_all(&cut_off);
        self.is_lost_before_it_is_taken(&cut_off);
        have_rolled(self.groups, "3");
        let done = self.done();
        for (_, clone) in clones {
            assert_eq!(clone.remove(), 1);
        }

        firewall("--delete");
        self.victim();
        have_rolled(self.groups, "3");
        assert_eq!(self.done(), done);
    }

    /// Waits until each of the two replicas holds half of the Leases, those of five vCenters and that of what is in none, and returns one
    /// replica.
    fn victim(&self) -> Victim<'a> {
        let leases = eventually(self.here.sandbox, SOON, "each replica holds half of the Leases", || {
            let leases = self.here.leases();
            let mut held = BTreeMap::<_, usize>::new();
            for lease in leases.values() {
                *held.entry(pod_of(lease)).or_default() += 1;
            }
            let pods: BTreeSet<_> = self.here.pods().iter().map(name_of).collect();
            let is_so = held.keys().eq(&pods) && held.values().eq(&[3, 3]);
            if is_so { Ok(leases) } else { Err(format!("{leases:?}")) }
        });
        let pods = self.here.pods();
        let (pod, status) = (name_of(&pods[0]), &pods[0]["status"]["containerStatuses"][0]);
        let leases: BTreeMap<_, _> = leases.into_iter().filter(|(_, lease)| pod_of(lease) == pod).collect();
        let is_its =
            |group: &&Group<'a>| leases.keys().any(|lease| lease.starts_with(&format!("vcenter.{}.", group.name())));
        let groups: Vec<_> = self.groups.iter().filter(is_its).collect();
        assert!(groups.len() >= 2, "{leases:?}");
        let process = self.here.sandbox.process_of(status["containerID"].as_str().unwrap());
        Victim { pod, process, groups, leases }
    }

    /// Waits until all Leases are held by another than this one, which is not at once.
    fn other_has_all(&self, than: &Victim) {
        let began = Instant::now();
        eventually(self.here.sandbox, SOON, "the other replica holds all Leases", || {
            let leases = self.here.leases();
            let is_so = leases.len() == 6 && leases.values().all(|lease| !["", &than.pod].contains(&&*pod_of(lease)));
            if is_so { Ok(()) } else { Err(format!("{leases:?}")) }
        });
        let took = began.elapsed();
        assert!(took > RESPECTED && took < LEASE * 2, "its Leases are respected until they have run out: {took:?}");
    }

    /// Says which VMs there are, and how many clones were asked for.
    fn done(&self) -> Vec<(BTreeSet<String>, u64)> {
        let clones = |group: &Group| group.vcenter().calls("CloneVM_Task", "drover");
        self.groups.iter().map(|group| (group.identities(), clones(group))).collect()
    }

    fn is_lost_before_it_is_taken(&self, cut_off: &Victim) {
        let said = self.page.terminal.run(&format!("kubectl -n {} logs {}", self.here.namespace, cut_off.pod));
        let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let now = self.here.leases();
        for name in cut_off.leases.keys() {
            let is_it = |line: &&Value| line["msg"] == "Lease lost" && line["lease"] == **name;
            let lost =
                lines.iter().rev().find(is_it).unwrap_or_else(|| panic!("{name} is not said to be lost:\n{said}"));
            // Both are times of one clock, written alike.
            let (lost, taken) = (lost["ts"].as_str().unwrap(), now[name]["acquireTime"].as_str().unwrap());
            assert!(lost.len() == taken.len() && lost < taken, "{name}: lost at {lost}, taken at {taken}");
        }
    }

    fn restarts(&self) -> u64 {
        let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap();
        self.here.pods().iter().map(restarts).sum()
    }
}

fn name_of(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Keeps a replica waiting for the answer to the next clone of each of its groups: before vCenter has the call, or after.
fn held<'a>(victim: &Victim<'a>, moment: &str) -> Vec<(&'a Group<'a>, Rule)> {
    let rule = json!({"method": "CloneVM_Task", "client": "drover", "count": 1, "hold": moment});
    victim.groups.iter().map(|group| (*group, group.vcenter().rule(&rule))).collect()
}

/// Waits until all of these are waited for.
fn are_asked_for(clones: &[(&Group<'_>, Rule)]) {
    for (group, clone) in clones {
        eventually(group.sandbox, SOON, &format!("{} waits for its clone", group.name()), || match clone.hits() {
            0 => Err("no clone is asked for".to_owned()),
            _ => Ok(()),
        });
    }
}
