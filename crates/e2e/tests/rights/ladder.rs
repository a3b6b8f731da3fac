//! The rights of `config/rbac`, each shown to be needed.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Account, Namespace, Operator, SOON, Sandbox, VCenter, eventually, vm_group};
use serde_json::{Value, json};

use super::{
    account::{Right, Rights},
    people, sandbox,
};

const NAMESPACE: &str = "drover-system";
const KINDS: [&str; 5] = ["vg", "vc", "ch", "vi", "myownshell"];
/// How often it is looked for what the operator says.
const LOOK: Duration = Duration::from_millis(300);

/// Rights that are granted for what another test shows.
const SHOWN_ELSEWHERE: [(&str, &str, &str); 2] =
    [("authentication.k8s.io", "tokenreviews", "create"), ("authorization.k8s.io", "subjectaccessreviews", "create")];

/// Rights whose lack somebody has to see who looks at the object that needs it.
const TOLD_ON_THE_OBJECT: [(&str, &str); 4] =
    [("secrets", "list"), ("secrets", "get"), ("deployments", "create"), ("hostinfoes", "create")];

#[test]
fn the_operator_needs_each_right_that_it_is_given_and_says_which_one_it_lacks() {
    let sandbox = sandbox();
    let account = Account::apply(sandbox, "rbac", NAMESPACE);
    account.assert_can_do("default", "everywhere.txt");
    account.assert_can_do(NAMESPACE, "own.txt");
    people::have_their_roles(sandbox);
    people::components_narrow_the_rights(sandbox);
    let account = Account::apply_all(sandbox, &["rbac", "webhook"], NAMESPACE);
    let configuration = Webhook::of_nobody(sandbox);
    let (granted, bindings) = account.granted();
    account.strip(&bindings);

    let team = sandbox.namespace("team");
    declare(&team);
    let kubeconfig = account.kubeconfig();
    let flags = ["run", "--enable-leader-election", "--webhook-addr=127.0.0.1:0", "--namespace", NAMESPACE];
    let operator = Operator::start_as_user(&kubeconfig, "least", sandbox, None, &flags).unwrap();
    let mut ladder =
        Ladder { sandbox, account: &account, operator, team: &team, granted: BTreeSet::new(), statuses: String::new() };
    ladder.climb("it is said that there is no vCenter", || has_no_vcenter(&team));
    ladder.climb("the API server trusts the webhook", || configuration.is_trusted());
    eventually(sandbox, SOON, "an operator without a vCenter is well", || {
        let (status, said) = ladder.operator.ask("GET", "/readyz")?;
        if status == 200 { Ok(()) } else { Err(said) }
    });
    let vcenter = declare_vcenter(sandbox);
    ladder.climb("VMs run", || runs(&team));
    give_addresses(&vcenter);
    ladder.climb("all kinds are served", || is_served(&team));
    ladder.drift();
    ladder.climb("what was changed is as declared again", || is_as_declared(&team));
    ladder.lessen();
    ladder.climb("what is declared no more is gone", || is_less(&team));
    ladder.end();
    ladder.climb("all is gone that was made", || is_gone(&team));

    let is_here = |right: &Right| {
        !SHOWN_ELSEWHERE.contains(&(right.group.as_str(), right.resource.as_str(), right.verb.as_str()))
    };
    let needed: BTreeSet<_> = granted.iter().filter(|right| is_here(right)).cloned().collect();
    let superfluous: Vec<_> = needed.difference(&ladder.granted).collect();
    assert!(superfluous.is_empty(), "config/rbac grants what nothing needs: {superfluous:#?}");
    let missing: Vec<_> = ladder.granted.difference(&needed).collect();
    assert!(missing.is_empty(), "config/rbac does not grant: {missing:#?}");
    let role = "create the Role vcenter-secrets-role in the namespace drover-system";
    assert!(ladder.statuses.contains(role), "{}", ladder.statuses);
}

/// The configuration by which the API server asks the webhook.
struct Webhook<'a>(&'a Sandbox);

