//! An operator that runs in the cluster, as it is seen from outside.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use drover_e2e::{SOON, Sandbox, Terminal, eventually};
use serde_json::Value;

/// The operator in a namespace.
pub(crate) struct Installation<'a> {
    pub sandbox: &'a Sandbox,
    pub namespace: &'a str,
}

impl Installation<'_> {
    fn terminal(&self) -> Terminal {
        Terminal::of(self.sandbox)
    }

    pub(crate) fn pods(&self) -> Vec<Value> {
        let pods = self.terminal().run(&format!("kubectl -n {} get pods -o json", self.namespace));
        let pods: Value = serde_json::from_str(&pods).unwrap();
        pods["items"].as_array().unwrap().clone()
    }

    /// Waits until both replicas are ready.
    #[track_caller]
    pub(crate) fn is_ready(&self) {
        eventually(self.sandbox, SOON, "two replicas are ready", || {
            let is_ready = |pod: &Value| {
                let conditions = pod["status"]["conditions"].as_array();
                conditions.is_some_and(|all| all.iter().any(|it| it["type"] == "Ready" && it["status"] == "True"))
            };
            let pods = self.pods();
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            if ready == 2 && pods.len() == 2 { Ok(()) } else { Err(format!("{ready} of {} pods", pods.len())) }
        });
    }

    /// Waits until no replica is left.
    #[track_caller]
    pub(crate) fn is_gone(&self) {
        eventually(self.sandbox, SOON, "no replica is left", || match self.pods().len() {
            0 => Ok(()),
            left => Err(format!("{left} pods")),
        });
    }

    /// The pod that works in the vCenter called default: the one that holds its Lease.
    #[track_caller]
    pub(crate) fn holder(&self) -> String {
        eventually(self.sandbox, SOON, "a replica holds the vCenter's Lease", || {
            let holders = self.holders();
            holders.get("vcenter.default.drover.vm.codeconnect.vmworld.com").cloned().ok_or(format!("{holders:?}"))
        })
    }

    /// Waits until each of the two replicas holds one of the two Leases: that of the vCenter, and that of what is in none.
    #[track_caller]
    pub(crate) fn shares_leases(&self) {
        eventually(self.sandbox, SOON, "each replica holds a Lease", || {
            let holders = self.holders();
            let pods: BTreeSet<_> = holders.values().collect();
            if holders.len() == 2 && pods.len() == 2 { Ok(()) } else { Err(format!("{holders:?}")) }
        });
    }

    /// The pods that hold Leases for something to work on, by the Leases' names.
    fn holders(&self) -> BTreeMap<String, String> {
        let pods = self.pods();
        let is_there = |pod: &str| pods.iter().any(|one| one["metadata"]["name"] == pod);
        let leases = self.leases().into_iter();
        leases.map(|(name, lease)| (name, pod_of(&lease))).filter(|(_, pod)| is_there(pod)).collect()
    }

    /// What the Leases for something to work on say, by their names.
    pub(crate) fn leases(&self) -> BTreeMap<String, Value> {
        let selector = "vm.codeconnect.vmworld.com/lease in (general, vcenter)";
        let leases = self.terminal().run(&format!("kubectl -n {} get leases -l '{selector}' -o json", self.namespace));
        let leases: Value = serde_json::from_str(&leases).unwrap();
        let lease = |lease: &Value| (lease["metadata"]["name"].as_str().unwrap().to_owned(), lease["spec"].clone());
        leases["items"].as_array().unwrap().iter().map(lease).collect()
    }

    /// Asserts that the operator's service account may do in the operator's namespace what lists in tests/rights say, and nothing else.
    #[track_caller]
    pub(crate) fn can_do(&self, lists: &[&str]) {
        let namespace = self.namespace;
        let account = format!("system:serviceaccount:{namespace}:drover-controller-manager");
        let said = self.terminal().run(&format!("kubectl auth can-i --list -n {namespace} --as={account}"));
        let mut lines: Vec<_> =
            said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        lines.sort();
        let read =
            |list: &&str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rights").join(list));
        let listed = lists.iter().map(|list| read(list).unwrap()).collect::<String>();
        let mut listed: Vec<_> = listed.lines().collect();
        listed.sort_unstable();
        assert_eq!(lines, listed, "{lists:?}");
    }

    /// Fails if a replica has printed the vCenter's password, or was started again.
    #[track_caller]
    pub(crate) fn is_discreet_and_steady(&self) {
        for pod in self.pods() {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let said = self.terminal().run(&format!("kubectl -n {} logs {name}", self.namespace));
            assert!(!said.contains(&self.sandbox.vcenter().password), "{said}");
            let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
            assert_eq!(restarts, 0, "{name} was started again:\n{said}");
        }
    }
}

/// The pod that holds a Lease, which may be gone: the holder is called by its name, and by what tells this run of it from others.
pub(crate) fn pod_of(lease: &Value) -> String {
    let holder = lease["holderIdentity"].as_str().and_then(|identity| identity.rsplit_once('_'));
    holder.map_or(String::new(), |(pod, _)| pod.to_owned())
}
