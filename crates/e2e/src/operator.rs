//! A running `drover`.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use crate::{Before, Gate, Sandbox, VCenter, eventually, http, log::Log, process};

/// A running operator, ended when dropped. Its log is beside those of the sandbox.
#[derive(Debug)]
pub struct Operator {
    /// What has started it. Each ends with the other.
    keeper: Child,
    log: Log,
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

    /// Starts the operator for a vCenter of the sandbox, with a gate before its API server.
    pub fn start_behind(gate: &Gate, sandbox: &Sandbox, vcenter: &VCenter) -> io::Result<Self> {
        let kubeconfig = gate.kubeconfig().to_str().expect("the temporary folder's name is text");
        Self::begin("drover", sandbox, vcenter, &[], Some(kubeconfig))
    }

    /// Starts one of several operators. Its log and its part in an election bear its name.
    pub fn start_as(name: &str, sandbox: &Sandbox, vcenter: &VCenter, arguments: &[&str]) -> io::Result<Self> {
        Self::begin(name, sandbox, vcenter, arguments, None)
    }

    /// Starts the operator of the version before, which has a binary of its own.
    pub fn start_before(before: &Before, sandbox: &Sandbox, vcenter: &VCenter) -> io::Result<Self> {
        Self::run(&before.binary(), "before", sandbox, vcenter, &[], None)
    }

    /// Starts an operator that was built in another way.
    pub fn start_program(binary: &Path, sandbox: &Sandbox, vcenter: &VCenter) -> io::Result<Self> {
        Self::run(binary, "drover", sandbox, vcenter, &[], None)
    }

    /// Starts one of several operators, with a gate before its API server.
    pub fn start_as_behind(
        name: &str,
        gate: &Gate,
        sandbox: &Sandbox,
        vcenter: &VCenter,
        arguments: &[&str],
    ) -> io::Result<Self> {
        let kubeconfig = gate.kubeconfig().to_str().expect("the temporary folder's name is text");
        Self::begin(name, sandbox, vcenter, arguments, Some(kubeconfig))
    }

    /// Starts the operator as somebody who is not the cluster's administrator, with a vCenter in its environment or without.
    pub fn start_as_user(
        kubeconfig: &Path,
        name: &str,
        sandbox: &Sandbox,
        vcenter: Option<&VCenter>,
        arguments: &[&str],
    ) -> io::Result<Self> {
        let kubeconfig = kubeconfig.to_str().expect("the temporary folder's name is text");
        Self::begin(name, sandbox, vcenter, arguments, Some(kubeconfig))
    }

    fn begin<'a>(
        name: &str,
        sandbox: &Sandbox,
        vcenter: impl Into<Option<&'a VCenter>>,
        arguments: &[&str],
        kubeconfig: Option<&str>,
    ) -> io::Result<Self> {
        Self::run(&binary(), name, sandbox, vcenter, arguments, kubeconfig)
    }

    fn run<'a>(
        binary: &Path,
        name: &str,
        sandbox: &Sandbox,
        vcenter: impl Into<Option<&'a VCenter>>,
        arguments: &[&str],
        kubeconfig: Option<&str>,
    ) -> io::Result<Self> {
        let mut command = Command::new(binary);
        // So that tests can hold it still or have it panic.
        command.args(arguments).envs(sandbox.environment()).env("POD_NAME", name).env("DROVER_TRIALS", "1");
        if !arguments.iter().any(|argument| argument.contains("metrics-addr")) {
            // So that they can be searched for what must not be in them.
            command.arg("--metrics-addr=127.0.0.1:0");
        }
        if let Some(vcenter) = vcenter.into() {
            command.env("VC_HOST", &vcenter.host).env("VC_USER", &vcenter.user).env("VC_PASS", &vcenter.password);
            command.env("VC_CA_FILE", &vcenter.ca_file);
        } else {
            // What the sandbox sets up a shell with names one, by any of these.
            command.env_remove("VC_HOST").env_remove("GOVMOMI_URL").env_remove("GOVC_URL");
        }
        command.envs(kubeconfig.map(|path| ("KUBECONFIG", path)));
        let (keeper, log) = Log::keep(&sandbox.dir().join(format!("log/{name}.log")), &command)?;
        Ok(Self { keeper, log })
    }

    /// What it has said so far. Others of its name, before it, are not in it.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Asks it what it serves, such as `/healthz`: the status and the text of its answer.
    pub fn ask(&self, method: &str, path: &str) -> Result<(u16, String), String> {
        let log = self.log();
        let line = log.lines().find(|line| line.contains("Metrics served")).ok_or("it does not serve yet")?;
        let (_, port) = line.rsplit_once(':').ok_or("it does not say where it serves")?;
        let port: String = port.chars().take_while(char::is_ascii_digit).collect();
        let uri = format!("http://127.0.0.1:{port}{}", path.replace(' ', "%20"));
        let request = ureq::http::Request::builder().method(method).uri(uri).body(String::new());
        let mut answer = http::send(request.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
        let text = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
        Ok((answer.status().as_u16(), text))
    }

    /// Has one of its loops stand still (`hold`) or panic, or a plan panic (`plan of NAMESPACE/NAME`), once it is there.
    #[track_caller]
    pub fn try_out(&self, sandbox: &Sandbox, what: &str, name: &str) {
        eventually(sandbox, Duration::from_mins(1), &format!("{what} {name}"), || {
            match self.ask("POST", &format!("/trial/{what}/{name}"))? {
                (200, _) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// Tells it to stop, as the kubelet does.
    #[track_caller]
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Stops it where it is, as a node that is suspended does. It knows nothing of it.
    #[track_caller]
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on from where it is.
    #[track_caller]
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    #[track_caller]
    fn signal(&self, name: &str) {
        for pid in process::children(self.keeper.id()) {
            process::signal(pid, name);
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

    /// Whether it has ended, by itself or because it was told to.
    pub fn has_ended(&mut self) -> bool {
        self.keeper.try_wait().expect("a process can be asked whether it runs").is_some()
    }

    /// How many bytes of memory it holds.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let memory = process::children(self.keeper.id()).into_iter().find_map(process::memory);
        memory.expect("the operator runs")
    }

    /// The most bytes of memory that it has held at once.
    #[must_use]
    pub fn peak_memory(&self) -> u64 {
        let memory = process::children(self.keeper.id()).into_iter().find_map(process::peak_memory);
        memory.expect("the operator runs")
    }

    /// How long it has had a processor.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let time = process::children(self.keeper.id()).into_iter().find_map(process::cpu_time);
        time.expect("the operator runs")
    }

    /// How many of them are not its code, which is several times as long in a debug build, while it runs.
    #[must_use]
    pub fn own_memory(&self) -> Option<u64> {
        process::children(self.keeper.id()).into_iter().find_map(process::own_memory)
    }
}

impl Drop for Operator {
    /// Kills it without a word, as a node that fails does. Afterwards its connections are closed.
    fn drop(&mut self) {
        let began = |pid| Some((pid, process::began(pid)?));
        let own: Vec<_> = process::children(self.keeper.id()).into_iter().filter_map(began).collect();
        // It may have ended by itself.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        while own.iter().any(|(pid, then)| process::began(*pid) == Some(*then)) {
            thread::sleep(Duration::from_millis(1));
        }
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
