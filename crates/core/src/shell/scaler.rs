//! Who says how many replicas the Deployment has, where it isn't the MyOwnShell.
//!
//! A number that a person sets by hand is put right. One that an autoscaler sets is left to it, for as long as it is there: a
//! HorizontalPodAutoscaler that targets the Deployment, or another program that the API server has down as the number's owner,
//! because it set it through the scale subresource, or declares it by server-side apply.

use k8s_openapi::{
    api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler},
    apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry,
};

use super::MANAGER;

/// What people scale with by hand. `kubectl` has a name for each of its commands, such as `kubectl-edit`.
const HANDS: [&str; 3] = ["kubectl", "k9s", "oc"];
/// It scales for HorizontalPodAutoscalers, which are looked at themselves: the number stays its own when they are gone.
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// Who scales the Deployment, if anybody does, in words.
pub(super) fn scaler(deployment: &Deployment, autoscalers: &[HorizontalPodAutoscaler]) -> Option<String> {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let targets = |autoscaler: &&HorizontalPodAutoscaler| {
        let target = autoscaler.spec.as_ref().map(|spec| &spec.scale_target_ref);
        target.is_some_and(|target| {
            let is_app = target.api_version.as_deref().is_none_or(|version| version.starts_with("apps/"));
            is_app && target.kind == "Deployment" && target.name == name
        })
    };
    if let Some(autoscaler) = autoscalers.iter().find(targets) {
        let name = autoscaler.metadata.name.as_deref().unwrap_or_default();
        return Some(format!("HorizontalPodAutoscaler {name}"));
    }
    let mut owners = owners(deployment).filter(|entry| is_program(entry));
    owners.find_map(|entry| entry.manager.clone())
}

/// Whether the number of replicas is Drover's own, so that leaving it out of a manifest would take it away.
pub(super) fn is_ours(deployment: &Deployment) -> bool {
    owners(deployment).any(|entry| entry.manager.as_deref() == Some(MANAGER))
}

/// Whom the API server has down for the number of replicas.
fn owners(deployment: &Deployment) -> impl Iterator<Item = &ManagedFieldsEntry> {
    let entries = deployment.metadata.managed_fields.iter().flatten();
    entries.filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| !fields["f:spec"]["f:replicas"].is_null())
    })
}

fn is_program(entry: &ManagedFieldsEntry) -> bool {
    let manager = entry.manager.as_deref().unwrap_or_default();
    let is_hand = HANDS
        .iter()
        .any(|hand| manager.strip_prefix(hand).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)));
    let scales = entry.subresource.as_deref() == Some("scale");
    let declares = entry.operation.as_deref() == Some("Apply");
    (scales || declares) && !is_hand && manager != MANAGER && manager != CONTROLLER_MANAGER
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(entries: &[(&str, &str, &str)]) -> Deployment {
        let entry = |(manager, operation, subresource): &(&str, &str, &str)| {
            let mut entry =
                json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": {"f:replicas": {}}}});
            if !subresource.is_empty() {
                entry["subresource"] = json!(subresource);
            }
            entry
        };
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        serde_json::from_value(json!({"metadata": {"name": "web", "managedFields": entries}})).unwrap()
    }

    fn autoscaler(kind: &str, name: &str) -> HorizontalPodAutoscaler {
        let target = json!({"apiVersion": "apps/v1", "kind": kind, "name": name});
        let spec = json!({"scaleTargetRef": target, "maxReplicas": 5});
        serde_json::from_value(json!({"metadata": {"name": "busy"}, "spec": spec})).unwrap()
    }

    #[test]
    fn an_autoscaler_of_the_deployment_scales_it() {
        let deployment = deployment(&[("drover", "Apply", "")]);
        let expected = Some("HorizontalPodAutoscaler busy".to_owned());
        assert_eq!(scaler(&deployment, &[autoscaler("Deployment", "web")]), expected);
        assert_eq!(scaler(&deployment, &[autoscaler("Deployment", "other"), autoscaler("StatefulSet", "web")]), None);
    }

    #[test]
    fn a_program_that_owns_the_number_scales_and_a_hand_does_not() {
        for (entry, expected) in [
            (("keda", "Update", "scale"), Some("keda")),
            (("fleet-scaler", "Apply", ""), Some("fleet-scaler")),
            (("octopus", "Update", "scale"), Some("octopus")),
            (("kubectl", "Update", "scale"), None),
            (("kubectl", "Apply", ""), None),
            (("kubectl-edit", "Update", ""), None),
            (("k9s", "Update", "scale"), None),
            (("some-script", "Update", ""), None),
            (("kube-controller-manager", "Update", "scale"), None),
            (("drover", "Apply", ""), None),
        ] {
            let deployment = deployment(&[entry]);
            assert_eq!(scaler(&deployment, &[]).as_deref(), expected, "{entry:?}");
            assert_eq!(is_ours(&deployment), entry.0 == "drover", "{entry:?}");
        }
    }
}
