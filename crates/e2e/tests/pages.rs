//! Commands of the pages that need a cluster and a vCenter, but no node, typed as they stand. What else is typed is in the tests of what it
//! is about; `src/documentation.rs` finds what isn't.

use std::fs;

use drover_e2e::{Page, SOON, Sandbox, VCenter, eventually, vm_group};
use serde_json::{Value, json};

#[test]
fn the_pages_work_as_they_stand() {
    let sandbox = &Sandbox::start("pages", &["--vcenters=2", "--clone-delay=100ms"]).unwrap();
    let readme = Page::open(sandbox, "README.md");
    readme.run("drover crds | kubectl apply --server-side -f -");
    // What README.md says before its operator runs. The sandbox's own authority is in the environment.
    let environment = "export VC_HOST=vc.example.com VC_USER=drover@vsphere.local VC_PASS=change-me";
    let said = readme.run_all(&[environment, "drover check"]);
    assert!(said.contains("ok   login"), "{said}");
    let _operator = readme.start(&[environment, "drover run"]);
    readme.run("kubectl apply -f config/samples/vm_v1alpha1_vmgroup.yaml");
    Page::open(sandbox, "docs/gitops.md").run("kubectl wait --for=condition=Ready vg/vmgroup-sample --timeout=10m");

    hosts_and_members(sandbox);
    shells(sandbox);
    a_vcenter_and_a_group(sandbox);
    monitors(sandbox);
}

