//! Who says how many shells there are. The autoscalers here are real: below their minimum they need no figures to scale.

use drover_e2e::Shell;
use serde_json::{Value, json};

use crate::sandbox;

fn autoscaler(target: &Value, least: i32) -> String {
    let manifest = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "busy"},
        "spec": {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": 9},
    });
    manifest.to_string()
}

#[test]
fn an_autoscaler_of_the_myownshell_sets_its_size() {
    let shell = Shell::create(sandbox(), "scaled", &json!({"size": 1}));
    let target = json!({"apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell", "name": "shell"});
    shell.namespace.apply(&autoscaler(&target, 3)).unwrap();
    shell.has_replicas(3);
    let declared = shell.namespace.get("myownshell", "shell").unwrap();
    assert_eq!((&declared["spec"]["size"], &declared["status"]["scaledBy"]), (&json!(3), &Value::Null));
}

#[test]
fn an_autoscaler_of_the_deployment_is_left_to_it_until_it_is_gone() {
    let shell = Shell::create(sandbox(), "autoscaled", &json!({"size": 1}));
    shell.has_replicas(1);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "shell"});
    shell.namespace.apply(&autoscaler(&target, 4)).unwrap();
    shell.has_replicas(4);
    let scaled = |status: &Value| status["scaledBy"] == "HorizontalPodAutoscaler busy";
    shell.status("who scales", scaled);
    shell.patch("myownshell", "shell", &json!({"spec": {"size": 2, "image": "alpine"}}));
    shell.deployment("the new image", |deployment| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "alpine"
    });
    shell.status("still who scales", scaled);
    shell.asks_for(4);
    shell.delete("hpa/busy", &[]);
    shell.asks_for(2);
    shell.status("nobody else scales", |status| status["scaledBy"].is_null());
}

#[test]
fn another_programs_number_is_left_to_it_until_a_hand_takes_it_away() {
    let shell = Shell::create(sandbox(), "programmed", &json!({"size": 1}));
    shell.has_replicas(1);
    let patch = json!({"spec": {"replicas": 3}}).to_string();
    let by_program = ["--subresource=scale", "--field-manager=night-watch", "--type=merge", "-p", &patch];
    shell.kubectl(&[&["patch", "deployment", "shell"], &by_program[..]].concat());
    shell.has_replicas(3);
    shell.status("who scales", |status| status["scaledBy"] == "night-watch" && status["replicas"] == 3);
    shell.kubectl(&["scale", "deployment/shell", "--replicas=5"]);
    shell.has_replicas(1);
    shell.status("nobody else scales", |status| status["scaledBy"].is_null());
    let declared =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shell"}, "spec": {"replicas": 4}});
    let apply = ["apply", "--server-side", "--force-conflicts", "--field-manager=day-watch", "-f", "-"];
    shell.namespace.kubectl_with_input(&apply, &declared.to_string()).unwrap();
    shell.has_replicas(4);
    shell.status("who declares", |status| status["scaledBy"] == "day-watch" && status["replicas"] == 4);
    shell.patch("deployment", "shell", &json!({"spec": {"replicas": 6}}));
    shell.has_replicas(1);
}
