//! Objects that an older definition has let in and that are still there when the operator starts: each has its own sentence or runs, and
//! a neighbour's group is as declared, whichever definition is in force.

use drover_e2e::{Group, Namespace, Operator, SOON, Sandbox, Shell, eventually, vm_group};
use serde_json::{Value, json};

use crate::{
    admitted::{install, loosened},
    definitions,
};

/// What is stored, each in a namespace of its own name.
struct Stored<'a> {
    sandbox: &'a Sandbox,
    null: Group<'a>,
    dancing: Group<'a>,
    greedy: Group<'a>,
    surge: Group<'a>,
    hosts: Group<'a>,
    shell: Shell<'a>,
    infos: Namespace,
}

#[test]
fn what_an_older_definition_let_in_hurts_no_neighbour_at_any_start() {
    let sandbox = Sandbox::start("stored", &["--vcenters=2", "--clone-delay=0s"]).unwrap();
    sandbox.install_kinds();
    let today = definitions(&sandbox);
    let neighbour = Group::create(&sandbox, "neighbour", &json!({"replicas": 1}));
    install(&sandbox, &loosened(&today));
    let stored = Stored::store(&sandbox);
    for replicas in [2, 3] {
        let _operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
        neighbour.runs_with(replicas - 1);
        neighbour.patch(&json!({"replicas": replicas})).unwrap();
        neighbour.runs_with(replicas);
        stored.is_told_or_runs();
        // The first start is that of an operator which is newer than its definitions.
        install(&sandbox, &today);
    }
}

impl<'a> Stored<'a> {
    fn store(sandbox: &'a Sandbox) -> Self {
        let group = |name: &str, spec: &Value| {
            let group = Group::of(sandbox.namespace(name), sandbox);
            create(sandbox, &group.namespace, &vm_group(name, spec));
            group
        };
        let hosts: Vec<_> = (0..100).map(|number| format!("esxi-{number}")).collect();
        let surge = json!({"replicas": 1, "update": {"maxSurge": 3_000_000_000_u32}});
        // Written first: the API server takes up a definition in its own time, and refuses the others no more once it takes this.
        let surge = group("surge", &surge);
        let own = sandbox.own_vcenter();
        let nobody_else = json!({"matchLabels": {"kubernetes.io/metadata.name": "greedy"}});
        own.declare(sandbox, "greedy", &json!({"limits": {"operations": 100_000}, "namespaces": nobody_else}));
        let infos = sandbox.namespace("infos");
        let info = |kind: &str, spec: Value| json!({"apiVersion": "topology.corinternal.com/v1", "kind": kind, "metadata": {"name": "long"}, "spec": spec});
        create(sandbox, &infos, &info("HostInfo", json!({"hostname": "h".repeat(2000)})));
        create(sandbox, &infos, &info("VMInfo", json!({"nodename": "n".repeat(2000)})));
        let shell = Shell { namespace: sandbox.namespace("shell"), sandbox };
        eventually(sandbox, SOON, "the MyOwnShell is let in", || {
            shell.apply(&json!({"size": 20_000})).map_err(|failure| failure.to_string())
        });
        let stored = Self {
            sandbox,
            null: group("null", &json!({"replicas": 1, "update": {"maxSurge": null, "maxUnavailable": null}})),
            dancing: group("dancing", &json!({"replicas": 1})),
            greedy: group("greedy", &json!({"replicas": 1})),
            surge,
            hosts: group("hosts", &json!({"replicas": 1, "placement": {"hosts": hosts}})),
            shell,
            infos,
        };
        assert!(stored.null.get().unwrap()["spec"]["update"]["maxSurge"].is_null(), "null is stored");
        stored.dances();
        stored
    }

    /// Gives a group a status with a phase that nobody knows.
    fn dances(&self) {
        let mut group = self.dancing.get().unwrap();
        group["status"] = json!({"phase": "DANCING"});
        let written = self.dancing.namespace.replace_status(&group).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(written["status"]["phase"], "DANCING");
    }

    fn is_told_or_runs(&self) {
        self.null.runs_with(1);
        self.dancing.runs_with(1);
        self.surge.says("ERROR", "spec.update.maxSurge is 3000000000: give a number from 0 to 10000");
        self.hosts.says("ERROR", "spec.placement.hosts is a list of 100: name at most 64");
        assert_eq!((self.surge.everywhere(), self.hosts.everywhere()), (Vec::new(), Vec::new()));
        let told = self.shell.is_stalled("Invalid");
        assert!(told.contains("spec.size is 20000: give a number from 0 to 10000"), "{told}");
        self.says("hostinfo", "spec.hostname: there is no host \"hhh");
        self.says("vminfo", "spec.nodename: no machine in vCenter has the name, path, UUID or address \"nnn");
        eventually(self.sandbox, SOON, "the group runs in the VCenter whose limits are too great", || {
            let status = self.greedy.status()?;
            let is_so = status["vcenter"] == "greedy" && status["readyReplicas"] == 1;
            if is_so { Ok(()) } else { Err(status.to_string()) }
        });
    }

    /// Waits until a condition of a HostInfo or a VMInfo says something.
    #[track_caller]
    fn says(&self, kind: &str, words: &str) {
        eventually(self.sandbox, SOON, &format!("{kind}: {words}"), || {
            let status = self.infos.get(kind, "long").map_err(|failure| failure.to_string())?["status"].clone();
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let mut messages = conditions.iter().filter_map(|condition| condition["message"].as_str());
            if messages.any(|message| message.contains(words)) { Ok(()) } else { Err(status.to_string()) }
        });
    }
}

/// Makes an object as soon as the older definition is in force.
#[track_caller]
fn create(sandbox: &Sandbox, namespace: &Namespace, object: &Value) {
    eventually(sandbox, SOON, &format!("{} is let in", object["kind"]), || {
        namespace.create(object).map_err(|failure| failure.to_string())
    });
}
