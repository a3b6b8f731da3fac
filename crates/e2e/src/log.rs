//! What a program that is kept running has printed.

use std::{
    collections::HashMap,
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

    /// What this start has printed so far, without its colours.
    pub(crate) fn text(&self) -> String {
        let all = fs::read(&self.path).unwrap_or_default();
        plain(&String::from_utf8_lossy(all.get(self.begins..).unwrap_or_default()))
    }
}

/// A text without what a terminal takes for colours: `ESC [ … m`.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// The lines of an operator's log that say what another has said within a minute. Of a warning, numbers that differ make no other.
#[must_use]
pub fn repeated(log: &str) -> Vec<String> {
    let mut said: HashMap<String, u32> = HashMap::new();
    let mut repeated = Vec::new();
    for line in log.lines() {
        let Some((when, what)) = dated(line) else { continue };
        let before = said.insert(what, when);
        // A run goes past midnight.
        if before.is_some_and(|before| (when + DAY - before) % DAY < MINUTE) {
            repeated.push(line.to_owned());
        }
    }
    repeated
}

const MINUTE: u32 = 60;
const DAY: u32 = 24 * 60 * MINUTE;

/// The second of the day at which a line of a log was written, and what it says. None: it only says how often another came.
fn dated(line: &str) -> Option<(u32, String)> {
    let (date, what) = line.split_once(' ')?;
    let (_, time) = date.split_once('T')?;
    let second = time.get(..8)?.split(':').try_fold(0, |sum, part| Some(60 * sum + part.parse::<u32>().ok()?))?;
    let what = what.trim();
    // How often a line came is said with its last time, which is not when that is said.
    if what.ends_with("in the last minute)") {
        return None;
    }
    if what.starts_with("INFO") {
        return Some((second, what.to_owned()));
    }
    let has_number = |word: &&str| word.contains(|letter: char| letter.is_ascii_digit());
    Some((second, what.split_whitespace().filter(|word| !has_number(word)).collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_twice_in_a_minute_is_found_and_what_is_said_of_another_isnt() {
        let log = "2026-01-01T23:59:30.1Z  WARN drover: it failed of=\"a\" error=after 3 s\n\
                   2026-01-01T23:59:31.1Z  WARN drover: it failed of=\"b\" error=after 3 s\n\
                   2026-01-02T00:00:29.1Z  WARN drover: it failed of=\"b\" error=after 4 s\n\
                   2026-01-02T00:00:29.1Z  WARN drover: it failed of=\"a\" error=after 5 s (7 more times in the last minute)\n\
                   2026-01-02T00:00:32.1Z  INFO drover: begun task=1\n\
                   2026-01-02T00:00:32.1Z  INFO drover: begun task=2\n";
        let repeated = repeated(log);
        assert_eq!((repeated.len(), repeated[0].contains("after 4 s")), (1, true), "{repeated:?}");
    }

    #[test]
    fn colours_are_left_out() {
        assert_eq!(plain("\u{1b}[33m WARN\u{1b}[0m of\u{1b}[2m=\u{1b}[0m7"), " WARN of=7");
    }
}
