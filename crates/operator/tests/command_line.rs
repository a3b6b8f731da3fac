//! What `drover` says without a cluster or a vCenter.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn drover(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(arguments)
        .env_clear()
        .env("KUBECONFIG", "/nowhere")
        .output()
        .unwrap()
}

#[test]
fn the_help_says_what_to_set_and_which_commands_there_are() {
    let help = String::from_utf8(drover(&["--help"]).stdout).unwrap();
    for word in [
        "run",
        "crds",
        "--insecure",
        "--enable-leader-election",
        "--metrics-addr",
        "KUBECONFIG",
        "VC_HOST",
        "VC_CA_FILE",
    ] {
        assert!(help.contains(word), "{word} is missing:\n{help}");
    }
}

#[test]
fn the_printed_definitions_are_those_in_the_repo() {
    let printed = String::from_utf8(drover(&["crds"]).stdout).unwrap();
    let bases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd/bases");
    let mut files: Vec<_> = fs::read_dir(bases).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().flat_map(|file| ["---\n".to_owned(), fs::read_to_string(file).unwrap()]);
    let committed: String = texts.collect();
    assert_eq!(printed, committed);
}

#[test]
fn flags_are_taken_with_one_dash_or_two_with_a_command_or_without() {
    for arguments in [
        &["-insecure"][..],
        &["--insecure=true"],
        &["-metrics-addr", "127.0.0.1:0"],
        &["run", "-insecure=false", "--enable-leader-election"],
    ] {
        let taken = drover(arguments);
        assert!(
            String::from_utf8_lossy(&taken.stderr).contains("no Kubernetes cluster is named"),
            "{arguments:?}: {taken:?}"
        );
    }
    for arguments in [&["-no-such-flag"][..], &["--insecure=maybe"], &["--metrics-addr=8080"], &["--insecure", "run"]] {
        assert_eq!(drover(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
