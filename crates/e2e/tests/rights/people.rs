//! The roles for people, and the components that narrow what the operator may do.

use std::fs;

use drover_e2e::{SOON, Sandbox, eventually, relative_config};

/// Whether somebody may do something, as the API server says.
fn may(sandbox: &Sandbox, who: &str, words: &[&str]) -> bool {
    let me = format!("--as={who}");
    // It ends with 1 where the answer is no.
    sandbox.kubectl().run(&[&["auth", "can-i", &me], words].concat()).is_ok()
}

/// Looks at those who have Kubernetes' own roles in a namespace.
pub(crate) fn have_their_roles(sandbox: &Sandbox) {
    let team = sandbox.namespace("people");
    for role in ["view", "edit", "admin"] {
        team.kubectl(&["create", "rolebinding", role, &format!("--clusterrole={role}"), &format!("--user={role}er")])
            .unwrap();
    }
    // A controller of Kubernetes' adds roles to others.
    eventually(sandbox, SOON, "the roles are part of Kubernetes' own", || {
        let all = [("viewer", "list"), ("editer", "create"), ("adminer", "delete")];
        let lacks = all.into_iter().find(|(who, verb)| !may(sandbox, who, &[verb, "vmgroups", "-n", "people"]));
        lacks.map_or(Ok(()), |lacks| Err(format!("{lacks:?}")))
    });
    for (who, words, is_allowed) in [
        ("viewer", &["create", "vmgroups"][..], false),
        ("viewer", &["list", "vminfoes"], true),
        ("editer", &["patch", "vmgroups", "--subresource=scale"], true),
        ("editer", &["patch", "vmgroups", "--subresource=status"], false),
        ("editer", &["create", "myownshells"], true),
        ("adminer", &["patch", "vmgroups", "--subresource=status"], false),
        ("adminer", &["patch", "hostinfoes", "--subresource=status"], false),
        ("adminer", &["create", "vcenters"], false),
    ] {
        let asked = [words, &["-n", "people"]].concat();
        assert_eq!(may(sandbox, who, &asked), is_allowed, "{who} {words:?}");
    }
}

/// Looks at what the components make of the rights.
pub(crate) fn components_narrow_the_rights(sandbox: &Sandbox) {
    let overlay = sandbox.dir().join("narrow");
    fs::create_dir_all(overlay.join("default")).unwrap();
    let rbac = relative_config(&overlay.join("default"));
    let default = format!("namespace: drover-system\nnamePrefix: drover-\nresources: [{rbac}/rbac]\n");
    fs::write(overlay.join("default/kustomization.yaml"), default).unwrap();
    let config = relative_config(&overlay);
    let narrow = format!(
        "resources: [default]\ncomponents: [{config}/components/named-secrets, {config}/components/vcenter-secrets]\n"
    );
    fs::write(overlay.join("kustomization.yaml"), narrow).unwrap();
    let built =
        sandbox.kubectl().run(&["kustomize", overlay.to_str().unwrap()]).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(!built.contains("cloud-init-rolebinding") && built.contains("cloud-init-role"), "{built}");
    let secrets: Vec<_> = built.split("---\n").filter(|object| object.contains("  - secrets\n")).collect();
    for object in &secrets {
        let is_bound = !object.contains("name: drover-cloud-init-role");
        assert_eq!(object.contains("resourceNames:\n  - vc-creds\n"), is_bound, "{object}");
    }
    assert_eq!(secrets.len(), 3, "{built}");
    assert!(built.contains("namespace: vcenter-secrets\n"), "{built}");
}
