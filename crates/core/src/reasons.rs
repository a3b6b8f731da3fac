//! Every type of condition, and every reason that a condition or an event can have, each with the lines that a user reads about it. `docs/reasons.md` is generated
//! from this file.

use std::fmt::Write;

macro_rules! reasons {
    ($(#[$about:meta])* $kind:ident { $($(#[doc = $doc:literal])+ $name:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind {
            $($(#[doc = $doc])+ $name,)+
        }

        impl $kind {
            /// All of them, for the documentation.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The word that users read.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// The one of this word.
            #[must_use]
            pub fn of(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.word() == word)
            }

            /// What it means, for a person.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

reasons! {
    /// Why a condition is as it is. A reason that something is wrong is an event's reason, too.
    Reason {
        /// Everything that the spec declares exists, is available and up to date.
        Reconciled,
        /// VMs or shells are being created, changed or removed, or are not available yet. The message has the counts.
        Provisioning,
        /// spec.paused is true: Drover makes no changes, and the VMs are not all as declared. Set spec.paused to false to go on.
        Paused,
        /// The object is being deleted.
        Deleting,
        /// vCenter can't be reached, or refuses Drover. Drover retries by itself. The message has the error; the VCenter's condition Connected has the cause.
        VCenterUnreachable,
        /// Drover connects to vCenter and reads its inventory. This takes seconds after Drover starts or a VCenter is created.
        Connecting,
        /// Drover is logged in to vCenter, and has read its inventory.
        Connected,
        /// vCenter refuses the user name or the password. Correct the Secret. Drover logs in again when the Secret changes and every 15 minutes, never twice in a minute, so that the account is not locked.
        LoginRefused,
        /// The server's certificate is not trusted. The message says why. Set spec.tls of the VCenter.
        CertificateUntrusted,
        /// The server is another vCenter than before: its instance UUID differs. Drover changes nothing there. Set spec.server back, or create another VCenter for this server.
        VCenterMismatch,
        /// Drover's user has all privileges that Drover needs.
        PrivilegesGranted,
        /// Drover's user lacks privileges. The message lists them, and the objects that they are needed on. `drover vcenter privileges` prints the role to create.
        PrivilegesMissing,
        /// The condition was not checked, because vCenter is not connected, the VM or host was not found, or no VmGroup uses the VCenter.
        NotChecked,
        /// The VmGroup's folder holds VMs of another Kubernetes cluster's VmGroup, or VMs of an earlier VmGroup of the same name. The message says which: set another spec.placement.folder, or take the VMs over by the annotation.
        FolderConflict,
        /// An object that the spec names is not in vCenter, or several are. The message names the field. Correct the field, or create the object in vCenter.
        NotFound,
        /// The spec is invalid, or the VmGroup's record can't be written to its status. The message names what to correct.
        Invalid,
        /// Tasks in vCenter fail. The message has the operation and vCenter's error. Drover retries with growing delays of up to some minutes.
        TasksFailing,
        /// VMs are missing without proof that they were destroyed, can't be read, or have no connection to vCenter. Drover leaves them alone and keeps their slots. The message names them and says what happens next.
        VMsMissing,
        /// Too many VMs are missing at once, or would be replaced for no known reason. Drover clones and destroys nothing until the VMs are back or proved to be gone, or until a person runs `drover release` with the incident that the message names.
        SafetyHold,
        /// No more VMs are missing than the safety hold allows.
        NoVMsMissing,
        /// The VmGroup made no progress for spec.update.progressDeadlineSeconds. Drover continues. Check what its VMs wait for.
        DeadlineExceeded,
        /// Nothing keeps the object from becoming ready that a person has to put right.
        NotStalled,
        /// The time that spec.ttl allows is over, and the shells are removed. Raise spec.ttl to have them again.
        Expired,
        /// An object that is not Drover's has a name that Drover needs. Drover leaves the object alone. Delete it or choose another name; the message names the object.
        NameTaken,
        /// The VmGroup that spec.vmGroupRef names does not exist. The shells run, and list its VMs as soon as it exists.
        VmGroupNotFound,
        /// The Kubernetes API server refuses an object that Drover needs. Drover retries. The message has the object and the error.
        RequestRefused,
        /// Kubernetes refuses to create the shells' pods: a quota, pod security or another admission rule. The message has the rule.
        PodsRefused,
        /// Pods of the shells exist and do not run. The message names the pod and the cause.
        PodsFailing,
        /// The VM or host was found in vCenter.
        Found,
        /// Several VMs or hosts match. The message lists their inventory paths. Set one of them in the spec.
        Ambiguous,
        /// No VCenter serves the namespace, several do, or the VCenter that the spec names does not exist or does not serve the namespace.
        NoVCenter,
        /// vCenter reports no problem with the VM or host.
        Healthy,
        /// vCenter reports a warning (overall status yellow). The VM or host works. See its alarms in vCenter.
        Warning,
        /// The VM or host is disconnected, powered off, waiting for an answer in vCenter, or has overall status red. The message says which.
        Unhealthy,
        /// The host is in maintenance mode, and runs no VMs until it leaves that mode.
        InMaintenance,
        /// The VmGroup names something that it may not use: a VM to clone from that is not powered off, or that is a VM of a VmGroup; a key of extraConfig that is not allowed; or, where spec.reach of the VCenter is `Restricted`, a template, folder, cluster, resource pool, datastore or network that its namespace is not allowed. Its VMs are kept; none is created or replaced. The message says what to change, or what an administrator adds to the VCenter.
        NotAllowed,
        /// The VmGroup names only what its namespace may use.
        Allowed,
        /// spec.reach of the VCenter is `Open`: every namespace that may use the VCenter may use all that Drover's user may use. Where teams that do not trust each other share the vCenter, set spec.reach to `Restricted`.
        ReachOpen,
        /// spec.reach of the VCenter is `Restricted`: a namespace may use only spec.defaults, and what spec.allow lists for the namespace. The message lists VmGroups that are refused.
        ReachRestricted,
        /// spec.reach of the VCenter is `Restricted`, and spec.enforce is `Warn`: nothing is refused. The message lists VmGroups that would be. Allow what they use, and set spec.enforce to `Enforce`.
        ReachNotEnforced,
        /// The namespace may not have all that its VmGroups declare: a limit of spec.allow of the VCenter is reached. As many VMs as fit are created; those that exist are kept. The others follow as soon as there is room. The message has what is used. Ask for less, delete other VmGroups of the namespace or VMs that a deleted VmGroup left behind, or have the quota raised.
        QuotaExceeded,
    }
}

reasons! {
    /// What an event tells of that is no reason of a condition.
    EventReason {
        /// VMs are being cloned. The message has their number.
        Cloning,
        /// CPUs and memory of VMs are being changed. The message has their number.
        Reconfiguring,
        /// VMs are being removed. The message has their number.
        Removing,
        /// A VM, a folder or a Deployment was changed or removed by somebody else, and is being put right. The message has what was found.
        Drift,
        /// A VM has a member's marker and is not the member: somebody copied or restored one. Drover leaves the copy alone.
        CopyFound,
        /// A VM that was given up for lost is back, after another took its slot. Drover leaves it alone. Keep it or delete it.
        VMReturned,
        /// The VmGroup is deleted, and its folder stays in vCenter, because something is in the folder that Drover can't see.
        FolderKept,
        /// The kind VmGroup is being deleted, and the VmGroup with it. Its VMs stay as they are. A new VmGroup of the same name can take them over.
        VMsKept,
        /// The VmGroup took over the VMs of an earlier VmGroup of the same namespace and name, as its annotation asks.
        VMsTakenOver,
        /// The VmGroup was given up as its annotation `vm.codeconnect.vmworld.com/abandon` asks. What is left of it in vCenter stays there, and nobody looks after it.
        Abandoned,
        /// The annotation `vm.codeconnect.vmworld.com/abandon` has no effect, because the deletion makes progress, or waits for what the VmGroup's own spec brings about.
        AbandonIgnored,
        /// The object can't be read: another version of its CRD let in what this version of Drover does not understand. The message has the field.
        Unreadable,
        /// More events than one object may have in a minute were left out. The message counts them by reason.
        EventsLeftOut,
        /// The VmGroup has keys of extraConfig that a new VmGroup may not set, because it had them before Drover checked keys. They stay allowed: status.extraConfigKept lists them.
        KeysKept,
    }
}

reasons! {
    /// What a condition is about.
    ConditionType {
        /// The object is as its spec declares. Each kind has it.
        Ready,
        /// Drover works on the object, or waits for what passes without anybody's help. Each kind has it.
        Reconciling,
        /// The object waits for a person. The message says what to do. Each kind has it.
        Stalled,
        /// A VmGroup names only what its namespace may use, and no more VMs than its quota. Only where its VCenter is restricted, or warns of a quota.
        Allowed,
        /// A HostInfo or VMInfo was found in vCenter.
        Found,
        /// vCenter reports no problem with the host or VM of a HostInfo or VMInfo.
        Healthy,
        /// Drover is logged in to a VCenter, and has read its inventory.
        Connected,
        /// Drover's user has all privileges in a VCenter that Drover needs.
        Authorized,
        /// Drover clones and destroys nothing in a VCenter, because too many VMs are missing.
        SafetyHold,
        /// Namespaces may use only what a VCenter allows them.
        Restricted,
        /// Each host of a VCenter has a HostInfo. Only where that is asked for.
        Published,
    }
}

impl From<Reason> for &'static str {
    fn from(reason: Reason) -> Self {
        reason.word()
    }
}

impl From<EventReason> for &'static str {
    fn from(reason: EventReason) -> Self {
        reason.word()
    }
}

/// The page of all reasons, as `docs/reasons.md` has it.
#[must_use]
pub fn page() -> String {
    let mut page = "\
<!-- Generated from crates/core/src/reasons.rs by `make manifests`. Do not edit. -->
# Reasons

What the `reason` of a condition or an event means, and what to do. `kubectl describe` shows both. The `message` beside it names the
object, the field or the privilege.

## Conditions
[gitops.md](gitops.md) says how `Ready`, `Reconciling` and `Stalled` relate.

| condition | holds when |
|---|---|
"
    .to_owned();
    let row = |page: &mut String, word: &str, meaning: &str| {
        // Writing to a String can't fail.
        let _ = writeln!(page, "| `{word}` | {meaning} |");
    };
    for kind in ConditionType::ALL {
        row(&mut page, kind.word(), kind.meaning());
    }
    page.push_str("\n## Reasons of conditions\n| reason | meaning |\n|---|---|\n");
    for reason in Reason::ALL {
        row(&mut page, reason.word(), reason.meaning());
    }
    page.push_str(
        "\n## Events\nA condition that turns bad is an event, too, with the condition's reason. These are the other events.\n\n\
         | reason | meaning |\n|---|---|\n",
    );
    for reason in EventReason::ALL {
        row(&mut page, reason.word(), reason.meaning());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_word_of_its_own_and_a_meaning() {
        let reasons = Reason::ALL.iter().map(|reason| (reason.word(), reason.meaning()));
        let events = EventReason::ALL.iter().map(|reason| (reason.word(), reason.meaning()));
        let mut words = std::collections::BTreeSet::new();
        for (word, meaning) in reasons.chain(events) {
            assert!(word.starts_with(char::is_uppercase) && words.insert(word), "{word}");
            assert!(meaning.ends_with('.') && !meaning.contains("machine"), "{word}: {meaning}");
        }
    }

    #[test]
    fn the_page_of_reasons_is_the_documentation() {
        assert!(page() == include_str!("../../../docs/reasons.md"), "docs/reasons.md is old: run 'make manifests'");
    }
}
