//! Sandboxes with a real node, and what the machine has of one.

use std::{
    collections::BTreeSet,
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::{Failure, Sandbox, process, skip};

impl Sandbox {
    /// The sandbox with a node that the tests of one binary share. Where there can't be a node, the test has nothing to
    /// do, and says so on its way; in CI it fails.
    pub fn shared_with_node(flags: &[&str]) -> Option<&'static Self> {
        static SHARED: OnceLock<Result<Sandbox, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Self::try_with_node("shared", flags));
        shared.as_ref().map_err(|reason| skip::say(reason)).ok()
    }

    /// Starts a sandbox with a node for one test, on the same terms.
    #[must_use]
    pub fn start_with_node(name: &str, flags: &[&str]) -> Option<Self> {
        Self::try_with_node(name, flags).map_err(|reason| skip::say(&reason)).ok()
    }

    /// Fails with the reason why there can't be a node here.
    fn try_with_node(name: &str, flags: &[&str]) -> Result<Self, String> {
        let is_reason = |failure: &Failure| failure.code == Some(2) && failure.stderr.contains("--node: ");
        match Self::start(name, &[&["--node"], flags].concat()) {
            Ok(sandbox) => Ok(sandbox),
            Err(failure) if is_reason(&failure) => Err(failure.stderr),
            Err(failure) => panic!("{failure}"),
        }
    }

    /// The name of the node, which all that the machine has of it is called by, too.
    #[must_use]
    pub fn node(&self) -> &str {
        self.environment().get("NODE_NAME").expect("the sandbox has a node")
    }

    /// The process of a container on the node, by what the pod's status says: `containerd://…`. The node has processes of its own, but they
    /// are all seen from here.
    #[must_use]
    #[track_caller]
    pub fn process_of(&self, container: &str) -> u32 {
        let (_, id) = container.rsplit_once('/').unwrap_or_else(|| panic!("{container:?} is no container's id"));
        let found: Vec<_> = of_cgroups(&[self.node(), id]).collect();
        assert_eq!(found.len(), 1, "the container {id} has one process: {found:?}");
        found[0]
    }
}

/// The processes in a cgroup whose path has all of these names.
fn of_cgroups(names: &[&str]) -> impl Iterator<Item = u32> {
    let is_inside = |line: &str| names.iter().all(|name| line.split('/').any(|part| part == *name));
    let groups = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    process::running().into_iter().filter(move |pid| groups(pid).lines().any(is_inside))
}

/// What a machine has of a node, remembered while the node is there to see whether it is gone afterwards.
#[derive(Debug)]
pub struct Traces {
    name: String,
    dir: PathBuf,
    /// Processes by number and by when they began: a number may come again.
    processes: BTreeSet<(u32, u64)>,
}

impl Traces {
    /// Those of a sandbox's node.
    #[must_use]
    pub fn of(sandbox: &Sandbox) -> Self {
        let name = sandbox.node();
        // All of a node is in its cgroup, and what its pods are made of in cgroups below.
        let processes = of_cgroups(&[name]).filter_map(|pid| Some((pid, process::began(pid)?))).collect();
        Self { name: name.to_owned(), dir: sandbox.dir().join("node"), processes }
    }

    /// How many processes the node had.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// What is still there.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        let live = self.processes.iter().filter(|(pid, began)| process::began(*pid) == Some(*began));
        let mut left: Vec<_> = live.map(|(pid, _)| format!("process {pid}")).collect();
        left.extend(mounts(&self.dir));
        // The place of a node that is gone may have been given to another.
        if !self.place_is_taken() {
            left.extend(self.link());
            left.extend(self.routes());
            left.extend(cgroups(Path::new("/sys/fs/cgroup"), &self.name));
        }
        left
    }

    fn place_is_taken(&self) -> bool {
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        sockets.lines().any(|line| line.ends_with(&format!(" @{}", self.name)))
    }

    fn link(&self) -> Option<String> {
        let link = Path::new("/sys/class/net").join(&self.name);
        link.exists().then(|| format!("link {}", self.name))
    }

    fn routes(&self) -> Vec<String> {
        let place: u8 =
            self.name.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a node has a number");
        let routes = fs::read_to_string("/proc/net/route").expect("routes are looked up in /proc");
        let destination = |line: &str| {
            let field = line.split('\t').nth(1)?;
            Some(Ipv4Addr::from(u32::from_str_radix(field, 16).ok()?.to_le_bytes()))
        };
        let is_of_place = |at: &Ipv4Addr| at.octets()[..2] == [198, 19] && at.octets()[2] / 4 == place;
        routes.lines().filter_map(destination).filter(is_of_place).map(|at| format!("route of {at}")).collect()
    }
}

/// The mounts below a folder, in whichever mount namespace a process still has.
fn mounts(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().expect("the temporary folder's name is text");
    let seen_by = |pid| fs::read_to_string(format!("/proc/{pid}/mountinfo")).is_ok_and(|mounts| mounts.contains(dir));
    process::running().into_iter().filter(|pid| seen_by(*pid)).map(|pid| format!("mounts of process {pid}")).collect()
}

fn cgroups(folder: &Path, name: &str) -> Vec<String> {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    folders
        .flat_map(|path| {
            let is_it = path.file_name() == Some(name.as_ref());
            if is_it { vec![format!("cgroup {}", path.display())] } else { cgroups(&path, name) }
        })
        .collect()
}
