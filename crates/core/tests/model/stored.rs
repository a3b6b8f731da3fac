//! What the API server keeps of a group.

use drover_api::VmGroup;
use drover_core::vmgroup::record::Record;
use serde_json::json;

/// What the API server keeps of the group.
pub(crate) struct Stored {
    pub group: VmGroup,
    version: u64,
}

impl Stored {
    pub(crate) fn new() -> Self {
        let group = json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
            "metadata": {"namespace": "ns", "name": "group", "uid": "uid", "generation": 1, "resourceVersion": "1"},
            "spec": {"cpu": 1, "memory": 1, "replicas": 1, "template": "t"}, "status": {},
        });
        Self::of(serde_json::from_value(group).unwrap())
    }

    /// A group that was just created.
    pub(crate) fn of(group: VmGroup) -> Self {
        Self { group, version: 1 }
    }

    pub(crate) fn generation(&self) -> i64 {
        self.group.metadata.generation.unwrap_or(0)
    }

    pub(crate) fn note_edit(&mut self) {
        self.group.metadata.generation = Some(self.generation() + 1);
        self.note_write();
    }

    pub(crate) fn record(&self) -> Option<Record> {
        Record::read(self.group.status.as_ref()?.record.as_ref()?).ok()
    }

    pub(crate) fn note_write(&mut self) {
        self.version += 1;
        self.group.metadata.resource_version = Some(self.version.to_string());
    }
}
