//! How a MyOwnShell ends.

use super::*;

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
    assert_eq!(planned(&shell, &going, 2).wake, Some(time(4)));
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
    assert!(!is_held_for_nothing(&deployment.metadata));
    let going = changed(&deployment, |deployment| deployment["metadata"]["deletionTimestamp"] = json!(START));
    let lost = changed(&deployment, |deployment| deployment["metadata"]["ownerReferences"] = json!([]));
    assert!(is_held_for_nothing(&going.metadata) && is_held_for_nothing(&lost.metadata));
    for (field, value) in
        [("controller", json!(false)), ("kind", json!("Shell")), ("apiVersion", json!("example.com/v1"))]
    {
        let others = changed(&deployment, |deployment| {
            deployment["metadata"]["ownerReferences"][0][field] = value.clone();
        });
        assert!(is_held_for_nothing(&others.metadata), "{field}: it is not a MyOwnShell's");
    }
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
    assert_eq!(words(&told), [("True", "Expired"), ("False", "Expired"), ("False", "NotStalled")]);
    let told_of = event(None, &told).unwrap();
    assert_eq!((told_of.reason, told_of.is_warning), ("Expired", false));
    assert_eq!(event(Some(&told), &told), None);
    assert_eq!(planned(&shell, &seen, 3602).steps, []);
    shell.spec.ttl = Some(drover_api::myownshell::Ttl("2h".to_owned()));
    assert!(!planned(&shell, &seen, 3602).steps.is_empty());
}

#[test]
fn a_deletion_that_the_api_server_refuses_is_said_and_one_that_goes_on_is_in_nobodys_way() {
    let mut shell = shell(&json!({}));
    let seen = settled(&shell);
    shell.metadata.deletion_timestamp = shell.metadata.creation_timestamp.clone();
    let desired = Desired::of(&shell).unwrap();
    let stalled = |trouble: Trouble| {
        let plan = Plan { trouble: Some(trouble), ..planned(&shell, &seen, 2) };
        let status = status(&shell, &desired, &seen, &plan, time(2));
        status.conditions.into_iter().find(|condition| condition.type_ == "Stalled").unwrap()
    };
    let refused = stalled(Trouble::Refused("deployments may not be deleted".to_owned()));
    assert_eq!((refused.status.as_str(), refused.message.as_str()), ("True", "deployments may not be deleted"));
    assert_eq!(stalled(Trouble::PodsFail("no image".to_owned())).status, "False");
}
