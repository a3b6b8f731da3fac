//! What vCenter tells of hosts and machines, read with kubectl and compared with govc.

use std::{path::PathBuf, sync::OnceLock, thread, time::Duration};

use drover_e2e::{Namespace, Operator, Sandbox, VCenter, eventually, vm_group};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(2);
/// Where the operator publishes hosts.
const HOSTS: &str = "hosts";
/// The hosts whose use is known from the start, by their numbers.
const QUIET: [u8; 2] = [3, 4];

/// One operator for all tests. Each takes hosts and machines of its own.
fn sandbox() -> &'static Sandbox {
    static OPERATOR: OnceLock<Operator> = OnceLock::new();
    let sandbox = Sandbox::shared(&["--hosts=12", "--machines=3"]);
    OPERATOR.get_or_init(|| {
        sandbox.install_kinds();
        let _ = sandbox.namespace(HOSTS);
        for host in QUIET {
            sandbox.vcenter().control("PATCH", &format!("/hosts/DC0_C0_H{host}"), &json!({"cpuMHz": 2000})).unwrap();
        }
        let published = json!({"default": true, "publish": {"hosts": true, "namespace": HOSTS}});
        sandbox.vcenter().declare(sandbox, "default", &published);
        Operator::start(sandbox, sandbox.vcenter()).unwrap()
    });
    sandbox
}

fn vcenter() -> &'static VCenter {
    sandbox().vcenter()
}

fn sample(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/samples").join(name);
    path.to_str().unwrap().to_owned()
}

fn set_host(name: &str, state: &Value) {
    vcenter().control("PATCH", &format!("/hosts/{name}"), state).unwrap();
}

/// A property as govc shows it.
fn property(path: &str, property: &str) -> String {
    vcenter().govc(&["object.collect", "-s", path, property]).unwrap().trim().to_owned()
}

fn number(path: &str, name: &str) -> i64 {
    property(path, name).parse().unwrap()
}

/// An object's status, once it is as wanted.
fn status(namespace: &Namespace, kind: &str, name: &str, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(sandbox(), SOON, &format!("{kind} {name}: {what}"), || {
        let object = namespace.get(kind, name).map_err(|failure| failure.to_string())?;
        if is_wanted(&object["status"]) { Ok(object["status"].clone()) } else { Err(object["status"].to_string()) }
    })
}

