//! What the guests of a group are told.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of the guest operating system.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.cloudInit) || !has(self.network) || self.network != 'Customization'",
    "message": "network can't be Customization where cloudInit is given: both would set up the network of the guest",
}]))]
pub struct Guest {
    /// Data for cloud-init, which reads the data from guestinfo when a new VM starts. `{{name}}`, `{{slot}}`, `{{group}}` and
    /// `{{namespace}}` are replaced by the VM's own values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CloudInit")]
    pub cloud_init: Option<CloudInit>,
    /// Way in which guests are told their addresses and hostname. `CloudInit` (default): metadata for cloud-init, in guestinfo.
    /// `Customization`: guest customization of Linux by vSphere, for templates without cloud-init.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "GuestNetwork")]
    pub network: Option<GuestNetwork>,
    /// Hostname of the guest, such as `web-{{slot}}`. `{{name}}`, `{{slot}}`, `{{group}}` and `{{namespace}}` are replaced by the VM's
    /// own values. Letters, digits, dashes and dots, at most 63 characters in all. Default: the guest's own choice; with
    /// `Customization`, the name of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 253), regex(pattern = "^[0-9A-Za-z{}.-]+$"))]
    pub hostname: Option<String>,
}

/// Way in which guests are told their addresses and hostname.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum GuestNetwork {
    /// Metadata for cloud-init.
    #[default]
    CloudInit,
    /// Guest customization by vSphere.
    Customization,
}

impl Guest {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Data for cloud-init.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CloudInit {
    /// User data, such as a `#cloud-config` document.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Text")]
    pub user_data: Option<Text>,
    /// Metadata, such as `local-hostname: {{name}}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Text")]
    pub metadata: Option<Text>,
}

/// Text, given inline or in a Secret. Exactly one field has to be set.
#[derive(Clone, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.inline) != has(self.secretKeyRef)",
    "message": "give either inline or secretKeyRef",
}]))]
pub struct Text {
    /// Text itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 65536))]
    pub inline: Option<String>,
    /// Key of a Secret in the VmGroup's namespace. A Secret of the type `kubernetes.io/service-account-token` is refused. Where spec.reach
    /// of the VCenter is `Restricted`, the Secret needs the label `vm.codeconnect.vmworld.com/cloud-init: "true"`, or the type
    /// `vm.codeconnect.vmworld.com/cloud-init`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecretKey")]
    pub secret_key_ref: Option<SecretKey>,
}

/// The text may hold passwords: whoever prints a group prints where it is, and not what it says.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inline = self.inline.as_ref().map(|_| format_args!("…"));
        f.debug_struct("Text").field("inline", &inline).field("secret_key_ref", &self.secret_key_ref).finish()
    }
}

/// Key of a Secret.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_guests_are_told_is_not_printed() {
        let text = Text { inline: Some("hush".to_owned()), secret_key_ref: None };
        let cloud_init = Some(CloudInit { user_data: Some(text), metadata: None });
        let guest = Guest { cloud_init, ..Guest::default() };
        let printed = format!("{guest:?}");
        assert!(printed.contains("inline: Some(…)") && !printed.contains("hush"), "{printed}");
    }
}
