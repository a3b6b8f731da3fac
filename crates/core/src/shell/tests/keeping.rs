//! What there is of a MyOwnShell, and what is left alone.

use super::*;

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
    let unread = Seen { machines: Machines::Unread, ..seen.clone() };
    let Some(Trouble::NoVmGroup(why)) = planned(&shell, &unread, 3).trouble else { panic!("nothing is told") };
    assert!(why.contains("--controllers leaves out vmgroup or vminfo"), "{why}");
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

fn named(name: &str, uid: &str) -> MyOwnShell {
    let mut shell = shell(&json!({"vmGroupRef": {"name": "web"}}));
    shell.metadata.name = Some(name.to_owned());
    shell.metadata.uid = Some(uid.to_owned());
    shell
}

#[test]
fn shells_whose_names_look_alike_share_nothing() {
    let names = |name: &str, uid: &str| {
        let seen = settled(&named(name, uid));
        [seen.deployment.unwrap().metadata, seen.file.unwrap().metadata, seen.service.unwrap().metadata]
            .map(|meta| meta.name.unwrap())
    };
    let (dotted, dashed) = (names("a.b", "u1"), names("a-b", "u2"));
    assert_eq!(dashed, ["a-b", "hosts-a-b", "hosts-a-b"]);
    assert!(dotted.iter().all(|name| !dashed.contains(name)), "{dotted:?}");
}

#[test]
fn a_shell_of_an_earlier_version_keeps_the_name_that_its_hosts_file_has() {
    let mut desired = Desired::of(&named("a.b", "u1")).unwrap();
    let now = desired.hosts.clone();
    let file = |uid: &str, controller: bool| -> ObjectMeta {
        let owner =
            json!({"apiVersion": "v1", "kind": "MyOwnShell", "name": "a", "uid": uid, "controller": controller});
        serde_json::from_value(json!({"name": "hosts-a-b", "ownerReferences": [owner]})).unwrap()
    };
    for there in [None, Some(file("u2", true)), Some(file("u1", false))] {
        desired.keep_former_hosts(there.as_ref());
        assert_eq!(desired.hosts, now, "{there:?}");
    }
    desired.keep_former_hosts(Some(&file("u1", true)));
    assert_eq!(desired.hosts, "hosts-a-b");
}

#[test]
fn what_only_goes_with_a_shell_is_not_the_shells() {
    let shell = shell(&json!({"vmGroupRef": {"name": "web"}}));
    let mut seen = settled(&shell);
    let owners = seen.file.as_mut().unwrap().metadata.owner_references.as_mut().unwrap();
    owners[0].controller = None;
    let plan = planned(&shell, &seen, 2);
    let Some(Trouble::NameTaken(why)) = &plan.trouble else { panic!("{plan:?}") };
    assert!(why.starts_with("there is a ConfigMap hosts-sample that belongs to nobody that Drover knows"), "{why}");
    assert!(plan.steps.is_empty(), "{plan:?}");
}

#[test]
fn a_pod_is_a_shell_by_its_owner_and_not_by_its_labels() {
    let pod = |owner: &str, controller: bool| -> ObjectMeta {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "r", "controller": controller});
        let labels = json!({"app": "myownshell", "myownshell_cr": "sample", "pod-template-hash": "5f6d"});
        serde_json::from_value(json!({"name": "p", "labels": labels, "ownerReferences": [owner]})).unwrap()
    };
    assert!(is_shell(&pod("sample-5f6d", true), "sample"));
    assert!(!is_shell(&pod("sample-5f6d", false), "sample"));
    assert!(!is_shell(&pod("other-5f6d", true), "sample"));
    let long = "a".repeat(253);
    assert!(is_shell(&pod(&format!("{}-5f6d", &long[..248]), true), &long));
    assert!(!is_shell(&pod(&format!("{}-5f6d", &long[..240]), true), &long));
    assert!(!is_shell(&ObjectMeta { owner_references: None, ..pod("sample-5f6d", true) }, "sample"));
}