fn condition(status: &Value, kind: &str) -> (String, String, String) {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

/// Whether something is said to be found, or why it isn't.
fn is_found(status: &Value, reason: &str) -> bool {
    condition(status, "Found").1 == reason
}

fn published_hosts() -> Namespace {
    sandbox().existing_namespace(HOSTS)
}

/// A VMInfo for a machine.
fn ask(namespace: &Namespace, name: &str, nodename: &str) {
    let manifest = json!({
        "apiVersion": "topology.corinternal.com/v1",
        "kind": "VMInfo",
        "metadata": {"name": name},
        "spec": {"nodename": nodename},
    });
    namespace.declare(&manifest).unwrap();
}

#[test]
fn the_seeds_walk_through_of_a_host_ends_as_it_says() {
    let namespace = sandbox().namespace("walk-through");
    set_host("DC0_C0_H7", &json!({"name": "esxi-dell-e.rainpole.com", "cpuMHz": 600}));
    let crds = namespace.kubectl(&["get", "crd"]).unwrap();
    assert!(crds.contains("hostinfoes.topology.corinternal.com") && crds.contains("vminfoes.topology"), "{crds}");
    let resources = namespace.kubectl(&["api-resources", "--api-group=topology.corinternal.com"]).unwrap();
    let shown: Vec<Vec<_>> = resources.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(shown[1], ["hostinfoes", "ch", "topology.corinternal.com/v1", "true", "HostInfo"]);
    assert_eq!(shown[2], ["vminfoes", "vi", "topology.corinternal.com/v1", "true", "VMInfo"]);

    let created = namespace.kubectl(&["create", "-f", &sample("topology_v1_hostinfo.yaml")]).unwrap();
    assert_eq!(created.trim(), "hostinfo.topology.corinternal.com/hostinfo-host-e created");
    let path = "/DC0/host/DC0_C0/esxi-dell-e.rainpole.com";
    let total = number(path, "summary.hardware.numCpuCores") * number(path, "summary.hardware.cpuMhz");
    let status = status(&namespace, "hostinfo", "hostinfo-host-e", "its figures", |status| {
        status["totalCPU"] == total && status["freeCPU"] == total - 600
    });
    let table = namespace.kubectl(&["get", "hostinfo"]).unwrap();
    let shown: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(shown, [["NAME", "HOSTNAME"], ["hostinfo-host-e", "esxi-dell-e.rainpole.com"]]);
    let yaml = namespace.kubectl(&["get", "hostinfo", "hostinfo-host-e", "-o", "yaml"]).unwrap();
    assert!(yaml.contains(&format!("  freeCPU: {}\n", total - 600)) && yaml.contains("  totalCPU: "), "{yaml}");

    let memory = number(path, "summary.hardware.memorySize") / (1024 * 1024);
    assert_eq!(status["totalMem"], memory);
    assert_eq!(status["freeMem"], memory - number(path, "summary.quickStats.overallMemoryUsage"));
    for (field, name) in [
        ("model", "summary.hardware.model"),
        ("vendor", "summary.hardware.vendor"),
        ("version", "summary.config.product.version"),
        ("connectionState", "runtime.connectionState"),
        ("powerState", "runtime.powerState"),
    ] {
        assert_eq!(status[field], property(path, name), "{field}");
    }
    assert_eq!((&status["cluster"], &status["datacenter"]), (&json!("DC0_C0"), &json!("DC0")));
    assert_eq!((&status["path"], &status["inMaintenance"]), (&json!(path), &json!(false)));
    let deleted = namespace.kubectl(&["delete", "hostinfo", "hostinfo-host-e"]).unwrap();
    assert!(deleted.starts_with(r#"hostinfo.topology.corinternal.com "hostinfo-host-e" deleted"#), "{deleted}");
}

#[test]
fn what_becomes_of_a_host_is_shown_at_once() {
    let hosts = published_hosts_once("dc0-c0-h1");
    let shows = |what: &str, is_wanted: &dyn Fn(&Value) -> bool| status(&hosts, "ch", "dc0-c0-h1", what, is_wanted);
    let govc = |arguments: &[&str]| vcenter().govc(arguments).unwrap();
    govc(&["host.maintenance.enter", "DC0_C0_H1"]);
    let status = shows("in maintenance", &|status| status["inMaintenance"] == true);
    assert_eq!(condition(&status, "Healthy").1, "InMaintenance");
    govc(&["host.maintenance.exit", "DC0_C0_H1"]);
    shows("out of maintenance", &|status| status["inMaintenance"] == false);
    govc(&["host.disconnect", "DC0_C0_H1"]);
    let status = shows("disconnected", &|status| status["connectionState"] == "disconnected");
    let healthy = condition(&status, "Healthy");
    assert_eq!((healthy.0.as_str(), healthy.2.as_str()), ("False", "vCenter says that it is disconnected"));
    govc(&["host.reconnect", "DC0_C0_H1"]);
    shows("connected", &|status| condition(status, "Healthy").0 == "True");
    govc(&["fields.add", "-type", "HostSystem", "rack"]);
    govc(&["fields.set", "rack", "b7", "/DC0/host/DC0_C0/DC0_C0_H1"]);
    shows("its attribute", &|status| status["attributes"] == json!({"rack": "b7"}));
}

/// The namespace of the published hosts, once it has this one.
fn published_hosts_once(name: &str) -> Namespace {
    let hosts = published_hosts();
    status(&hosts, "ch", name, "published", |status| is_found(status, "Found"));
    hosts
}

#[test]
fn a_host_that_is_renamed_or_removed_is_no_longer_shown_under_its_name() {
    let hosts = published_hosts_once("dc0-c0-h11");
    let (name, published) = ["8", "9", "10", "11"]
        .map(|number| (format!("DC0_C0_H{number}"), format!("dc0-c0-h{number}")))
        .into_iter()
        .find(|(_, published)| {
            status(&hosts, "ch", published, "shown", |status| is_found(status, "Found"))["machines"] == 0
        })
        .expect("of so many hosts, one has no machine");
    let labels = hosts.get("ch", &published).unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"vm.codeconnect.vmworld.com/vcenter": "default"}));
    let mine = sandbox().namespace("renamed");
    let manifest = json!({
        "apiVersion": "topology.corinternal.com/v1",
        "kind": "HostInfo",
        "metadata": {"name": "mine"},
        "spec": {"hostname": name},
    });
    mine.declare(&manifest).unwrap();
    status(&mine, "ch", "mine", "found", |status| is_found(status, "Found"));
    set_host(&name, &json!({"name": "esxi-new.rainpole.com"}));
    let lost = status(&mine, "ch", "mine", "not found", |status| is_found(status, "NotFound"));
    let left: Vec<_> = lost.as_object().unwrap().keys().collect();
    assert_eq!(left, ["conditions", "observedGeneration"], "no value is left");
    eventually(sandbox(), SOON, "an event", || {
        let events = mine.kubectl(&["get", "events"]).map_err(|failure| failure.to_string())?;
        let expected = format!("spec.hostname: there is no host {name:?} in vCenter");
        if events.contains("hostinfo/mine") && events.contains(&expected) { Ok(()) } else { Err(events) }
    });
    status(&hosts, "ch", "esxi-new.rainpole.com", "published anew", |status| is_found(status, "Found"));
    assert!(hosts.get("ch", &published).is_err(), "the old name is gone");
    vcenter().govc(&["host.remove", "esxi-new.rainpole.com"]).unwrap();
    eventually(sandbox(), SOON, "the removed host's HostInfo is gone", || {
        hosts.get("ch", "esxi-new.rainpole.com").map_or(Ok(()), |still| Err(still.to_string()))
    });
}

