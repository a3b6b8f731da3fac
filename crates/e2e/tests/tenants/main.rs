//! A red team: people who may edit a namespace of theirs try to reach what is another's. Each attempt ends with a sentence that tells them
//! what to do, nothing in vCenter, and nothing learned.
//!
//! All run on a real node. The operator has the rights of `config/rbac`, and those who try have Kubernetes' own role `edit`. All that is the
//! other tenant's is called by a kind of blue. The API server asks the webhook for some namespaces: in all others, the operator refuses alone.

mod asked;
mod guests;
mod infos;
mod others;
mod reach;
mod rights;
mod shares;

use std::{collections::BTreeMap, sync::OnceLock};

use drover_e2e::{Account, Operator, SOON, Sandbox, Tenant, VCenter, eventually, vm_group, webhook};
use serde_json::{Value, json};

/// Where the operator and its Secrets are.
const HOME: &str = "drover-system";
/// The other tenant.
const BLUE: &str = "ultramarine";
/// A VM of the other tenant's, powered off, that clones are made from.
const GOLDEN: &str = "/DC0/vm/sapphire/azure";
/// A VM of the other tenant's that runs.
const RUNNING: &str = "/DC0/vm/sapphire/cobalt";
/// What those who try may clone.
const OURS: &str = "/DC0/vm/red/rose";
/// The label of namespaces that the API server asks the webhook for.
const ASKED: &str = "asked";
/// Where the VM that runs is in the network.
const ADDRESS: &str = "198.18.99.77";

/// One for all tests.
struct World {
    sandbox: &'static Sandbox,
    /// The vCenter that both tenants may use. After it is set up, nothing in it is to change.
    shared: VCenter,
    /// A vCenter for VMs that those who try may have, and one of the other tenant's.
    own: VCenter,
    theirs: VCenter,
    /// One where everybody whom it serves may use everything, with the VMs of somebody else.
    open: VCenter,
    /// The UID of the other tenant's VmGroup, and the path of its VM.
    navy: String,
    member: String,
    /// What nobody but the other tenant and administrators may read.
    secret: Vec<String>,
    before: BTreeMap<String, Value>,
    operator: Operator,
    _blue: Tenant<'static>,
    /// Somebody of those who try, who has a VmGroup of its own: `scarlet`.
    crimson: Tenant<'static>,
}

/// `None`: this machine can't have a node.
fn world() -> Option<&'static World> {
    static WORLD: OnceLock<Option<World>> = OnceLock::new();
    WORLD.get_or_init(World::make).as_ref()
}

