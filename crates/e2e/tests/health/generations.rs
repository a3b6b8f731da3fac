//! Which generation a status is about: one that was looked at, or none.

use std::{
    io::Read,
    process::{Child, Stdio},
};

use drover_e2e::Sandbox;

/// A look at everything that is said of the VmGroups from now on.
pub(crate) struct Watch(Child);

impl Watch {
    pub(crate) fn start(sandbox: &Sandbox) -> Self {
        let line = r#"jsonpath={.metadata.name} {.status.observedGeneration} {.status.vcenter}{"\n"}"#;
        let mut command = sandbox.kubectl().command(&["get", "vg", "-n", "health", "--watch", "-o", line]);
        let mut watch = Self(command.stdin(Stdio::null()).spawn().unwrap());
        // It looks from the first line on.
        let mut first = [0];
        watch.0.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        watch
    }

    /// Which vCenter is written down before a group is looked at, so that comes first, and says nothing of its generation.
    pub(crate) fn no_group_was_said_to_be_seen_before_it_was(mut self) {
        self.0.kill().unwrap();
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.0.wait().unwrap();
        let lines: Vec<Vec<_>> = said.lines().map(|line| line.split(' ').collect()).collect();
        let generations: Vec<_> = lines.iter().filter(|line| line[0] == "health").map(|line| line[1]).collect();
        assert!(lines.iter().any(|line| line[..] == ["health", "-1", "health"]), "it had no home first: {said}");
        assert!(generations.contains(&"1"), "{said}");
        assert!(generations.iter().all(|generation| ["-1", "1"].contains(generation)), "{said}");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It has ended, unless the test fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
