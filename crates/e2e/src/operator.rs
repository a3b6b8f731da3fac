//! A running `drover`.

use std::{
    io,
    path::PathBuf,
    process::{Child, Stdio},
};

use crate::{Program, Sandbox, VCenter, process};

/// A running operator, ended when dropped. Its log is beside those of the sandbox.
#[derive(Debug)]
pub struct Operator(Child);

impl Operator {
    /// Starts the operator for a vCenter of the sandbox.
    pub fn start(sandbox: &Sandbox, vcenter: &VCenter) -> io::Result<Self> {
        let log = sandbox.dir().join("log/drover.log");
        let owner = std::process::id().to_string();
        // Not even the end of this process leaves it behind.
        let keep = Program::of_sandbox(&["keep", "--owner", &owner]).with(sandbox.environment());
        let mut command = keep.command(&[]);
        command.arg("--log").arg(log).arg("--").arg(binary());
        command.env("VC_HOST", &vcenter.host).env("VC_USER", &vcenter.user).env("VC_PASS", &vcenter.password);
        Ok(Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }
}

impl Operator {
    /// How many bytes of memory it holds.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let operator = process::child_of(self.0.id()).expect("the operator runs");
        process::memory(operator).expect("the operator runs")
    }
}

impl Drop for Operator {
    /// Kills it without a word, as a node that fails does.
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The operator's binary, beside those of the tests. Testing the whole workspace builds it.
#[must_use]
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test runs from a file");
    // <target>/debug/deps/<test>
    let path = test.ancestors().nth(2).expect("tests are two folders deep").join("drover");
    assert!(path.exists(), "drover isn't built: `cargo build --package drover` builds it");
    path
}
