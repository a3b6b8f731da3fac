//! A real Prometheus, as a team has it that watches Drover.

use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use serde_json::Value;

use crate::{Program, Sandbox, http, log::Log, skip};

/// A running Prometheus, ended when dropped. Its log is beside those of the sandbox.
#[derive(Debug)]
pub struct Prometheus {
    keeper: Child,
    log: Log,
    address: String,
}

impl Prometheus {
    /// `promtool`, which checks rules and metrics. Where there is none, the test has nothing to do, and says so on its way; in CI it
    /// fails.
    #[must_use]
    pub fn promtool() -> Option<Program> {
        program("promtool").map(|path| Program::at(&path))
    }

    /// Starts it with this configuration, on the same terms.
    #[must_use]
    pub fn start(sandbox: &Sandbox, config: &str) -> Option<Self> {
        let path = program("prometheus")?;
        let dir = sandbox.dir().join("prometheus");
        fs::create_dir_all(&dir).expect("the sandbox's folder can be written to");
        fs::write(dir.join("prometheus.yaml"), config).expect("the sandbox's folder can be written to");
        // The port is free again when Prometheus takes it.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("there is a free port").to_string();
        let mut command = Command::new(path);
        command.arg(format!("--config.file={}", dir.join("prometheus.yaml").display()));
        command.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        let (keeper, log) = Log::keep(&sandbox.dir().join("log/prometheus.log"), &command)
            .expect("a program that is there can be started");
        Some(Self { keeper, log, address })
    }

    /// What it has said so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// What its API answers, such as to `targets`.
    pub fn get(&self, path: &str) -> Result<Value, String> {
        let request = ureq::http::Request::builder().uri(format!("http://{}/api/v1/{path}", self.address));
        let request = request.body(String::new()).map_err(|error| error.to_string())?;
        let mut answer = http::send(request).map_err(|error| error.to_string())?;
        let answer: Value = answer.body_mut().read_json().map_err(|error| error.to_string())?;
        if answer["status"] == "success" { Ok(answer["data"].clone()) } else { Err(answer.to_string()) }
    }

    /// The values of an expression now, each with its labels.
    pub fn query(&self, expression: &str) -> Result<Vec<(Value, f64)>, String> {
        let encoded: Vec<_> = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let found = self.get(&format!("query?query={}", encoded.concat()))?;
        let series = found["result"].as_array().ok_or_else(|| found.to_string())?.iter();
        let read = |one: &Value| Some((one["metric"].clone(), one["value"][1].as_str()?.parse().ok()?));
        series.map(|one| read(one).ok_or_else(|| one.to_string())).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Where a program of Prometheus is: where `hack/prometheus.sh` has put it, or installed.
fn program(name: &str) -> Option<PathBuf> {
    let test = env::current_exe().expect("a test runs from a file");
    // <target>/debug/deps/<test>
    let own = test.ancestors().nth(3).map(|target| target.join("tools/prometheus/usr/bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let found = own.into_iter().chain(env::split_paths(&path)).map(|dir| dir.join(name)).find(|path| is_program(path));
    if found.is_none() {
        skip::say(&format!("there is no {name}: hack/prometheus.sh gets it"));
    }
    found
}

fn is_program(path: &Path) -> bool {
    path.is_file()
}
