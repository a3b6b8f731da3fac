//! The bundle for the Operator Lifecycle Manager, written from what kustomize builds: the same kinds, rights and Deployment as in
//! `dist/install.yaml`, in the words of a `ClusterServiceVersion`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

/// Where the bundle is, in the repository.
const BUNDLE: &str = "bundle";
/// The objects that OLM takes as they are.
const TAKEN_AS_THEY_ARE: [&str; 3] = ["Service", "PodDisruptionBudget", "PriorityClass"];
const DESCRIPTION: &str = "\
Drover runs groups of VMs on VMware vSphere, declared as Kubernetes objects, against any plain vCenter. It clones them from a template, \
keeps them as declared, rolls out changes, repairs drift, and publishes what hosts and VMs are and do.

A vCenter is named by the Secret `vc-creds` in the operator's namespace (`VC_HOST`, `VC_USER`, `VC_PASS`), or by VCenter objects.

Deleting the operator's Subscription and ClusterServiceVersion leaves all VmGroups and VMs as they are. Deleting the kind VmGroup deletes \
all VmGroups, and with them their VMs.";

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    #[error("{0} can't be run: {1}; `make bundle` builds it")]
    Kustomize(PathBuf, io::Error),
    #[error("kustomize: {0}")]
    Refused(String),
    #[error("{0} is not YAML: {1}")]
    Yaml(String, Box<serde_saphyr::Error>),
    #[error("a file of the bundle as YAML: {0}")]
    Written(#[from] serde_saphyr::ser::Error),
    #[error("config/default has no {0}")]
    Missing(&'static str),
    #[error("the bundle is not what config/ gives: run `make bundle`; these differ: {0}")]
    Stale(String),
}

/// Writes the bundle, with the kustomize at this path.
pub(crate) fn write(kustomize: &str) -> Result<String, Error> {
    let root = crate::root();
    let files = files(&root, Path::new(kustomize))?;
    let manifests = root.join(BUNDLE).join("manifests");
    if manifests.exists() {
        fs::remove_dir_all(&manifests).map_err(|error| Error::File(manifests.clone(), error))?;
    }
    for (path, text) in &files {
        let path = root.join(path);
        let dir = path.parent().unwrap_or(&root);
        fs::create_dir_all(dir).and_then(|()| fs::write(&path, text)).map_err(|error| Error::File(path, error))?;
    }
    Ok(format!("{} files of the bundle are written", files.len()))
}

/// Fails where the committed bundle differs from what would be written.
pub(crate) fn check(kustomize: &str) -> Result<String, Error> {
    let root = crate::root();
    let stale: Vec<_> = files(&root, Path::new(kustomize))?
        .into_iter()
        .filter(|(path, text)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(text))
        .map(|(path, _)| path)
        .collect();
    if stale.is_empty() { Ok("the bundle is current".to_owned()) } else { Err(Error::Stale(stale.join(", "))) }
}

/// All files of the bundle, by their paths in the repository.
fn files(root: &Path, kustomize: &Path) -> Result<BTreeMap<String, String>, Error> {
    // OLM configures webhooks itself, and makes their certificates.
    let (webhook, objects): (Vec<_>, Vec<_>) = built(root, kustomize, "config/default")?
        .into_iter()
        .partition(|object| text(&object["metadata"]["name"]).starts_with("drover-webhook-") || is_webhook(object));
    let samples = samples(root)?;
    let mut files = BTreeMap::from([
        (format!("{BUNDLE}/metadata/annotations.yaml"), serde_saphyr::to_string(&annotations())?),
        (
            format!("{BUNDLE}/manifests/drover.clusterserviceversion.yaml"),
            serde_saphyr::to_string(&csv(&objects, &webhook, &samples)?)?,
        ),
    ]);
    for object in &objects {
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let is_a_users_role = kind == "ClusterRole" && !is_the_operators(&objects, name);
        if kind == "CustomResourceDefinition" || is_a_users_role || TAKEN_AS_THEY_ARE.contains(&kind) {
            let mut object = object.clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                // OLM puts it into the operator's namespace.
                metadata.remove("namespace");
            }
            let path = format!("{BUNDLE}/manifests/{name}_{}.yaml", kind.to_lowercase());
            files.insert(path, serde_saphyr::to_string(&object)?);
        }
    }
    Ok(files)
}

fn built(root: &Path, kustomize: &Path, folder: &str) -> Result<Vec<Value>, Error> {
    let output = Command::new(kustomize)
        .args(["build", folder])
        .current_dir(root)
        .output()
        .map_err(|error| Error::Kustomize(kustomize.to_owned(), error))?;
    if !output.status.success() {
        return Err(Error::Refused(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    serde_saphyr::from_multiple(&text).map_err(|error| Error::Yaml(folder.to_owned(), Box::new(error)))
}

/// The samples that users get, the shortest of each kind first.
fn samples(root: &Path) -> Result<Vec<Value>, Error> {
    let dir = root.join("config/samples");
    let unreadable = |error| Error::File(dir.clone(), error);
    let mut paths: Vec<_> = fs::read_dir(&dir)
        .map_err(unreadable)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    paths.sort();
    let mut samples = Vec::new();
    for path in paths.iter().filter(|path| path.file_name().is_some_and(|name| name != "kustomization.yaml")) {
        let manifest = fs::read_to_string(path).map_err(|error| Error::File(path.clone(), error))?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&manifest)
            .map_err(|error| Error::Yaml(path.display().to_string(), Box::new(error)))?;
        samples.extend(objects.into_iter().filter(|object| text(&object["apiVersion"]).contains('.')));
    }
    Ok(samples)
}

fn annotations() -> Value {
    json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": "drover",
        "operators.operatorframework.io.bundle.channels.v1": "alpha",
        "operators.operatorframework.io.bundle.channel.default.v1": "alpha",
    }})
}

