//! A sandbox comes up whole or not at all, and leaves nothing behind, however it ends.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use drover_e2e::{Failure, Program, Sandbox, process};

fn up(dir: &Path, flags: &[&str]) -> Result<String, Failure> {
    Program::of_sandbox(&["up", "--dir", dir.to_str().unwrap()]).run(flags)
}

fn down(dir: &Path) -> Result<String, Failure> {
    Program::of_sandbox(&["down", "--dir", dir.to_str().unwrap()]).run(&[])
}

/// Uses a folder again whose processes have all ended. One that ends has no command line any more a moment before it lets go of its lock.
#[track_caller]
fn up_again(up: &Program, flags: &[&str]) {
    let mut tried = up.run(flags);
    for _ in 0..50 {
        if !tried.as_ref().is_err_and(|failure| failure.stderr.contains("a sandbox runs in")) {
            break;
        }
        thread::sleep(Duration::from_millis(100));
        tried = up.run(flags);
    }
    tried.expect("its folder can be used again");
}

#[test]
fn an_up_that_is_killed_leaves_nothing_and_its_folder_is_used_again_with_kubebuilder_assets() {
    let dir = Sandbox::folder("used-again");
    let up = Program::of_sandbox(&["up", "--dir", dir.to_str().unwrap()]);
    let mut killed = up.command(&[]).spawn().unwrap();
    while !dir.join("supervisor.pid").exists() {
        thread::sleep(Duration::from_millis(10));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    process::assert_all_end(&dir);

    let assets = assets("good-assets", "touch \"$(dirname \"$0\")/was-used\"; exec \"$SANDBOX\" kube-apiserver \"$@\"");
    up_again(&up.clone().with(&assets), &[]);
    assert!(Path::new(&assets["KUBEBUILDER_ASSETS"]).join("was-used").exists());
    assert!(process::of_folder(&dir).len() >= 5, "{:#?}", process::of_folder(&dir));
    down(&dir).unwrap();
    assert_eq!(process::of_folder(&dir), Vec::<String>::new());
    let mut left: Vec<_> = fs::read_dir(&dir).unwrap().flatten().map(|entry| entry.file_name()).collect();
    left.sort();
    assert_eq!(left, ["log", "sandbox.lock"]);
    down(&dir).expect("stopping what doesn't run is no error");

    let empty = BTreeMap::from([("KUBEBUILDER_ASSETS".to_owned(), dir.to_str().unwrap().to_owned())]);
    let failure = up.with(&empty).run(&[]).unwrap_err();
    assert_eq!(failure.code, Some(2), "{failure}");
    assert!(failure.stderr.contains("there is no etcd in it"), "{failure}");
}

#[test]
fn of_two_sandboxes_side_by_side_one_ends_with_its_owner_and_one_with_its_supervisor() {
    let mut owner = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    let id = owner.id().to_string();
    let (one, two) = thread::scope(|scope| {
        let one = scope.spawn(|| Sandbox::start("side-one", &["--owner", &id]).unwrap());
        let two = scope.spawn(|| Sandbox::start("side-two", &["--vcenters=2", "--hosts=2"]).unwrap());
        (one.join().unwrap(), two.join().unwrap())
    });
    let _namespace = one.namespace("only-here");
    assert!(two.kubectl().run(&["get", "namespace", "only-here"]).is_err());
    for vcenter in [one.vcenter(), two.vcenter(), &two.own_vcenter()] {
        assert_eq!(vcenter.machines(), ["/DC0/vm/vm-operator/vm-operator-template"]);
    }
    assert_eq!(two.vcenter().govc(&["find", "/", "-type", "h"]).unwrap().lines().count(), 2);

    assert_is_refused(one.dir(), &[], "a sandbox runs in");
    assert!(one.kubectl().run(&["get", "namespace", "only-here"]).is_ok(), "the one in use is untouched");
    owner.kill().unwrap();
    process::assert_all_end(one.dir());
    owner.wait().unwrap();
    assert!(two.kubectl().run(&["get", "namespaces"]).is_ok(), "the other one has another owner");
    process::signal(fs::read_to_string(two.dir().join("supervisor.pid")).unwrap().parse().unwrap(), "KILL");
    process::assert_all_end(two.dir());
    let two_again = Program::of_sandbox(&["up", "--dir", two.dir().to_str().unwrap()]);
    up_again(&two_again, &["--kubernetes=false"]);
    down(two.dir()).unwrap();
}

#[test]
fn a_part_that_is_to_be_started_again_comes_back_with_all_that_it_had_and_the_end_of_another_ends_all() {
    let sandbox = Sandbox::start("again", &["--restart=kube-apiserver"]).unwrap();
    let _namespace = sandbox.namespace("stays");
    let server = || process::of_program(sandbox.dir(), "kube-apiserver").first().copied();
    let before = server().unwrap();
    process::signal(before, "KILL");
    let is_back = |_| {
        thread::sleep(Duration::from_millis(200));
        sandbox.kubectl().run(&["get", "namespace", "stays"]).is_ok()
    };
    assert!((0..300).any(is_back), "the API server does not come back");
    assert_ne!(server().unwrap(), before);
    process::signal(process::of_program(sandbox.dir(), "etcd")[0], "KILL");
    process::assert_all_end(sandbox.dir());
}

#[test]
fn the_flags_shape_the_inventory() {
    let more = Sandbox::start("more", &["--kubernetes=false", "--second-datacenter", "--second-template"]).unwrap();
    assert_eq!(more.vcenter().govc(&["find", "/", "-type", "d"]).unwrap(), "/DC0\n/DC1\n");
    let mut templates = more.vcenter().machines();
    templates.sort();
    assert_eq!(templates, ["/DC0/vm/elsewhere/vm-operator-template", "/DC0/vm/vm-operator/vm-operator-template"]);
    let bare = Sandbox::start("bare", &["--kubernetes=false", "--seed-inventory=false"]).unwrap();
    assert_eq!(bare.vcenter().govc(&["find", "/"]).unwrap(), "/\n");
}

#[track_caller]
fn assert_is_refused(dir: &Path, flags: &[&str], said: &str) {
    let failure = up(dir, flags).expect_err(said);
    assert_eq!(failure.code, Some(2), "{failure}");
    assert!(failure.stderr.contains(said), "{failure}");
    assert_eq!(failure.stderr.lines().count(), 1, "{failure}");
}

#[test]
fn bad_input_gets_one_clear_line_and_exit_code_2() {
    let foreign = Sandbox::folder("foreign");
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("thesis.txt"), "mine").unwrap();
    let fresh = Sandbox::folder("fresh");
    let cases: [(&Path, &str, &str); 9] = [
        (&foreign, "--hosts=1", "holds files that are no sandbox's"),
        (&fresh, "--clone-delay=3x", r#"invalid value "3x" for flag -clone-delay"#),
        (&fresh, "--clone-delay=-3s", "a delay can't be negative"),
        (&fresh, "--hosts=0", "--hosts 0: give 1 to 1000"),
        (&fresh, "--vcenters=none", r#"invalid value "none" for flag -vcenters"#),
        (&fresh, "--owner=4194305", "no such process"),
        (&fresh, "--kubernetes=perhaps", r#"invalid boolean value "perhaps" for -kubernetes"#),
        (&fresh, "--restart=vcsim", "is no part that can be started again"),
        (&fresh, "extra", "unexpected words: extra"),
    ];
    for (dir, flag, said) in cases {
        assert_is_refused(dir, &[flag], said);
    }
    assert!(foreign.join("thesis.txt").exists());
}

/// A folder with programs in the place of etcd and the API server.
fn assets(name: &str, apiserver: &str) -> BTreeMap<String, String> {
    let sandbox = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sandbox/bin/sandbox").canonicalize().unwrap();
    let dir = Sandbox::folder(name);
    fs::create_dir_all(&dir).unwrap();
    for (program, script) in [("etcd", "exec \"$SANDBOX\" etcd \"$@\""), ("kube-apiserver", apiserver)] {
        let script = script.replace("$SANDBOX", sandbox.to_str().unwrap());
        fs::write(dir.join(program), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(dir.join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    BTreeMap::from([("KUBEBUILDER_ASSETS".to_owned(), dir.to_str().unwrap().to_owned())])
}

#[test]
fn a_part_that_does_not_come_up_is_shown_with_its_last_words_and_all_is_stopped() {
    let dir = Sandbox::folder("broken");
    let assets = assets("broken-assets", "echo the disk is on fire >&2; exit 3");
    let up = Program::of_sandbox(&["up", "--dir", dir.to_str().unwrap()]).with(&assets);
    let failure = up.run(&[]).unwrap_err();
    assert_eq!(failure.code, Some(1), "{failure}");
    assert!(failure.stderr.contains("kube-apiserver did not come up: exit status 3"), "{failure}");
    assert!(failure.stderr.contains("the disk is on fire"), "{failure}");
    process::assert_all_end(&dir);
}

#[test]
fn without_go_the_build_says_so_in_one_line_with_exit_code_2() {
    let programs = Sandbox::folder("without-go");
    fs::create_dir_all(&programs).unwrap();
    for program in ["make", "bash", "find", "sed"] {
        let found = Command::new("which").arg(program).output().unwrap().stdout;
        let found = String::from_utf8(found).unwrap();
        std::os::unix::fs::symlink(found.trim(), programs.join(program)).unwrap();
    }
    let make = Command::new(programs.join("make"))
        .args(["--always-make", "sandbox/bin/sandbox"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("PATH", &programs)
        .output()
        .unwrap();
    let said = String::from_utf8(make.stderr).unwrap();
    assert_eq!(make.status.code(), Some(2), "{said}");
    assert!(said.starts_with("make: Go is needed to build the sandbox"), "{said}");
}
