//! Objects that an older definition has let in and that are still there when the operator starts: each has its own sentence or runs, and
//! a neighbour's group is as declared, whichever definition is in force.

use drover_e2e::{Group, Namespace, Operator, SOON, Sandbox, Shell, eventually, vm_group};
use serde_json::{Value, json};

use crate::admitted::{install, loosened};

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
    let today = sandbox.definitions();
    let neighbour = Group::create(&sandbox, "neighbour", &json!({"replicas": 1}));
    install(&sandbox, &loosened(&today));
    let stored = Stored::store(&sandbox);
    let starts = |replicas: usize| {
        let _operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
        neighbour.runs_with(replicas - 1);
        neighbour.patch(&json!({"replicas": replicas})).unwrap();
        neighbour.runs_with(replicas);
        stored.is_told_or_runs();
    };
    stored.has_odd_statuses();
    // An operator that is newer than its definitions.
    starts(2);
    stored.has_odd_statuses();
    install(&sandbox, &today);
    stored.is_bounded();
    starts(3);
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
        let host = sandbox.vcenter().govc(&["find", "/", "-type", "h"]).unwrap();
        let host = host.lines().next().unwrap_or_default();
        for (kind, name, spec) in [
            ("HostInfo", "long", json!({"hostname": "h".repeat(2000)})),
            ("HostInfo", "host", json!({"hostname": host})),
            ("VMInfo", "long", json!({"nodename": "n".repeat(2000)})),
        ] {
            let metadata = json!({"name": name});
            let info =
                json!({"apiVersion": "topology.corinternal.com/v1", "kind": kind, "metadata": metadata, "spec": spec});
            create(sandbox, &infos, &info);
        }
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
        stored
    }

    /// Gives objects statuses that no definition of today lets in: a phase that nobody knows, and numbers below 0.
    fn has_odd_statuses(&self) {
        let odd = |namespace: &Namespace, kind: &str, name: &str, odd: &[(&str, Value)]| {
            eventually(self.sandbox, SOON, &format!("{kind} {name} has an odd status"), || {
                let mut object = namespace.get(kind, name).map_err(|failure| failure.to_string())?;
                for (field, value) in odd {
                    object["status"][field] = value.clone();
                }
                namespace.replace_status(&object).map_err(|failure| failure.to_string())
            });
        };
        let dancing = [("phase", json!("DANCING")), ("readyReplicas", json!(-1))];
        odd(&self.dancing.namespace, "vmgroup", "dancing", &dancing);
        odd(&self.infos, "hostinfo", "host", &[("freeCPU", json!(-5)), ("freeMem", json!(i64::MAX))]);
        odd(&self.infos, "vcenter", "greedy", &[("queued", json!(-1)), ("machines", json!(-7))]);
    }

    /// Waits until the definitions of today are in force.
    fn is_bounded(&self) {
        eventually(self.sandbox, SOON, "the definitions have bounds", || {
            let worse = json!({"spec": {"update": {"maxSurge": 4_000_000_000_u32}}});
            match self.surge.namespace.patch("vg", "surge?dryRun=All", &worse) {
                Err(refused) if refused.stderr.contains("spec.update.maxSurge") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    fn is_told_or_runs(&self) {
        self.null.runs_with(1);
        self.dancing.runs_with(1);
        self.surge.says("ERROR", "spec.update.maxSurge is 3000000000: give a number from 0 to 10000");
        self.hosts.says("ERROR", "spec.placement.hosts is a list of 100: name at most 64");
        assert_eq!((self.surge.everywhere(), self.hosts.everywhere()), (Vec::new(), Vec::new()));
        let told = self.shell.is_hindered("Invalid");
        assert!(told.contains("spec.size is 20000: give a number from 0 to 10000"), "{told}");
        self.says("hostinfo", "spec.hostname: there is no host \"hhh");
        self.says("vminfo", "spec.nodename: no VM in vCenter has the name, path, UUID or address \"nnn");
        eventually(self.sandbox, SOON, "the group runs in the VCenter whose limits are too great", || {
            let status = self.greedy.status()?;
            let is_so = status["vcenter"] == "greedy" && status["readyReplicas"] == 1;
            if is_so { Ok(()) } else { Err(status.to_string()) }
        });
        self.has_figures("hostinfo", "host", &["freeCPU", "freeMem"]);
        self.has_figures("vcenter", "greedy", &["queued", "machines"]);
    }

    /// Waits until figures are what they can be.
    #[track_caller]
    fn has_figures(&self, kind: &str, name: &str, fields: &[&str]) {
        eventually(self.sandbox, SOON, &format!("{kind} {name} has {fields:?}"), || {
            let status = self.infos.get(kind, name).map_err(|failure| failure.to_string())?["status"].clone();
            let is_sound = |field: &&str| status[field].as_i64().is_some_and(|number| (0..1 << 53).contains(&number));
            if fields.iter().all(is_sound) { Ok(()) } else { Err(status.to_string()) }
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
