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
    running_in(dir).into_iter().map(|(_, line)| line).collect()
}

/// The processes of a program that name a folder in their command lines. It may be one of those in the sandbox's binary.
#[must_use]
pub fn of_program(dir: &Path, program: &str) -> Vec<u32> {
    let is_it = |line: &str| line.split(' ').take(2).any(|word| Path::new(word).file_name() == Some(program.as_ref()));
    running_in(dir).into_iter().filter(|(_, line)| is_it(line)).map(|(pid, _)| pid).collect()
}

/// The processes that a process has started.
#[must_use]
pub fn children(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| status(*pid, "PPid:") == Some(parent.into());
    running().into_iter().filter(is_child).collect()
}

/// All processes there are.
pub(crate) fn running() -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("processes are looked up in /proc").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn running_in(dir: &Path) -> Vec<(u32, String)> {
    let line = |pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&words).replace('\0', " ");
        dir.to_str().is_some_and(|dir| line.contains(dir)).then_some((pid, line))
    };
    running().into_iter().filter_map(line).collect()
}

/// Fails unless the processes of a folder end by themselves, soon.
#[track_caller]
pub fn assert_all_end(dir: &Path) {
    let began = Instant::now();
    while !of_folder(dir).is_empty() {
        assert!(began.elapsed() < Duration::from_mins(1), "still running: {:#?}", of_folder(dir));
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal, named as `kill` names it.
#[track_caller]
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "the process {pid} is there to be sent {name}");
}

/// How many bytes of memory a process holds.
#[must_use]
pub fn memory(pid: u32) -> Option<u64> {
    status(pid, "VmRSS:").map(|kilobytes| kilobytes * 1024)
}

/// The most bytes of memory that a process has held at once.
#[must_use]
pub fn peak_memory(pid: u32) -> Option<u64> {
    status(pid, "VmHWM:").map(|kilobytes| kilobytes * 1024)
}

/// How many bytes of memory a process holds that are of no file, as its code is.
#[must_use]
pub fn own_memory(pid: u32) -> Option<u64> {
    status(pid, "RssAnon:").map(|kilobytes| kilobytes * 1024)
}

/// How long a process has had a processor, with all its threads.
#[must_use]
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let times = threads.filter_map(|thread| {
        let times = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    });
    Some(times.sum())
}

/// When a process began, in the kernel's own count. Nothing for one that has ended, waited for or not.
pub(crate) fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The fields follow the command's name, which stands in brackets and may itself hold any character.
    let fields: Vec<_> = stat[stat.rfind(')')? + 2..].split(' ').collect();
    if fields[0] == "Z" { None } else { fields.get(19)?.parse().ok() }
}

/// A number of a process's status.
fn status(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}
