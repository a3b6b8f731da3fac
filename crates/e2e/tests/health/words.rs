//! What users read of the kinds, from the API server itself.

use std::path::Path;

use drover_e2e::{Program, Sandbox};

/// Applies the kinds as users do, and asserts that kubectl has nothing to remark.
pub(crate) fn kinds_are_applied_without_a_warning(sandbox: &Sandbox) {
    let bases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd/bases");
    let apply = ["apply", "--warnings-as-errors", "--server-side", "-f", bases.to_str().unwrap()];
    sandbox.kubectl().run(&apply).unwrap_or_else(|failure| panic!("{failure}"));
    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=20s"];
    sandbox.kubectl().run(&wait).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Looks at the objects as users do.
pub(crate) fn explain_and_list(sandbox: &Sandbox) {
    let kubectl = |arguments: &[&str]| run(&sandbox.kubectl(), arguments);
    let all = kubectl(&["get", "drover", "-n", "health"]);
    for name in ["vmgroup.vm.codeconnect.vmworld.com/health", "hostinfo.", "vminfo.", "myownshell.", "vcenter."] {
        assert!(all.contains(name), "{all}");
    }
    let wide = kubectl(&["get", "vg", "-n", "health", "-o", "wide"]);
    let header = wide.lines().next().unwrap_or_default();
    let columns: Vec<_> = header.split_whitespace().collect();
    let seed = ["NAME", "PHASE", "CURRENT", "DESIRED", "CPU", "MEMORY", "TEMPLATE", "LAST_MESSAGE"];
    assert_eq!((&columns[..8], &columns[8..]), (&seed[..], &["VCENTER", "READY", "AGE"][..]));
    let narrow = kubectl(&["get", "vg", "-n", "health"]);
    assert_eq!(narrow.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>(), seed);
    let explained = kubectl(&["explain", "vmgroup.spec.deletionPolicy"]);
    for words in ["Delete", "PowerOff", "Retain", "(default)", "stay in vCenter"] {
        assert!(explained.contains(words), "{explained}");
    }
}

#[track_caller]
fn run(program: &Program, arguments: &[&str]) -> String {
    program.run(arguments).unwrap_or_else(|failure| panic!("{failure}"))
}
