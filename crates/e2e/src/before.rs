//! The version before this one.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

/// Where the version before is: its operator and its kinds.
#[derive(Clone, Debug)]
pub struct Before(PathBuf);

impl Before {
    /// Builds it, if that has not been done. Without the project's history there is none, not in CI either, and the test has nothing to do.
    #[must_use]
    #[track_caller]
    pub fn find() -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/before.sh");
        let output = Command::new(script).output().expect("hack/before.sh can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(NO_HISTORY) {
            // What is printed with a macro is only shown of tests that fail.
            let _ = io::stderr().write_all(said.as_bytes());
            return None;
        }
        assert!(output.status.success(), "{said}");
        Some(Self(String::from_utf8_lossy(&output.stdout).trim().into()))
    }

    /// Its operator.
    #[must_use]
    pub(crate) fn binary(&self) -> PathBuf {
        self.0.join("drover")
    }

    /// The folder of its kinds.
    #[must_use]
    pub fn kinds(&self) -> PathBuf {
        self.0.join("crds")
    }
}

/// How the script ends where the commit is not there.
const NO_HISTORY: i32 = 3;
