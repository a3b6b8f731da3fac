//! What a program that is kept running has printed.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use crate::Program;

/// The part of a log that one start of a program has written. The file holds what earlier ones have written before it.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    begins: usize,
}

impl Log {
    /// Runs a command that ends with this process, however this ends, and with the one that is returned. What it prints is
    /// added to a file.
    pub(crate) fn keep(path: &Path, command: &std::process::Command) -> io::Result<(Child, Self)> {
        let begins = fs::read(path).map_or(0, |said| said.len());
        let owner = std::process::id().to_string();
        let mut keep = Program::of_sandbox(&["keep", "--owner", &owner, "--log"]).command(&[]);
        keep.arg(path).arg("--").arg(command.get_program()).args(command.get_args());
        keep.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let keeper = keep.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok((keeper, Self { path: path.to_owned(), begins }))
    }

    /// What this start has printed so far.
    pub(crate) fn text(&self) -> String {
        let all = fs::read(&self.path).unwrap_or_default();
        String::from_utf8_lossy(all.get(self.begins..).unwrap_or_default()).into_owned()
    }
}