impl World {
    fn make() -> Option<Self> {
        let sandbox = Sandbox::shared_with_node(&["--vcenters=5", "--hosts=2"])?;
        sandbox.install_kinds();
        let _ = sandbox.namespace(HOME);
        let account = Account::apply_all(sandbox, &["rbac", "webhook"], HOME);
        let port = webhook::free_port();
        webhook::point(sandbox, port, ASKED);
        let [shared, own, theirs, open] = [(); 4].map(|()| sandbox.own_vcenter());
        furnish(&shared);
        declare_vcenters(sandbox, &shared, &own, &theirs);
        let lot = json!({"namespaces": {"matchLabels": {"lot": "open"}}});
        open.declare_in(&sandbox.existing_namespace(HOME), sandbox, "open", &lot);
        let address = format!("--webhook-addr=127.0.0.1:{port}");
        let flags = ["run", "--enable-leader-election", "--namespace", HOME, &address];
        let environment = Some(sandbox.vcenter());
        let operator = Operator::start_as_user(&account.kubeconfig(), "drover", sandbox, environment, &flags).unwrap();
        let blue = Tenant::new(sandbox, BLUE, &json!({"team": "blue"}));
        let spec = json!({
            "vcenter": "shared", "template": GOLDEN, "replicas": 1, "placement": {"folder": "/DC0/vm/sapphire"},
        });
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "turquoise"}});
        blue.apply(&[vm_group("navy", &spec), secret]);
        blue.is_told("vg", "navy", "Reconciled", "successfully reconciled VmGroup");
        let crimson = Tenant::new(sandbox, "crimson", &json!({"team": "red"}));
        crimson.apply(&[vm_group(
            "scarlet",
            &json!({"vcenter": "own", "template": "vm-operator-template", "replicas": 1}),
        )]);
        crimson.is_told("vg", "scarlet", "Reconciled", "successfully reconciled VmGroup");
        let navy = blue.namespace.get("vg", "navy").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        let member = shared.machines().into_iter().find(|path| path.contains("/navy-replica-")).unwrap();
        for name in ["shared", "own", "cerulean", "default", "open"] {
            is_connected(sandbox, name);
        }
        let secret = secrets(&shared, &[sandbox.vcenter(), &shared, &own, &theirs, &open], &member, &navy);
        // What is looked for is found where it is told.
        eventually(sandbox, SOON, "the other tenant reads of its own VM", || {
            let read = json!(blue.reads()).to_string();
            let is_told = ["sapphire", "ultramarine", "navy"].iter().all(|word| read.contains(word));
            if is_told && read.contains("instanceUuid") { Ok(()) } else { Err(read) }
        });
        shared.forget_calls();
        let before = vms(&shared);
        Some(Self { sandbox, shared, own, theirs, open, navy, member, secret, before, operator, _blue: blue, crimson })
    }

    /// Somebody who tries.
    fn red(&self, name: &str) -> Tenant<'_> {
        Tenant::new(self.sandbox, name, &json!({"team": "red"}))
    }

    /// The other tenant, who tries the same.
    fn blue(&self, name: &str) -> Tenant<'_> {
        Tenant::new(self.sandbox, name, &json!({"team": "blue"}))
    }

    /// Asserts that what somebody tried has come to nothing: nothing was done, and nothing is told of others.
    #[track_caller]
    fn nothing_came_of_it(&self, tenant: &Tenant<'_>) {
        self.nothing_was_done();
        tenant.learned_nothing(&self.secret);
    }

    /// Asserts that nobody asked vCenter to change anything, and all VMs are as they were.
    #[track_caller]
    fn nothing_was_done(&self) {
        assert_eq!(self.shared.changes(), BTreeMap::new());
        assert_eq!(vms(&self.shared), self.before);
    }
}

/// The object id of something, by its path.
fn object_id(vcenter: &VCenter, path: &str) -> String {
    let found = vcenter.govc(&["find", "-i", path, "-maxdepth", "0"]).unwrap();
    found.trim().split_once(':').unwrap().1.to_owned()
}

/// What those who try declare: a VmGroup of one VM that would be all right, with what else its spec says.
fn group(name: &str, spec: &Value) -> Value {
    let mut whole = json!({"vcenter": "shared", "template": OURS, "replicas": 1});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    vm_group(name, &whole)
}

/// Makes what both tenants have in the vCenter that they share.
fn furnish(vcenter: &VCenter) {
    let template = "/DC0/vm/vm-operator/vm-operator-template";
    for path in [GOLDEN, RUNNING, OURS] {
        let (folder, name) = path.rsplit_once('/').unwrap();
        if path != RUNNING {
            vcenter.govc(&["folder.create", folder]).unwrap();
        }
        let is_on = format!("-on={}", path == RUNNING);
        vcenter.govc(&["vm.clone", "-vm.ipath", template, "-folder", folder, &is_on, name]).unwrap();
    }
    let datastore = std::env::temp_dir().join("drover-e2e").join(format!("{}-teal", std::process::id()));
    std::fs::create_dir_all(&datastore).unwrap();
    for words in [
        &["pool.create", "*/Resources/indigo"][..],
        &["cluster.create", "lapis"],
        &["cluster.add", "-cluster=lapis", "-hostname=beryl", "-username=x", "-password=x", "-noverify"],
        &["datastore.create", "-type=local", "-name=teal", "-path", datastore.to_str().unwrap(), "DC0_C0_H0"],
        &["object.rename", "/DC0/network/DC0_DVPG0", "aegean"],
    ] {
        vcenter.govc(words).unwrap();
    }
    let guest = json!({"ip": ADDRESS, "addresses": [ADDRESS], "tools": "guestToolsRunning"});
    vcenter.control("PATCH", "/machines/cobalt", &guest).unwrap();
}

