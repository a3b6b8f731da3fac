//! Does what is planned for a MyOwnShell.

use std::fmt::Debug;

use drover_api::MyOwnShell;
use drover_core::shell::{
    APPLIED, FINALIZER, MANAGER, Seen, Step, Trouble, is_ours,
    plan::{Object, Plan},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Pod, Service},
        discovery::v1::EndpointSlice,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::Status,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tracing::info;

use crate::{
    kube::{
        finalizer,
        refusal::{is_namespace_leaving, is_stale},
    },
    telemetry::log::named,
};

/// What came of a plan.
#[derive(Default)]
pub(super) struct Outcome {
    /// The API server refuses a step.
    pub refusal: Option<Trouble>,
    /// Nothing can be made any more, because the namespace is being deleted.
    pub is_namespace_leaving: bool,
    /// Something is not as it was when it was looked at, and has to be looked at again.
    pub is_stale: bool,
    /// The Deployment is another than before.
    pub has_changed: bool,
}

/// Takes the steps of a plan, one after the other. What is seen of the Deployment becomes what it is then. Nothing is made in a namespace
/// that `is_ending`.
pub(super) async fn act(
    kube: &Client,
    shell: &MyOwnShell,
    plan: &Plan,
    seen: &mut Seen,
    is_ending: impl Fn() -> bool,
) -> Result<Outcome, kube::Error> {
    let mut outcome = Outcome::default();
    for step in &plan.steps {
        if makes_something(step) && is_ending() {
            outcome.is_namespace_leaving = true;
            break;
        }
        if let Err(error) = take(kube, shell, step, seen, &mut outcome).await {
            match &error {
                error if is_namespace_leaving(error) => outcome.is_namespace_leaving = true,
                error if is_stale(error) => outcome.is_stale = true,
                kube::Error::Api(status) => match refusal(status) {
                    Some(refusal) => outcome.refusal = Some(refusal),
                    None => return Err(error),
                },
                _ => return Err(error),
            }
            // What comes after it was planned with it.
            break;
        }
        if outcome.refusal.is_some() || outcome.is_stale {
            break;
        }
    }
    Ok(outcome)
}

async fn take(
    kube: &Client,
    shell: &MyOwnShell,
    step: &Step,
    seen: &mut Seen,
    outcome: &mut Outcome,
) -> Result<(), kube::Error> {
    match step {
        Step::Hold => {
            outcome.is_stale = !finalizer::put_on(&of_its_kind(kube, shell), shell.meta(), FINALIZER).await?;
            Ok(())
        }
        Step::LetGo => {
            info!(myownshell = %named(shell), "Successfully finalized MyOwnShell");
            outcome.is_stale = !finalizer::take_off(&of_its_kind(kube, shell), shell.meta(), FINALIZER).await?;
            Ok(())
        }
        Step::Release => {
            if let Some(deployment) = &seen.deployment {
                let deployments = of_its_kind(kube, deployment);
                outcome.is_stale = !finalizer::take_off(&deployments, deployment.meta(), FINALIZER).await?;
            }
            Ok(())
        }
        Step::Apply(manifest) => match manifest["kind"].as_str() {
            Some("ConfigMap") => make_or_apply::<ConfigMap>(kube, manifest).await,
            Some("Service") => make_or_apply::<Service>(kube, manifest).await,
            Some("EndpointSlice") => {
                outcome.refusal = find_slice(kube, shell, manifest).await?;
                Ok(())
            }
            _ => {
                let applied: Deployment = apply(kube, manifest).await?;
                outcome.has_changed =
                    applied.resource_version().as_deref() != manifest["metadata"]["resourceVersion"].as_str();
                seen.deployment = Some(applied);
                Ok(())
            }
        },
        Step::Nudge { pod, mark } => nudge(kube, &shell.namespace().unwrap_or_default(), pod, mark).await,
        Step::Remove { object, dependents_first } => {
            let how = if *dependents_first { PropagationPolicy::Foreground } else { PropagationPolicy::Background };
            match &**object {
                Object::Deployment(deployment) => {
                    remove(kube, deployment, how).await?;
                    seen.deployment = Api::namespaced(kube.clone(), &deployment.namespace().unwrap_or_default())
                        .get_opt(&deployment.name_any())
                        .await?;
                    Ok(())
                }
                Object::File(file) => remove(kube, file, how).await,
                Object::Service(service) => remove(kube, service, how).await,
                Object::Slice(slice) => remove(kube, slice, how).await,
            }
        }
    }
}

/// Applies a manifest to an object of ours, or makes it. Should somebody make one of its name at this moment, that stays theirs:
/// to apply would be to add to it.
async fn make_or_apply<K>(kube: &Client, manifest: &Value) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
{
    if is_there(manifest) {
        return apply::<K>(kube, manifest).await.map(drop);
    }
    let api: Api<K> = Api::namespaced(kube.clone(), &text(&manifest["metadata"]["namespace"]));
    let object = K::deserialize(manifest).map_err(kube::Error::SerdeError)?;
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    api.create(&params, &object).await.map(drop)
}

