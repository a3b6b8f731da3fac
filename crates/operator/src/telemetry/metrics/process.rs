//! What the system tells of this process, under the names that Prometheus' own libraries use. On Linux; elsewhere, nothing.

use std::{
    fmt, fs,
    sync::LazyLock,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

/// In how many parts Linux divides the seconds that it tells processes of, on all that Drover runs on.
const TICKS: f64 = 100.0;

/// The process that this is.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let (name, help) = ("process_cpu", "CPU time that the process has used");
            counter.encode(encoder.encode_descriptor(name, help, Some(&Unit::Seconds), counter.metric_type())?)?;
        }
        if let Some(started) = *STARTED {
            let gauge = ConstGauge::new(started);
            let (name, help) = ("process_start_time", "When the process began, since 1970");
            gauge.encode(encoder.encode_descriptor(name, help, Some(&Unit::Seconds), gauge.metric_type())?)?;
        }
        let bytes = [
            ("process_resident_memory", "Memory that the process has in RAM", resident_memory()),
            ("drover_memory_limit", "Memory that the container may have in RAM", memory_limit()),
        ];
        for (name, help, bytes) in bytes {
            let Some(bytes) = bytes else { continue };
            let gauge = ConstGauge::new(bytes);
            gauge.encode(encoder.encode_descriptor(name, help, Some(&Unit::Bytes), gauge.metric_type())?)?;
        }
        let counts = [
            ("process_open_fds", "Files and connections that the process has open", open_files()),
            ("process_max_fds", "Files and connections that the process may have open", file_limit()),
        ];
        for (name, help, count) in counts {
            let Some(count) = count else { continue };
            let gauge = ConstGauge::new(count);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// When the process began, in seconds since 1970, where the system tells.
static STARTED: LazyLock<Option<f64>> = LazyLock::new(|| {
    let ticks: f64 = stat(19)?.parse().ok()?;
    let system = fs::read_to_string("/proc/stat").ok()?;
    let booted: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    // A container may be told when its host was booted, and of its processes by another clock.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    Some((booted + ticks / TICKS).min(now))
});

/// A field of the process's line, of those after its name.
fn stat(field: usize) -> Option<String> {
    let line = fs::read_to_string("/proc/self/stat").ok()?;
    // The name stands in brackets, and may itself hold any character.
    let (_, rest) = line.rsplit_once(") ")?;
    rest.split(' ').nth(field).map(ToOwned::to_owned)
}

fn cpu_seconds() -> Option<f64> {
    let (user, system): (f64, f64) = (stat(11)?.parse().ok()?, stat(12)?.parse().ok()?);
    Some((user + system) / TICKS)
}

fn resident_memory() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// That of the container, if it has one.
fn memory_limit() -> Option<i64> {
    let of_container = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limit: i64 = of_container.iter().find_map(|path| fs::read_to_string(path).ok())?.trim().parse().ok()?;
    // The older kind says none with a number that no machine has.
    (limit < 1 << 60).then_some(limit)
}

fn open_files() -> Option<i64> {
    // The look itself opens one.
    i64::try_from(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1)).ok()
}

fn file_limit() -> Option<i64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_began_before_now_and_has_used_something() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let started = STARTED.unwrap();
        assert!(started <= now && started > now - 86400.0, "{started}, and now it is {now}");
        assert!(cpu_seconds().unwrap() >= 0.0);
        assert!(resident_memory().unwrap() > 1 << 20);
        assert!((1..=file_limit().unwrap()).contains(&open_files().unwrap()));
    }
}
