//! What the operator may do in a cluster: no more than it needs, and what it lacks is said.
//!
//! The operator runs as its service account on an API server that checks every right. At first the account has none. Each right
//! whose lack the operator tells of, in a condition, an event or its log, is granted, until all kinds have been served from creation to
//! deletion. What was granted then is what `config/rbac` grants: each right in it is needed, and its lack is seen.

mod account;
mod ladder;
mod namespaced;
mod people;

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path, process, sync::OnceLock};

use drover_e2e::{Program, Sandbox};

/// An API server that asks for the right to hold an owner back, as `OpenShift`'s does.
const APISERVER: &str = "exec \"$SANDBOX\" kube-apiserver \"$@\" \
                         --enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement";

/// One for all tests.
fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let (dir, assets) = (Sandbox::folder("rights"), assets());
        let owner = process::id().to_string();
        let up = Program::of_sandbox(&["up", "--dir", dir.to_str().unwrap(), "--owner", &owner]).with(&assets);
        up.run(&["--vcenters=2", "--hosts=2"]).unwrap_or_else(|failure| panic!("{failure}"));
        let sandbox = Sandbox::at(dir);
        sandbox.install_kinds();
        sandbox
    })
}

/// A folder with the programs that the sandbox runs in the place of its own.
fn assets() -> BTreeMap<String, String> {
    let sandbox = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sandbox/bin/sandbox").canonicalize().unwrap();
    let dir = Sandbox::folder("rights-assets");
    fs::create_dir_all(&dir).unwrap();
    for (program, script) in [("etcd", "exec \"$SANDBOX\" etcd \"$@\""), ("kube-apiserver", APISERVER)] {
        let script = script.replace("$SANDBOX", sandbox.to_str().unwrap());
        fs::write(dir.join(program), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(dir.join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    BTreeMap::from([("KUBEBUILDER_ASSETS".to_owned(), dir.to_str().unwrap().to_owned())])
}
