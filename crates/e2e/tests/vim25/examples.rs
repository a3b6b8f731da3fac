//! The crate's examples do what they say.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use drover_e2e::{VCenter, built};

use super::{FOLDER, path, sandbox};

fn example(vcenter: &VCenter, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(built(&format!("examples/{name}")));
    command
        .args(arguments)
        .env("VC_HOST", &vcenter.host)
        .env("VC_USER", &vcenter.user)
        .env("VC_PASS", &vcenter.password);
    command.env("VC_CA_FILE", &vcenter.ca_file);
    command
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn machines_are_cloned_and_listed() {
    let vcenter = sandbox().own_vcenter();
    let cloned = example(&vcenter, "clone_and_follow", &["vm-operator-template", "web-1"]).output().unwrap();
    assert!(text(&cloned).starts_with("web-1 was cloned from vm-operator-template"));
    assert!(vcenter.machines().contains(&"/DC0/vm/web-1".to_owned()));
    let listed = text(&example(&vcenter, "list_machines", &[]).output().unwrap());
    let mut lines: Vec<_> = listed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["vm-operator-template poweredOff -", "web-1 poweredOff -"]);
}

#[test]
fn a_folder_is_watched() {
    let vcenter = sandbox().own_vcenter();
    let mut watch = Watch::start(&vcenter, 5);
    watch.expect("vm-operator-template is poweredOff");
    vcenter.govc(&["vm.clone", "-vm", "vm-operator-template", "-folder", FOLDER, "-on=false", "seen"]).unwrap();
    watch.expect("seen is poweredOff");
    vcenter.govc(&["vm.power", "-on", &path("seen")]).unwrap();
    watch.expect("seen is poweredOn");
    vcenter.govc(&["vm.power", "-off", "-force", &path("seen")]).unwrap();
    watch.expect("seen is poweredOff");
    vcenter.govc(&["vm.destroy", &path("seen")]).unwrap();
    watch.expect("seen is gone");
    watch.end();
}

/// A running `watch_folder`.
struct Watch {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(vcenter: &VCenter, events: usize) -> Self {
        let mut command = example(vcenter, "watch_folder", &[FOLDER, &events.to_string()]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    #[track_caller]
    fn expect(&mut self, line: &str) {
        assert_eq!(self.lines.next().unwrap().unwrap(), line);
    }

    fn end(mut self) {
        assert!(self.process.wait().unwrap().success());
    }
}
