//! Places that a VmGroup may not use, and rules that are not enforced yet.

use drover_e2e::{Group, SOON, Sandbox, Terminal, eventually};
use serde_json::{Value, json};

use crate::{configure, free_port, start};

#[test]
fn a_place_that_is_not_allowed_is_refused_and_warned_of_before_that_is_enforced() {
    let sandbox = &Sandbox::start("places", &["--vcenters=2"]).unwrap();
    sandbox.install_kinds();
    let port = free_port();
    configure(sandbox, &[port]);
    let _operator = start("first", sandbox, port);
    let lab = sandbox.own_vcenter();
    let allow = json!([{"templates": ["/DC0/vm/vm-operator/vm-operator-template"]}]);
    lab.declare(sandbox, "lab", &json!({"reach": "Restricted", "allow": allow}));
    for govc in [&["folder.create", "/DC0/vm/theirs"][..], &["pool.create", "*/Resources/theirs"]] {
        lab.govc(govc).unwrap();
    }
    let group = Group::create(sandbox, "places", &json!({"vcenter": "lab", "replicas": 1})).in_vcenter(&lab);
    group.runs_with(1);
    let before = group.identities();
    lab.forget_calls();
    let first = |kind: &str| lab.govc(&["find", "/", "-type", kind]).unwrap().lines().next().unwrap().to_owned();
    let (cluster, datastore) = (first("ClusterComputeResource"), first("Datastore"));
    let (pool, network) = (format!("{cluster}/Resources/theirs"), "/DC0/network/VM Network");
    let places = [
        (json!({"placement": {"folder": "/DC0/vm/theirs"}}), "placement.folder", "folder", "/DC0/vm/theirs"),
        (json!({"placement": {"resourcePool": pool}}), "placement.resourcePool", "resource pool", &*pool),
        (json!({"placement": {"cluster": cluster}}), "placement.cluster", "cluster", &cluster),
        (json!({"placement": {"datastore": datastore}}), "placement.datastore", "datastore", &datastore),
        (json!({"networks": [network]}), "networks", "network", network),
    ];
    let patched = |spec: &Value, flags: &str| {
        let line = format!("patch vg places --type=merge {flags} -p '{}'", json!({ "spec": spec }));
        Terminal::of(sandbox).run(&format!("kubectl -n places {line} 2>&1 || true"))
    };
    let sentence = |field: &str, noun: &str, word: &str| {
        format!("spec.{field}: namespace \"places\" may use no {noun} {word:?} in VCenter \"lab\"")
    };
    for (spec, field, noun, word) in &places {
        eventually(sandbox, SOON, &format!("{field} is refused"), || {
            let said = patched(spec, "--dry-run=server");
            let words = format!("denied the request: {}", sentence(field, noun, word));
            if said.contains(&words) && said.matches("may use no").count() == 1 { Ok(()) } else { Err(said) }
        });
        // What isn't there reads the same.
        let nothing: Value = serde_json::from_str(&spec.to_string().replace(word, "nothing")).unwrap();
        let said = patched(&nothing, "");
        assert!(said.contains(&sentence(field, noun, "nothing")), "{said}");
    }
    assert_eq!(group.get().unwrap()["metadata"]["generation"], 1, "nothing is stored");

    let patch = json!({"spec": {"enforce": "Warn"}}).to_string();
    sandbox.kubectl().run(&["patch", "vc", "lab", "--type=merge", "-p", &patch]).unwrap();
    for (spec, field, noun, word) in &places {
        eventually(sandbox, SOON, &format!("{field} is warned of"), || {
            let said = patched(spec, "--dry-run=server");
            let is_warned = said.contains(&format!("Warning: would be refused: {}", sentence(field, noun, word)));
            if is_warned && said.contains("patched") { Ok(()) } else { Err(said) }
        });
    }
    assert_eq!(group.identities(), before);
    assert_eq!(lab.calls("CloneVM_Task", "drover"), 0);
    // Who means it is warned too, and let in.
    let (spec, field, noun, word) = &places[0];
    let said = patched(spec, "");
    assert!(said.contains(&sentence(field, noun, word)) && said.contains("patched"), "{said}");
    assert_eq!(group.get().unwrap()["spec"]["placement"]["folder"], "/DC0/vm/theirs");
}
