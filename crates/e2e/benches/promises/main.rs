//! What Drover promises about speed, calls and memory, measured on the sandbox. Fails when a promise isn't kept.
//!
//! `make bench CASE=drift` runs one case. `--full` runs all sizes, `--smoke` the least that can show a broken promise. What was measured
//! is printed, and written to `target/bench/results.json`.

mod change;
mod fleet;
mod floor;
mod growth;
mod keep;
mod make;
mod many;
mod peers;
mod replicas;
mod results;
mod rough;
mod site;
mod start;
mod terraform;

use std::process::ExitCode;

use results::{Run, Scope};

/// A benchmark, which takes its measurements on a sandbox of its own.
struct Case {
    name: &'static str,
    /// What is measured, and how, for the page that people read.
    what: &'static str,
    run: fn(&mut Run),
    /// The least that it is a part of.
    from: Scope,
}

const CASES: &[Case] = &[
    Case {
        name: "smoke",
        what: "Calls, memory, rest and drift of 20 VMs, for a quick check of each change.",
        run: rough::twenty,
        from: Scope::Smoke,
    },
    Case {
        name: "make",
        what: "VMs of one VmGroup, from before `kubectl apply` is started until vCenter has powered on the last of them. Between runs \
               the VmGroup is deleted. Beside it, in turns and on a vCenter of their own that is emptied each time: one bare call to clone \
               for each VM, on one connection, which no client can beat; a `govc vm.clone` for each, all at once; and `terraform apply` of one \
               resource with `count`, with a `-parallelism` of as many as there are VMs, which is best for it, and with that of 10, which it \
               has by itself. govc clones a VM and then powers it on; Terraform's provider clones it, reconfigures it, and then powers it on. Calls are counted until \
               vCenter is asked nothing more, writes and CPU until nothing more is written. The last row says what Drover's own limit of 8 \
               clones on a host costs where a host would work on 16 at a time.",
        run: make::one_group,
        from: Scope::Bench,
    },
    Case {
        name: "groups",
        what: "VmGroups of 3 VMs, applied together, in the same way; then their namespace is deleted until it is gone, beside the same \
               objects with no operator and no VMs.",
        run: make::many_groups,
        from: Scope::Bench,
    },
    Case {
        name: "slots",
        what: "30 VMs of one VmGroup whose IP and MAC addresses belong to their slots, in turns with 30 that have none.",
        run: make::with_addresses,
        from: Scope::Bench,
    },
    Case {
        name: "crowd",
        what: "230 VMs at once on 30 hosts, of whose tasks vCenter lists 200. None is asked for twice.",
        run: make::more_than_vcenter_lists,
        from: Scope::Bench,
    },
    Case {
        name: "change",
        what: "100 VMs of one VmGroup with maxUnavailable 25: their number halved, beside a `govc vm.destroy` for each, all at once; CPUs changed in place, where \
               vCenter takes 0.5 s to power off and 0.5 s to power on; and all replaced because of another template.",
        run: change::a_hundred,
        from: Scope::Bench,
    },
    Case {
        name: "drift",
        what: "200 power-offs in vCenter, ten in a row, each from vCenter's own change to vCenter's own repair by the times that vCenter \
               notes; three times. The limit is a bare client that hears of one VM by a long poll of its own and powers it on at once; Drover \
               waits 50 ms before it asks for more, so that what happens together is told together. Beside it: a script that powers off and \
               on again with govc. Both on another VM of the same vCenter.",
        run: keep::drift,
        from: Scope::Bench,
    },
    Case {
        name: "rest",
        what: "What the operator takes while nothing happens to its VMs, with an election as it is deployed: calls, bytes, writes to the API server, and CPU. Then the same \
               while others make 20 changes a second in vCenter.",
        run: keep::rest,
        from: Scope::Bench,
    },
    Case {
        name: "churn",
        what: "VmGroups of 3 VMs, ten at a time, that are made and deleted for 4 minutes, one after the other: what the operator's memory grows by \
               for each, in the last 2. Until then its heap and its log of the last minute fill up. What is kept is that a VM was destroyed; the \
               last 20,000 are remembered.",
        run: keep::churn,
        from: Scope::Full,
    },
    Case {
        name: "infos",
        what: "100 hosts and 1000 VMs shown as HostInfos and VMInfos: calls while nothing happens to them for three minutes, in which figures are read. Any write fails the run.",
        run: keep::infos,
        from: Scope::Full,
    },
    Case {
        name: "start",
        what: "A VM is powered off while no operator runs. From the start of the operator until it has powered the VM on, among VMs of \
               others with 10 KB of extraConfig each; then the same while others make 20 changes a second. The limit is a bare client that logs \
               in, reads once what Drover keeps of all VMs, and powers the VM on, before each start.",
        run: start::among_strangers,
        from: Scope::Bench,
    },
    Case {
        name: "growth-members",
        what: "Four sizes of one VmGroup, where clones wait for each other: calls, time from the operator's start to a repair, resident memory \
               after that. All are promised to be linear: what the last half costs for each VM is compared with what those before it cost. An \
               exponent of 1 means that a cost doubles with the size; what is there from the beginning makes it less.",
        run: growth::of_members,
        from: Scope::Bench,
    },
    Case {
        name: "growth-strangers",
        what: "One VmGroup of 5 VMs among four numbers of VMs of others with 1 KB of extraConfig each: CPU of a repair, beyond what the \
               operator takes at rest, memory, and time from the operator's start to a repair. An exponent of 0 means that the inventory doesn't matter.",
        run: growth::of_strangers,
        from: Scope::Bench,
    },
    Case {
        name: "fleet",
        what: "4 vCenters with 10 VmGroups of 3 VMs each, alone, and while a fifth that takes a second for each answer is busy with as many: \
               in turns, each first twice.",
        run: fleet::one_slow_vcenter_of_five,
        from: Scope::Bench,
    },
    Case {
        name: "many",
        what: "One operator with 4, 8 and 16 vCenters, each with 24 VmGroups of 4 VMs, created together. Here a clone takes 10 s, and a host \
               works on 4 at a time, so that the machine keeps up. [Scale](scale.md) has what the simulation says of the same.",
        run: many::vcenters,
        from: Scope::Full,
    },
    Case {
        name: "outage",
        what: "vCenter was away for 20 s: from its return until it has powered on the last of 10 VMs that wait.",
        run: start::after_an_outage,
        from: Scope::Bench,
    },
    Case {
        name: "replicas",
        what: "One of two replicas is told to stop, until the other holds all Leases. Then one is killed: until the other has powered on a VM that was powered off \
               at that moment. It has to wait until the Leases run out, which are for 15 s.",
        run: replicas::hand_over,
        from: Scope::Bench,
    },
    Case {
        name: "size",
        what: "The program that is measured here. With all sizes also that of the image, which is static and has another allocator, the files \
               that the image holds, and the memory of that program, beside the one that is measured here. `make image` checks the image itself.",
        run: rough::size,
        from: Scope::Bench,
    },
];

