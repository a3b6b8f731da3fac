//! How much of a node's resources a shell asks for and may use.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds;

/// CPU, memory and other resources of each shell's container.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    /// Resources that the node reserves for each shell, such as `cpu: 100m` and `memory: 64Mi`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub requests: BTreeMap<String, Amount>,
    /// Resources that each shell can use at most, such as `cpu: 500m` and `memory: 256Mi`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub limits: BTreeMap<String, Amount>,
}

impl Resources {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// An amount as Kubernetes writes it: a number, or text such as `100m` or `64Mi`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Amount {
    /// So many.
    Number(i64),
    /// Such as `64Mi`.
    Text(String),
}

impl Amount {
    /// The amount as text, which is how the API server keeps it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "maximum": bounds::NUMBER,
            "maxLength": 64,
            // A rule with a sentence would cost more than the API server lets rules on so many texts cost.
            "pattern": "^[0-9]+([.][0-9]+)?([numkMGTPE]|[KMGTPE]i|[eE][0-9]+)?$",
        })
    }
}
