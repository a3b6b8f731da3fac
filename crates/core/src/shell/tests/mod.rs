//! What a MyOwnShell comes to, played on a small API server that keeps what it is told.

mod ending;
mod keeping;
mod telling;

use drover_api::MyOwnShell;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::{plan::Object, *};
use crate::Timestamp;

const START: &str = "2026-01-01T00:00:00Z";

fn time(seconds: i64) -> Timestamp {
    START.parse::<Timestamp>().unwrap() + std::time::Duration::from_secs(seconds.unsigned_abs())
}

fn shell(spec: &Value) -> MyOwnShell {
    let mut whole = json!({"size": 3});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let metadata = json!({
        "name": "sample", "namespace": "default", "uid": "u1", "generation": 1,
        "creationTimestamp": START, "finalizers": [FINALIZER],
    });
    let api_version = "my-first-operator.jgato.io/v1alpha1";
    serde_json::from_value(
        json!({"apiVersion": api_version, "kind": "MyOwnShell", "metadata": metadata, "spec": whole}),
    )
    .unwrap()
}

fn planned(shell: &MyOwnShell, seen: &Seen, seconds: i64) -> Plan {
    plan(&Desired::of(shell).unwrap(), seen, "cluster.local", time(seconds))
}

/// Puts what was applied into what is seen, with what the API server adds.
fn carried_out(plan: &Plan, seen: &mut Seen) {
    for step in &plan.steps {
        match step {
            Step::Apply(manifest) => {
                let mut object = manifest.clone();
                object["metadata"]["resourceVersion"] = json!("7");
                object["metadata"]["generation"] = json!(1);
                match object["kind"].as_str().unwrap() {
                    "Deployment" => {
                        object["spec"]["strategy"] = json!({"type": "RollingUpdate"});
                        seen.deployment = Some(serde_json::from_value(object).unwrap());
                    }
                    "ConfigMap" => seen.file = Some(serde_json::from_value(object).unwrap()),
                    "Service" => seen.service = Some(serde_json::from_value(object).unwrap()),
                    _ => {
                        let slice: EndpointSlice = serde_json::from_value(object).unwrap();
                        seen.slices.retain(|there| there.metadata.name != slice.metadata.name);
                        seen.slices.push(slice);
                    }
                }
            }
            Step::Remove { object, .. } => match &**object {
                Object::Deployment(_) => seen.deployment = None,
                Object::File(_) => seen.file = None,
                Object::Service(_) => seen.service = None,
                Object::Slice(gone) => seen.slices.retain(|slice| slice.metadata.name != gone.metadata.name),
            },
            Step::Hold | Step::LetGo | Step::Release | Step::Nudge { .. } => {}
        }
    }
}

fn settled(shell: &MyOwnShell) -> Seen {
    let mut seen = Seen::default();
    carried_out(&planned(shell, &seen, 1), &mut seen);
    seen
}

fn changed(deployment: &Deployment, change: impl FnOnce(&mut Value)) -> Deployment {
    let mut value = serde_json::to_value(deployment).unwrap();
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

fn edited(seen: &Seen, change: impl FnOnce(&mut Value)) -> Seen {
    Seen { deployment: Some(changed(seen.deployment.as_ref().unwrap(), change)), ..seen.clone() }
}

fn words(status: &drover_api::MyOwnShellStatus) -> Vec<(&str, &str)> {
    status.conditions.iter().map(|condition| (condition.status.as_str(), condition.reason.as_str())).collect()
}