/// One that both may use, one for each alone, and that of the operator's environment, which is the other's.
fn declare_vcenters(sandbox: &Sandbox, shared: &VCenter, own: &VCenter, theirs: &VCenter) {
    let team = |name: &str| json!({"matchLabels": {"team": name}});
    let both = json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["red", "blue"]}]});
    let red = json!({"namespaces": team("red"), "templates": ["/DC0/vm/red/**"]});
    let blue = json!({
        "namespaces": team("blue"), "templates": ["/DC0/vm/sapphire/**"], "folders": ["/DC0/vm/sapphire"],
        "resourcePools": ["/DC0/host/DC0_C0/Resources/indigo"], "clusters": ["/DC0/host/lapis"],
        "datastores": ["/DC0/datastore/teal"], "networks": ["/DC0/network/aegean"],
    });
    let defaults = json!({"cluster": "DC0_C0"});
    let home = sandbox.existing_namespace(HOME);
    let spec = json!({"namespaces": both, "reach": "Restricted", "defaults": defaults, "allow": [red, blue]});
    shared.declare_in(&home, sandbox, "shared", &spec);
    let allow = json!([{"templates": ["/**/vm-operator-template"], "quota": {"vms": 2}}]);
    let spec = json!({"namespaces": team("red"), "reach": "Restricted", "allow": allow});
    own.declare_in(&home, sandbox, "own", &spec);
    theirs.declare_in(&home, sandbox, "cerulean", &json!({"namespaces": team("blue")}));
    let server = format!("vm.codeconnect.vmworld.com/server={}", theirs.host);
    home.kubectl(&["annotate", "secret", "cerulean", &server]).unwrap();
    let environment = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": {"name": "default"},
        "spec": {"namespaces": team("blue"), "reach": "Restricted"},
    });
    sandbox.declare(&environment).unwrap();
}

#[track_caller]
fn is_connected(sandbox: &Sandbox, name: &str) {
    eventually(sandbox, SOON, &format!("VCenter {name} is connected"), || {
        let vcenter = sandbox.get(&format!("/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters/{name}"));
        let status = vcenter.map_err(|failure| failure.to_string())?["status"].clone();
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        // What Drover may do there is looked at last.
        let is_so = conditions.any(|it| it["type"] == "Authorized" && it["status"] == "True");
        if is_so { Ok(()) } else { Err(status.to_string()) }
    });
}

/// All that tells of the other tenant or of the vCenters.
fn secrets(shared: &VCenter, vcenters: &[&VCenter], member: &str, navy: &str) -> Vec<String> {
    let names = [
        BLUE,
        "sapphire",
        "azure",
        "cobalt",
        "navy",
        "indigo",
        "lapis",
        "beryl",
        "teal",
        "aegean",
        "cerulean",
        "turquoise",
        ADDRESS,
        navy,
    ];
    let mut all: Vec<_> = names.map(ToOwned::to_owned).into();
    for vcenter in vcenters {
        all.extend([vcenter.host.clone(), vcenter.user.clone()]);
    }
    for path in [GOLDEN, RUNNING, member] {
        let ids = shared.govc(&["object.collect", "-s", path, "config.uuid", "config.instanceUuid"]).unwrap();
        all.extend(ids.lines().map(ToOwned::to_owned));
    }
    all
}

/// All VMs with what must not change of them, by their object ids.
fn vms(vcenter: &VCenter) -> BTreeMap<String, Value> {
    let properties =
        ["name", "parent", "runtime.powerState", "runtime.bootTime", "config.instanceUuid", "config.extraConfig"];
    let all = vcenter.govc(&[&["object.collect", "-json", "-type=m", "/"], &properties[..]].concat()).unwrap();
    // One after the other, and no list.
    let all = serde_json::Deserializer::from_str(&all).into_iter::<Value>().map(Result::unwrap);
    let all: BTreeMap<_, _> =
        all.map(|vm| (vm["obj"]["value"].as_str().unwrap().to_owned(), vm["changeSet"].clone())).collect();
    assert_eq!(all.len(), 5, "both teams' templates, the usual one, the VM that runs and that of the VmGroup: {all:?}");
    all
}
