//! Statuses as they are written: whole, by server-side apply, and by one manager, so that what is no longer said goes away. What a newer
//! version has said and this one doesn't know is said again.

use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use drover_api::Tolerant;
pub(crate) use drover_core::status::{difference, merge, standing, value};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::object::HasStatus,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Who all statuses are written by.
const MANAGER: &str = "drover";
/// What the API server says of a field that the kind doesn't have.
const UNDECLARED: &str = ": field not declared in schema";

/// No status waits longer than this for its turn.
const LONGEST: Duration = Duration::from_secs(5);

/// What Drover may patch of a kind's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All of them.
    Object,
    /// Their statuses alone.
    Status,
}

/// When each object's status was last written, by UID. Any may be lost: then one is written early.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<HashMap<String, Instant>>);

impl Throttle {
    /// How long to wait before a status may be written, if it is too early, and nothing is urgent. Otherwise it counts as written.
    pub(crate) fn wait(&self, uid: &str, between: Duration, is_urgent: bool) -> Option<Duration> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let early = written.get(uid).and_then(|written| between.checked_sub(written.elapsed()));
        if early.is_some() && !is_urgent {
            return early;
        }
        // Those that are older keep nobody waiting. Some of them are gone.
        written.retain(|_, written| written.elapsed() < LONGEST);
        written.insert(uid.to_owned(), Instant::now());
        None
    }

    /// It was not written after all.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

/// Writes an object's whole status, and returns the object as it is then, unless it is gone. It is written over this very version of the
/// object, because what a newer operator has said since would be lost: if there is another, the API server says 409.
pub(crate) async fn apply<K>(
    api: &Api<K>,
    object: &K,
    reach: Reach,
    mut status: Value,
) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + HasStatus<Status: Serialize + Tolerant> + Clone + Debug + DeserializeOwned,
{
    let name = object.name_any();
    keep_unknown(object, &mut status);
    let mut body = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": name}, "status": status,
    });
    if let Some(version) = object.resource_version() {
        body["metadata"]["resourceVersion"] = version.into();
    }
    let mut outcome = send(api, &name, &body).await;
    while let Err(kube::Error::Api(refusal)) = &outcome
        && leave_out(&mut body["status"], &refusal.message)
    {
        // The kind is older than this operator. All else can be said, and each time there is less to leave out.
        outcome = send(api, &name, &body).await;
    }
    let written = match outcome {
        Err(kube::Error::Api(gone)) if gone.code == 404 => return Ok(None),
        outcome => outcome?,
    };
    match united(written.managed_fields()) {
        None => Ok(Some(written)),
        Some(entries) => {
            let cleaned = match reach {
                Reach::Object => take_over(api, &name, &written, &entries, &mut body).await,
                Reach::Status => remove_rest(api, &name, &written, &body["status"]).await,
            };
            match cleaned {
                // Somebody was faster. It is tried again with the next write.
                Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => Ok(Some(written)),
                cleaned => cleaned.map(|cleaned| cleaned.or(Some(written))),
            }
        }
    }
}

/// What came of a write, where the turn of an object comes again when another version of it is told of: then nothing is written.
pub(crate) fn unless_overtaken<K>(outcome: Result<Option<K>, kube::Error>) -> Result<Option<K>, kube::Error> {
    match outcome {
        Err(kube::Error::Api(refusal)) if refusal.code == 409 => Ok(None),
        outcome => outcome,
    }
}

/// Adds to a status what the object's status says and this version doesn't know.
fn keep_unknown(object: &impl HasStatus<Status: Tolerant>, status: &mut Value) {
    if let (Some(before), Some(status)) = (object.status(), status.as_object_mut()) {
        before.keep_unknown(status);
    }
}

