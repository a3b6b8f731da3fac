//! All the vCenters, and which of them serves whom.

use std::sync::Arc;

use crate::vcenter::Live;

/// The name of the vCenter that the environment gives.
pub const DEFAULT: &str = "default";

/// All the vCenters.
pub struct Fleet {
    /// The one that the environment names.
    default: Arc<Live>,
}

/// Why no vCenter serves an object, as a sentence for `spec.vcenter`.
#[derive(Debug, thiserror::Error)]
pub enum NoVCenter {
    #[error("there is no VCenter {0:?}: the environment gives one called default")]
    Unknown(String),
}

impl Fleet {
    pub fn new(default: Arc<Live>) -> Self {
        Self { default }
    }

    /// The vCenter for an object in a namespace, whose spec may name one.
    pub fn choose(&self, _namespace: &str, named: Option<&str>) -> Result<Arc<Live>, NoVCenter> {
        match named {
            None | Some(DEFAULT) => Ok(Arc::clone(&self.default)),
            Some(name) => Err(NoVCenter::Unknown(name.to_owned())),
        }
    }
}
