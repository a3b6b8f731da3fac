//! A running `drover`.

use std::{
    fs::File,
    io,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use crate::{Sandbox, VCenter};

/// A running operator, ended when dropped. Its log is beside those of the sandbox.
#[derive(Debug)]
pub struct Operator(Child);

impl Operator {
    /// Starts the operator for a vCenter of the sandbox.
    pub fn start(sandbox: &Sandbox, vcenter: &VCenter) -> io::Result<Self> {
        let log = File::options().create(true).append(true).open(sandbox.dir().join("log/drover.log"))?;
        let mut command = Command::new(binary());
        command.envs(sandbox.environment());
        command.env("VC_HOST", &vcenter.host).env("VC_USER", &vcenter.user).env("VC_PASS", &vcenter.password);
        Ok(Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?))
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

/// The operator's binary, beside those of the tests, built as they are.
pub fn binary() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let build =
                Command::new(env!("CARGO")).args(["build", "--quiet", "--locked", "--package", "drover"]).status();
            assert!(build.is_ok_and(|status| status.success()), "drover can be built");
            let test = std::env::current_exe().expect("a test runs from a file");
            // <target>/debug/deps/<test>
            test.ancestors().nth(2).expect("tests are two folders deep").join("drover")
        })
        .clone()
}
