//! The custom resource definitions, printed or written to the files that `config/crd` is made of.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Why the definitions could not be written out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("writing {0}: {1}")]
    File(PathBuf, io::Error),
    #[error("printing the custom resource definitions: {0}")]
    Print(#[from] io::Error),
    #[error("the custom resource definitions as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// Prints all definitions as one YAML stream.
pub(crate) fn print() -> Result<(), Error> {
    let mut out = io::stdout().lock();
    for crd in drover_api::crds() {
        write!(out, "---\n{}", serde_saphyr::to_string(&crd)?)?;
    }
    Ok(())
}

/// Writes each definition into a file of its own, named as kubebuilder names it.
pub(crate) fn write(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(|error| Error::File(dir.into(), error))?;
    for crd in drover_api::crds() {
        let path = dir.join(format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural));
        fs::write(&path, serde_saphyr::to_string(&crd)?).map_err(|error| Error::File(path, error))?;
    }
    Ok(())
}
