//! Each real part of the sandbox does its job.

use std::{collections::BTreeMap, path::Path, sync::Once, thread, time::Duration};

use drover_e2e::{Namespace, Sandbox, eventually, vm_group};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(1);

/// The manifest of the walk-through that Drover began with.
const SEED_MANIFEST: &str = "
apiVersion: vm.codeconnect.vmworld.com/v1alpha1
kind: VmGroup
metadata:
  name: vmgroup-sample
spec:
  # Add fields here
  cpu: 2
  memory: 1
  replicas: 3
  template: vm-operator-template
";

fn sandbox() -> &'static Sandbox {
    Sandbox::shared(&[])
}

/// A namespace in a cluster that knows Drover's kinds.
fn namespace_with_crds(name: &str) -> Namespace {
    static KINDS: Once = Once::new();
    KINDS.call_once(|| sandbox().install_kinds());
    sandbox().namespace(name)
}

#[test]
fn the_api_server_takes_the_seeds_manifest_and_prints_its_columns() {
    let namespace = namespace_with_crds("seed-manifest");
    let created = namespace.apply(SEED_MANIFEST).unwrap();
    assert_eq!(created, "vmgroup.vm.codeconnect.vmworld.com/vmgroup-sample created\n");

    let table = namespace.kubectl(&["get", "vg"]).unwrap();
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let columns = ["NAME", "PHASE", "CURRENT", "DESIRED", "CPU", "MEMORY", "TEMPLATE", "LAST_MESSAGE"];
    assert_eq!(lines.next().unwrap(), columns);
    assert_eq!(lines.next().unwrap(), ["vmgroup-sample", "3", "2", "1", "vm-operator-template"]);
    assert_eq!(lines.next(), None);
}

#[test]
fn the_api_server_refuses_a_group_outside_the_schema_and_says_where() {
    let namespace = namespace_with_crds("bad-manifest");
    for (field, value) in [
        ("cpu", json!(0)),
        ("cpu", json!(769)),
        ("memory", json!(24561)),
        ("replicas", json!(-1)),
        ("template", json!(7)),
    ] {
        let bad = vm_group("bad", &json!({field: value}));
        let refused = namespace.declare(&bad).expect_err(field);
        assert!(refused.stderr.contains(&format!("spec.{field}")), "{refused}");
    }
    let mut without = vm_group("without", &json!({}));
    without["spec"].as_object_mut().unwrap().remove("cpu");
    let refused = namespace.declare(&without).unwrap_err();
    assert!(refused.stderr.contains("spec.cpu: Required value"), "{refused}");
}