/// Makes or applies an `EndpointSlice`. They are looked for by their labels, so there may be one of the name that was not seen: one
/// of ours gets its labels back, and that of somebody else is in the way.
async fn find_slice(kube: &Client, shell: &MyOwnShell, manifest: &Value) -> Result<Option<Trouble>, kube::Error> {
    match make_or_apply::<EndpointSlice>(kube, manifest).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        outcome => return outcome.map(|()| None),
    }
    let name = text(&manifest["metadata"]["name"]);
    let slices: Api<EndpointSlice> = Api::namespaced(kube.clone(), &text(&manifest["metadata"]["namespace"]));
    // Listed and not got, so that no right is needed for this alone.
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let Some(there) = slices.list(&named).await?.items.into_iter().next() else {
        return make_or_apply::<EndpointSlice>(kube, manifest).await.map(|()| None);
    };
    if !is_ours(&there.metadata, &shell.uid().unwrap_or_default()) {
        let why = format!(
            "there is an EndpointSlice {name} that isn't the MyOwnShell's, and is left alone: delete it, or give the MyOwnShell another name"
        );
        return Ok(Some(Trouble::NameTaken(why)));
    }
    let mut manifest = manifest.clone();
    manifest["metadata"]["resourceVersion"] = json!(there.resource_version());
    apply::<EndpointSlice>(kube, &manifest).await.map(|_| None)
}

async fn apply<K>(kube: &Client, manifest: &Value) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(kube.clone(), &text(&manifest["metadata"]["namespace"]));
    // A Deployment is made by applying it, so that what is left out of it later is taken away. Should somebody make one of its
    // name at this moment, the selectors differ, and it stays theirs.
    let params = PatchParams { force: is_there(manifest), ..PatchParams::apply(MANAGER) };
    api.patch(&text(&manifest["metadata"]["name"]), &params, &Patch::Apply(manifest)).await
}

fn makes_something(step: &Step) -> bool {
    matches!(step, Step::Apply(manifest) if !is_there(manifest))
}

fn is_there(manifest: &Value) -> bool {
    !manifest["metadata"]["resourceVersion"].is_null()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

async fn nudge(kube: &Client, namespace: &str, pod: &str, mark: &str) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(kube.clone(), namespace);
    let patch = json!({"metadata": {"annotations": {APPLIED: mark}}});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    forgive_gone(pods.patch_metadata(pod, &params, &Patch::Merge(patch)).await.map(|_| ()))
}

async fn remove<K>(kube: &Client, object: &K, how: PropagationPolicy) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let preconditions = Preconditions { uid: object.uid(), resource_version: None };
    let params =
        DeleteParams { propagation_policy: Some(how), preconditions: Some(preconditions), ..Default::default() };
    forgive_gone(of_its_kind(kube, object).delete(&object.name_any(), &params).await.map(|_| ()))
}

/// The objects of the same kind and namespace.
pub(super) fn of_its_kind<K>(kube: &Client, object: &K) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(kube.clone(), &object.namespace().unwrap_or_default())
}

fn forgive_gone(outcome: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(gone)) if gone.code == 404 => Ok(()),
        other => other,
    }
}

/// What a person has to mend. Anything else is tried again without a word.
fn refusal(status: &Status) -> Option<Trouble> {
    match status.code {
        400 | 422 => Some(Trouble::Invalid(status.message.clone())),
        403 => Some(Trouble::Refused(status.message.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use drover_api::MyOwnShellSpec;
    use kube::client::Body;
    use tower::{BoxError, service_fn};

    use super::*;

    /// A client whose API server is away, and counts who asks it.
    fn away(asked: &'static AtomicUsize) -> Client {
        let answer = move |_: http::Request<Body>| async move {
            asked.fetch_add(1, Ordering::Relaxed);
            Err::<http::Response<Body>, BoxError>("it is away".into())
        };
        Client::new(service_fn(answer), "team")
    }

    #[tokio::test]
    async fn in_a_namespace_that_is_being_deleted_nothing_is_made_and_the_rest_is_done() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let kube = away(&ASKED);
        let shell = MyOwnShell::new("shell", MyOwnShellSpec::default());
        let mut file =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "file", "namespace": "team"}});
        let plan = |step| Plan { steps: vec![step], ..Plan::default() };

        let new = plan(Step::Apply(file.clone()));
        let outcome = act(&kube, &shell, &new, &mut Seen::default(), || true).await.unwrap();
        assert!(outcome.is_namespace_leaving);
        assert_eq!(ASKED.load(Ordering::Relaxed), 0);
        assert!(act(&kube, &shell, &new, &mut Seen::default(), || false).await.is_err());

        file["metadata"]["resourceVersion"] = json!("7");
        for (asked, step) in (2..).zip([Step::Apply(file), Step::LetGo]) {
            assert!(act(&kube, &shell, &plan(step), &mut Seen::default(), || true).await.is_err());
            assert_eq!(ASKED.load(Ordering::Relaxed), asked);
        }
    }
}