fn is_webhook(object: &Value) -> bool {
    text(&object["kind"]) == "ValidatingWebhookConfiguration"
}

/// Where OLM has the certificates of webhooks.
const OLM_CERTIFICATES: &str = "--webhook-cert-dir=/tmp/k8s-webhook-server/serving-certs";

/// The webhooks as OLM has them declared.
fn webhook_definitions(webhook: &[Value], deployment: &Value) -> Vec<Value> {
    let hooks = webhook.iter().filter(|object| is_webhook(object)).filter_map(|object| object["webhooks"].as_array());
    let definition = |hook: &Value| {
        json!({
            "type": "ValidatingAdmissionWebhook",
            "generateName": hook["name"],
            "deploymentName": deployment["metadata"]["name"],
            "containerPort": 443,
            "targetPort": 9443,
            "webhookPath": hook["clientConfig"]["service"]["path"],
            "rules": hook["rules"],
            "failurePolicy": hook["failurePolicy"],
            "matchPolicy": hook["matchPolicy"],
            "sideEffects": hook["sideEffects"],
            "timeoutSeconds": hook["timeoutSeconds"],
            "admissionReviewVersions": hook["admissionReviewVersions"],
        })
    };
    hooks.flatten().map(definition).collect()
}

fn csv(objects: &[Value], webhook: &[Value], samples: &[Value]) -> Result<Value, Error> {
    let version = env!("CARGO_PKG_VERSION");
    let mut deployment = of_kind(objects, "Deployment").next().ok_or(Error::Missing("Deployment"))?.clone();
    if let Some(arguments) = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array_mut() {
        arguments.push(OLM_CERTIFICATES.into());
    }
    let pod = &deployment["spec"]["template"]["spec"];
    let account = text(&pod["serviceAccountName"]);
    // Only the first sample of each kind: the console offers one.
    let mut examples: Vec<&Value> = Vec::new();
    for sample in samples {
        if !examples.iter().any(|known| known["kind"] == sample["kind"]) {
            examples.push(sample);
        }
    }
    let examples = serde_json::to_string_pretty(&examples).unwrap_or_default();
    let permissions = |bindings: &str, roles: &str| -> Vec<Value> {
        let rules: Vec<Value> = of_kind(objects, bindings)
            .filter(|binding| text(&binding["roleRef"]["kind"]) == roles && is_bound_to(binding, account))
            .filter_map(|binding| {
                of_kind(objects, roles).find(|role| role["metadata"]["name"] == binding["roleRef"]["name"])
            })
            .flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default())
            .collect();
        vec![json!({"serviceAccountName": account, "rules": rules})]
    };
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("drover.v{version}"),
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": examples,
                "capabilities": "Full Lifecycle",
                "categories": "Cloud Provider",
                "containerImage": pod["containers"][0]["image"],
                "description": "Groups of VMs on VMware vSphere, declared with kubectl and GitOps",
            },
        },
        "spec": {
            "displayName": "Drover",
            "description": DESCRIPTION,
            "version": version,
            "maturity": "alpha",
            "minKubeVersion": "1.30.0",
            "keywords": ["vsphere", "vcenter", "vmware", "virtual machines"],
            "maintainers": [{"name": "The Drover authors", "email": "maintainers@drover.invalid"}],
            "provider": {"name": "The Drover authors"},
            "icon": [{"base64data": ICON, "mediatype": "image/svg+xml"}],
            "installModes": [
                {"type": "OwnNamespace", "supported": false},
                {"type": "SingleNamespace", "supported": false},
                {"type": "MultiNamespace", "supported": false},
                {"type": "AllNamespaces", "supported": true},
            ],
            "customresourcedefinitions": {"owned": of_kind(objects, "CustomResourceDefinition").map(owned).collect::<Vec<_>>()},
            "webhookdefinitions": webhook_definitions(webhook, &deployment),
            "install": {
                "strategy": "deployment",
                "spec": {
                    "clusterPermissions": permissions("ClusterRoleBinding", "ClusterRole"),
                    "permissions": permissions("RoleBinding", "Role"),
                    "deployments": [{
                        "name": deployment["metadata"]["name"],
                        "label": deployment["metadata"]["labels"],
                        "spec": deployment["spec"],
                    }],
                },
            },
        },
    }))
}

fn owned(crd: &Value) -> Value {
    let version = &crd["spec"]["versions"][0];
    json!({
        "name": crd["metadata"]["name"],
        "kind": crd["spec"]["names"]["kind"],
        "version": version["name"],
        "displayName": crd["spec"]["names"]["kind"],
        "description": version["schema"]["openAPIV3Schema"]["description"],
    })
}

/// Whether a role is one that is bound here: to the operator. The others are for users.
fn is_the_operators(objects: &[Value], role: &str) -> bool {
    let bindings = objects.iter().filter(|object| text(&object["kind"]).ends_with("RoleBinding"));
    bindings
        .filter(|binding| text(&binding["roleRef"]["kind"]) == "ClusterRole")
        .any(|binding| text(&binding["roleRef"]["name"]) == role)
}

fn is_bound_to(binding: &Value, account: &str) -> bool {
    binding["subjects"]
        .as_array()
        .is_some_and(|subjects| subjects.iter().any(|subject| text(&subject["name"]) == account))
}

fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| text(&object["kind"]) == kind)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Three VMs in a pen, as SVG in base64.
const ICON: &str = include_str!("icon.base64");
