//! VMs that nothing is cloned from.

use drover_e2e::{Group, SOON, Sandbox, Terminal, eventually, vm_group};
use serde_json::{Value, json};

use crate::{configure, free_port, start};

const GOLDEN: &str = "/DC0/vm/golden";

#[test]
fn a_vm_that_runs_or_is_a_groups_is_refused_as_a_template_before_it_is_stored() {
    let sandbox = &Sandbox::start("templates", &[]).unwrap();
    sandbox.install_kinds();
    let port = free_port();
    configure(sandbox, &[port]);
    let _operator = start("first", sandbox, port);
    let vcenter = sandbox.vcenter();
    let template = "/DC0/vm/vm-operator/vm-operator-template";
    vcenter.govc(&["vm.clone", "-vm.ipath", template, "-folder", "/DC0/vm", "-on=false", "golden"]).unwrap();
    let group = Group::create(sandbox, "cloned", &json!({"replicas": 1, "template": GOLDEN}));
    group.runs_with(1);
    let tried = |command: &str, object: &Value| {
        let manifest = sandbox.dir().join("tried.json");
        std::fs::write(&manifest, object.to_string()).unwrap();
        let file = manifest.display();
        Terminal::of(sandbox).run(&format!("kubectl -n cloned {command} --dry-run=server -f {file} 2>&1 || true"))
    };
    let created = |template: &str| tried("create", &vm_group("another", &json!({"replicas": 1, "template": template})));
    let patched = |spec: &Value| {
        let line = format!("patch vg cloned --type=merge --dry-run=server -p '{}'", json!({ "spec": spec }));
        Terminal::of(sandbox).run(&format!("kubectl -n cloned {line} 2>&1 || true"))
    };
    let is_let_in = |template: &str| {
        eventually(sandbox, SOON, &format!("{template} is let in"), || {
            let said = created(template);
            if said.contains("another created") && !said.contains("spec.template") { Ok(()) } else { Err(said) }
        });
    };
    is_let_in(GOLDEN);

    vcenter.govc(&["vm.power", "-on", GOLDEN]).unwrap();
    let runs = "is powered on: use a template of vCenter, or a VM that is powered off";
    eventually(sandbox, SOON, "a VM that runs is refused", || {
        let said = created(GOLDEN);
        let words = format!("denied the request: spec.template: {GOLDEN:?} {runs}");
        if said.contains(&words) { Ok(()) } else { Err(said) }
    });
    let member = vcenter.machines().into_iter().find(|path| path.contains("/cloned-replica-")).unwrap();
    let id = vcenter.govc(&["find", "-i", &member, "-maxdepth", "0"]).unwrap();
    let id = format!("moref:{}", id.trim().split_once(':').unwrap().1);
    vcenter.forget_calls();
    for word in [&*member, member.rsplit('/').next().unwrap(), &id] {
        let words = format!("denied the request: spec.template: {word:?} is a VM of a VmGroup: clone it to a template");
        for said in [created(word), patched(&json!({"template": word}))] {
            assert!(said.contains(&words), "{said}");
        }
    }
    assert_eq!(vcenter.calls("FindByInventoryPath", "drover"), 0, "nothing is asked of vCenter");
    // Whoever has it already is told that nothing new comes of it, and may change all the rest.
    for spec in [json!({"replicas": 2}), json!({"replicas": 2, "networks": ["VM Network"]})] {
        let said = patched(&spec);
        let is_warned = said.contains(&format!("Warning: spec.template: {GOLDEN:?} {runs}"));
        assert!(is_warned && said.contains("patched") && !said.contains("creates"), "{said}");
    }
    // Nothing is cloned for a group that has no VMs.
    let none = patched(&json!({"replicas": 0}));
    assert!(none.contains("patched") && !none.contains("spec.template"), "{none}");
    // Of a vCenter that is away, nobody knows what runs there.
    vcenter.control("POST", "/outage", &json!({"for": "1h"})).unwrap();
    is_let_in(GOLDEN);
    vcenter.control("POST", "/outage", &json!({"for": "0s"})).unwrap();
    eventually(sandbox, SOON, "it is refused again", || {
        let said = created(GOLDEN);
        if said.contains("denied the request") { Ok(()) } else { Err(said) }
    });
    vcenter.govc(&["vm.power", "-off", "-force", GOLDEN]).unwrap();
    is_let_in(GOLDEN);
}