/// Has Drover alone manage a status that others have written, too: earlier versions, by merge patches, or a person. What is theirs alone
/// goes.
async fn take_over<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    name: &str,
    written: &K,
    entries: &[ManagedFieldsEntry],
    body: &mut Value,
) -> Result<Option<K>, kube::Error> {
    // Only of the object itself can managers be changed.
    let theirs = json!({"metadata": {"resourceVersion": written.resource_version(), "managedFields": entries}});
    let taken: K = api.patch(name, &params(), &Patch::Merge(theirs)).await?;
    body["metadata"]["resourceVersion"] = taken.resource_version().into();
    send(api, name, body).await.map(Some)
}

/// Removes what others have written of a status and Drover doesn't say, where Drover may change nothing but statuses.
async fn remove_rest<K>(api: &Api<K>, name: &str, written: &K, status: &Value) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + HasStatus<Status: Serialize + Tolerant> + Clone + Debug + DeserializeOwned,
{
    let mut stands = written.status().map(standing).unwrap_or_default();
    keep_unknown(written, &mut stands);
    let rest = difference(&stands, status);
    if rest.as_object().is_none_or(Map::is_empty) {
        return Ok(None);
    }
    let patch = json!({"metadata": {"resourceVersion": written.resource_version()}, "status": rest});
    api.patch_status(name, &params(), &Patch::Merge(patch)).await.map(Some)
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

async fn send<K: Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str, body: &Value) -> Result<K, kube::Error> {
    api.patch_status(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await
}

/// Leaves out what the API server says that the kind doesn't have, and says whether there was any of that.
fn leave_out(status: &mut Value, refusal: &str) -> bool {
    let mut has_changed = false;
    for said in refusal.split(UNDECLARED).filter_map(|said| said.split_once(" .status.")) {
        // What is in a list is named as `list[key="value"].field`, for each item by itself.
        let (path, field) = said.1.rsplit_once(']').unwrap_or(("", said.1));
        let above = path.split_once('[').map(|(list, _)| list);
        let mut names: Vec<_> = above.into_iter().chain([field]).flat_map(|part| part.split('.')).collect();
        let Some(last) = names.pop() else { continue };
        names.retain(|name| !name.is_empty());
        let parent = names.iter().try_fold(&mut *status, |parent, name| parent.get_mut(*name));
        has_changed |= match parent {
            Some(Value::Object(parent)) => parent.remove(last).is_some(),
            Some(Value::Array(items)) => {
                let items = items.iter_mut().filter_map(Value::as_object_mut);
                items.filter_map(|item| item.remove(last)).count() > 0
            }
            _ => false,
        };
    }
    has_changed
}

/// The managers of an object, if others than Drover have written its status, with what was theirs as Drover's.
fn united(entries: &[ManagedFieldsEntry]) -> Option<Vec<ManagedFieldsEntry>> {
    let is_own = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(MANAGER) && entry.operation.as_deref() == Some("Apply")
    };
    let is_status = |entry: &&ManagedFieldsEntry| entry.subresource.as_deref() == Some("status");
    let mut own = entries.iter().filter(is_status).find(|entry| is_own(entry))?.clone();
    let theirs: Vec<_> = entries.iter().filter(is_status).filter(|entry| !is_own(entry)).collect();
    if theirs.is_empty() {
        return None;
    }
    let fields = own.fields_v1.get_or_insert_with(|| FieldsV1(json!({})));
    theirs.iter().filter_map(|entry| entry.fields_v1.as_ref()).for_each(|theirs| unite(&mut fields.0, &theirs.0));
    let others = entries.iter().filter(|entry| !is_status(entry)).cloned();
    Some(others.chain([own]).collect())
}

fn unite(fields: &mut Value, more: &Value) {
    let (Some(fields), Some(more)) = (fields.as_object_mut(), more.as_object()) else { return };
    for (name, below) in more {
        unite(fields.entry(name.clone()).or_insert_with(|| json!({})), below);
    }
}

#[cfg(test)]
mod tests {
    use drover_api::VmGroup;
    use kube::{Client, client::Body};
    use tower::{BoxError, service_fn};

    use super::*;

