//! What the guests of a group are told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the guests are told.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Guest {
    /// Data for cloud-init, passed through guestinfo. `{{name}}`, `{{slot}}`, `{{group}}` and `{{namespace}}` in it become the
    /// machine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CloudInit")]
    pub cloud_init: Option<CloudInit>,
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
    /// The user data, such as a `#cloud-config` document.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Text")]
    pub user_data: Option<Text>,
    /// The metadata, such as `local-hostname: {{name}}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Text")]
    pub metadata: Option<Text>,
}

/// Text that stands here or in a Secret.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.inline) != has(self.secretKeyRef)",
    "message": "give either inline or secretKeyRef",
}]))]
pub struct Text {
    /// The text itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 65536))]
    pub inline: Option<String>,
    /// A key of a Secret in the group's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecretKey")]
    pub secret_key_ref: Option<SecretKey>,
}

/// A key of a Secret.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// The Secret's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in it.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}
