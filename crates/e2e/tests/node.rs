//! A sandbox's node runs pods as any node does, and leaves nothing behind, however it ends.

use std::{
    fs,
    os::unix::{fs::MetadataExt, fs::symlink, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    sync::LazyLock,
    thread,
    time::Duration,
};

use drover_e2e::{Namespace, Program, Sandbox, Traces, eventually, process};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(1);

/// A sandbox with a node that can pull an image made of a folder.
fn sandbox() -> Option<&'static Sandbox> {
    static IMAGE: LazyLock<String> = LazyLock::new(|| {
        let folder = Sandbox::folder("image");
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::create_dir_all(folder.join("etc")).unwrap();
        fs::copy("/bin/busybox", folder.join("bin/busybox")).unwrap();
        symlink("busybox", folder.join("bin/cat")).unwrap();
        fs::write(folder.join("etc/motd"), "made of a folder\n").unwrap();
        format!("--image=registry.example/tools/motd:v1={}", folder.display())
    });
    Sandbox::shared_with_node(&[&IMAGE])
}

/// A namespace that takes no pod but those of the restricted profile.
fn restricted(sandbox: &Sandbox, name: &str) -> Namespace {
    let namespace = sandbox.namespace(name);
    namespace.kubectl(&["label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted"]).unwrap();
    namespace
}

/// A pod that the restricted profile allows, with what else its container says.
fn pod(name: &str, container: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "main", "image": "busybox:latest", "imagePullPolicy": "Always",
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    let main = pod["spec"]["containers"][0].as_object_mut().unwrap();
    main.extend(container.as_object().unwrap().clone());
    pod
}

fn run(namespace: &Namespace, name: &str, container: &Value) {
    namespace.declare(&pod(name, container)).unwrap();
    let pod = format!("pod/{name}");
    let ready = namespace.kubectl(&["wait", "--for=condition=Ready", &pod, "--timeout=60s"]);
    ready.unwrap_or_else(|failure| panic!("{failure}\n{}", namespace.kubectl(&["describe", &pod]).unwrap()));
}

fn shell(script: &str) -> Value {
    json!({"command": ["sh", "-c", script]})
}

#[test]
fn the_node_is_ready_and_runs_the_version_of_the_api_server() {
    let Some(sandbox) = sandbox() else { return };
    let shown = sandbox.kubectl().run(&["get", "node", sandbox.node(), "-o", "json"]).unwrap();
    let node: Value = serde_json::from_str(&shown).unwrap();
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True"),
        "{node:#}"
    );
    let version: Value = serde_json::from_str(&sandbox.kubectl().run(&["version", "-o", "json"]).unwrap()).unwrap();
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], version["serverVersion"]["gitVersion"]);
}

