//! What to do about a failure: every fault of vCenter has a next step.

mod table;

use std::fmt;

use crate::{
    vcenter::backoff::Pace,
    vmgroup::{Hardware, Power, Refusal, plan::Action},
};

/// How something failed.
#[derive(Clone, Copy, Debug)]
pub enum Failure<'a> {
    /// With a fault: its name and those of its ancestors, nearest first. The names of its cause and of that one's ancestors may
    /// follow: they decide where the fault itself says nothing.
    Fault(&'a [&'a str]),
    /// Without a vCenter's answer: refused, timed out, broken off, or an HTTP error such as 503. Whether what was asked for is
    /// being done is unknown.
    NoAnswer,
}

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the words say it")]
pub enum OperationKind {
    LogIn,
    Read,
    CreateFolder,
    DestroyFolder,
    Clone,
    Power,
    ShutdownGuest,
    Reconfigure,
    Rename,
    Move,
    Destroy,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Nothing: what was asked for is so.
    Done,
    /// Take the world as it is now and decide anew. It wasn't what it seemed to be, or somebody else was at it.
    LookAgain,
    /// Leave it alone for a while, and show vCenter's words.
    BackOff,
    /// Leave it alone for long, and say what is short.
    AwaitRoom(Shortage),
    /// Log in again, rebuild what hung on the session, and try again.
    LogIn,
    /// Wait until vCenter answers, and show since when it hasn't.
    AwaitVcenter,
    /// The name is taken. By a machine or a folder with the group's marker: it is the one that was asked for. By another: show
    /// the conflict.
    AdoptOrConflict,
    /// Show what only a person can put right.
    AwaitUser(Remedy),
}

/// What a user puts right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The credentials. They are not tried again before they change, because accounts lock.
    Secret,
    /// The rights of the user that Drover logs in as.
    Privileges,
    /// What is declared: a value that vCenter doesn't take.
    Spec,
    /// Something in vCenter: a question to answer, a licence, a lock.
    Vcenter,
}

/// What there isn't enough of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Shortage {
    DiskSpace,
    Cpu,
    Memory,
    Network,
    FailoverCapacity,
    SuitableHosts,
    Resources,
}

/// The next step after a failure: what the table says of the fault, or else of its nearest ancestor.
#[must_use]
pub fn next_step(failure: Failure<'_>, doing: OperationKind) -> NextStep {
    match failure {
        Failure::NoAnswer => NextStep::AwaitVcenter,
        Failure::Fault(lineage) if is_deleted_already(lineage, doing) => NextStep::Done,
        Failure::Fault(lineage) => lineage.iter().find_map(|fault| table::said_of(fault)).unwrap_or(NextStep::BackOff),
    }
}

/// What a failed change of a machine's hardware says of that hardware, if it says anything. `power` is the machine's power state.
#[must_use]
pub fn refusal(lineage: &[&str], hardware: Hardware, power: Power) -> Option<Refusal> {
    let concerns_state = |fault: &&str| ["VmConfigFault", "InvalidPowerState"].contains(fault);
    let step = next_step(Failure::Fault(lineage), OperationKind::Reconfigure);
    match (step, power) {
        (NextStep::AwaitUser(Remedy::Spec), Power::On) => Some(Refusal::WhileRunning(hardware)),
        (NextStep::BackOff | NextStep::LookAgain, Power::On) if lineage.iter().any(concerns_state) => {
            Some(Refusal::WhileRunning(hardware))
        }
        (NextStep::AwaitUser(Remedy::Spec), Power::Off) => Some(Refusal::Altogether(hardware)),
        _ => None,
    }
}

fn is_deleted_already(lineage: &[&str], doing: OperationKind) -> bool {
    matches!(doing, OperationKind::Destroy | OperationKind::DestroyFolder)
        && lineage.first() == Some(&"ManagedObjectNotFound")
}

impl NextStep {
    /// How long to leave alone what failed. `None` where time mends nothing: it is done, or waits for another secret.
    ///
    /// Where a person has to act in vCenter there is a pace too, because nothing tells when rights were granted.
    #[must_use]
    pub fn pace(self) -> Option<Pace> {
        match self {
            Self::Done | Self::AwaitUser(Remedy::Secret) => None,
            Self::LookAgain | Self::LogIn | Self::AwaitVcenter => Some(Pace::Soon),
            Self::BackOff | Self::AdoptOrConflict => Some(Pace::Normal),
            Self::AwaitRoom(_) | Self::AwaitUser(_) => Some(Pace::Long),
        }
    }

    /// Whether it is the vCenter that waits, as a whole, and not one object in it. Its machines did nothing wrong, and go on at
    /// full speed when it does.
    #[must_use]
    pub fn concerns_the_whole_vcenter(self) -> bool {
        matches!(self, Self::LogIn | Self::AwaitVcenter | Self::AwaitUser(Remedy::Secret))
    }
}

