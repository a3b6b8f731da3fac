//! Many groups on many vCenters in virtual time, kept by several replicas: how long it takes until all VMs are there, beside what the hosts
//! need, whether each group has its fair share, and what a VM costs in calls and memory.
//!
//! The code that runs in production decides, as in the histories, whose model of a vCenter and of an operator this uses: `Desired`, the steps
//! of `InFlight` (look, judge, plan, order), the record, the queue with its budget, placement, the report, and which replica has which Lease.
//! Of a model are: tasks and how long they take, the clocks of Leases, and the wire.
//!
//! `make simulate` runs the large one. `VMS`, `VMGROUPS`, `VCENTERS`, `HOSTS` (of a vCenter), `REPLICAS` and `CLONE_SECONDS` set its size.
//! With `CALM`, nothing goes wrong and all VmGroups are alike, as where a real operator is measured beside it (`docs/scale.md`).

mod fair;
mod figures;
mod fleet;
mod group;
#[path = "../model/mod.rs"]
#[allow(dead_code, reason = "the histories use more of it")]
mod model;
mod vcenter;

use figures::Figures;
use fleet::Fleet;
use model::world::Time;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

pub(crate) struct Sizes {
    pub vms: u32,
    pub groups: u32,
    pub vcenters: u32,
    /// Those of each vCenter.
    pub hosts: u32,
    pub replicas: u32,
    /// How long a clone takes on a host that has nothing else to do, on average.
    pub clone_seconds: Time,
    pub course: Course,
}

/// What happens on the way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Course {
    /// VmGroups are large and small, clones long and short, some VMs are left off, vCenters are away, and a replica is lost.
    Eventful,
    /// Nothing: all VmGroups are alike, and so are all clones.
    Calm,
}

impl Sizes {
    /// A small one, unless something else is said.
    fn from_environment() -> Self {
        let number = |variable: &str, otherwise: u32| {
            let said = std::env::var(variable).ok();
            said.map_or(otherwise, |said| said.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
        };
        let course = if std::env::var_os("CALM").is_some() { Course::Calm } else { Course::Eventful };
        Self {
            vms: number("VMS", 2000),
            groups: number("VMGROUPS", 100),
            vcenters: number("VCENTERS", 5).max(1),
            hosts: number("HOSTS", 4).max(1),
            replicas: number("REPLICAS", 3).max(if course == Course::Calm { 1 } else { 2 }),
            clone_seconds: Time::from(number("CLONE_SECONDS", 60).max(1)),
            course,
        }
    }

    /// The time that the hosts of a vCenter need for its VMs, about.
    fn expected(&self) -> Time {
        let places = Time::from(self.hosts * self.vcenters) * Time::try_from(vcenter::PLACES).unwrap();
        Time::from(self.vms) * self.clone_seconds / places
    }
}

#[test]
fn many_groups_on_many_vcenters_take_little_longer_than_the_hosts_need_and_each_has_its_share() {
    let sizes = Sizes::from_environment();
    let mut fleet = Fleet::new(&sizes);
    let finished = fleet.run(10 * sizes.expected() + 10_000);
    let Sizes { vms, groups, vcenters, hosts, replicas, clone_seconds, .. } = sizes;
    println!(
        "{vms} VMs in {groups} groups on {vcenters} vCenters of {hosts} hosts, {replicas} replicas, {clone_seconds} s a clone: all \
         as declared after {finished} s"
    );
    let figures = Figures::of(&sizes, fleet);
    print!("{figures}");
    assert!(figures.are_within_limits(), "some of it is over its limit");
}