fn hosts_and_members(sandbox: &Sandbox) {
    let page = Page::open(sandbox, "docs/infos.md");
    page.run("kubectl create -f config/samples/topology_v1_hostinfo.yaml");
    let host = r#"kubectl patch hostinfo hostinfo-host-e --type merge -p '{"spec":{"hostname":"DC0_C0_H0"}}'"#;
    page.terminal.run(host);
    eventually(sandbox, SOON, "the host is shown", || {
        let shown = page.run("kubectl get hostinfo hostinfo-host-e -o yaml");
        if shown.contains("totalCPU: ") { Ok(()) } else { Err(shown) }
    });
    let shown = page.run("kubectl get hostinfo");
    assert!(shown.contains("hostinfo-host-e   DC0_C0_H0"), "{shown}");
    page.run("kubectl delete hostinfo hostinfo-host-e");

    let members = || {
        let shown = page.run("kubectl get vi -l vm.codeconnect.vmworld.com/group=vmgroup-sample");
        let names = shown.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        names.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let all = members();
    assert_eq!(all.len(), 3, "{all:?}");
    let marked = &all[1];
    page.run_with(
        "kubectl annotate vi <member> vm.codeconnect.vmworld.com/scale-in-first=true",
        &[("<member>", marked)],
    );
    page.run("kubectl scale vg vmgroup-sample --replicas 2");
    eventually(sandbox, SOON, "the marked one is gone", || {
        let left = members();
        if left.len() == 2 && !left.contains(marked) { Ok(()) } else { Err(format!("{left:?}, without {marked}")) }
    });
}

fn shells(sandbox: &Sandbox) {
    let page = Page::open(sandbox, "docs/shells.md");
    page.run("kubectl apply -f config/samples/my-first-operator_v1alpha1_myownshell.yaml");
    page.run("kubectl scale myownshell myownshell-sample --replicas 5");
    eventually(sandbox, SOON, "there are five", || {
        let shown = page.run("kubectl get myownshells -o wide");
        let deployment = page.terminal.run("kubectl get deployments");
        let is_so = shown.contains("myownshell-sample") && deployment.contains(" 0/5 ");
        if is_so { Ok(()) } else { Err(format!("{shown}\n{deployment}")) }
    });
    page.run("kubectl delete myownshell myownshell-sample");
}

/// What is looked at before anything is applied, and then changed. What the pages show is what is printed, but for names and numbers.
fn a_vcenter_and_a_group(sandbox: &Sandbox) {
    let vcenter = sandbox.own_vcenter();
    let group = |spec: &Value| {
        let mut group = vm_group("web", spec);
        group["spec"]["vcenter"] = json!("lab");
        group
    };
    let page = Page::open(sandbox, "docs/vcenters.md");
    page.terminal.run(&format!("kubectl apply -f {}", write(sandbox, "secret", &[secret(&vcenter)])));
    page.run_with(
        "kubectl -n ops annotate secret lab vm.codeconnect.vmworld.com/server=vc.example.com",
        &[("-n ops", "-n default"), ("vc.example.com", &vcenter.host)],
    );
    let lab = |group: Value| write(sandbox, "lab", &[declared(&vcenter), group]);
    let line = "drover check -f lab.yaml";
    let wrong = lab(group(&json!({"placement": {"datastore": "fast"}})));
    let said = page.run_to(2, line, &[("lab.yaml", &wrong)]);
    let (_, said) = said.split_once("VCenter lab (").expect("the VCenter of the file is checked");
    assert_eq!(checks(said), checks(&page.printed(line)));
    page.terminal.run(&format!("kubectl apply -f {}", lab(group(&json!({})))));
    page.terminal.run("kubectl wait --for=condition=Ready vg/web --timeout=2m");
    let header = |text: &str| text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(header(&page.run("kubectl get vc")), header(&page.printed("kubectl get vc")));
    let shown = page.run(r#"kubectl get vg -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name} {.status.conditions[?(@.type=="Allowed")].message}{"\n"}{end}'"#);
    assert!(shown.lines().any(|line| line.trim() == "default/web"), "nothing is restricted: {shown}");
    page.terminal.run(r#"kubectl patch vc lab --type merge -p '{"spec":{"allow":[{"quota":{"vms":9}}]}}'"#);
    eventually(sandbox, SOON, "the quota is shown", || {
        let shown = page.run("kubectl describe vc lab");
        if shown.contains("Quotas:") { Ok(()) } else { Err(shown) }
    });

    let web = write(sandbox, "web", &[group(&json!({"replicas": 1}))]);
    let page = Page::open(sandbox, "docs/groups.md");
    let line = "drover plan -f web.yaml";
    let nameless = |text: &str| -> String {
        text.split("web-replica-").enumerate().map(|(at, part)| if at == 0 { part } else { &part[8..] }).collect()
    };
    assert_eq!(nameless(&page.run_to(2, line, &[("web.yaml", &web)])), nameless(&page.printed(line)));

    let page = Page::open(sandbox, "docs/command-line.md");
    let line = "drover plan -f web.yaml -o json";
    let said = page.run_to(2, line, &[("web.yaml", &web)]);
    for place in ["", "/vmGroups/0", "/vmGroups/0/actions/0"] {
        assert_eq!(fields(&said, place), fields(&page.printed(line), place), "{said}");
    }
    let line = "drover check -o json";
    let said = page.run(line);
    for place in ["", "/objects/0", "/objects/0/checks/0"] {
        assert_eq!(fields(&said, place), fields(&page.printed(line), place), "{said}");
    }

    let page = Page::open(sandbox, "docs/operate.md");
    page.run_with(
        r#"kubectl -n web patch vmgroup web --type=merge --patch '{"spec":{"paused":true}}'"#,
        &[("-n web", "-n default")],
    );
    eventually(sandbox, SOON, "the group is paused", || {
        let said = page.terminal.run("kubectl get vg web -o jsonpath='{.status.lastMessage}'");
        if said.contains("paused") { Ok(()) } else { Err(said) }
    });
}

/// As if the Prometheus operator was there: its kinds are.
fn monitors(sandbox: &Sandbox) {
    let definition = |(plural, kind): (&str, &str)| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        })
    };
    let kinds = [("servicemonitors", "ServiceMonitor"), ("prometheusrules", "PrometheusRule")].map(definition);
    let page = Page::open(sandbox, "docs/metrics.md");
    page.terminal.run(&format!("kubectl apply -f {}", write(sandbox, "kinds", &kinds)));
    page.terminal.run("kubectl wait --for=condition=Established crd --all --timeout=20s");
    page.terminal.run("kubectl create namespace drover-system");
    page.run("kubectl apply -k config/prometheus");
    let made = page.terminal.run("kubectl -n drover-system get servicemonitors,prometheusrules -o name");
    assert_eq!(made.lines().count(), 2, "{made}");
}

fn secret(vcenter: &VCenter) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lab", "namespace": "default"},
        "stringData": {"VC_USER": vcenter.user, "VC_PASS": vcenter.password},
    })
}

fn declared(vcenter: &VCenter) -> Value {
    let bundle = fs::read_to_string(&vcenter.ca_file).unwrap();
    json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": {"name": "lab"},
        "spec": {
            "server": vcenter.host,
            "credentialsSecretRef": {"namespace": "default", "name": "lab"},
            "tls": {"caBundle": bundle},
        },
    })
}

/// Writes a manifest, and returns its path.
fn write(sandbox: &Sandbox, name: &str, objects: &[Value]) -> String {
    let path = sandbox.dir().join(format!("{name}.yaml"));
    let documents: Vec<_> = objects.iter().map(Value::to_string).collect();
    fs::write(&path, documents.join("\n---\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Which checks are told of, and how each went.
fn checks(said: &str) -> Vec<String> {
    let lines = said.lines().filter(|line| line.starts_with("  "));
    lines.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect()
}

/// The names of what is at a place in a JSON text.
fn fields(text: &str, place: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let object = value.pointer(place).and_then(Value::as_object).unwrap_or_else(|| panic!("{place}: {text}"));
    object.keys().cloned().collect()
}
