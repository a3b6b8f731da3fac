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
        "GOVC_URL",
        "--controllers",
        "--namespaces",
        "--cluster-id",
        "--context",
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
            String::from_utf8_lossy(&taken.stderr).contains("the kubeconfig can't be used"),
            "{arguments:?}: {taken:?}"
        );
    }
    for arguments in [&["-no-such-flag"][..], &["--insecure=maybe"], &["--metrics-addr=8080"], &["--insecure", "run"]] {
        assert_eq!(drover(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn every_command_that_does_something_shows_how_it_is_used() {
    for command in ["run", "plan", "check", "release", "crds", "completion", "man"] {
        let help = String::from_utf8(drover(&[command, "--help"]).stdout).unwrap();
        assert!(help.contains("Examples:"), "{command}: {help}");
    }
    let help = String::from_utf8(drover(&["plan", "--help"]).stdout).unwrap();
    assert!(help.contains("Exit codes: 0 nothing to do, 1 error, 2 something to do."), "{help}");
}

#[test]
fn shells_complete_and_man_knows_every_command() {
    for (shell, word) in [("bash", "complete -F _drover"), ("zsh", "#compdef drover"), ("fish", "complete -c drover")] {
        let script = drover(&["completion", shell]);
        assert!(script.status.success() && String::from_utf8_lossy(&script.stdout).contains(word), "{script:?}");
    }
    let page = String::from_utf8(drover(&["man"]).stdout).unwrap();
    assert!(page.contains(".TH drover 1") && page.contains("plan"), "{page}");
    let dir = std::env::temp_dir().join(format!("drover-man-{}", std::process::id()));
    assert!(drover(&["man", "--output-dir", dir.to_str().unwrap()]).status.success());
    for name in ["drover", "drover-run", "drover-plan", "drover-check", "drover-vcenter-privileges"] {
        let page = fs::read_to_string(dir.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_command_line_that_makes_no_sense_is_an_error_also_where_the_exit_code_2_says_something_else() {
    for (arguments, code) in [
        (&["plan"][..], 1),
        (&["check", "--no-such-flag"], 1),
        (&["plan", "-f", "/nowhere"], 1),
        (&["run", "--no-such-flag"], 2),
        (&["plan", "--help"], 0),
    ] {
        assert_eq!(drover(arguments).status.code(), Some(code), "{arguments:?}");
    }
}
