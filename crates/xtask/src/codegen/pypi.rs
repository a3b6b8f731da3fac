//! Fetches the pinned package from `PyPI` with the ordinary client, and hands out the files of type info.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::CodegenError;

/// The files that define the vSphere API, in the order in which they build on each other.
const FILES: [&str; 3] = ["_typeinfo_core.py", "_typeinfo_query.py", "_typeinfo_vim.py"];

/// One file of type info.
pub(super) struct Source {
    pub name: String,
    pub text: String,
}

/// The type info of `package==version`, unpacked once below `target`.
pub(super) fn fetch(target: &Path, package: &str, version: &str) -> Result<Vec<Source>, CodegenError> {
    let directory = target.join("codegen").join(format!("{package}-{version}"));
    if !directory.join("complete").exists() {
        install(&directory, package, version)?;
    }
    FILES.iter().map(|name| read(&directory, name)).collect()
}

fn install(directory: &Path, package: &str, version: &str) -> Result<(), CodegenError> {
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"])
        .args(["--no-deps", "--no-compile", "--upgrade", "--target"])
        .arg(directory)
        .arg(format!("{package}=={version}"))
        .output()
        .map_err(|error| CodegenError::NoPython { error })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let reason = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given").to_owned();
        return Err(CodegenError::Pip { package: format!("{package}=={version}"), reason });
    }
    // Written last, so that an interrupted installation is done again.
    let mark = directory.join("complete");
    std::fs::write(&mark, "").map_err(|error| CodegenError::File { path: mark, error })
}

fn read(directory: &Path, name: &str) -> Result<Source, CodegenError> {
    let path: PathBuf = directory.join("pyVmomi").join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Source { name: name.to_owned(), text }),
        Err(error) => Err(CodegenError::File { path, error }),
    }
}
