//! The operator's service account, with the rights that are shipped.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::Sandbox;

/// A service account.
#[derive(Debug)]
pub struct Account<'a> {
    /// The sandbox that it is in.
    pub sandbox: &'a Sandbox,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl<'a> Account<'a> {
    /// Applies a folder of `config/` in a namespace, as config/default does: with a prefix to all names.
    #[must_use]
    pub fn apply(sandbox: &'a Sandbox, folder: &str, namespace: &str) -> Self {
        let _ = sandbox.namespace(namespace);
        Self::apply_all(sandbox, &[folder], namespace)
    }

    /// The same with several folders, which name each other's objects, in a namespace that is there.
    #[must_use]
    pub fn apply_all(sandbox: &'a Sandbox, folders: &[&str], namespace: &str) -> Self {
        let overlay = sandbox.dir().join(format!("overlay-{namespace}"));
        fs::create_dir_all(&overlay).expect("the temporary folder can be written to");
        let config = relative_config(&overlay);
        let resources: Vec<_> = folders.iter().map(|folder| format!("{config}/{folder}")).collect();
        let resources = resources.join(", ");
        let text = format!("namespace: {namespace}\nnamePrefix: drover-\nresources: [{resources}]\n");
        fs::write(overlay.join("kustomization.yaml"), text).expect("the temporary folder can be written to");
        let overlay = overlay.to_str().expect("the temporary folder's name is text");
        sandbox.kubectl().run(&["apply", "-k", overlay]).unwrap_or_else(|failure| panic!("{failure}"));
        let name = "drover-controller-manager".to_owned();
        Self { sandbox, namespace: namespace.to_owned(), name }
    }

    /// A kubeconfig with a token of the account's.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        let kubectl = |words: &[&str]| self.sandbox.kubectl().run(words).unwrap_or_else(|failure| panic!("{failure}"));
        let token = kubectl(&["create", "token", &self.name, "-n", &self.namespace]);
        let view = kubectl(&["config", "view", "--raw", "--minify", "-o", "json"]);
        let mut kubeconfig: Value = serde_json::from_str(&view).expect("kubectl prints JSON when asked to");
        let user = kubeconfig["contexts"][0]["context"]["user"].clone();
        kubeconfig["users"] = json!([{"name": user, "user": {"token": token.trim()}}]);
        let file = self.sandbox.dir().join(format!("kubeconfig-{}.json", self.namespace));
        fs::write(&file, kubeconfig.to_string()).expect("the temporary folder can be written to");
        file
    }
}

/// The path of `config/` from a folder: kustomize takes relative ones only.
#[must_use]
pub fn relative_config(folder: &Path) -> String {
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let config = absolute(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config"));
    let up = "../".repeat(absolute(folder).components().count() - 1);
    format!("{up}{}", config.to_str().expect("the repository's name is text").trim_start_matches('/'))
}