#[test]
fn figures_are_written_when_they_move_far_and_not_when_they_tremble() {
    // A machine that comes to the host would be a fact, and figures come with facts. vcsim clones to where the template is.
    let of_template = property("/DC0/vm/vm-operator/vm-operator-template", "runtime.host");
    let path_of = |number: u8| format!("/DC0/host/DC0_C0/DC0_C0_H{number}");
    let is_quiet = |number: &u8| property(&path_of(*number), "summary.host") != of_template;
    let number_of_host = QUIET.into_iter().find(is_quiet).unwrap();
    let (path, shown) = (path_of(number_of_host), format!("dc0-c0-h{number_of_host}"));
    let hosts = published_hosts_once(&shown);
    let total = number(&path, "summary.hardware.numCpuCores") * number(&path, "summary.hardware.cpuMhz");
    let before = status(&hosts, "ch", &shown, "its first figures", |status| status["freeCPU"] == total - 2000);
    // What has just come to be shown is read by itself.
    status(&hosts, "ch", "dc0-c0-h5", "the other's first figures", |status| status["freeCPU"].is_i64());
    set_host(&format!("DC0_C0_H{number_of_host}"), &json!({"cpuMHz": 2100}));
    // All hosts are read in one call, so once another's far move is shown, this one's small move is known.
    set_host("DC0_C0_H5", &json!({"cpuMHz": 3000}));
    let total_of_other =
        number(&path_of(5), "summary.hardware.numCpuCores") * number(&path_of(5), "summary.hardware.cpuMhz");
    status(&hosts, "ch", "dc0-c0-h5", "a far move", |status| status["freeCPU"] == total_of_other - 3000);
    thread::sleep(Duration::from_secs(3));
    let after = &hosts.get("ch", &shown).unwrap()["status"];
    assert_eq!(*after, before, "a small move waits for ten minutes to pass");
    set_host(&format!("DC0_C0_H{number_of_host}"), &json!({"status": "yellow"}));
    let warned =
        status(&hosts, "ch", &shown, "vCenter's warning", |status| condition(status, "Healthy").1 == "Warning");
    assert_eq!(warned["freeCPU"], total - 2100, "figures come with a fact");
}