#[test]
fn the_api_server_refuses_what_makes_no_sense_with_a_sentence() {
    let namespace = namespace_with_crds("no-sense");
    let own = "they are Drover's own, or reach outside of the VM";
    for (spec, sentence) in [
        (json!({"update": {"maxUnavailable": 0, "maxSurge": "0%"}}), "can't both be 0: no update could ever begin"),
        (json!({"update": {"maxUnavailable": "many"}}), "give a number from 0 to 10000, or a share such as 25%"),
        (json!({"update": {"maxSurge": -1}}), "give a number from 0 to 10000, or a share such as 25%"),
        (json!({"update": {"strategy": "Sometimes"}}), r#"supported values: "InPlaceFirst", "Replace", "OnDelete""#),
        (json!({"extraConfig": {"Drover.group": "x"}}), own),
        (json!({"extraConfig": {"RUN.container": "x"}}), own),
        (json!({"extraConfig": {"scsi0:1.fileName": "x"}}), own),
        (json!({"extraConfig": {"guestinfo.userdata": "x"}}), "use spec.guest.cloudInit"),
        (json!({"extraConfig": {"WorkingDir": "x"}}), "can't be set: they reach outside of the VM"),
        (json!({"extraConfig": {"sched.swap.dir": "x"}}), "can't be set: they reach outside of the VM"),
        (json!({"extraConfig": {"scsi0:0.redoDir": "x"}}), "can't be set: they reach outside of the VM"),
        (json!({"extraConfig": {"pciPassthru0.present": "x"}}), "can't be set: they reach outside of the VM"),
        (json!({"extraConfig": {"RemoteDisplay.vnc.port": "x"}}), "can't be set: they reach outside of the VM"),
        (json!({"guest": {"cloudInit": {"userData": {}}}}), "give either inline or secretKeyRef"),
        (json!({"powerState": "Standby"}), r#"supported values: "On", "Off", "Suspended""#),
        (json!({"shutdown": {"graceSeconds": -1}}), "spec.shutdown.graceSeconds"),
        (json!({"networks": [""]}), "spec.networks[0]"),
        (json!({"networks": ["a"], "networkAdapters": [{"network": "a"}]}), "give either networks or networkAdapters"),
        (json!({"networkAdapters": [{}]}), "spec.networkAdapters[0].network"),
        (json!({"networkAdapters": [{"network": "a", "addresses": ["here"]}]}), "spec.networkAdapters[0].addresses[0]"),
        (
            json!({"networkAdapters": [{"network": "a", "addresses": ["10.0.0.1/24"]}]}),
            "fewer addresses than there are replicas",
        ),
        (
            json!({"replicas": 1, "networkAdapters": [{"network": "a", "addresses": ["10.0.0.1/24"], "mac": "Generated"}]}),
            "no adapter can have mac Generated",
        ),
        (
            json!({"networkAdapters": [{"network": "a", "mac": "PerSlot"}], "update": {"maxSurge": "25%"}}),
            "spec.update.maxSurge: has to be 0",
        ),
        (json!({"guest": {"hostname": "a_b"}}), "spec.guest.hostname"),
        (
            json!({"guest": {"network": "Customization", "cloudInit": {"userData": {"inline": "x"}}}}),
            "network can't be Customization where cloudInit is given",
        ),
        (json!({"colour": "red"}), ".spec.colour"),
    ] {
        let refused = namespace.declare(&vm_group("senseless", &spec)).expect_err(&spec.to_string());
        assert!(refused.stderr.contains(sentence), "{spec}: {refused}");
    }
    // Where somebody reads what kubectl prints, too.
    let refused = namespace.apply(&format!("{SEED_MANIFEST}  colour: red\n")).unwrap_err();
    assert!(refused.stderr.contains("unknown field \"spec.colour\""), "{refused}");
}

#[test]
fn a_group_with_everything_is_stored_as_written_and_one_with_little_shows_the_defaults() {
    let namespace = namespace_with_crds("everything");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/samples/vm_v1alpha1_vmgroup_full.yaml");
    namespace.kubectl(&["apply", "-f", sample.to_str().unwrap()]).unwrap();
    let full = namespace.get("vg", "vmgroup-full").unwrap();
    assert_eq!(full["spec"]["update"]["maxSurge"], "25%");
    let sample = sample.with_file_name("vm_v1alpha1_vmgroup_addresses.yaml");
    namespace.kubectl(&["apply", "-f", sample.to_str().unwrap()]).unwrap();
    let refused = namespace.kubectl(&["scale", "vg/vmgroup-addresses", "--replicas=5"]).unwrap_err();
    assert!(refused.stderr.contains("fewer addresses than there are replicas"), "{refused}");
    namespace.kubectl(&["scale", "vg/vmgroup-addresses", "--replicas=4"]).unwrap();
    assert_eq!(full["spec"]["guest"]["cloudInit"]["userData"]["secretKeyRef"]["key"], "userdata");
    namespace.apply(SEED_MANIFEST).unwrap();
    let stored = namespace.get("vg", "vmgroup-sample").unwrap();
    assert_eq!(stored["spec"]["update"]["strategy"], "InPlaceFirst");
    assert_eq!(stored["spec"]["deletionPolicy"], "Delete");
    let explained = namespace.kubectl(&["explain", "vmgroup.spec.template"]).unwrap();
    assert!(explained.contains("moref:vm-42"), "{explained}");
}

#[test]
fn the_scale_subresource_scales_a_group() {
    let namespace = namespace_with_crds("scale");
    namespace.apply(SEED_MANIFEST).unwrap();
    namespace.kubectl(&["scale", "vmgroup/vmgroup-sample", "--replicas=5"]).unwrap();
    assert_eq!(namespace.get("vg", "vmgroup-sample").unwrap()["spec"]["replicas"], 5);
}

#[test]
fn kubectl_and_the_api_server_tell_their_version() {
    let version = sandbox().kubectl().run(&["version"]).unwrap();
    for line in ["Client Version: v1.36.", "Server Version: v1.36."] {
        assert!(version.contains(line), "{version}");
    }
}

#[test]
fn a_service_account_has_only_the_rights_it_was_given() {
    let namespace = sandbox().namespace("rights");
    namespace.kubectl(&["create", "serviceaccount", "reader"]).unwrap();
    namespace.kubectl(&["create", "role", "reader", "--verb=get,list", "--resource=configmaps"]).unwrap();
    let subject = format!("--serviceaccount={}:reader", namespace.name);
    namespace.kubectl(&["create", "rolebinding", "reader", "--role=reader", &subject]).unwrap();
    let token = namespace.kubectl(&["create", "token", "reader"]).unwrap();

    // With the administrator's certificate out of the way, the token is all there is.
    let server = namespace.kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]).unwrap();
    let ca = &sandbox().vcenter().ca_file;
    let as_reader =
        ["--kubeconfig=/dev/null", "--server", &server, "--certificate-authority", ca, "--token", token.trim()];
    let ask = |what: &[&str]| namespace.kubectl(&[&as_reader[..], what].concat());
    assert!(ask(&["get", "configmaps"]).unwrap().contains("kube-root-ca.crt"));
    let refused = ask(&["get", "secrets"]).unwrap_err();
    assert!(refused.stderr.contains("Forbidden"), "{refused}");
}

