//! What is said of a MyOwnShell.

use super::*;

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
    assert_eq!(words(&told), [("False", "Provisioning"), ("True", "Provisioning"), ("False", "NotStalled")]);
    assert_eq!(told.pods[0].exec, "kubectl exec -it -n default sample-b -- sh");
    assert_eq!(told.selector.as_deref(), Some("app=myownshell,myownshell_cr=sample"));
    let told = with(3, json!({}));
    assert_eq!(told.message.as_deref(), Some("3 shells ready"));
    assert_eq!(words(&told), [("True", "Reconciled"), ("False", "Reconciled"), ("False", "NotStalled")]);
    let quota = "pods \"x\" is forbidden: exceeded quota";
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": quota});
    let refused = with(1, json!({"conditions": [condition]}));
    assert_eq!((refused.message.as_deref(), words(&refused)[2]), (Some(quota), ("True", "PodsRefused")));
    let told_of = event(Some(&told), &refused).unwrap();
    assert_eq!((told_of.reason, told_of.is_warning), ("PodsRefused", true));
    let slow = "ReplicaSet \"x\" has timed out progressing.";
    let condition =
        json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": slow});
    let overdue = with(1, json!({"conditions": [condition]}));
    assert_eq!((overdue.message.as_deref(), words(&overdue)[2]), (Some(slow), ("True", "PodsFailing")));
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
    assert_eq!(words(&told)[2], ("True", "PodsFailing"));
}

#[test]
fn a_spec_that_makes_no_sense_is_told_by_its_field() {
    for (spec, expected) in [
        (json!({"size": -1}), "spec.size is -1: give a number from 0 to 10000"),
        (json!({"size": 10_001}), "spec.size is 10001: give a number from 0 to 10000"),
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
