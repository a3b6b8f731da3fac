//! How much is logged: chosen at the start, and changed while the operator runs by a file.

use std::{
    convert::Infallible,
    env, io,
    path::{Path, PathBuf},
    time::Duration,
};

use tracing::{info, warn};
use tracing_subscriber::{EnvFilter, Registry, reload};

/// How often the file is read. A mounted `ConfigMap` is replaced by other files of the same name, so nothing could be watched.
const LOOK: Duration = Duration::from_secs(1);
/// More than any filter needs. Whatever else a file is, it is not read to its end.
const LONGEST: u64 = 4096;

/// kube's own lines on requests that fail name no object: whoever has asked says what failed, and for which.
const QUIET: &str = "kube=warn,kube_client::client::builder=off";
/// The crates that a plain level is about.
const OURS: [&str; 4] = ["drover", "drover_api", "drover_core", "vim25"];

/// A level, or a filter in the syntax of `RUST_LOG`, with the text that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verbosity {
    pub text: String,
    filter: String,
}

impl Default for Verbosity {
    fn default() -> Self {
        Self { text: "info".to_owned(), filter: format!("info,{QUIET}") }
    }
}

/// Text that is neither a level nor a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither error, warn, info, debug or trace nor a filter such as info,vim25=debug")]
pub(crate) struct BadVerbosity(String);

impl Verbosity {
    /// Reads a level or a filter.
    pub(crate) fn read(text: &str) -> Result<Self, BadVerbosity> {
        let text = text.trim();
        let bad = || BadVerbosity(text.chars().take(100).collect());
        let filter = match text {
            "error" => "error".to_owned(),
            "warn" => format!("warn,{QUIET}"),
            "info" => Self::default().filter,
            // Of other people's code, more would only be noise.
            "debug" | "trace" => {
                format!("info,{QUIET},{}", OURS.map(|name| format!("{name}={text}")).join(","))
            }
            filter if filter.contains('=') => filter.to_owned(),
            _ => return Err(bad()),
        };
        EnvFilter::try_new(&filter).map_err(|_| bad())?;
        Ok(Self { text: text.to_owned(), filter })
    }

    /// The one to start with: that of the flag, else that of `RUST_LOG`, else the default.
    pub(crate) fn at_start(flag: Option<&Self>) -> Self {
        let of_environment = || {
            let text = env::var(EnvFilter::DEFAULT_ENV).ok().filter(|text| !text.is_empty())?;
            // Whoever sets it knows its syntax: all that it takes is taken as it is.
            Self::read(&text)
                .ok()
                .or_else(|| EnvFilter::try_new(&text).ok().map(|_| Self { filter: text.clone(), text }))
        };
        flag.cloned().or_else(of_environment).unwrap_or_default()
    }

    pub(crate) fn filter(&self) -> EnvFilter {
        EnvFilter::new(&self.filter)
    }
}

/// The filter that is in force, to be changed.
pub(crate) type Handle = reload::Handle<EnvFilter, Registry>;

/// Follows a file that says how much to log, for as long as the operator runs. Where it is missing or empty, that of the start holds; where
/// it makes no sense, what held before does.
pub(crate) async fn follow(path: PathBuf, start: Verbosity, handle: Handle) -> Infallible {
    let mut now = start.clone();
    let mut complaint = None;
    loop {
        match wanted(&path, &start).await {
            Ok(wanted) => {
                complaint = None;
                if wanted != now && handle.reload(wanted.filter()).is_ok() {
                    info!(from = now.text, to = wanted.text, "Log level changed");
                    now = wanted;
                }
            }
            Err(error) => {
                let error = Some(error);
                if error != complaint {
                    warn!(file = %path.display(), error, "Log level file not understood");
                    complaint = error;
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn wanted(path: &Path, start: &Verbosity) -> Result<Verbosity, String> {
    let path = path.to_owned();
    // A file on a network may take its time.
    let read = tokio::task::spawn_blocking(move || read(&path)).await;
    match read.map_err(|error| error.to_string())? {
        Ok(text) if text.trim().is_empty() => Ok(start.clone()),
        Ok(text) => Verbosity::read(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(start.clone()),
        Err(error) => Err(error.to_string()),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(std::fs::File::open(path)?, LONGEST), &mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_level_is_about_drover_and_a_filter_is_taken_as_it_is() {
        for level in ["error", "warn", "info", " debug\n", "trace"] {
            assert_eq!(Verbosity::read(level).unwrap().text, level.trim());
        }
        assert_eq!(Verbosity::read("info"), Ok(Verbosity::default()));
        let debug = Verbosity::read("debug").unwrap().filter;
        assert!(debug.starts_with("info,kube=warn,") && debug.contains(",vim25=debug"), "{debug}");
        assert_eq!(Verbosity::read("warn,vim25=debug").unwrap().filter, "warn,vim25=debug");
        for nonsense in ["", "loud", "INFO!", "drover=loud", "5"] {
            let refused = Verbosity::read(nonsense).unwrap_err().to_string();
            assert!(refused.contains("neither error, warn, info"), "{refused}");
        }
    }
}