fn main() -> ExitCode {
    // Cargo gives `--bench`; words without dashes are names.
    let words: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let (flags, names): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.starts_with('-'));
    let scope = match flags.as_slice() {
        [] => Scope::Bench,
        [flag] if *flag == "--smoke" => Scope::Smoke,
        [flag] if *flag == "--full" => Scope::Full,
        _ => return refuse("give --smoke, --full or neither"),
    };
    let all: Vec<_> = CASES.iter().map(|case| case.name).collect();
    if let Some(unknown) = names.iter().find(|name| !all.contains(&name.as_str())) {
        return refuse(&format!("there is no benchmark {unknown}, but {}", all.join(", ")));
    }
    let is_asked_for = |case: &Case| match names.as_slice() {
        [] => case.from <= scope && (case.from != Scope::Smoke || scope == Scope::Smoke),
        names => names.iter().any(|name| *name == case.name),
    };
    let of_page: Vec<_> = CASES.iter().filter(|case| case.from != Scope::Smoke).map(|case| case.name).collect();
    let mut run = Run::new(scope, !names.is_empty(), &of_page);
    for (place, case) in CASES.iter().enumerate().filter(|(_, case)| is_asked_for(case)) {
        run.case(place, case.name, case.what, case.run);
    }
    if run.is_broken() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}
