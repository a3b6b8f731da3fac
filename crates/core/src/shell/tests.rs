//! What a MyOwnShell comes to, played on a small API server that keeps what it is told.

use drover_api::MyOwnShell;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::{plan::Object, *};
use crate::group::Timestamp;

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

fn changed(deployment: &Deployment, change: impl FnOnce(&mut Value)) -> Option<Deployment> {
    let mut value = serde_json::to_value(deployment).unwrap();
    change(&mut value);
    Some(serde_json::from_value(value).unwrap())
}

fn edited(seen: &Seen, change: impl FnOnce(&mut Value)) -> Seen {
    Seen { deployment: changed(seen.deployment.as_ref().unwrap(), change), ..seen.clone() }
}

#[test]
fn the_deployment_is_the_seeds_under_the_restricted_profile() {
    let seen = settled(&shell(&json!({})));
    let deployment = serde_json::to_value(seen.deployment.unwrap()).unwrap();
    let labels = json!({"app": "myownshell", "myownshell_cr": "sample"});
    assert_eq!(deployment["metadata"]["name"], "sample");
    assert_eq!(deployment["metadata"]["finalizers"], json!([FINALIZER]));
    let owner = &deployment["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (&json!("MyOwnShell"), &json!("u1"), &json!(true))
    );
    assert_eq!((&deployment["spec"]["replicas"], &deployment["spec"]["selector"]["matchLabels"]), (&json!(3), &labels));
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], labels);
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!((&container["image"], &container["name"]), (&json!("busybox:latest"), &json!("busybox")));
    let message = "echo The app is running, You can now ssh into for a while! && sleep 99999999 ";
    assert_eq!(container["command"], json!(["sh", "-c", message]));
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert!(pod["volumes"].is_null() && pod["dnsConfig"].is_null());
}

#[test]
fn what_stands_is_left_alone_and_so_is_what_others_add() {
    let shell = shell(&json!({"resources": {"limits": {"cpu": 1, "memory": "64Mi"}}, "vmGroupRef": {"name": "web"}}));
    let mut seen = Seen { machines: Machines::Of(vec![Machine::new("a", ["10.0.0.1"])]), ..Seen::default() };
    carried_out(&planned(&shell, &seen, 1), &mut seen);
    assert_eq!(planned(&shell, &seen, 2).steps, []);
    let more = edited(&seen, |deployment| {
        deployment["metadata"]["annotations"]["theirs"] = json!("x");
        deployment["metadata"]["finalizers"].as_array_mut().unwrap().push(json!("theirs"));
        let pod = &mut deployment["spec"]["template"]["spec"];
        pod["containers"].as_array_mut().unwrap().insert(0, json!({"name": "proxy"}));
        pod["volumes"].as_array_mut().unwrap().push(json!({"name": "token"}));
    });
    assert_eq!(planned(&shell, &more, 2).steps, []);
}

#[test]
fn what_somebody_edits_is_put_right_on_the_version_that_was_seen() {
    let shell = shell(&json!({}));
    let seen = settled(&shell);
    for (path, value) in [
        ("/spec/replicas", json!(7)),
        ("/spec/template/spec/containers/0/image", json!("evil")),
        ("/spec/template/spec/containers/0/command", json!(["sh"])),
        ("/spec/template/spec/securityContext/runAsNonRoot", json!(false)),
        ("/metadata/labels/app", json!("other")),
        ("/metadata/finalizers", json!([])),
    ] {
        let edited = edited(&seen, |deployment| *deployment.pointer_mut(path).unwrap() = value.clone());
        let plan = planned(&shell, &edited, 2);
        let [Step::Apply(manifest)] = &plan.steps[..] else { panic!("{path}: {plan:?}") };
        assert_eq!(manifest["metadata"]["resourceVersion"], "7", "{path}");
        assert_eq!((&manifest["spec"]["replicas"], plan.drift), (&json!(3), None), "nothing was said of it before");
    }
}

#[test]
fn drift_is_what_nobody_declared() {
    let mut shell = shell(&json!({}));
    let seen = settled(&shell);
    let plan = planned(&shell, &seen, 2);
    shell.status = Some(status(&shell, &Desired::of(&shell).unwrap(), &seen, &plan, time(2)));
    assert_eq!(planned(&shell, &seen, 3).drift, None);
    let edited = edited(&seen, |deployment| deployment["spec"]["replicas"] = json!(7));
    assert_eq!(planned(&shell, &edited, 3).drift, Some("was edited, and is as declared again"));
    assert_eq!(planned(&shell, &Seen::default(), 3).drift, Some("was deleted, and is made again"));
    shell.spec.image = Some("alpine".to_owned());
    assert_eq!(planned(&shell, &seen, 3).drift, None);
    shell.metadata.generation = Some(2);
    assert_eq!(planned(&shell, &edited, 3).drift, None);
}

