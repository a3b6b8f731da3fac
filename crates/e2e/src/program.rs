//! Programs run as a person would run them.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::skip;

/// A command line with its environment, ready to be given more arguments.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
}

/// How a program failed.
#[derive(Debug)]
pub struct Failure {
    /// The command line.
    pub command: String,
    /// The exit code, if the program was not ended by a signal.
    pub code: Option<i32>,
    /// What it printed for its user to read.
    pub stderr: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed with {:?}:\n{}", self.command, self.code, self.stderr)
    }
}

impl Program {
    /// The sandbox's own program: `sandbox` itself, or one of those in it.
    #[must_use]
    pub fn of_sandbox(words: &[&str]) -> Self {
        Self { path: binary("sandbox"), arguments: owned(words), environment: BTreeMap::new() }
    }

    /// kubectl.
    #[must_use]
    pub fn kubectl() -> Self {
        Self { path: binary("kubectl"), arguments: Vec::new(), environment: BTreeMap::new() }
    }

    /// Lua 5.1, whose rules Argo CD runs its health scripts by. Where it isn't installed, that is said, and the test is skipped.
    #[must_use]
    pub fn lua() -> Option<Self> {
        let path = Path::new("/usr/bin/lua5.1");
        if !path.exists() {
            skip::say("lua5.1 is not installed: hack/node-packages.sh installs it");
            return None;
        }
        Some(Self::at(path))
    }

    /// A program by its path.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), arguments: Vec::new(), environment: BTreeMap::new() }
    }

    /// The same program with further variables in its environment.
    #[must_use]
    pub fn with(mut self, environment: &BTreeMap<String, String>) -> Self {
        self.environment.extend(environment.clone());
        self
    }

    /// The same program with further arguments in front of those of each run.
    #[must_use]
    pub fn arguments(mut self, words: &[&str]) -> Self {
        self.arguments.extend(owned(words));
        self
    }

    /// Runs the program, and returns what it printed.
    pub fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.run_with_input(arguments, "")
    }

    /// Runs the program with text to read, and returns what it printed.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<String, Failure> {
        self.told(arguments, input).map(|(printed, _)| printed)
    }

    /// The same, with what it printed for its user to read beside that, such as warnings.
    pub fn told(&self, arguments: &[&str], input: &str) -> Result<(String, String), Failure> {
        let failure = |code, stderr| Failure { command: self.shown(arguments), code, stderr };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut child = self
            .command(arguments)
            .spawn()
            .map_err(|error| failure(None, format!("it could not be started: {error}")))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that doesn't read its input closes it early.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| failure(None, error.to_string()))?;
        if output.status.success() {
            return Ok((text(&output.stdout), text(&output.stderr)));
        }
        Err(failure(output.status.code(), text(&output.stderr)))
    }

    /// The command, for a test that holds the running process itself. Input and outputs are pipes.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).args(arguments).envs(&self.environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn shown(&self, arguments: &[&str]) -> String {
        let name = self.path.file_name().and_then(OsStr::to_str);
        let words = self.arguments.iter().map(String::as_str).chain(arguments.iter().copied());
        name.into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn binary(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sandbox/bin").join(name);
    assert!(path.exists(), "the sandbox isn't built: `make build` builds it");
    path
}
