//! What is refused, and in which words.

use drover_e2e::Shell;
use serde_json::json;

use crate::sandbox;

#[test]
fn a_spec_that_makes_no_sense_is_refused_with_a_sentence() {
    let shell = Shell { namespace: sandbox().namespace("nonsense"), sandbox: sandbox() };
    for (spec, words) in [
        (json!({}), "spec.size: Required value"),
        (json!({"size": -1}), "spec.size in body should be greater than or equal to 0"),
        (json!({"size": 1, "ttl": "soon"}), "give a time above 0 such as 90m, 8h or 7d12h"),
        (json!({"size": 1, "ttl": "0h"}), "give a time above 0"),
        (json!({"size": 1, "ttl": ""}), "give a time above 0"),
        (json!({"size": 1, "image": "a b"}), "an image has no blanks in its name"),
        (json!({"size": 1, "command": [""]}), "the first word of a command is the program"),
        (
            json!({"size": 1, "resources": {"limits": {"cpu": "much"}}}),
            "spec.resources.limits.cpu in body should match",
        ),
        (json!({"size": 1, "vmGroupRef": {}}), "spec.vmGroupRef.name: Required value"),
    ] {
        let failure = shell.apply(&spec).expect_err(words);
        assert!(failure.stderr.contains(words), "{spec}: {failure}");
    }
}

#[test]
fn what_the_api_server_does_not_take_is_told_and_mended_by_an_edit() {
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
    let shell = Shell::create(sandbox(), "refused", &json!({"size": 1, "resources": resources}));
    let message = shell.is_hindered("Invalid");
    assert!(message.contains("must be less than or equal to cpu limit of 1"), "{message}");
    shell.tells("Invalid", "must be less than or equal to cpu limit");
    shell.patch("myownshell", "shell", &json!({"spec": {"resources": {"limits": {"cpu": 2}}}}));
    shell.has_replicas(1);
    shell.is_free();
    shell.delete("myownshell/shell", &[]);
}

#[test]
fn pods_that_a_quota_refuses_are_told_of() {
    let shell = Shell { namespace: sandbox().namespace("quota"), sandbox: sandbox() };
    shell.kubectl(&["create", "quota", "few", "--hard=pods=1"]);
    shell.apply(&json!({"size": 2})).unwrap();
    let message = shell.is_hindered("PodsRefused");
    assert!(message.contains("exceeded quota: few"), "{message}");
    shell.tells("PodsRefused", "exceeded quota: few");
    shell.patch("myownshell", "shell", &json!({"spec": {"size": 1}}));
    shell.is_free();
}

#[test]
fn everything_that_can_be_said_is_taken() {
    let namespace = sandbox().namespace("full");
    let sample =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples/my-first-operator_v1alpha1_myownshell_full.yaml");
    namespace.kubectl(&["apply", "-f", sample]).unwrap();
    let shell = Shell { namespace, sandbox: sandbox() };
    shell.sees("deployment", "myownshell-full", "2 pods", |deployment| deployment["status"]["replicas"] == 2);
}
