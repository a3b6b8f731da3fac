//! Files of the repository that are read and written, with errors that say which.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::root;

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: {error}", path.display())]
    Json { path: PathBuf, error: serde_json::Error },
}

pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(|error| FileError::Io { path: path.to_owned(), error })
}

pub(crate) fn read_json(path: &Path) -> Result<Value, FileError> {
    serde_json::from_str(&read(path)?).map_err(|error| FileError::Json { path: path.to_owned(), error })
}

/// JSON as it is kept.
pub(crate) fn json(value: &Value) -> String {
    // What was read as JSON can be written as such.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Writes a file at a path from the root of the repository, and its folder.
pub(crate) fn write(path: &str, text: &str) -> Result<(), FileError> {
    let path = root().join(path);
    let failed = |error| FileError::Io { path: path.clone(), error };
    fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(failed)?;
    fs::write(&path, text).map_err(failed)
}