impl<'a> Webhook<'a> {
    /// Has nobody's objects asked about: no pod is there to be asked.
    fn of_nobody(sandbox: &'a Sandbox) -> Self {
        let nobody = json!({"matchLabels": {"nobody": "here"}});
        let patch = json!([{"op": "add", "path": "/webhooks/0/namespaceSelector", "value": nobody}]).to_string();
        let name = "drover-validating-webhook-configuration";
        let patch = ["patch", "validatingwebhookconfiguration", name, "--type=json", "-p", &patch];
        sandbox.kubectl().run(&patch).unwrap();
        Self(sandbox)
    }

    /// Whether a certificate of the operator's is in it.
    fn is_trusted(&self) -> Result<(), String> {
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/drover-validating-webhook-configuration";
        let configuration = self.0.get(path).map_err(|failure| failure.to_string())?;
        let bundle = &configuration["webhooks"][0]["clientConfig"]["caBundle"];
        if bundle.as_str().is_some_and(|bundle| !bundle.is_empty()) { Ok(()) } else { Err(configuration.to_string()) }
    }
}

/// A VCenter, and its Secret.
fn declare_vcenter(sandbox: &Sandbox) -> VCenter {
    let vcenter = sandbox.own_vcenter();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vc-creds"},
        "stringData": {"VC_USER": vcenter.user, "VC_PASS": vcenter.password},
    });
    sandbox.existing_namespace(NAMESPACE).declare(&secret).unwrap();
    let bundle = std::fs::read_to_string(&vcenter.ca_file).unwrap();
    let declared = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": {"name": "lab"},
        "spec": {
            "server": vcenter.host, "default": true, "tls": {"caBundle": bundle},
            // The Secret is in the operator's own namespace.
            "credentialsSecretRef": {"name": "vc-creds"},
            "publish": {"hosts": true, "namespace": "team"},
        },
    });
    sandbox.declare(&declared).unwrap();
    vcenter
}

/// Has the VMs' guests say where they are.
fn give_addresses(vcenter: &VCenter) {
    let vms = vcenter.machines().into_iter().filter(|path| path.contains("/team.web/"));
    for (number, path) in vms.enumerate() {
        let name = path.rsplit('/').next().unwrap_or_default();
        let address = format!("198.18.7.{}", number + 1);
        let state = json!({"ip": address, "addresses": [address], "tools": "guestToolsRunning"});
        vcenter.control("PATCH", &format!("/machines/{name}"), &state).unwrap();
    }
}

/// One of each other kind, and what they name.
fn declare(team: &Namespace) {
    let cloud = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud"}, "stringData": {"user-data": "#cloud-config"},
    });
    team.declare(&cloud).unwrap();
    let reference = json!({"userData": {"secretKeyRef": {"name": "cloud", "key": "user-data"}}});
    team.declare(&vm_group("web", &json!({"guest": {"cloudInit": reference}}))).unwrap();
    let shell = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell", "metadata": {"name": "shell"},
        "spec": {"size": 1, "vmGroupRef": {"name": "web"}},
    });
    team.declare(&shell).unwrap();
}

fn all(team: &Namespace, kind: &str) -> Result<Vec<Value>, String> {
    team.list(kind).map_err(|failure| failure.to_string())
}

/// Whether the group says what to do.
fn has_no_vcenter(team: &Namespace) -> Result<(), String> {
    let group = team.get("vg", "web").map_err(|failure| failure.to_string())?;
    let status = group["status"].to_string();
    if status.contains("there is no vCenter: create a VCenter") { Ok(()) } else { Err(status) }
}

/// Whether the group's VMs run.
fn runs(team: &Namespace) -> Result<(), String> {
    let group = team.get("vg", "web").map_err(|failure| failure.to_string())?;
    let status = &group["status"];
    if status["phase"] == "RUNNING" && status["currentReplicas"] == 2 { Ok(()) } else { Err(status.to_string()) }
}

