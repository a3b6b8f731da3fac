//! The chart: installed, upgraded, uninstalled and installed again while VMs run.

use std::fs;

use drover_e2e::{Group, Page, SOON, Sandbox, Untouched, eventually, vm_group};
use serde_json::json;

use crate::{
    installation::Installation,
    page::{BUILD, SECRET},
};

const INSTALL: &str = "helm install drover charts/drover --namespace drover-system --create-namespace --set image.repository=registry.example.com/drover --set image.tag=v0.1.0";
const KINDS: [&str; 5] = ["vmgroups", "vcenters", "hostinfoes", "vminfoes", "myownshells"];

#[test]
fn a_release_of_the_chart_comes_and_goes_and_its_vms_stay() {
    let Some(sandbox) = Sandbox::start_with_node("helm", &[]) else { return };
    let page = Page::open(&sandbox, "docs/install.md");
    let terminal = &page.terminal;
    let here = Installation { sandbox: &sandbox, namespace: "drover-system" };
    page.run(BUILD);
    page.run("kubectl create namespace drover-system");
    page.run(SECRET);

    // An earlier chart, with kinds of its time.
    let chart = sandbox.dir().join("chart");
    let earlier = chart.display();
    terminal.run(&format!("cp -R charts/drover '{earlier}'"));
    terminal.run(&format!("sed -i 's/^    - vg$/    - earlier/' '{earlier}'/files/crds/*_vmgroups.yaml"));
    page.run_with(INSTALL, &[("charts/drover", &format!("'{earlier}'"))]);
    here.is_ready();
    assert_eq!(short_names(&page), r#"["earlier"]"#);
    here.shares_leases();
    here.can_do(&["own.txt", "webhook.txt"]);

    page.run("kubectl create namespace myoperator-vms");
    page.run("kubectl -n myoperator-vms apply -f config/samples/vm_v1alpha1_vmgroup.yaml");
    let group = Group::create(&sandbox, "released", &json!({}));
    group.runs_with(2);
    eventually(&sandbox, SOON, "the sample runs", || {
        let shown = page.run("kubectl -n myoperator-vms get vmgroups");
        if shown.contains("RUNNING") { Ok(()) } else { Err(shown) }
    });
    let before = Untouched::of(&group);
    metrics_are_served_to_those_who_may_read_them(&page, &here);

    let values = sandbox.dir().join("values.json");
    let image = json!({"repository": "registry.example.com/drover", "tag": "v0.1.0"});
    fs::write(&values, json!({"image": image, "log": {"level": "debug"}}).to_string()).unwrap();
    page.run_with(
        "helm upgrade drover charts/drover --namespace drover-system --values my-values.yaml",
        &[("my-values.yaml", &format!("'{}'", values.display()))],
    );
    page.run("kubectl -n drover-system rollout status deployment drover-controller-manager");
    here.is_ready();
    assert_eq!(short_names(&page), r#"["vg"]"#);
    for pod in here.pods() {
        let arguments = &pod["spec"]["containers"][0]["args"];
        assert!(arguments.as_array().unwrap().contains(&json!("--log-level=debug")), "{arguments}");
    }
    // With all that it says then.
    here.is_discreet_and_steady();
    group.runs_with(2);
    assert_eq!(Untouched::of(&group), before);
    the_namespace_is_kept_with_vm_groups_in_it(&sandbox, &page);

    what_olm_needs_besides_is_there(&sandbox, &page);
    let ending = page.run("kubectl get vmgroups,myownshells --all-namespaces -o custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name,DELETED:.metadata.deletionTimestamp");
    assert!(ending.lines().skip(1).all(|line| line.ends_with("<none>")), "{ending}");
    let said = page.run("helm uninstall drover --namespace drover-system");
    here.is_gone();
    for kind in KINDS {
        assert!(said.contains(kind), "{kind} is kept: {said}");
    }
    assert_eq!(terminal.run("kubectl get crd -o name").lines().count(), KINDS.len());
    assert_eq!(group.get().unwrap()["metadata"]["deletionTimestamp"], json!(null));
    assert_eq!(Untouched::of(&group), before);

    page.run(INSTALL);
    here.is_ready();
    group.runs_with(2);
    assert_eq!(Untouched::of(&group), before);
    // The new release works on them.
    group.patch(&json!({"replicas": 3})).unwrap();
    group.runs_with(3);
}

/// Where OLM installs the operator, people apply policies themselves, and build an image of the bundle. Here buildah stands for docker.
fn what_olm_needs_besides_is_there(sandbox: &Sandbox, page: &Page) {
    page.run("kubectl apply -k config/removal");
    page.run("kubectl kustomize config/network-policy | sed 's/namespace: system/namespace: drover-system/' | kubectl apply -f -");
    let folder = sandbox.dir().join("bundle");
    let copy = folder.display();
    page.terminal.run(&format!("mkdir '{copy}' && cp -R bundle '{copy}'"));
    let set = page.here(
        "sed -i 's|controller:latest|registry.example.com/drover:v0.1.0|' bundle/manifests/drover.clusterserviceversion.yaml",
        &[],
    );
    let build = page.here(
        "docker build --tag registry.example.com/drover-bundle:v0.1.0 --file - bundle <<'EOF'
FROM scratch
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=drover
LABEL operators.operatorframework.io.bundle.channels.v1=alpha
LABEL operators.operatorframework.io.bundle.channel.default.v1=alpha
COPY manifests /manifests/
COPY metadata /metadata/
EOF",
        &[("docker", "buildah"), ("registry.example.com", "$NODE_REGISTRY")],
    );
    let push = page.here(
        "docker push registry.example.com/drover-bundle:v0.1.0",
        &[("docker", "buildah"), ("registry.example.com", "$NODE_REGISTRY")],
    );
    let storage = "if ! buildah info >/dev/null 2>&1; then export STORAGE_DRIVER=vfs; fi";
    page.terminal.run(&format!("cd '{copy}'\n{storage}\n{set}\n{build}\n{push}"));
    let manifest = fs::read_to_string(folder.join("bundle/manifests/drover.clusterserviceversion.yaml")).unwrap();
    assert!(manifest.contains("image: registry.example.com/drover:v0.1.0"), "{manifest}");
}

/// What the API server has of the kind VmGroup that the two charts differ in.
fn short_names(page: &Page) -> String {
    page.terminal.run("kubectl get crd vmgroups.vm.codeconnect.vmworld.com -o jsonpath='{.spec.names.shortNames}'")
}

/// Whoever scrapes is asked for a token, and the API server for whether its owner may read metrics.
fn metrics_are_served_to_those_who_may_read_them(page: &Page, here: &Installation) {
    let terminal = &page.terminal;
    let service = "https:drover-controller-manager-metrics-service:https";
    let proxy = format!("/api/v1/namespaces/{}/services/{service}/proxy/metrics", here.namespace);
    // The API server hands on no token of its own.
    let said = terminal.refuses(&format!("kubectl get --raw {proxy}"));
    assert!(said.contains("You must be logged in"), "{said}");

    for account in ["scraper", "stranger"] {
        terminal.run(&format!("kubectl -n default create serviceaccount {account}"));
    }
    terminal.run("kubectl create clusterrolebinding scraper --clusterrole=drover-metrics-reader --serviceaccount=default:scraper");
    let pod = here.pods().remove(0);
    let address = pod["status"]["podIP"].as_str().unwrap();
    let scrape = |token: &str| {
        let server = format!("--server=https://{address}:8443 --insecure-skip-tls-verify");
        format!("kubectl --kubeconfig=/dev/null {server} --token={token} get --raw /metrics")
    };
    let said = terminal.refuses(&scrape("none"));
    assert!(said.contains("You must be logged in"), "{said}");
    let said = terminal.refuses(&scrape("\"$(kubectl -n default create token stranger)\""));
    assert!(said.contains("Forbidden"), "{said}");
    let metrics = terminal.run(&scrape("\"$(kubectl -n default create token scraper)\""));
    assert!(metrics.contains("\ndrover_build_info{"), "{metrics}");
}

/// Helm makes the namespace without labels. With those that config/default gives it, it is protected as there.
fn the_namespace_is_kept_with_vm_groups_in_it(sandbox: &Sandbox, page: &Page) {
    page.run("kubectl label namespace drover-system app.kubernetes.io/name=drover control-plane=controller-manager pod-security.kubernetes.io/enforce=restricted pod-security.kubernetes.io/audit=restricted pod-security.kubernetes.io/warn=restricted");
    let own = sandbox.existing_namespace("drover-system");
    own.declare(&vm_group("beside", &json!({"replicas": 0}))).unwrap();
    eventually(sandbox, SOON, "the namespace is kept", || {
        // What protects it learns of the group by a watch.
        match page.terminal.try_run("kubectl delete namespace drover-system --dry-run=server") {
            Err(failure) if failure.stderr.contains("holds the VmGroup beside") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    page.terminal.run("kubectl -n drover-system delete vmgroup beside");
}
