//! Processes as `ps` and `kill` have them.

use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// The command lines of the processes that name a folder in theirs.
#[must_use]
pub fn of_folder(dir: &Path) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("processes are looked up in /proc").flatten();
    let command_lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let shown = command_lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    shown.filter(|line| dir.to_str().is_some_and(|dir| line.contains(dir))).collect()
}

/// Fails unless the processes of a folder end by themselves, soon.
#[track_caller]
pub fn assert_all_end(dir: &Path) {
    let began = Instant::now();
    while !of_folder(dir).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(10), "still running: {:#?}", of_folder(dir));
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal, named as `kill` names it.
#[track_caller]
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "the process {pid} is there to be sent {name}");
}

/// A child of a process.
#[must_use]
pub fn child_of(pid: u32) -> Option<u32> {
    let all = fs::read_dir("/proc").expect("processes are looked up in /proc").flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|child| status(*child, "PPid:") == Some(pid.into()))
}

/// How many bytes of memory a process holds.
#[must_use]
pub fn memory(pid: u32) -> Option<u64> {
    status(pid, "VmRSS:").map(|kilobytes| kilobytes * 1024)
}

/// A number of a process's status.
fn status(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}
