//! A running `drover`.

use std::{
    fs, io,
    path::PathBuf,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{Program, Sandbox, VCenter, process};

/// A running operator, ended when dropped. Its log is beside those of the sandbox.
#[derive(Debug)]
pub struct Operator {
    /// What has started it. Each ends with the other.
    keeper: Child,
    log: PathBuf,
}

impl Operator {
    /// Starts the operator for a vCenter of the sandbox.
    pub fn start(sandbox: &Sandbox, vcenter: &VCenter) -> io::Result<Self> {
        Self::start_with(sandbox, vcenter, &[])
    }

    /// Starts the operator for a vCenter of the sandbox, with flags.
    pub fn start_with(sandbox: &Sandbox, vcenter: &VCenter, flags: &[&str]) -> io::Result<Self> {
        Self::start_as("drover", sandbox, vcenter, flags)
    }

    /// Starts one of several operators. Its log and its part in an election bear its name.
    pub fn start_as(name: &str, sandbox: &Sandbox, vcenter: &VCenter, arguments: &[&str]) -> io::Result<Self> {
        let log = sandbox.dir().join(format!("log/{name}.log"));
        let owner = std::process::id().to_string();
        // Not even the end of this process leaves it behind.
        let keep = Program::of_sandbox(&["keep", "--owner", &owner]).with(sandbox.environment());
        let mut command = keep.command(&[]);
        command.arg("--log").arg(&log).arg("--").arg(binary()).args(arguments).env("POD_NAME", name);
        if !arguments.iter().any(|argument| argument.contains("metrics-addr")) {
            // So that they can be searched for what must not be in them.
            command.arg("--metrics-addr=127.0.0.1:0");
        }
        command.env("VC_HOST", &vcenter.host).env("VC_USER", &vcenter.user).env("VC_PASS", &vcenter.password);
        command.env("VC_CA_FILE", &vcenter.ca_file);
        let keeper = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { keeper, log })
    }

    /// What it has said so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Tells it to stop, as the kubelet does.
    #[track_caller]
    pub fn terminate(&self) {
        for pid in process::children(self.keeper.id()) {
            process::signal(pid, "TERM");
        }
    }

    /// Waits until it has ended by itself, and returns whether it had done what it was to do.
    #[track_caller]
    pub fn succeeds_within(&mut self, deadline: Duration) -> bool {
        let began = Instant::now();
        loop {
            if let Some(status) = self.keeper.try_wait().expect("a process can be asked whether it runs") {
                return status.success();
            }
            assert!(began.elapsed() <= deadline, "it still runs after {deadline:?}:\n{}", self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// How many bytes of memory it holds.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let memory = process::children(self.keeper.id()).into_iter().find_map(process::memory);
        memory.expect("the operator runs")
    }
}

impl Drop for Operator {
    /// Kills it without a word, as a node that fails does.
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// The operator's binary.
#[must_use]
pub fn binary() -> PathBuf {
    built("drover")
}

/// A binary of the workspace, such as `examples/list_machines`. Testing the whole workspace builds them, beside the tests.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test runs from a file");
    // <target>/debug/deps/<test>
    let path = test.ancestors().nth(2).expect("tests are two folders deep").join(name);
    assert!(path.exists(), "{name} isn't built: `cargo build --workspace --examples` builds it");
    path
}
