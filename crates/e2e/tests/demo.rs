//! `make demo` shows the main job, and leaves nothing behind.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use drover_e2e::process;

/// Starts the demo, and returns it with all that it printed and the folder of its sandbox, once it waits for Ctrl-C.
fn demo() -> (Child, String, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // A shell can't trap what it was told to ignore, and whoever runs the tests in the background has them ignore Ctrl-C.
    let mut demo = Command::new("env");
    demo.arg("--default-signal=INT").arg(root.join("hack/demo.sh"));
    let mut demo = demo.env("DROVER", drover_e2e::binary()).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = String::new();
    for line in BufReader::new(demo.stdout.take().unwrap()).lines() {
        shown += &line.unwrap();
        shown += "\n";
        if shown.contains("Ctrl-C ends the demo") {
            break;
        }
    }
    let hint = shown.lines().find_map(|line| line.strip_prefix(". ")?.strip_suffix("/env"));
    let dir = PathBuf::from(hint.unwrap_or_else(|| panic!("the demo ended early:\n{shown}")));
    (demo, shown, dir)
}

#[test]
fn the_demo_runs_a_group_heals_a_machine_and_ends_clean_on_ctrl_c() {
    let (mut demo, shown, dir) = demo();
    assert!(shown.contains("successfully reconciled VmGroup"), "{shown}");
    assert_eq!(
        shown.matches("/vmgroup-sample-replica-").count(),
        5,
        "three are listed, one powered off and healed: {shown}"
    );
    assert!(shown.contains("healed: "), "{shown}");
    assert!(!process::of_folder(&dir).is_empty());
    process::signal(demo.id(), "INT");
    assert!(demo.wait().unwrap().success());
    assert_eq!(process::of_folder(&dir), Vec::<String>::new());
    assert!(!dir.exists());
}

#[test]
fn a_killed_demo_leaves_no_process() {
    let (mut demo, _, dir) = demo();
    demo.kill().unwrap();
    demo.wait().unwrap();
    process::assert_all_end(&dir);
    // A killed script can't tidy up: all that is left is the log.
    std::fs::remove_dir_all(dir).unwrap();
}