    fn entry(manager: &str, operation: &str, subresource: Option<&str>, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            subresource: subresource.map(ToOwned::to_owned),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    #[test]
    fn what_others_have_written_of_a_status_is_taken_over_and_a_spec_is_not() {
        let own = entry("drover", "Apply", Some("status"), json!({"f:status": {"f:phase": {}}}));
        let spec = entry("kubectl", "Apply", None, json!({"f:spec": {}}));
        assert_eq!(united(&[own.clone(), spec.clone()]), None);
        let older = entry("drover", "Update", Some("status"), json!({"f:status": {"f:phase": {}, "f:old": {}}}));
        let person = entry("kubectl-edit", "Update", Some("status"), json!({"f:status": {"f:own": {}}}));
        let united = united(&[older, own, spec.clone(), person]).unwrap();
        let all = json!({"f:status": {"f:phase": {}, "f:old": {}, "f:own": {}}});
        assert_eq!(united, [spec, entry("drover", "Apply", Some("status"), all)]);
    }

    #[test]
    fn a_field_that_an_older_kind_lacks_is_left_out() {
        let mut status = json!({"phase": "RUNNING", "record": {"made": []}, "inner": {"new": 1, "old": 2}});
        let refusal = "failed to create typed patch object (a/b; g/v1, Kind=K): errors:\n  .status.record: field not declared in schema\n  \
                       .status.inner.new: field not declared in schema";
        assert!(leave_out(&mut status, refusal));
        assert_eq!(status, json!({"phase": "RUNNING", "inner": {"old": 2}}));
        assert!(!leave_out(&mut status, "it is being deleted"));
    }

    #[test]
    fn a_field_that_items_of_an_older_kind_lack_is_left_out_of_each() {
        let mut status = json!({"inner": {"vms": [{"name": "a.b", "new": 1}, {"name": "c", "new": 2}, {"name": "d"}]}});
        let refusal = "failed to create typed patch object (team/a.status.b; g/v1, Kind=K): errors:\n  \
                       .status.inner.vms[name=\"a.b\"].new: field not declared in schema\n  \
                       .status.inner.vms[name=\"c\"].new: field not declared in schema";
        assert!(leave_out(&mut status, refusal));
        assert_eq!(status, json!({"inner": {"vms": [{"name": "a.b"}, {"name": "c"}, {"name": "d"}]}}));
    }

    /// An API server that has a VmGroup of this version, and answers as it does to a write over another one.
    fn server(stored: &'static str) -> Api<VmGroup> {
        let answer = move |request: http::Request<Body>| async move {
            let body = request.into_body().collect_bytes().await?;
            let mut group: Value = serde_json::from_slice(&body)?;
            let is_over_it = group["metadata"]["resourceVersion"] == stored;
            group["spec"] = json!({"cpu": 1, "memory": 1, "replicas": 2, "template": "t"});
            let conflict = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409});
            let (code, answer) = if is_over_it { (200, group) } else { (409, conflict) };
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, BoxError>(http::Response::builder().status(code).body(answer)?)
        };
        Api::namespaced(Client::new(service_fn(answer), "team"), "team")
    }

    #[tokio::test]
    async fn a_status_is_written_over_the_version_that_it_was_made_from_and_no_other() {
        let object = |version: &str| -> VmGroup {
            let spec = json!({"cpu": 1, "memory": 1, "replicas": 2, "template": "t"});
            let metadata = json!({"name": "web", "resourceVersion": version});
            let kind = ("vm.codeconnect.vmworld.com/v1alpha1", "VmGroup");
            let group = json!({"apiVersion": kind.0, "kind": kind.1, "metadata": metadata, "spec": spec});
            serde_json::from_value(group).unwrap()
        };
        let write = async |version: &str| apply(&server("7"), &object(version), Reach::Object, json!({})).await;
        assert!(write("7").await.unwrap().is_some());
        assert!(unless_overtaken(write("6").await).unwrap().is_none(), "somebody has written since");
        assert!(write("6").await.is_err_and(|error| matches!(error, kube::Error::Api(refusal) if refusal.code == 409)));
    }
}
