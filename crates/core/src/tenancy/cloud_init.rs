//! Which Secrets of its namespace a group may have written into its VMs.

use drover_api::{vcenter::Reach, vmgroup::CLOUD_INIT_MARK};
use k8s_openapi::api::core::v1::Secret;

use super::rules::Rules;

/// What Kubernetes itself keeps tokens in. Nobody boots a VM with one of those but to read it there.
const TOKEN: &str = "kubernetes.io/service-account-token";

/// How far a namespace reaches, as far as that is enforced.
#[must_use]
pub fn reach(rules: Option<&Rules>) -> Reach {
    if rules.is_some_and(Rules::is_enforced) { Reach::Restricted } else { Reach::Open }
}

/// Why guests may not be told what is in a Secret, as a sentence. Whoever can read a VM's configuration reads it, and who may write groups
/// need not be allowed to read Secrets: so where namespaces are restricted, a Secret has to say that it is for guests.
#[must_use]
pub fn secret_obstacle(name: &str, secret: &Secret, reach: Reach) -> Option<String> {
    let kind = secret.type_.as_deref();
    if kind == Some(TOKEN) {
        return Some(format!("the Secret {name} is the token of a service account: it is written into no VM"));
    }
    let label = secret.metadata.labels.as_ref().and_then(|labels| labels.get(CLOUD_INIT_MARK));
    let is_marked = kind == Some(CLOUD_INIT_MARK) || label.is_some_and(|label| label == "true");
    (reach == Reach::Restricted && !is_marked).then(|| {
        format!("the Secret {name} is not marked for cloud-init: kubectl label secret {name} {CLOUD_INIT_MARK}=true")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(secret: Value, reach: Reach) -> String {
        secret_obstacle("boot", &serde_json::from_value(secret).unwrap(), reach).unwrap_or_default()
    }

    #[test]
    fn a_restricted_namespace_needs_a_secret_that_is_marked_and_nobody_gets_a_token() {
        let labelled = |value: &str| json!({"metadata": {"labels": {CLOUD_INIT_MARK: value}}});
        for (secret, is_marked) in [
            (json!({}), false),
            (json!({"type": "Opaque"}), false),
            (labelled("false"), false),
            (labelled("true"), true),
            (json!({"type": CLOUD_INIT_MARK}), true),
        ] {
            assert_eq!(said(secret.clone(), Reach::Open), "", "{secret}");
            let restricted = said(secret.clone(), Reach::Restricted);
            assert_eq!(restricted.is_empty(), is_marked, "{secret}: {restricted}");
        }
        let line = "kubectl label secret boot vm.codeconnect.vmworld.com/cloud-init=true";
        assert!(said(json!({}), Reach::Restricted).ends_with(line));
        let token = json!({"type": TOKEN, "metadata": labelled("true")["metadata"]});
        for reach in [Reach::Open, Reach::Restricted] {
            assert!(said(token.clone(), reach).contains("token of a service account"));
        }
    }
}