#[test]
fn each_change_of_the_spec_is_carried_over_and_so_is_what_it_leaves_out() {
    let with =
        shell(&json!({"vmGroupRef": {"name": "web"}, "image": "alpine", "resources": {"requests": {"cpu": "10m"}}}));
    let mut seen = settled(&with);
    let without = shell(&json!({"size": 1}));
    let plan = planned(&without, &seen, 2);
    let Step::Apply(manifest) = &plan.steps[0] else { panic!("{plan:?}") };
    assert_eq!((&manifest["kind"], &manifest["spec"]["replicas"]), (&json!("Deployment"), &json!(1)));
    assert!(manifest["spec"]["template"]["spec"]["volumes"].is_null());
    carried_out(&plan, &mut seen);
    assert!(seen.file.is_none() && seen.service.is_none() && seen.slices.is_empty(), "{seen:?}");
    assert_eq!(planned(&without, &seen, 3).steps, []);
}

#[test]
fn machines_are_made_known_and_the_pods_stay_when_these_change() {
    let shell = shell(&json!({"vmGroupRef": {"name": "web"}}));
    let of = |names: &[&str]| Machines::Of(names.iter().map(|name| Machine::new(name, ["10.0.0.1"])).collect());
    let mut seen = Seen { machines: of(&["a", "b"]), ..Seen::default() };
    carried_out(&planned(&shell, &seen, 1), &mut seen);
    let file = |seen: &Seen| seen.file.as_ref().unwrap().data.as_ref().unwrap()["hosts"].clone();
    assert!(file(&seen).ends_with("10.0.0.1\ta\n10.0.0.1\tb\n"), "{}", file(&seen));
    let pod = serde_json::to_value(&seen.deployment).unwrap()["spec"]["template"]["spec"].clone();
    assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/etc/drover");
    assert_eq!(pod["dnsConfig"]["searches"], json!(["hosts-sample.default.svc.cluster.local"]));
    seen.machines = of(&["a"]);
    let plan = planned(&shell, &seen, 2);
    let kinds: Vec<_> = plan
        .steps
        .iter()
        .map(|step| match step {
            Step::Apply(manifest) => manifest["kind"].as_str().unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["ConfigMap", "EndpointSlice"]);
    seen.machines = Machines::NoGroup;
    let plan = planned(&shell, &seen, 3);
    let why = r#"spec.vmGroupRef: there is no VmGroup "web" in default"#.to_owned();
    assert_eq!(plan.trouble, Some(Trouble::NoVmGroup(why)));
    carried_out(&plan, &mut seen);
    assert!(seen.slices.is_empty() && !file(&seen).contains("10.0.0.1"), "{seen:?}");
}

#[test]
fn once_the_hosts_file_has_changed_each_pod_is_told_once() {
    let shell = shell(&json!({"vmGroupRef": {"name": "web"}}));
    let mut seen = Seen { machines: Machines::Of(vec![Machine::new("a", ["10.0.0.1"])]), ..Seen::default() };
    seen.pods = vec![serde_json::from_value(json!({"metadata": {"name": "sample-a"}})).unwrap()];
    let first = planned(&shell, &seen, 1);
    assert!(first.steps.iter().all(|step| matches!(step, Step::Apply(_))), "{first:?}");
    carried_out(&first, &mut seen);
    let plan = planned(&shell, &seen, 2);
    let [Step::Nudge { pod, mark }] = &plan.steps[..] else { panic!("{plan:?}") };
    assert_eq!(pod, "sample-a");
    seen.pods[0].metadata.annotations = Some([(APPLIED.to_owned(), mark.clone())].into());
    assert_eq!(planned(&shell, &seen, 3).steps, []);
}

#[test]
fn an_autoscalers_number_is_kept_and_given_up_when_it_is_gone() {
    let shell = shell(&json!({}));
    let target = json!({"kind": "Deployment", "name": "sample", "apiVersion": "apps/v1"});
    let autoscaler: HorizontalPodAutoscaler = serde_json::from_value(
        json!({"metadata": {"name": "busy"}, "spec": {"maxReplicas": 9, "scaleTargetRef": target}}),
    )
    .unwrap();
    let owned_by = |seen: &Seen, manager: &str, replicas: i32| {
        edited(seen, |deployment| {
            deployment["spec"]["replicas"] = json!(replicas);
            let fields = json!({"f:spec": {"f:replicas": {}}});
            deployment["metadata"]["managedFields"] =
                json!([{"manager": manager, "operation": "Update", "subresource": "scale", "fieldsV1": fields}]);
        })
    };
    let mut seen = settled(&shell);
    seen.autoscalers = vec![autoscaler];
    let ours = owned_by(&seen, "drover", 3);
    let plan = planned(&shell, &ours, 2);
    assert_eq!((plan.steps, plan.scaled_by.as_deref()), (vec![], Some("HorizontalPodAutoscaler busy")));
    let mut theirs = owned_by(&ours, "kube-controller-manager", 8);
    assert_eq!(planned(&shell, &theirs, 2).steps, []);
    let other = shell_with_image("alpine");
    let Step::Apply(manifest) = &planned(&other, &theirs, 3).steps[0] else { panic!() };
    assert!(manifest["spec"]["replicas"].is_null(), "another change leaves it out");
    let Step::Apply(manifest) = &planned(&other, &owned_by(&ours, "drover", 8), 3).steps[0] else { panic!() };
    assert_eq!(manifest["spec"]["replicas"], 8, "leaving out what is still ours would take it away");
    theirs.autoscalers.clear();
    let Step::Apply(manifest) = &planned(&shell, &theirs, 3).steps[0] else { panic!() };
    assert_eq!(manifest["spec"]["replicas"], 3);
}

fn shell_with_image(image: &str) -> MyOwnShell {
    shell(&json!({"image": image}))
}

#[test]
fn what_is_not_ours_is_never_touched() {
    let shell = shell(&json!({"vmGroupRef": {"name": "web"}}));
    let seen = settled(&shell);
    let foreign = edited(&seen, |deployment| deployment["metadata"]["ownerReferences"] = json!([]));
    let plan = planned(&shell, &foreign, 2);
    let Some(Trouble::NameTaken(why)) = &plan.trouble else { panic!("{plan:?}") };
    assert!(
        plan.steps.is_empty() && why.starts_with("there is a Deployment sample that belongs to nobody"),
        "{plan:?}"
    );
    let mut file = seen.file.clone().unwrap();
    file.metadata.owner_references = None;
    let plan = planned(&shell, &Seen { file: Some(file), deployment: None, ..seen.clone() }, 2);
    assert!(plan.steps.is_empty() && matches!(plan.trouble, Some(Trouble::NameTaken(_))), "{plan:?}");
    let mut deleted = shell.clone();
    deleted.metadata.deletion_timestamp = deleted.metadata.creation_timestamp.clone();
    assert_eq!(planned(&deleted, &foreign, 2).steps, [Step::LetGo]);
}

#[test]
fn a_deletion_waits_for_nobody_and_an_orphan_keeps_living() {
    let mut shell = shell(&json!({}));
    let seen = settled(&shell);
    let going = edited(&seen, |deployment| deployment["metadata"]["deletionTimestamp"] = json!(START));
    assert_eq!(planned(&shell, &going, 2).steps, [Step::Release], "a deleted Deployment goes before it is made again");
    let gone = Seen { deployment: None, ..seen.clone() };
    assert!(matches!(&planned(&shell, &gone, 2).steps[..], [Step::Apply(_)]));
    shell.metadata.deletion_timestamp = shell.metadata.creation_timestamp.clone();
    let plan = planned(&shell, &seen, 2);
    assert!(matches!(&plan.steps[..], [Step::Remove { dependents_first: false, .. }]), "{plan:?}");
    assert_eq!(planned(&shell, &going, 2).steps, [Step::Release, Step::LetGo]);
    assert_eq!(planned(&shell, &gone, 2).steps, [Step::LetGo]);
    shell.metadata.finalizers.as_mut().unwrap().push("foregroundDeletion".to_owned());
    assert!(matches!(&planned(&shell, &seen, 2).steps[..], [Step::Remove { dependents_first: true, .. }]));
    shell.metadata.finalizers.as_mut().unwrap().push("orphan".to_owned());
    assert_eq!(planned(&shell, &seen, 2).steps, [Step::Release, Step::LetGo]);
}

#[test]
fn a_finalizer_is_kept_on_no_deployment_that_is_deleted_or_has_lost_its_owner() {
    let deployment = settled(&shell(&json!({}))).deployment.unwrap();
    assert!(!is_held_for_nothing(&deployment));
    let going = changed(&deployment, |deployment| deployment["metadata"]["deletionTimestamp"] = json!(START));
    let lost = changed(&deployment, |deployment| deployment["metadata"]["ownerReferences"] = json!([]));
    assert!(is_held_for_nothing(&going.unwrap()) && is_held_for_nothing(&lost.unwrap()));
}

#[test]
fn after_its_ttl_only_the_word_of_it_is_left_until_it_is_raised() {
    let mut shell = shell(&json!({"ttl": "1h", "vmGroupRef": {"name": "web"}}));
    let mut seen = Seen { machines: Machines::Of(vec![Machine::new("a", ["10.0.0.1"])]), ..Seen::default() };
    let first = planned(&shell, &seen, 3599);
    assert_eq!(first.wake, Some(time(3600)));
    carried_out(&first, &mut seen);
    let last = planned(&shell, &seen, 3600);
    assert_eq!(last.steps.len(), 4, "{last:?}");
    carried_out(&last, &mut seen);
    let told = status(&shell, &Desired::of(&shell).unwrap(), &seen, &last, time(3601));
    let expected = "its ttl of 1h has been over since 2026-01-01T01:00:00Z: raise spec.ttl to have shells again";
    assert_eq!(told.message.as_deref(), Some(expected));
    assert_eq!(words(&told), [("False", "Expired"), ("False", "Expired"), ("False", "NotStalled")]);
    let told_of = news(None, &told).unwrap();
    assert_eq!((told_of.reason, told_of.is_warning), ("Expired", false));
    assert_eq!(news(Some(&told), &told), None);
    assert_eq!(planned(&shell, &seen, 3602).steps, []);
    shell.spec.ttl = Some(drover_api::myownshell::Ttl("2h".to_owned()));
    assert!(!planned(&shell, &seen, 3602).steps.is_empty());
}

fn words(status: &drover_api::MyOwnShellStatus) -> Vec<(&str, &str)> {
    status.conditions.iter().map(|condition| (condition.status.as_str(), condition.reason.as_str())).collect()
}

#[test]
fn the_status_tells_how_many_shells_are_ready_and_how_to_open_them() {
    let shell = shell(&json!({}));
    let desired = Desired::of(&shell).unwrap();
    let pod = |name: &str, ready: &str| -> Pod {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {"conditions": conditions}})).unwrap()
    };
    let with = |ready: i32, more: Value| {
        let mut seen = edited(&settled(&shell), |deployment| {
            deployment["status"] =
                json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": ready});
            deployment["status"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        });
        seen.pods = vec![pod("sample-a", "False"), pod("sample-b", "True")];
        status(&shell, &desired, &seen, &planned(&shell, &seen, 2), time(2))
    };
    let told = with(1, json!({}));
    assert_eq!((told.message.as_deref(), told.ready_replicas), (Some("1 of 3 shells ready"), Some(1)));
    assert_eq!(words(&told), [("False", "NotYet"), ("True", "Working"), ("False", "NotStalled")]);
    assert_eq!(told.pods[0].exec, "kubectl exec -it -n default sample-b -- sh");
    assert_eq!(told.selector.as_deref(), Some("app=myownshell,myownshell_cr=sample"));
    let told = with(3, json!({}));
    assert_eq!(told.message.as_deref(), Some("3 shells ready"));
    assert_eq!(words(&told), [("True", "AsDeclared"), ("False", "Settled"), ("False", "NotStalled")]);
    let quota = "pods \"x\" is forbidden: exceeded quota";
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": quota});
    let refused = with(1, json!({"conditions": [condition]}));
    assert_eq!((refused.message.as_deref(), words(&refused)[2]), (Some(quota), ("True", "PodsRefused")));
    let told_of = news(Some(&told), &refused).unwrap();
    assert_eq!((told_of.reason, told_of.is_warning), ("PodsRefused", true));
}