#[test]
fn what_a_machine_uses_is_shown_within_a_minute_though_vcenter_announces_it_to_nobody() {
    let namespace = sandbox().namespace("uses");
    ask(&namespace, "busy", "DC0_C0_RP0_VM2");
    let first = status(&namespace, "vi", "busy", "its first figures", |status| status["cpuUse"].is_i64());
    for (mhz, memory) in [(900, 10), (1900, 900)] {
        let state = json!({"cpuMHz": mhz, "guestMemoryMB": memory});
        vcenter().control("PATCH", "/machines/DC0_C0_RP0_VM2", &state).unwrap();
        let moved = eventually(sandbox(), Duration::from_secs(75), "what it uses now", || {
            let status = namespace.get("vi", "busy").map_err(|failure| failure.to_string())?["status"].clone();
            let is_shown = status["cpuUse"] == mhz && status["memUse"] == memory;
            if is_shown { Ok(status) } else { Err(status.to_string()) }
        });
        assert_ne!(moved["figuresTime"], first["figuresTime"], "{moved}");
    }
}

#[test]
fn a_machine_is_found_by_name_path_uuid_address_and_object_id() {
    let namespace = sandbox().namespace("words");
    let path = "/DC0/vm/DC0_C0_RP0_VM1";
    let state = json!({"ip": "10.1.2.3", "addresses": ["10.1.2.3", "fe80::1"], "cpuMHz": 700, "guestMemoryMB": 20, "tools": "guestToolsRunning"});
    // It takes CPUs only while it is off.
    vcenter().govc(&["vm.power", "-off", "-force", path]).unwrap();
    vcenter()
        .govc(&["vm.change", "-vm", path, "-c", "2", "-cpu.reservation", "100", "-mem.reservation", "16"])
        .unwrap();
    vcenter().govc(&["vm.power", "-on", path]).unwrap();
    vcenter().control("PATCH", "/machines/DC0_C0_RP0_VM1", &state).unwrap();
    vcenter().govc(&["snapshot.create", "-vm", path, "one"]).unwrap();
    vcenter().govc(&["snapshot.create", "-vm", path, "two"]).unwrap();
    let id = vcenter().govc(&["find", "-i", "/DC0/vm", "-name", "DC0_C0_RP0_VM1"]).unwrap();
    let moref = id.trim().rsplit(':').next().unwrap().to_owned();
    let words = [
        ("name", "DC0_C0_RP0_VM1".to_owned()),
        ("path", path.to_owned()),
        ("uuid", property(path, "config.uuid").to_uppercase()),
        ("instance", property(path, "config.instanceUuid")),
        ("ip", "10.1.2.3".to_owned()),
        ("ip6", "fe80:0::1".to_owned()),
        ("moref", format!("moref:{moref}")),
    ];
    for (name, word) in &words {
        ask(&namespace, name, word);
    }
    for (name, _) in &words {
        let status = status(&namespace, "vi", name, "all its facts", |status| {
            status["snapshots"] == 2
                && status["totalCPU"] == 2
                && status["cpuUse"] == 700
                && status["ipAddress"] == "10.1.2.3"
        });
        assert_eq!(status["moref"], moref, "{name}");
    }
    let status = namespace.get("vi", "name").unwrap()["status"].clone();
    for (field, name) in [
        ("guestId", "config.guestId"),
        ("hwVersion", "config.version"),
        ("powerState", "runtime.powerState"),
        ("pathToVM", "config.files.vmPathName"),
        ("uuid", "config.uuid"),
        ("toolsState", "guest.toolsRunningStatus"),
    ] {
        assert_eq!(status[field], property(path, name), "{field}");
    }
    for (field, name) in [
        ("totalMem", "config.hardware.memoryMB"),
        ("resvdCPU", "config.cpuAllocation.reservation"),
        ("resvdMem", "config.memoryAllocation.reservation"),
        ("memUse", "summary.quickStats.guestMemoryUsage"),
    ] {
        assert_eq!(status[field], number(path, name), "{field}");
    }
    assert_eq!((&status["addresses"], &status["path"]), (&json!(["10.1.2.3", "fe80::1"]), &json!(path)));
    assert_eq!((&status["resvdCPU"], &status["datastore"]), (&json!(100), &json!("LocalDS_0")));
    // Other tests rename hosts.
    self::status(&namespace, "vi", "name", "the host that it is on", |status| {
        status["host"] == property(&property(path, "runtime.host"), "name")
    });
    assert!(status["bootTime"].is_string(), "{status}");
    vcenter().govc(&["vm.power", "-off", "-force", path]).unwrap();
    self::status(&namespace, "vi", "ip6", "powered off", |status| {
        status["powerState"] == "poweredOff" && status["bootTime"].is_null()
    });
}