#[test]
fn an_admission_webhook_is_asked_before_an_object_is_stored() {
    let namespace = sandbox().namespace("webhook");
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "nobody-answers"},
        "webhooks": [{
            "name": "nobody.answers.example",
            "clientConfig": {"url": "https://127.0.0.1:1/validate"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}},
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 2,
        }],
    });
    namespace.apply(&webhook.to_string()).unwrap();
    eventually(sandbox(), SOON, "the webhook is called", || {
        match namespace.kubectl(&["create", "configmap", "x", "--dry-run=server"]) {
            Ok(created) => Err(created),
            Err(refused) if refused.stderr.contains("failed calling webhook") => Ok(()),
            Err(refused) => Err(refused.to_string()),
        }
    });
}

#[test]
fn the_api_server_can_hand_requests_on_to_an_aggregated_one() {
    let kubectl = sandbox().kubectl();
    let trust =
        kubectl.run(&["get", "configmap", "extension-apiserver-authentication", "-n", "kube-system", "-o", "json"]);
    assert!(trust.unwrap().contains("requestheader-client-ca-file"));
    let services = kubectl.run(&["get", "apiservice", "v1.apps"]).unwrap();
    assert!(services.contains("True"), "{services}");
}

#[test]
fn the_controller_manager_turns_a_deployment_into_a_replica_set_and_collects_it() {
    let namespace = sandbox().namespace("controllers");
    namespace.kubectl(&["create", "deployment", "web", "--image=none"]).unwrap();
    let replica_sets =
        || namespace.kubectl(&["get", "replicasets", "-o", "name"]).map_err(|failure| failure.to_string());
    eventually(sandbox(), SOON, "a replica set is made", || {
        replica_sets().and_then(|found| if found.is_empty() { Err("none".to_owned()) } else { Ok(()) })
    });
    namespace.kubectl(&["delete", "deployment", "web", "--wait=false"]).unwrap();
    eventually(sandbox(), SOON, "the replica set is collected", || {
        replica_sets().and_then(|found| if found.is_empty() { Ok(()) } else { Err(found) })
    });
}

#[test]
fn govc_sees_the_inventory_that_the_seed_asks_for() {
    let vcenter = sandbox().vcenter();
    let template = "/DC0/vm/vm-operator/vm-operator-template";
    assert_eq!(vcenter.machines(), [template]);
    assert_eq!(vcenter.govc(&["object.collect", "-s", template, "config.template"]).unwrap(), "true\n");
    assert_eq!(vcenter.govc(&["find", "/", "-type", "d"]).unwrap(), "/DC0\n");
    assert_eq!(vcenter.govc(&["find", "/", "-type", "p"]).unwrap(), "/DC0/host/DC0_C0/Resources\n");
    assert_eq!(vcenter.govc(&["find", "/", "-type", "h"]).unwrap().lines().count(), 4);
}

#[test]
fn the_vcenters_certificate_is_good_for_those_who_trust_the_sandboxs_authority_only() {
    let vcenter = sandbox().vcenter();
    let verifying = |ca: &str| {
        let variables = [("GOVC_INSECURE", "false"), ("GOVC_TLS_CA_CERTS", ca)];
        vcenter.seen_with(&variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    };
    assert!(verifying(&vcenter.ca_file).govc(&["about"]).unwrap().contains("vCenter"));
    let refused = verifying("").govc(&["about"]).unwrap_err();
    assert!(refused.stderr.contains("certificate"), "{refused}");
}

#[test]
fn the_environment_names_all_that_a_person_needs() {
    let environment: &BTreeMap<_, _> = sandbox().environment();
    let names =
        ["KUBECONFIG", "VC_HOST", "VC_USER", "VC_PASS", "VC_CA_FILE", "GOVC_URL", "GOVC_INSECURE", "VCSIM_CONTROL"];
    for name in names {
        assert!(!environment[name].is_empty(), "{name}");
    }
}

#[test]
fn many_govcs_at_once_find_one_session_that_is_there_from_the_beginning() {
    let new = Sandbox::start("govcs", &["--kubernetes=false"]).unwrap();
    thread::scope(|scope| {
        let govcs: Vec<_> = (0..30).map(|_| scope.spawn(|| new.vcenter().govc(&["session.ls", "-json"]))).collect();
        for govc in govcs {
            let sessions: Value = serde_json::from_str(&govc.join().unwrap().unwrap()).unwrap();
            assert_eq!(sessions["sessionList"].as_array().unwrap().len(), 1, "{sessions}");
        }
    });
}