#[test]
fn a_restricted_shell_runs_and_is_entered_and_its_words_are_read() {
    let Some(sandbox) = sandbox() else { return };
    let namespace = restricted(sandbox, "shells");
    run(&namespace, "shell", &shell("echo I am up; exec sleep 3600"));
    assert_eq!(namespace.kubectl(&["exec", "shell", "--", "id", "-u"]).unwrap(), "1000\n");
    assert_eq!(
        namespace.kubectl_with_input(&["exec", "-i", "shell", "--", "cat"], "through it").unwrap(),
        "through it"
    );
    let failure = namespace.kubectl(&["exec", "shell", "--", "sh", "-c", "exit 7"]).unwrap_err();
    assert_eq!(failure.code, Some(7), "{failure}");
    assert_eq!(namespace.kubectl(&["logs", "shell"]).unwrap(), "I am up\n");

    let careless = namespace.kubectl(&["run", "careless", "--image=busybox"]).unwrap_err();
    assert!(careless.stderr.contains(r#"violates PodSecurity "restricted:latest""#), "{careless}");
}

#[test]
fn a_pod_may_do_what_its_service_account_may() {
    let Some(sandbox) = sandbox() else { return };
    let namespace = restricted(sandbox, "accounts");
    run(&namespace, "client", &json!({"image": "kubectl", "args": ["proxy"]}));
    let ask = || namespace.kubectl(&["exec", "client", "--", "/bin/kubectl", "get", "pods", "-o", "name"]);
    let refused = ask().unwrap_err();
    assert!(
        refused.stderr.contains(r#""system:serviceaccount:accounts:default" cannot list resource "pods""#),
        "{refused}"
    );
    let view = ["create", "rolebinding", "view", "--clusterrole=view", "--serviceaccount=accounts:default"];
    namespace.kubectl(&view).unwrap();
    // The API server learns of the binding by a watch.
    let pods = eventually(sandbox, SOON, "the pod is allowed to list pods", || ask().map_err(|refused| refused.stderr));
    assert_eq!(pods, "pod/client\n");
}

#[test]
fn a_pod_reaches_the_vcenter() {
    let Some(sandbox) = sandbox() else { return };
    let namespace = restricted(sandbox, "vcenters");
    run(&namespace, "client", &json!({"image": "kubectl", "args": ["proxy"]}));
    let url = &sandbox.environment()["GOVC_URL"];
    let found = namespace.kubectl(&[
        "exec",
        "client",
        "--",
        "/bin/govc",
        "find",
        "-u",
        url,
        "-k",
        "-persist-session=false",
        "/",
        "-type",
        "d",
    ]);
    assert_eq!(found.unwrap(), "/DC0\n");
}

#[test]
fn a_service_is_reached_from_pods_and_from_the_machine() {
    let Some(sandbox) = sandbox() else { return };
    let namespace = restricted(sandbox, "services");
    let serve = "mkdir /tmp/www && echo served > /tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www";
    run(&namespace, "server", &shell(serve));
    run(&namespace, "client", &shell("exec sleep 3600"));
    namespace.kubectl(&["expose", "pod", "server", "--port=80", "--target-port=8080"]).unwrap();
    let service = namespace.get("service", "server").unwrap();
    let url = format!("http://{}/", service["spec"]["clusterIP"].as_str().unwrap());
    for (client, url) in
        [("client", &*url), ("server", &url), ("client", "http://server/"), ("server", "http://server.services/")]
    {
        eventually(sandbox, SOON, "the service answers pods, its own included, by address and by name", || {
            let page = namespace.kubectl(&["exec", client, "--", "timeout", "2", "wget", "-qO-", url]);
            page.map_err(|failure| format!("{url}: {}", failure.stderr)).map(|page| assert_eq!(page, "served\n"))
        });
    }
    let answer = ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap();
    assert_eq!(answer, "served\n");
}

#[test]
fn a_proxy_that_ends_is_started_again() {
    let Some(sandbox) = sandbox() else { return };
    let running = || process::of_program(sandbox.dir(), "kube-proxy");
    // One that is being started is there twice for a moment, as who starts it and as itself.
    let before = eventually(sandbox, SOON, "one runs", || match running() {
        one if one.len() == 1 => Ok(one),
        other => Err(format!("{other:?}: {:?}", process::of_folder(sandbox.dir()))),
    });
    process::signal(before[0], "KILL");
    eventually(sandbox, SOON, "another one runs", || {
        let after = running();
        if after.len() == 1 && after != before { Ok(()) } else { Err(format!("{before:?}, then {after:?}")) }
    });
}

#[test]
fn an_image_is_made_of_a_folder() {
    let Some(sandbox) = sandbox() else { return };
    let namespace = restricted(sandbox, "images");
    let command = json!({"image": "registry.example/tools/motd:v1", "command": ["/bin/busybox", "sleep", "3600"]});
    run(&namespace, "motd", &command);
    assert_eq!(namespace.kubectl(&["exec", "motd", "--", "/bin/cat", "/etc/motd"]).unwrap(), "made of a folder\n");

    namespace.declare(&pod("unknown", &json!({"image": "registry.example/unknown:v1"}))).unwrap();
    eventually(sandbox, SOON, "an image that isn't here is looked for nowhere else", || {
        let waiting = &namespace.get("pod", "unknown").unwrap()["status"]["containerStatuses"][0]["state"]["waiting"];
        let told = waiting["message"]
            .as_str()
            .is_some_and(|message| message.contains("registry.example/unknown:v1: not found"));
        if told { Ok(()) } else { Err(waiting.to_string()) }
    });
}

#[test]
fn the_node_has_no_way_out_of_the_machine() {
    let Some(sandbox) = sandbox() else { return };
    let namespace = sandbox.namespace("routes");
    let mut on_the_node = pod("routes", &shell("exec sleep 3600"));
    on_the_node["spec"]["hostNetwork"] = json!(true);
    namespace.declare(&on_the_node).unwrap();
    namespace.kubectl(&["wait", "--for=condition=Ready", "pod/routes", "--timeout=60s"]).unwrap();
    let routes = namespace.kubectl(&["exec", "routes", "--", "ip", "route"]).unwrap();
    assert!(routes.lines().count() >= 2, "{routes}");
    assert!(routes.lines().all(|route| route.starts_with("198.19.")), "{routes}");
}

/// A sandbox with a node on which a pod runs, and what the machine has of it.
fn with_a_pod(name: &str, flags: &[&str]) -> Option<(Sandbox, Traces)> {
    let sandbox = Sandbox::start_with_node(name, flags)?;
    run(&sandbox.namespace("pods"), "shell", &shell("exec sleep 3600"));
    let traces = Traces::of(&sandbox);
    assert!(
        traces.processes() >= 7,
        "the first one, containerd, kubelet, kube-proxy, and three of the pod: {traces:?}"
    );
    assert!(traces.left().len() > traces.processes(), "the node is there to be seen: {:#?}", traces.left());
    Some((sandbox, traces))
}

fn assert_nothing_is_left(sandbox: &Sandbox, traces: &Traces) {
    process::assert_all_end(sandbox.dir());
    assert_eq!(traces.left(), Vec::<String>::new());
    assert!(!sandbox.dir().join("node").exists());
}

#[test]
fn of_two_nodes_one_goes_with_down_and_the_other_with_its_owner_without_a_trace() {
    let mut owner = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    let id = owner.id().to_string();
    let (one, two) = thread::scope(|scope| {
        let one = scope.spawn(|| with_a_pod("node-one", &[]));
        let two = scope.spawn(|| with_a_pod("node-two", &["--owner", &id]));
        (one.join().unwrap(), two.join().unwrap())
    });
    if let (Some((one, traces)), Some((two, _))) = (&one, &two) {
        assert_ne!(one.node(), two.node());
        Program::of_sandbox(&["down", "--dir", one.dir().to_str().unwrap()]).run(&[]).unwrap();
        assert_nothing_is_left(one, traces);
        let spared = two.existing_namespace("pods");
        assert_eq!(spared.kubectl(&["exec", "shell", "--", "echo", "still here"]).unwrap(), "still here\n");
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    if let Some((two, traces)) = &two {
        assert_nothing_is_left(two, traces);
    }
}

#[test]
fn nothing_is_left_of_a_node_whose_supervisor_is_killed() {
    let Some((sandbox, traces)) = with_a_pod("node-supervisor", &[]) else { return };
    process::signal(supervisor(&sandbox), "KILL");
    assert_nothing_is_left(&sandbox, &traces);
}

#[test]
fn nothing_is_left_of_a_node_whose_keeper_is_killed() {
    let Some((sandbox, traces)) = with_a_pod("node-keeper", &[]) else { return };
    process::signal(keeper(&sandbox), "KILL");
    assert_nothing_is_left(&sandbox, &traces);
}

#[test]
fn what_is_left_when_all_who_clean_up_are_killed_is_removed_by_down() {
    let Some((sandbox, traces)) = with_a_pod("node-both", &[]) else { return };
    let keeper = keeper(&sandbox);
    process::signal(keeper, "STOP");
    process::signal(supervisor(&sandbox), "KILL");
    process::signal(keeper, "KILL");
    process::assert_all_end(sandbox.dir());
    Program::of_sandbox(&["down", "--dir", sandbox.dir().to_str().unwrap()]).run(&[]).unwrap();
    assert_nothing_is_left(&sandbox, &traces);
}

fn supervisor(sandbox: &Sandbox) -> u32 {
    fs::read_to_string(sandbox.dir().join("supervisor.pid")).unwrap().parse().unwrap()
}

fn keeper(sandbox: &Sandbox) -> u32 {
    process::of_program(sandbox.dir(), "node-keeper")[0]
}

#[test]
fn flags_that_make_no_sense_get_one_clear_line_and_exit_code_2() {
    let dir = Sandbox::folder("node-flags");
    let up = Program::of_sandbox(&["up", "--dir", dir.to_str().unwrap()]);
    let cases: [(&[&str], &str); 3] = [
        (&["--image=shell=/"], "--image: only a node pulls images, so give --node too"),
        (&["--node", "--image=shell"], r#"--image "shell": give NAME=FOLDER"#),
        (&["--node", "--image=shell=/nowhere"], "there is no folder or archive /nowhere"),
    ];
    for (flags, said) in cases {
        let failure = up.run(flags).expect_err(said);
        assert_eq!(failure.code, Some(2), "{failure}");
        assert!(failure.stderr.contains(said), "{failure}");
        assert_eq!(failure.stderr.lines().count(), 1, "{failure}");
    }
}

#[test]
fn without_root_a_node_is_refused_in_one_line_with_exit_code_2() {
    let dir = Sandbox::folder("node-nobody");
    fs::create_dir_all(&dir).unwrap();
    // The repository may be where only root can go.
    let sandbox = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sandbox/bin/sandbox");
    fs::copy(sandbox, dir.join("sandbox")).unwrap();
    let mut up = Command::new(dir.join("sandbox"));
    up.args(["up", "--node", "--dir", dir.join("up").to_str().unwrap()]);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        up.uid(65534).gid(65534);
    }
    let output = up.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--node: a node needs root"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
