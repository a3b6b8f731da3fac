//! Terraform with its vSphere provider, which `make bench` builds.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use drover_e2e::{Program, Sandbox, VCenter};

use crate::peers::{PEER, measured};

/// What a user writes.
const CONFIGURATION: &str = include_str!("terraform/main.tf");
/// The file of Terraform's own settings.
const SETTINGS: &str = "terraformrc";
/// The program that Terraform speaks to vCenter with.
pub(crate) const PROVIDER: &str = "terraform-provider-vsphere";
/// How many VMs it makes at a time, unless it is told.
pub(crate) const DEFAULT_PARALLELISM: usize = 10;

/// Terraform as it is built here.
pub(crate) struct Terraform {
    programs: PathBuf,
}

impl Terraform {
    /// None where it isn't built.
    pub(crate) fn find() -> Option<Self> {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin").canonicalize().ok()?;
        let is_there = |name: &str| programs.join(name).exists();
        (is_there("terraform") && is_there(PROVIDER)).then_some(Self { programs })
    }

    /// Clones VMs as `terraform apply` does that finds nothing made yet, so many at a time.
    pub(crate) fn apply(&self, vcenter: &VCenter, vms: usize, at_a_time: usize, patience: Duration) -> f64 {
        let folder = Sandbox::folder("terraform");
        fs::create_dir_all(&folder).expect("the temporary folder can be written to");
        fs::write(folder.join("main.tf"), CONFIGURATION).expect("the temporary folder can be written to");
        fs::write(folder.join(SETTINGS), self.installation()).expect("the temporary folder can be written to");
        let chdir = format!("-chdir={}", folder.display());
        let parallelism = format!("-parallelism={at_a_time}");
        let apply = [chdir.as_str(), "apply", "-auto-approve", "-input=false", "-no-color", &parallelism];
        let took = measured(vcenter, vms, patience, || {
            let terraform = Program::at(&self.programs.join("terraform")).with(&environment(vcenter, vms, &folder));
            terraform.run(&apply).unwrap_or_else(|failure| panic!("{failure}"));
        });
        fs::remove_dir_all(&folder).expect("the temporary folder can be written to");
        took
    }

    /// Has the provider taken from here, and nothing asked for elsewhere.
    fn installation(&self) -> String {
        let programs = self.programs.display();
        format!("provider_installation {{\n  dev_overrides {{\n    \"hashicorp/vsphere\" = \"{programs}\"\n  }}\n}}\n")
    }
}

fn environment(vcenter: &VCenter, vms: usize, folder: &Path) -> BTreeMap<String, String> {
    let variables = [
        ("TF_CLI_CONFIG_FILE", folder.join(SETTINGS).display().to_string()),
        // It leaves sockets there.
        ("TMPDIR", folder.display().to_string()),
        // It would ask whether there is a newer version.
        ("CHECKPOINT_DISABLE", "1".to_owned()),
        ("TF_IN_AUTOMATION", "1".to_owned()),
        ("TF_VAR_vms", vms.to_string()),
        ("TF_VAR_prefix", PEER.to_owned()),
        ("VSPHERE_SERVER", vcenter.host.clone()),
        ("VSPHERE_USER", vcenter.user.clone()),
        ("VSPHERE_PASSWORD", vcenter.password.clone()),
        ("SSL_CERT_FILE", vcenter.ca_file.clone()),
    ];
    variables.map(|(name, value)| (name.to_owned(), value)).into()
}
