//! Generates the types of `crates/vim25` from pyVmomi's type info.

mod emit;
mod literal;
mod names;
mod pypi;
mod select;
#[cfg(test)]
mod tests;
mod typeinfo;
mod wanted;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::root;
use select::Selection;
use typeinfo::TypeInfo;
use wanted::Wanted;

/// Why nothing was generated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodegenError {
    #[error("python3 could not be started ({error}); install it to fetch the type info")]
    NoPython { error: std::io::Error },
    #[error("pip could not install {package}: {reason}")]
    Pip { package: String, reason: String },
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error("{file}:{line}: the type info can't be read: {reason}")]
    TypeInfo { file: String, line: usize, reason: String },
    #[error("wanted.toml:{line}: {reason}")]
    WantedSyntax { line: usize, reason: String },
    #[error("wanted.toml: the type info has no {what} {name}")]
    Unknown { what: &'static str, name: String },
    #[error("rustfmt failed: {reason}")]
    Rustfmt { reason: String },
    #[error("{} not what the type info and wanted.toml give; run `cargo xtask codegen`", stale.join(", ") + if stale.len() == 1 { " is" } else { " are" })]
    Stale { stale: Vec<String> },
}

/// A file to be written, with its path from the root of the repository.
struct GeneratedFile {
    path: String,
    text: String,
}

/// Writes the generated files.
pub(crate) fn write() -> Result<String, CodegenError> {
    let files = generate()?;
    for GeneratedFile { path, text } in &files {
        let path = root().join(path);
        let parent = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| CodegenError::File { path, error })?;
    }
    let lines: usize = files.iter().map(|file| file.text.lines().count()).sum();
    Ok(format!("wrote {} files, {lines} lines", files.len()))
}

/// Compares the committed files with what would be written.
pub(crate) fn check() -> Result<String, CodegenError> {
    let files = generate()?;
    let differs =
        |file: &&GeneratedFile| std::fs::read_to_string(root().join(&file.path)).ok().as_ref() != Some(&file.text);
    let mut stale: Vec<String> = files.iter().filter(differs).map(|file| file.path.clone()).collect();
    stale.extend(left_over(&files));
    if stale.is_empty() {
        Ok(format!("{} generated files are current", files.len()))
    } else {
        Err(CodegenError::Stale { stale })
    }
}

/// Files beside the generated ones that the generator no longer writes.
fn left_over(files: &[GeneratedFile]) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(emit::DIRECTORY)).into_iter().flatten().flatten();
    let paths = entries.map(|entry| format!("{}/{}", emit::DIRECTORY, entry.file_name().to_string_lossy()));
    let mut unknown: Vec<String> = paths.filter(|path| files.iter().all(|file| file.path != *path)).collect();
    unknown.sort();
    unknown
}

fn generate() -> Result<Vec<GeneratedFile>, CodegenError> {
    let wanted = Wanted::load(&root().join("crates/vim25/codegen/wanted.toml"))?;
    let sources = pypi::fetch(&target(), &wanted.source.package, &wanted.source.version)?;
    let info = TypeInfo::parse(&sources)?;
    let selection = Selection::new(&info, &wanted)?;
    let mut files = emit::files(&info, &wanted, &selection)?;
    for file in files.iter_mut().filter(|file| Path::new(&file.path).extension().is_some_and(|ext| ext == "rs")) {
        file.text = rustfmt(&file.text)?;
    }
    Ok(files)
}

fn rustfmt(text: &str) -> Result<String, CodegenError> {
    let failed = |reason: String| CodegenError::Rustfmt { reason };
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(root().join("rustfmt.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut stdin = child.stdin.take().ok_or_else(|| failed("it has no standard input".to_owned()))?;
    let input = text.to_owned();
    // Written from a thread of its own: rustfmt may answer before it has read everything.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    let written = writer.join().map_err(|_| failed("its input could not be written".to_owned()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned()));
    }
    written.map_err(|error| failed(error.to_string()))?;
    String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
