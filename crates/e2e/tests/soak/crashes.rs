//! What befalls the operators, and the API server that they talk to.

use std::{thread, time::Duration};

use drover_e2e::{Fate, Requests, process};

use crate::storm::{Kind, Storm};

/// An operator that runs.
fn any_running(storm: &mut Storm) -> Option<usize> {
    let running = storm.replicas.iter().enumerate().filter(|(_, replica)| replica.operator.is_some());
    let running: Vec<_> = running.map(|(index, _)| index).collect();
    storm.chance.pick(&running).copied()
}

/// Ends an operator without a word, and starts another in its place at once.
pub(crate) fn kill(storm: &mut Storm) -> Option<String> {
    let index = any_running(storm)?;
    storm.assert_all_run();
    storm.replicas[index].operator = None;
    storm.start(index);
    Some(format!("drover-{index}"))
}

pub(crate) fn kill_for_a_while(storm: &mut Storm) -> Option<String> {
    let index = any_running(storm)?;
    storm.assert_all_run();
    storm.replicas[index].operator = None;
    let seconds = storm.chance.between(1, 15);
    storm.lasts("no operator", Kind::Free, seconds, move |storm| {
        // There may be fewer by now, or another in its place.
        if storm.replicas.get(index).is_some_and(|replica| replica.operator.is_none()) {
            storm.start(index);
        }
    });
    Some(format!("drover-{index} for {seconds} s"))
}

/// Stops an operator where it is, also for longer than its lease lasts.
pub(crate) fn freeze(storm: &mut Storm) -> Option<String> {
    let index = any_running(storm)?;
    if storm.replicas[index].is_frozen {
        return None;
    }
    storm.replicas[index].operator.as_ref()?.freeze();
    storm.replicas[index].is_frozen = true;
    let seconds = storm.chance.between(1, 25);
    storm.lasts("frozen", Kind::Free, seconds, move |storm| {
        if let Some(replica) = storm.replicas.get_mut(index).filter(|replica| replica.is_frozen) {
            replica.is_frozen = false;
            replica.operator.iter().for_each(drover_e2e::Operator::thaw);
        }
    });
    Some(format!("drover-{index} for {seconds} s"))
}

/// Tells an operator to stop, as the kubelet does, which it has to in time.
pub(crate) fn stop(storm: &mut Storm) -> Option<String> {
    let index = any_running(storm)?;
    if storm.replicas[index].is_frozen {
        return None;
    }
    let mut operator = storm.replicas[index].operator.take()?;
    operator.terminate();
    let ended = operator.succeeds_within(Duration::from_secs(30));
    assert!(ended, "an operator that was told to stop has failed; its log:\n{}", operator.log());
    storm.start(index);
    Some(format!("drover-{index}"))
}

/// One operator without an election, or two of which each works on what it holds the leases of.
pub(crate) fn replicas(storm: &mut Storm) -> Option<String> {
    let count = if storm.replicas.len() == 1 { 2 } else { 1 };
    storm.start_all(count);
    Some(format!("{count} from now on"))
}

/// The API server of the sandbox, or its etcd.
fn process_of(storm: &Storm, program: &str) -> Option<u32> {
    process::of_program(storm.sandbox.dir(), program).first().copied()
}

pub(crate) fn api_server_frozen(storm: &mut Storm) -> Option<String> {
    let server = process_of(storm, "kube-apiserver")?;
    let seconds = storm.chance.between(1, 6);
    process::signal(server, "STOP");
    thread::sleep(Duration::from_secs(seconds));
    process::signal(server, "CONT");
    storm.await_api_server();
    Some(format!("for {seconds} s"))
}

/// Kills the API server, or etcd below it: the sandbox starts it again.
pub(crate) fn api_server_killed(storm: &mut Storm) -> Option<String> {
    let program = if storm.chance.percent(70) { "kube-apiserver" } else { "etcd" };
    process::signal(process_of(storm, program)?, "KILL");
    thread::sleep(Duration::from_millis(500));
    storm.await_api_server();
    Some(program.to_owned())
}

pub(crate) fn cut(storm: &mut Storm) -> Option<String> {
    let was_open = !storm.has("gate shut");
    storm.gate.cut();
    was_open.then(String::new)
}

pub(crate) fn shut(storm: &mut Storm) -> Option<String> {
    if storm.has("gate shut") {
        return None;
    }
    storm.gate.shut();
    let seconds = storm.chance.between(1, 20);
    storm.lasts("gate shut", Kind::Free, seconds, |storm| storm.gate.reopen());
    Some(format!("for {seconds} s"))
}

/// Gives requests of the operators a fate for a while.
fn fate(storm: &mut Storm, name: &'static str, requests: Requests, fate: Fate, count: usize) -> Option<String> {
    if storm.has(name) {
        return None;
    }
    let rule = storm.gate.rule(requests, fate, 0, count);
    let seconds = storm.chance.between(2, 12);
    storm.lasts(name, Kind::Free, seconds, move |storm| storm.hit(name, rule.remove().len() as u64));
    Some(format!("{fate:?} for {seconds} s"))
}

pub(crate) fn writes_refused(storm: &mut Storm) -> Option<String> {
    let status = *storm.chance.pick(&[409, 429, 500, 503])?;
    fate(storm, "API server: writes refused", Requests::Writes, Fate::Refused(status), 0)
}

/// What a group is deleted by in the end is written to the group itself.
pub(crate) fn finalizers_refused(storm: &mut Storm) -> Option<String> {
    let status = *storm.chance.pick(&[409, 422, 500])?;
    fate(storm, "API server: finalizers refused", Requests::Finalizers, Fate::Refused(status), 0)
}

/// Watches and lists of groups fail, so operators go on with what they know.
pub(crate) fn reads_refused(storm: &mut Storm) -> Option<String> {
    let status = *storm.chance.pick(&[403, 429, 500, 503])?;
    storm.gate.cut();
    fate(storm, "API server: reads refused", Requests::Reads("/vmgroups"), Fate::Refused(status), 0)
}

pub(crate) fn watches_expired(storm: &mut Storm) -> Option<String> {
    storm.gate.cut();
    fate(storm, "API server: watches expired", Requests::Watches, Fate::Refused(410), 20)
}

/// Watches are told that they begin too long ago, and lists fail: what goes meanwhile is told by nobody.
pub(crate) fn lists_fail(storm: &mut Storm) -> Option<String> {
    storm.gate.cut();
    fate(storm, "API server: watches begun anew", Requests::Reads("/vmgroups"), Fate::Expired, 0)
}

pub(crate) fn writes_hang(storm: &mut Storm) -> Option<String> {
    let held = if storm.chance.percent(50) { Fate::HeldBefore } else { Fate::HeldAfter };
    fate(storm, "API server: writes hang", Requests::Writes, held, 2)
}
