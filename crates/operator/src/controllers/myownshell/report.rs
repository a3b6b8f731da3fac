//! What is written of a MyOwnShell.

use drover_api::{MyOwnShell, MyOwnShellStatus};
use kube::{Api, Client, ResourceExt};

use crate::kube::status::{self, Reach};

/// Writes a status, and says whether that was done: not if the MyOwnShell has changed meanwhile, or is gone.
pub(super) async fn write(kube: &Client, shell: &MyOwnShell, status: &MyOwnShellStatus) -> Result<bool, kube::Error> {
    let shells: Api<MyOwnShell> = Api::namespaced(kube.clone(), &shell.namespace().unwrap_or_default());
    let outcome = status::apply(&shells, shell, Reach::Object, status::value(status)).await;
    status::unless_overtaken(outcome).map(|written| written.is_some())
}