#[test]
fn of_a_machine_that_vcenter_does_not_reach_the_values_seen_last_stay() {
    let namespace = sandbox().namespace("unreached");
    ask(&namespace, "lost", "DC0_C0_RP0_VM3");
    let set = |state: &str| {
        vcenter().control("PATCH", "/machines/DC0_C0_RP0_VM3", &json!({"connectionState": state})).unwrap();
    };
    let seen = status(&namespace, "vi", "lost", "its figures", |status| status["cpuUse"].is_i64());
    for state in ["disconnected", "inaccessible"] {
        set(state);
        let message = format!("vCenter says that it is {state}");
        let lost = status(&namespace, "vi", "lost", state, |status| {
            condition(status, "Healthy") == ("False".to_owned(), "Unhealthy".to_owned(), message.clone())
        });
        assert!(is_found(&lost, "Found"), "{lost}");
        for field in
            ["guestId", "hwVersion", "totalCPU", "totalMem", "uuid", "instanceUuid", "pathToVM", "cpuUse", "path"]
        {
            assert!(!seen[field].is_null() && lost[field] == seen[field], "{state}: {field} in {lost}, once {seen}");
        }
    }
    set("connected");
    status(&namespace, "vi", "lost", "reached again", |status| condition(status, "Healthy").0 == "True");
}

#[test]
fn two_machines_of_one_name_are_ambiguous_until_one_is_gone() {
    let namespace = sandbox().namespace("twins");
    ask(&namespace, "twin", "twin");
    status(&namespace, "vi", "twin", "not there yet", |status| is_found(status, "NotFound"));
    // Two machines of one name can't be cloned onto one datastore, but renamed.
    let clone = |folder: &str, name: &str| {
        vcenter().govc(&["folder.create", folder]).unwrap();
        vcenter().govc(&["vm.clone", "-vm", "vm-operator-template", "-folder", folder, "-on=false", name]).unwrap();
        vcenter().govc(&["object.rename", &format!("{folder}/{name}"), "twin"]).unwrap();
    };
    clone("/DC0/vm/left", "castor");
    status(&namespace, "vi", "twin", "found", |status| status["path"] == "/DC0/vm/left/twin");
    clone("/DC0/vm/right", "pollux");
    let lost = status(&namespace, "vi", "twin", "ambiguous", |status| is_found(status, "Ambiguous"));
    let message = condition(&lost, "Found").2;
    assert!(message.ends_with("name one by its path: /DC0/vm/left/twin, /DC0/vm/right/twin"), "{message}");
    assert!(lost["path"].is_null() && lost["moref"].is_null(), "{lost}");
    vcenter().govc(&["object.rename", "/DC0/vm/left/twin", "other"]).unwrap();
    status(&namespace, "vi", "twin", "the other one", |status| status["path"] == "/DC0/vm/right/twin");
    vcenter().govc(&["object.rename", "/DC0/vm/right", "far"]).unwrap();
    status(&namespace, "vi", "twin", "its new path", |status| status["path"] == "/DC0/vm/far/twin");
    vcenter().govc(&["vm.destroy", "/DC0/vm/far/twin"]).unwrap();
    status(&namespace, "vi", "twin", "gone", |status| is_found(status, "NotFound"));
}