/// Whether two VMs run, each VM and host is shown, and the shells find the VMs.
fn is_served(team: &Namespace) -> Result<(), String> {
    let group = team.get("vg", "web").map_err(|failure| failure.to_string())?;
    let has_status = |infos: &[Value]| infos.iter().all(|info| info["status"]["moref"].is_string());
    let (vms, hosts) = (all(team, "vi")?, all(team, "ch")?);
    let file = team.get("configmap", "hosts-shell").map_err(|failure| failure.to_string())?;
    let slices = all(team, "endpointslice")?;
    let pods = all(team, "pod")?;
    let is_marked = |pod: &Value| pod["metadata"]["annotations"].as_object().is_some_and(|all| !all.is_empty());
    let shell = team.get("myownshell", "shell").map_err(|failure| failure.to_string())?;
    let is_so = group["status"]["phase"] == "RUNNING"
        && (vms.len(), hosts.len()) == (2, 2)
        && has_status(&vms)
        && has_status(&hosts)
        && !slices.is_empty()
        && !pods.is_empty()
        && pods.iter().all(is_marked)
        && shell["status"]["conditions"].is_array();
    if is_so {
        return Ok(());
    }
    Err(format!(
        "{}, {} VMInfos, {} HostInfos, {} slices, {} pods: {file} {shell}",
        group["status"],
        vms.len(),
        hosts.len(),
        slices.len(),
        pods.len()
    ))
}

/// Whether nobody's marks are left on what Drover has made.
fn is_as_declared(team: &Namespace) -> Result<(), String> {
    for (kind, label) in [("vi", "vm.codeconnect.vmworld.com/group"), ("ch", "vm.codeconnect.vmworld.com/vcenter")] {
        let lacking = all(team, kind)?.into_iter().find(|info| info["metadata"]["labels"][label].is_null());
        if let Some(info) = lacking {
            return Err(info.to_string());
        }
    }
    for (kind, name) in [("configmap", "hosts-shell"), ("service", "hosts-shell")] {
        let object = team.get(kind, name).map_err(|failure| failure.to_string())?;
        if object.to_string().contains("somebody") {
            return Err(object.to_string());
        }
    }
    let slices = all(team, "endpointslice")?;
    if slices.iter().any(|slice| slice.to_string().contains("192.0.2.99")) {
        Err(format!("{slices:?}"))
    } else {
        Ok(())
    }
}

/// Whether one VM is left, and nothing of what is declared no more.
fn is_less(team: &Namespace) -> Result<(), String> {
    let (vms, hosts, slices) = (all(team, "vi")?.len(), all(team, "ch")?.len(), all(team, "endpointslice")?.len());
    let is_there = |kind: &str| team.get(kind, "hosts-shell").is_ok();
    let there = (vms, hosts, slices, is_there("configmap"), is_there("service"));
    if there == (1, 0, 0, false, false) { Ok(()) } else { Err(format!("{there:?}")) }
}

fn is_gone(team: &Namespace) -> Result<(), String> {
    for kind in ["vg", "vi", "myownshell", "deployment"] {
        let left = all(team, kind)?;
        if !left.is_empty() {
            return Err(format!("{} of {kind} are left: {left:?}", left.len()));
        }
    }
    Ok(())
}

/// An operator that is given what it says it lacks.
struct Ladder<'a> {
    sandbox: &'static Sandbox,
    account: &'a Account<'a>,
    operator: Operator,
    team: &'a Namespace,
    granted: BTreeSet<Right>,
    /// What the statuses said of what was lacking.
    statuses: String,
}

