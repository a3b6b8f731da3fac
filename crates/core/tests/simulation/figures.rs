//! What came of a simulation, as a table.

use std::fmt;

use crate::{
    Course, MEMORY, Sizes,
    fleet::Fleet,
    group::{Ground, Group},
    model::world::Time,
    vcenter::VCenter,
};

/// Bytes that are in use.
pub(crate) fn memory() -> usize {
    MEMORY.current_usage()
}

/// What came of it.
pub(crate) struct Figures(Vec<Figure>);

struct Figure {
    what: &'static str,
    measured: f64,
    /// The most that it may be.
    limit: Option<f64>,
}

impl Figures {
    /// Takes the fleet apart, because what a part of it weighs shows when it is gone.
    pub(crate) fn of(sizes: &Sizes, fleet: Fleet) -> Self {
        let groups = || fleet.vcenters.iter().flat_map(|vcenter| &vcenter.groups);
        let vms = number(groups().map(|group| u64::from(group.ground.desired.replicas)).sum());
        let machines = number(groups().map(|group| group.ground.world.machines.len() as u64).sum());
        let writes = number(groups().map(|group| group.ground.writes()).sum());
        let calls = |of: fn(&VCenter) -> u64| number(fleet.vcenters.iter().map(of).sum()) / vms;
        let calls_of_vm = calls(|vcenter| vcenter.calls.clones + vcenter.calls.others);
        let delays = delays(&fleet, sizes);
        let figure = |what, measured, limit| Figure { what, measured, limit };
        let mut figures = vec![
            figure("VMs that are there, for each that is declared", machines / vms, Some(1.0)),
            figure("VMs that are declared, for each that is there", vms / machines, Some(1.0)),
            figure("makespan / limit of the hosts, worst without trouble", makespan(&fleet, false), Some(1.1)),
            figure("makespan / limit of the hosts, worst vCenter", makespan(&fleet, true), Some(1.1)),
            figure("delay / fair share, half of the groups", delays[delays.len() / 2], Some(1.1)),
            figure("delay / fair share, 99 of 100 groups", delays[delays.len() * 99 / 100], Some(1.5)),
            figure("delay / fair share, worst group", delays[delays.len() - 1], Some(2.5)),
            figure("calls a VM that change something", calls_of_vm, Some(1.5)),
            figure("of these refused, because the name was taken", calls(|vcenter| vcenter.calls.refused), Some(0.1)),
            figure("long polls a VM, of all replicas", number(fleet.polled) / vms, None),
            figure("all calls a VM, long polls included", calls_of_vm + number(fleet.polled) / vms, None),
            figure("writes a group of its record", writes / number(groups().count() as u64), None),
        ];
        figures.extend(weigh(fleet, vms, sizes.course));
        Self(figures)
    }

    /// Whether each is within its limit.
    pub(crate) fn are_within_limits(&self) -> bool {
        self.0.iter().all(Figure::is_within_limit)
    }
}

impl Figure {
    fn is_within_limit(&self) -> bool {
        self.limit.is_none_or(|limit| self.measured <= limit)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in &self.0 {
            let limit = figure.limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
            let verdict = if figure.is_within_limit() { "ok" } else { "over" };
            let verdict = figure.limit.map_or("", |_| verdict);
            writeln!(f, "{:<64}{:>10.2}{limit:>8}  {verdict}", figure.what, figure.measured)?;
        }
        Ok(())
    }
}

/// The longest that a vCenter took, as a part of what its hosts need: of all, or of those where nothing happened.
fn makespan(fleet: &Fleet, of_all: bool) -> f64 {
    let vcenters = fleet.vcenters.iter().filter(|vcenter| of_all || !vcenter.was_disturbed);
    let makespan = |vcenter: &VCenter| vcenter.groups.iter().map(settled).fold(0.0, f64::max) / vcenter.limit();
    vcenters.map(makespan).fold(0.0, f64::max)
}

/// How long each group took, as a part of what it would take in its fair share, its last clone included: the longest last.
fn delays(fleet: &Fleet, sizes: &Sizes) -> Vec<f64> {
    let clone = number(sizes.clone_seconds.unsigned_abs());
    let delay = |group: &Group| settled(group) / (fleet.fair[&group.ground.desired.uid] + clone);
    let mut delays: Vec<_> = fleet.vcenters.iter().flat_map(|vcenter| &vcenter.groups).map(delay).collect();
    delays.sort_by(f64::total_cmp);
    delays
}

fn settled(group: &Group) -> f64 {
    group.settled.map_or(f64::INFINITY, |time: Time| number(time.unsigned_abs()))
}

/// What a VM weighs: in the operator's own state, while that was busy (if a replica was lost then) and now, in the VmGroup with its record
/// and status, and in the model.
fn weigh(fleet: Fleet, vms: f64, course: Course) -> Vec<Figure> {
    let (bytes, of_vms) = fleet.lost;
    let (mut operators, mut objects, mut worlds) = (Vec::new(), Vec::new(), Vec::new());
    for Group { ground, operator, .. } in fleet.vcenters.into_iter().flat_map(|vcenter| vcenter.groups) {
        let Ground { stored, world, .. } = ground;
        operators.push(operator);
        objects.push(stored);
        worlds.push(world);
    }
    let figure = |what, measured, limit| Figure { what, measured, limit };
    let busy = number(bytes as u64) / f64::from(of_vms);
    let busy = (of_vms > 0).then(|| figure("bytes a VM of the operator's state, busy", busy, Some(2048.0)));
    // Each VmGroup weighs something itself. The limit is for those that have 20 VMs on average.
    let limit = (course == Course::Eventful).then_some(1024.0);
    let rest = [
        figure("bytes a VM of the operator's state, at rest", weight(|| drop(operators)) / vms, limit),
        figure("bytes a VM of VmGroups, with their status", weight(|| drop(objects)) / vms, None),
        figure("bytes a VM of the modelled vCenters", weight(|| drop(worlds)) / vms, None),
    ];
    busy.into_iter().chain(rest).collect()
}

/// How many bytes are given back.
fn weight(give_back: impl FnOnce()) -> f64 {
    let before = memory();
    give_back();
    number(before.saturating_sub(memory()) as u64)
}

#[allow(clippy::cast_precision_loss, reason = "nothing here is near 2^52")]
fn number(count: u64) -> f64 {
    count as f64
}