#[test]
fn a_pod_that_can_not_run_says_why() {
    let shell = shell(&json!({}));
    let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}});
    let failing: Pod = serde_json::from_value(json!({
        "metadata": {"name": "sample-a"},
        "status": {"containerStatuses": [{"name": "busybox", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": waiting}]},
    }))
    .unwrap();
    let seen = Seen { pods: vec![failing.clone(), failing], ..settled(&shell) };
    let told = status(&shell, &Desired::of(&shell).unwrap(), &seen, &planned(&shell, &seen, 2), time(2));
    assert_eq!(told.message.as_deref(), Some("sample-a: ErrImagePull: no such image (and 1 more)"));
    assert_eq!(words(&told)[2], ("True", "PodsFail"));
}

#[test]
fn a_spec_that_makes_no_sense_is_told_by_its_field() {
    for (spec, expected) in [
        (json!({"size": -1}), "spec.size is -1: give a number from 0"),
        (json!({"ttl": "soon"}), "spec.ttl is \"soon\": give a time above 0 such as 90m, 8h or 7d12h"),
    ] {
        let mut shell = shell(&spec);
        let invalid = Desired::of(&shell).unwrap_err();
        assert_eq!(invalid.to_string(), expected);
        assert_eq!(words(&status::invalid(&shell, &invalid, time(0)))[2], ("True", "Invalid"));
        shell.metadata.deletion_timestamp = shell.metadata.creation_timestamp.clone();
        assert_eq!(planned(&shell, &Seen::default(), 1).steps, [Step::LetGo], "it is no reason to stay");
    }
}
