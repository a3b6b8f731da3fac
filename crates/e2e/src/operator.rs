//! A running `drover`.

use std::{
    io,
    path::PathBuf,
    process::{Child, Stdio},
};

use crate::{Program, Sandbox, VCenter};

/// A running operator, ended when dropped. Its log is beside those of the sandbox.
#[derive(Debug)]
pub struct Operator(Child);

impl Operator {
    /// Starts the operator for a vCenter of the sandbox.
    pub fn start(sandbox: &Sandbox, vcenter: &VCenter) -> io::Result<Self> {
        Self::start_with(sandbox, vcenter, &[])
    }

    /// Starts the operator for a vCenter of the sandbox, with flags.
    pub fn start_with(sandbox: &Sandbox, vcenter: &VCenter, flags: &[&str]) -> io::Result<Self> {
        let log = sandbox.dir().join("log/drover.log");
        let owner = std::process::id().to_string();
        // Not even the end of this process leaves it behind.
        let keep = Program::of_sandbox(&["keep", "--owner", &owner]).with(sandbox.environment());
        let mut command = keep.command(&[]);
        command.arg("--log").arg(log).arg("--").arg(binary()).args(flags);
        command.env("VC_HOST", &vcenter.host).env("VC_USER", &vcenter.user).env("VC_PASS", &vcenter.password);
        Ok(Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
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