#[test]
fn members_are_published_a_marked_one_goes_first_and_the_last_go_with_the_group() {
    let namespace = sandbox().namespace("members");
    let manifest = vm_group("web", &json!({"replicas": 2, "placement": {"hosts": ["DC0_C0_H0"]}}));
    namespace.declare(&manifest).unwrap();
    let published = |count: usize| -> Vec<String> {
        eventually(sandbox(), SOON, &format!("{count} members published"), || {
            let group = namespace.get("vg", "web").map_err(|failure| failure.to_string())?;
            let selector = group["status"]["selector"].as_str().unwrap_or("none=none").to_owned();
            let arguments = ["get", "vi", "-l", &selector, "-o", "json"];
            let shown = namespace.kubectl(&arguments).map_err(|failure| failure.to_string())?;
            let shown: Value = serde_json::from_str(&shown).unwrap();
            let items = shown["items"].as_array().unwrap();
            let run = items.iter().all(|item| item["status"]["powerState"] == "poweredOn");
            let owned = items.iter().all(|item| {
                let owner = &item["metadata"]["ownerReferences"][0];
                owner["uid"] == group["metadata"]["uid"] && owner["controller"] == true
            });
            let is_settled = group["status"]["phase"] == "RUNNING" && group["status"]["currentReplicas"] == count;
            if items.len() == count && run && owned && is_settled {
                return Ok(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect());
            }
            Err(shown.to_string())
        })
    };
    let old = published(2);
    let machines: Vec<_> = vcenter().machines().into_iter().filter(|path| path.contains("members.web")).collect();
    for name in &old {
        assert!(machines.iter().any(|path| path.ends_with(name)), "{name} is no member: {machines:?}");
    }
    namespace.kubectl(&["delete", "vi", &old[0]]).unwrap();
    assert_eq!(published(2), old, "a VMInfo that somebody deletes comes back");
    namespace.kubectl(&["scale", "vg/web", "--replicas=3"]).unwrap();
    let mut expected = published(3);
    // By itself, the youngest would go.
    let mark = "vm.codeconnect.vmworld.com/scale-in-first=true";
    namespace.kubectl(&["annotate", "vi", &old[0], mark]).unwrap();
    namespace.kubectl(&["scale", "vg/web", "--replicas=2"]).unwrap();
    expected.retain(|name| *name != old[0]);
    assert_eq!(published(2), expected);
    namespace.kubectl(&["delete", "vg", "web", "--timeout=60s"]).unwrap();
    eventually(sandbox(), SOON, "the members' VMInfos are gone", || {
        let left = namespace.kubectl(&["get", "vi", "-o", "name"]).map_err(|failure| failure.to_string())?;
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

/// A VCenter's status, once it is as wanted.
fn vcenter_status(name: &str, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(sandbox(), SOON, &format!("the VCenter {name}: {what}"), || {
        let path = format!("/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters/{name}");
        let vcenter = sandbox().get(&path).map_err(|failure| failure.to_string())?;
        if is_wanted(&vcenter["status"]) { Ok(vcenter["status"].clone()) } else { Err(vcenter["status"].to_string()) }
    })
}

#[test]
fn a_vcenter_that_cannot_publish_its_hosts_says_why_and_all_else_of_it_is_shown() {
    vcenter().declare(sandbox(), "unpublished", &json!({"publish": {"hosts": true, "namespace": "unmade"}}));
    let status = vcenter_status("unpublished", "not published", |status| condition(status, "Published").0 == "False");
    let (_, reason, message) = condition(&status, "Published");
    assert!(reason == "RequestRefused" && message.contains(r#"namespaces "unmade" not found"#), "{reason}: {message}");
    assert_eq!(condition(&status, "Connected").0, "True");
    assert!(status["version"].is_string() && status["hosts"].is_i64(), "{status}");
    let namespace = sandbox().namespace("unmade");
    vcenter_status("unpublished", "published", |status| condition(status, "Published").1 == "Reconciled");
    assert_eq!(namespace.get("ch", "dc0-c0-h0").unwrap()["spec"]["vcenter"], "unpublished");
}

/// The HostInfos of a namespace that a vCenter's hosts are published by, as pairs of host and name.
fn published_by(namespace: &Namespace, vcenter: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = namespace.list("ch").unwrap();
    let ours = all.iter().filter(|info| info["metadata"]["ownerReferences"][0]["name"] == vcenter);
    ours.map(|info| (text(&info["spec"]["hostname"]), text(&info["metadata"]["name"]))).collect()
}

#[test]
fn hosts_whose_names_look_alike_or_are_taken_have_hostinfos_of_their_own() {
    let namespace = sandbox().namespace("alike");
    let own = |name: &str| {
        let kind = json!({"apiVersion": "topology.corinternal.com/v1", "kind": "HostInfo"});
        let mut manifest = kind;
        manifest["metadata"] = json!({"name": name});
        manifest["spec"] = json!({"hostname": "mine"});
        manifest
    };
    for name in ["dc0-c0-h0", "dc0-c0-h0-alike"] {
        namespace.declare(&own(name)).unwrap();
    }
    set_host("DC0_C0_H2", &json!({"name": "twin_host"}));
    set_host("DC0_C0_H6", &json!({"name": "twin-host"}));
    vcenter().declare(sandbox(), "alike", &json!({"publish": {"hosts": true, "namespace": "alike"}}));
    let name_of = |host: &str| {
        eventually(sandbox(), SOON, &format!("{host} is published"), || {
            let published = published_by(&namespace, "alike");
            let found = published.iter().find(|(of, _)| of == host).map(|(_, name)| name.clone());
            found.ok_or_else(|| format!("{published:?}"))
        })
    };
    let (first, second) = (name_of("twin-host"), name_of("twin_host"));
    assert_eq!((first.as_str(), second.as_str()), ("twin-host", "twin-host-alike"));
    assert!(name_of("DC0_C0_H0").starts_with("dc0-c0-h0-alike-"));
    for name in ["dc0-c0-h0", "dc0-c0-h0-alike"] {
        let mine = namespace.get("ch", name).unwrap();
        let (meta, spec) = (&mine["metadata"], &mine["spec"]);
        assert_eq!(
            (&meta["ownerReferences"], &meta["labels"], spec),
            (&Value::Null, &Value::Null, &json!({"hostname": "mine"}))
        );
    }
    // An address is the same, however it is written.
    set_host("twin-host", &json!({"name": "2001:DB8:0:0:0:0:0:7"}));
    let mut manifest = own("by-address");
    manifest["spec"]["hostname"] = json!("2001:db8::7");
    namespace.declare(&manifest).unwrap();
    status(&namespace, "ch", "by-address", "found", |status| is_found(status, "Found"));
}

#[test]
fn a_vminfo_of_a_members_name_that_is_somebody_elses_is_left_alone_and_told() {
    let namespace = sandbox().namespace("taken");
    namespace.declare(&vm_group("web", &json!({"replicas": 1, "placement": {"hosts": ["DC0_C0_H0"]}}))).unwrap();
    let name = eventually(sandbox(), SOON, "the member is published", || {
        let infos = namespace.list("vi").map_err(|failure| failure.to_string())?;
        let name = infos.first().and_then(|info| info["metadata"]["name"].as_str());
        name.map(ToOwned::to_owned).ok_or("none".to_owned())
    });
    let mine =
        json!({"metadata": {"ownerReferences": null, "labels": {"whose": "mine"}}, "spec": {"nodename": "mine"}});
    namespace.patch("vi", &name, &mine).unwrap();
    eventually(sandbox(), SOON, "an event on the group", || {
        let events = namespace.events("VmGroup", "NameTaken").map_err(|failure| failure.to_string())?;
        if events.iter().any(|event| event.contains(&name)) { Ok(()) } else { Err(format!("{events:?}")) }
    });
    namespace.kubectl(&["scale", "vg/web", "--replicas=2"]).unwrap();
    eventually(sandbox(), SOON, "the other member is published", || {
        let infos = namespace.list("vi").map_err(|failure| failure.to_string())?;
        if infos.len() == 2 { Ok(()) } else { Err(format!("{infos:?}")) }
    });
    let left = namespace.get("vi", &name).unwrap();
    assert_eq!((&left["spec"]["nodename"], &left["metadata"]["ownerReferences"]), (&json!("mine"), &Value::Null));
    assert_eq!(namespace.events("VmGroup", "NameTaken").unwrap().len(), 1);
    namespace.kubectl(&["delete", "vi", &name]).unwrap();
    eventually(sandbox(), SOON, "the member is published again", || {
        let info = namespace.get("vi", &name).map_err(|failure| failure.to_string())?;
        if info["metadata"]["ownerReferences"].is_array() { Ok(()) } else { Err(info.to_string()) }
    });
}

#[test]
fn a_vminfo_that_claims_the_group_of_another_namespace_shows_none_of_its_members() {
    let (blue, red) = (sandbox().namespace("owner-blue"), sandbox().namespace("owner-red"));
    blue.declare(&vm_group("web", &json!({"replicas": 1, "placement": {"hosts": ["DC0_C0_H0"]}}))).unwrap();
    let member = eventually(sandbox(), SOON, "the member is published", || {
        let infos = blue.list("vi").map_err(|failure| failure.to_string())?;
        let found = infos.iter().find(|info| is_found(&info["status"], "Found"));
        found.and_then(|info| info["metadata"]["name"].as_str()).map(ToOwned::to_owned).ok_or("none".to_owned())
    });
    // By its name anybody would find it.
    blue.patch("vg", "web", &json!({"spec": {"paused": true}})).unwrap();
    eventually(sandbox(), SOON, "it is paused", || {
        let group = blue.get("vg", "web").map_err(|failure| failure.to_string())?;
        let mut conditions = group["status"]["conditions"].as_array().into_iter().flatten();
        let is_paused = conditions.any(|condition| condition["reason"] == "Paused");
        if is_paused { Ok(()) } else { Err(group["status"].to_string()) }
    });
    let path = status(&blue, "vi", &member, "its path", |status| status["path"].is_string())["path"].clone();
    vcenter().govc(&["object.rename", path.as_str().unwrap(), "blues-own"]).unwrap();
    status(&blue, "vi", &member, "shown as renamed", |status| status["name"] == "blues-own");
    let uid = blue.get("vg", "web").unwrap()["metadata"]["uid"].clone();
    let owner = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "name": "web", "uid": uid, "controller": true,
    });
    // Kubernetes collects what has no owner in its namespace, unless something holds it.
    let metadata = json!({"name": "forged", "ownerReferences": [owner], "finalizers": ["example.com/hold"]});
    let forged = json!({
        "apiVersion": "topology.corinternal.com/v1", "kind": "VMInfo", "metadata": metadata, "spec": {"nodename": member},
    });
    red.declare(&forged).unwrap();
    let is_judged = |status: &Value| is_found(status, "Found") || is_found(status, "NotFound");
    let shown = status(&red, "vi", "forged", "looked for", is_judged);
    red.patch("vi", "forged", &json!({"metadata": {"finalizers": null}})).unwrap();
    assert!(is_found(&shown, "NotFound") && !shown.to_string().contains("blues-own"), "{shown}");
    blue.patch("vg", "web", &json!({"spec": {"paused": false}})).unwrap();
    blue.kubectl(&["delete", "vg", "web", "--timeout=60s"]).unwrap();
}

#[test]
fn a_member_whose_name_is_cut_after_a_dot_is_published() {
    let namespace = sandbox().namespace("dotted");
    let name = format!("{}.{}", "w".repeat(53), "x".repeat(199));
    namespace.declare(&vm_group(&name, &json!({"replicas": 1, "placement": {"hosts": ["DC0_C0_H0"]}}))).unwrap();
    let info = eventually(sandbox(), SOON, "the member is published", || {
        let infos = namespace.list("vi").map_err(|failure| failure.to_string())?;
        let found = infos.into_iter().find(|info| is_found(&info["status"], "Found"));
        found.ok_or_else(|| "none".to_owned())
    });
    let vm = info["spec"]["nodename"].as_str().unwrap();
    assert!(vm.contains(".-") && vm.len() == 80, "{vm}");
    assert_eq!(
        (&info["status"]["name"], info["metadata"]["name"].as_str().unwrap()),
        (&json!(vm), &*vm.replace(".-", "."))
    );
    namespace.kubectl(&["delete", "vg", &name, "--timeout=60s"]).unwrap();
}