impl From<&Action> for OperationKind {
    fn from(action: &Action) -> Self {
        match action {
            Action::CreateFolder => Self::CreateFolder,
            Action::DestroyFolder | Action::DestroyLeftFolder(_) => Self::DestroyFolder,
            Action::Clone(_) => Self::Clone,
            Action::PowerOn(_) | Action::PowerOff(_) | Action::Suspend(_) => Self::Power,
            Action::ShutdownGuest(_) => Self::ShutdownGuest,
            Action::Reconfigure(..) | Action::Mark(..) => Self::Reconfigure,
            Action::Rename(..) => Self::Rename,
            Action::MoveIntoFolder(_) => Self::Move,
            Action::Destroy(_) => Self::Destroy,
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DiskSpace => "disk space",
            Self::Cpu => "CPU",
            Self::Memory => "memory",
            Self::Network => "network capacity",
            Self::FailoverCapacity => "capacity reserved for failover",
            Self::SuitableHosts => "hosts that can run the machine",
            Self::Resources => "resources",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: [OperationKind; 7] = {
        use OperationKind::{Clone, CreateFolder, LogIn, Power, Read, Reconfigure, ShutdownGuest};
        [LogIn, Read, CreateFolder, Clone, Power, ShutdownGuest, Reconfigure]
    };
    const DELETES: [OperationKind; 2] = [OperationKind::DestroyFolder, OperationKind::Destroy];

    /// Asserts what follows from a fault, given as `Fault < Parent < …`, whatever was being done.
    fn assert_always(lineage: &str, expected: NextStep) {
        for doing in MOST.into_iter().chain(DELETES) {
            assert_eq!(after(lineage, doing), expected, "{lineage} while doing {doing:?}");
        }
    }

    fn after(lineage: &str, doing: OperationKind) -> NextStep {
        let lineage: Vec<_> = lineage.split(" < ").chain(["MethodFault"]).collect();
        next_step(Failure::Fault(&lineage), doing)
    }

    #[test]
    fn an_object_that_is_gone_is_success_for_a_delete_and_looked_up_again_for_the_rest() {
        let gone = "ManagedObjectNotFound < RuntimeFault";
        assert!(DELETES.into_iter().all(|doing| after(gone, doing) == NextStep::Done));
        assert!(MOST.into_iter().all(|doing| after(gone, doing) == NextStep::LookAgain));
    }

    #[test]
    fn a_delete_that_fails_because_something_else_is_gone_has_not_deleted_anything() {
        let chain = "SystemError < RuntimeFault < MethodFault < ManagedObjectNotFound < RuntimeFault";
        assert_eq!(after(chain, OperationKind::Destroy), NextStep::LookAgain);
    }

    #[test]
    fn a_name_that_is_taken_is_adopted_or_shown_as_a_conflict() {
        assert_always("DuplicateName < VimFault", NextStep::AdoptOrConflict);
    }

    #[test]
    fn a_wrong_password_is_not_tried_again_before_the_secret_changes() {
        for lineage in ["InvalidLogin < VimFault", "PasswordExpired < InvalidLogin < VimFault"] {
            assert_always(lineage, NextStep::AwaitUser(Remedy::Secret));
        }
        assert_eq!(NextStep::AwaitUser(Remedy::Secret).pace(), None);
    }

    #[test]
    fn an_ended_session_is_logged_in_again_though_its_fault_extends_no_permission() {
        assert_always("NotAuthenticated < NoPermission < SecurityError < RuntimeFault", NextStep::LogIn);
    }

    #[test]
    fn a_missing_right_waits_for_the_user_and_is_tried_now_and_then() {
        assert_always("NoPermission < SecurityError < RuntimeFault", NextStep::AwaitUser(Remedy::Privileges));
        assert_eq!(NextStep::AwaitUser(Remedy::Privileges).pace(), Some(Pace::Long));
    }

    #[test]
    fn what_passes_in_a_moment_is_tried_again_soon_after_a_look() {
        for lineage in [
            "TaskInProgress < VimFault",
            "VAppTaskInProgress < TaskInProgress < VimFault",
            "ConcurrentAccess < VimFault",
            "HostCommunication < RuntimeFault",
            "HostNotConnected < HostCommunication < RuntimeFault",
        ] {
            assert_always(lineage, NextStep::LookAgain);
        }
        assert_eq!(NextStep::LookAgain.pace(), Some(Pace::Soon));
    }

    #[test]
    fn a_power_state_that_does_not_fit_is_looked_at_again() {
        assert_always("InvalidPowerState < InvalidState < VimFault", NextStep::LookAgain);
    }

    #[test]
    fn a_shortage_backs_off_for_long_and_says_what_is_short() {
        let kin = |fault: &str| format!("{fault} < InsufficientResourcesFault < VimFault");
        for (lineage, short) in [
            ("NoDiskSpace < FileFault < VimFault".to_owned(), Shortage::DiskSpace),
            (kin("InsufficientStorageSpace"), Shortage::DiskSpace),
            (kin("InsufficientCpuResourcesFault"), Shortage::Cpu),
            (kin("InsufficientHostMemoryCapacityFault < InsufficientHostCapacityFault"), Shortage::Memory),
            (kin("InsufficientNetworkCapacity"), Shortage::Network),
            (kin("InsufficientFailoverResourcesFault"), Shortage::FailoverCapacity),
            (kin("InsufficientVFlashResourcesFault"), Shortage::Resources),
            ("InsufficientResourcesFault < VimFault".to_owned(), Shortage::Resources),
        ] {
            assert_always(&lineage, NextStep::AwaitRoom(short));
        }
        assert_eq!(NextStep::AwaitRoom(Shortage::Cpu).pace(), Some(Pace::Long));
        assert_eq!(Shortage::DiskSpace.to_string(), "disk space");
    }

    #[test]
    fn a_cancelled_task_is_decided_anew() {
        assert_always("RequestCanceled < RuntimeFault", NextStep::LookAgain);
    }

    #[test]
    fn a_vcenter_that_does_not_answer_is_waited_for_and_its_machines_are_not_blamed() {
        for doing in MOST.into_iter().chain(DELETES) {
            assert_eq!(next_step(Failure::NoAnswer, doing), NextStep::AwaitVcenter);
        }
        assert_eq!(NextStep::AwaitVcenter.pace(), Some(Pace::Soon));
        assert!(NextStep::AwaitVcenter.concerns_the_whole_vcenter());
        assert!(!NextStep::BackOff.concerns_the_whole_vcenter());
    }

    #[test]
    fn a_value_that_vcenter_does_not_take_waits_for_the_spec() {
        for lineage in [
            "InvalidArgument < RuntimeFault",
            "InvalidName < VimFault",
            "InvalidDeviceBacking < InvalidDeviceSpec < InvalidVmConfig < VmConfigFault < VimFault",
            "MemorySizeNotSupported < VirtualHardwareCompatibilityIssue < VmConfigFault < VimFault",
        ] {
            assert_always(lineage, NextStep::AwaitUser(Remedy::Spec));
        }
    }

    /// What a fault says of hardware that a machine in some power state was to get.
    fn refused(lineage: &str, power: Power) -> Option<Refusal> {
        refusal(&lineage.split(" < ").collect::<Vec<_>>(), BIG, power)
    }

    const BIG: Hardware = Hardware { cpus: 64, memory_mib: 1 << 20 };

    #[test]
    fn what_a_running_machine_does_not_take_it_may_take_when_it_is_off() {
        for lineage in [
            "InvalidVmConfig < VmConfigFault < VimFault",
            "InvalidPowerState < InvalidState < VimFault",
            "CpuHotPlugNotSupported < VmConfigFault < VimFault",
            "MemoryHotPlugNotSupported < VmConfigFault < VimFault",
            "GenericVmConfigFault < VmConfigFault < VimFault",
            "NotSupported < RuntimeFault",
            "InvalidArgument < RuntimeFault",
        ] {
            assert_eq!(refused(lineage, Power::On), Some(Refusal::WhileRunning(BIG)), "{lineage}");
        }
    }

    #[test]
    fn what_a_machine_does_not_take_when_it_is_off_it_takes_never() {
        let invalid = "InvalidVmConfig < VmConfigFault < VimFault";
        assert_eq!(refused(invalid, Power::Off), Some(Refusal::Altogether(BIG)));
        assert_eq!(refused("InvalidPowerState < InvalidState < VimFault", Power::Off), None, "somebody powered it on");
    }

    #[test]
    fn what_hinders_any_change_says_nothing_of_hardware() {
        for lineage in [
            "NoPermission < SecurityError < RuntimeFault",
            "TaskInProgress < VimFault",
            "InsufficientMemoryResourcesFault < InsufficientResourcesFault < VimFault",
            "QuestionPending < InvalidState < VimFault",
            "GenericVmConfigFault < VmConfigFault < VimFault < MethodFault < NoDiskSpace < FileFault",
            "HostNotConnected < HostCommunication < RuntimeFault",
        ] {
            for power in [Power::On, Power::Off] {
                assert_eq!(refused(lineage, power), None, "{lineage}");
            }
        }
    }

    #[test]
    fn a_machine_that_asks_a_question_waits_for_the_user_in_vcenter() {
        assert_always("QuestionPending < InvalidState < VimFault", NextStep::AwaitUser(Remedy::Vcenter));
    }

    #[test]
    fn an_unknown_fault_backs_off() {
        for lineage in ["FromANewerVcenter", "GenericVmConfigFault < VmConfigFault < VimFault", "SystemError"] {
            assert_always(lineage, NextStep::BackOff);
        }
        assert_eq!(next_step(Failure::Fault(&[]), OperationKind::Clone), NextStep::BackOff);
        assert_eq!(NextStep::BackOff.pace(), Some(Pace::Normal));
    }

    #[test]
    fn where_a_fault_says_nothing_its_cause_decides() {
        let chain = "GenericVmConfigFault < VmConfigFault < VimFault < MethodFault < NoDiskSpace < FileFault";
        assert_always(chain, NextStep::AwaitRoom(Shortage::DiskSpace));
    }
}