impl Ladder<'_> {
    /// Grants what is told of, until something is so.
    #[track_caller]
    fn climb(&mut self, what: &str, is_so: impl Fn() -> Result<(), String>) {
        let began = Instant::now();
        loop {
            let outcome = is_so();
            if outcome.is_ok() {
                return;
            }
            let lacks = self.lacks();
            if lacks.is_empty() {
                let (granted, dump) = (&self.granted, self.sandbox.dump());
                assert!(
                    began.elapsed() < SOON,
                    "not within {SOON:?}: {what}: {outcome:?}\n{granted:#?}\n{}\n{dump}",
                    self.operator.log()
                );
                thread::sleep(LOOK);
            } else {
                self.granted.extend(lacks);
                self.account.grant(&self.granted);
            }
            self.touch();
        }
    }

    /// The rights that it says it lacks and has not been given.
    fn lacks(&mut self) -> Vec<Right> {
        let mut shown: Vec<(&'static str, String)> = Vec::new();
        // Statuses are written before events tell of them, and so are read after those.
        let events = self.sandbox.get("/apis/events.k8s.io/v1/events").unwrap();
        for kind in KINDS {
            let objects = self.team.list(kind).unwrap_or_default();
            shown.push(("a condition", objects.iter().map(|object| object["status"].to_string()).collect()));
        }
        shown.push((
            "an event",
            events["items"].as_array().unwrap().iter().map(|event| event["note"].to_string()).collect(),
        ));
        shown.push(("the log", self.operator.log()));
        let mut lacks = Vec::new();
        for (place, text) in shown {
            let is_told = |right: &Right| {
                let told_on_it = TOLD_ON_THE_OBJECT.contains(&(right.resource.as_str(), right.verb.as_str()));
                !self.granted.contains(right) && (place != "the log" || !told_on_it)
            };
            for right in lacking(&text).into_iter().filter(is_told).collect::<Vec<_>>() {
                if place == "a condition" {
                    self.statuses.push_str(&text);
                }
                lacks.push(right);
            }
        }
        lacks
    }

    /// Has everything looked at again soon, as the passing of time would.
    fn touch(&self) {
        let mark = json!({"metadata": {"annotations": {"touched": format!("{:?}", Instant::now())}}});
        for (kind, name) in [("vg", "web"), ("vc", "lab"), ("myownshell", "shell")] {
            // Not all of them are there all the time.
            let _ = self.team.patch(kind, name, &mark);
        }
    }

    /// Changes what Drover has made.
    fn drift(&self) {
        let without = |label: &str| json!({"metadata": {"labels": {label: null}}});
        for info in self.team.list("vi").unwrap() {
            let name = info["metadata"]["name"].as_str().unwrap();
            self.team.patch("vi", name, &without("vm.codeconnect.vmworld.com/group")).unwrap();
        }
        for info in self.team.list("ch").unwrap() {
            let name = info["metadata"]["name"].as_str().unwrap();
            self.team.patch("ch", name, &without("vm.codeconnect.vmworld.com/vcenter")).unwrap();
        }
        let file = self.team.get("configmap", "hosts-shell").unwrap();
        let key = file["data"].as_object().unwrap().keys().next().unwrap().clone();
        self.team.patch("configmap", "hosts-shell", &json!({"data": {key: "somebody's"}})).unwrap();
        let service = self.team.get("service", "hosts-shell").unwrap();
        let labels = service["metadata"]["labels"].as_object().unwrap();
        let labels: BTreeMap<_, _> = labels.keys().map(|label| (label.clone(), "somebody")).collect();
        self.team.patch("service", "hosts-shell", &json!({"metadata": {"labels": labels}})).unwrap();
        let slice = &self.team.list("endpointslice").unwrap()[0];
        let name = slice["metadata"]["name"].as_str().unwrap();
        let ready = json!({"endpoints": [{"addresses": ["192.0.2.99"]}]});
        self.team.patch("endpointslice", name, &ready).unwrap();
    }

    /// Declares less.
    fn lessen(&self) {
        self.team.patch("vc", "lab", &json!({"spec": {"publish": {"hosts": false}}})).unwrap();
        self.team.patch("vg", "web", &json!({"spec": {"replicas": 1}})).unwrap();
        self.team.patch("myownshell", "shell", &json!({"spec": {"vmGroupRef": null}})).unwrap();
    }

    /// Ends everything.
    fn end(&self) {
        self.team.delete("myownshell", "shell").unwrap();
        self.team.delete("vg", "web").unwrap();
    }
}

/// The rights that a text says are lacking.
fn lacking(text: &str) -> Vec<Right> {
    let plain = text.replace('\\', "");
    let mut rights = Vec::new();
    for part in plain.split("cannot ").skip(1) {
        let mut words = part.splitn(2, " resource \"");
        let (Some(verb), Some(rest)) = (words.next(), words.next()) else { continue };
        let Some((resource, rest)) = rest.split_once("\" in API group \"") else { continue };
        let Some((group, rest)) = rest.split_once('"') else { continue };
        if verb.contains(' ') {
            continue;
        }
        let is_own = rest.starts_with(&format!(" in the namespace \"{NAMESPACE}\""));
        rights.push(Right { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned(), is_own });
    }
    if plain.contains("cannot set blockOwnerDeletion") {
        let (group, resource) = ("my-first-operator.jgato.io".to_owned(), "myownshells/finalizers".to_owned());
        rights.push(Right { group, resource, verb: "update".to_owned(), is_own: false });
    }
    rights.sort();
    rights.dedup();
    rights
}
