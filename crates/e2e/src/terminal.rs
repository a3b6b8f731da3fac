//! Commands as a person types them, in a shell at the root of the repository.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Failure, Program, Sandbox};

/// A shell whose kubectl, kustomize and govc are those of a sandbox, whose helm is the repository's, and whose drover is the one that is tested.
#[derive(Clone, Debug)]
pub struct Terminal {
    shell: Program,
}

impl Terminal {
    /// One for a sandbox.
    #[must_use]
    pub fn of(sandbox: &Sandbox) -> Self {
        let Self { shell } = Self::with_programs_of(&[sandbox.dir().join("bin")]);
        Self { shell: shell.with(sandbox.environment()) }
    }

    /// One without a cluster and a vCenter.
    #[must_use]
    pub fn at_root() -> Self {
        Self::with_programs_of(&[])
    }

    fn with_programs_of(own: &[PathBuf]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let test = env::current_exe().expect("a test runs from a file");
        // <target>/debug/deps/<test>
        let built = test.ancestors().nth(2).expect("tests are two folders deep");
        let more = [root.join("bin"), built.to_owned(), built.join("../tools/prometheus/usr/bin")];
        let theirs = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(own.iter().cloned().chain(more).chain(env::split_paths(&theirs)));
        let path = path.expect("no folder's name has a colon").into_string().expect("the PATH is text");
        let begin = format!("cd '{}' && eval \"$0\"", root.display());
        let shell = Program::at(Path::new("/bin/bash")).arguments(&["-euo", "pipefail", "-c", &begin]);
        Self { shell: shell.with(&BTreeMap::from([("PATH".to_owned(), path)])) }
    }

    /// The same with further variables.
    #[must_use]
    pub fn with(&self, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { shell: self.shell.clone().with(&variables) }
    }

    /// Types a command, and returns what it printed on its output.
    pub fn try_run(&self, line: &str) -> Result<String, Failure> {
        self.shell.run(&[line])
    }

    /// Types a command that has to succeed.
    #[track_caller]
    #[allow(clippy::must_use_candidate)] // many are typed for what they do
    pub fn run(&self, line: &str) -> String {
        self.try_run(line).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Types a command that has to fail, and returns what it says.
    #[track_caller]
    #[must_use]
    pub fn refuses(&self, line: &str) -> String {
        match self.try_run(line) {
            Ok(printed) => panic!("`{line}` was to be refused, but printed:\n{printed}"),
            Err(failure) => failure.stderr,
        }
    }

    /// The command of a line, for a test that keeps it running.
    #[must_use]
    pub fn command(&self, line: &str) -> Command {
        self.shell.command(&[line])
    }
}
