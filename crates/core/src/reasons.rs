//! Every reason that a condition can have, each with the line that a user reads about it.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Why a condition is as it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// All of them, for the documentation.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The word that stands in the condition.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
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
    /// All that is declared is there, available and up to date.
    AsDeclared,
    /// Some of what is declared is missing, not ready yet, or out of date.
    NotYet,
    /// Machines or shells are being made, changed or removed.
    Working,
    /// There is nothing to do.
    Settled,
    /// The group is paused: Drover looks on and changes nothing. Set spec.paused to false to go on.
    Paused,
    /// It is being deleted.
    Deleting,
    /// vCenter can't be reached or refuses the login. Drover tries again by itself; the message says why.
    VCenterAway,
    /// vCenter has not been read yet, since Drover was started or the VCenter was made.
    NotReadYet,
    /// Drover is logged in, and knows what is in the vCenter.
    LoggedIn,
    /// vCenter refuses the user or the password. Correct the Secret. A login is tried again when the Secret is written and every 15 minutes, never twice in a minute, so that no account locks.
    LoginRefused,
    /// The server's certificate is not trusted. The message says why, and spec.tls is where to trust it.
    Untrusted,
    /// The server is another vCenter than it was, so nothing is touched. Set spec.server back, or make another VCenter for it.
    AnotherVCenter,
    /// Drover has all the privileges that it needs.
    Granted,
    /// Privileges are missing. The message lists them, and where; `drover vcenter privileges` prints the role to create.
    PrivilegesMissing,
    /// The privileges have not been checked, because vCenter is not there or no group uses it.
    Unchecked,
    /// The group's folder is used by a group of another Kubernetes cluster. Choose another placement.folder for one of them.
    Conflict,
    /// Something that the group names is not in vCenter, or is there twice. Correct the field that the message names.
    NotFound,
    /// The spec makes no sense, or the group's record can't be written to its status. Correct what the message names.
    Invalid,
    /// Tasks in vCenter fail. Drover tries again, ever more slowly; the message says what failed and why.
    TasksFail,
    /// VMs are missing without proof that they were destroyed, can't be read, or can't be reached. Drover leaves them alone and keeps their places; the message says which, and what comes next.
    VMsMissing,
    /// Too many VMs are missing at once, or would be replaced for no known reason. Nothing is cloned or destroyed until they are back, proved gone, or somebody runs `drover release` with the incident that the message names.
    SafetyHold,
    /// No more VMs are missing than may be.
    NoneMissing,
    /// The group got no further for as long as update.progressDeadlineSeconds says. Drover goes on; see what its machines wait for.
    DeadlineExceeded,
    /// Nothing stands in the way.
    NotStalled,
    /// The ttl is over and the shells are gone. Raise spec.ttl to have them again.
    Expired,
    /// Somebody else's object has a name that is needed, and is left alone. Delete it or choose another name; the message names it.
    NameTaken,
    /// The VmGroup that the spec names is not there. The shells run, and find its machines once it is.
    NoVmGroup,
    /// The API server refuses what is needed. Drover tries again; the message says what and why.
    Refused,
    /// Pods are refused, by a quota, pod security or another rule of the cluster. The message says which.
    PodsRefused,
    /// Pods are there and don't run. The message says which and why.
    PodsFail,
    /// vCenter shows it.
    Seen,
    /// Several machines or hosts fit. Name one by its path; the message lists them.
    Ambiguous,
    /// The VCenter that the spec names is not there, or doesn't serve this namespace.
    NoVCenter,
    /// vCenter sees nothing wrong with it.
    Well,
    /// vCenter warns of it, and it works.
    Warned,
    /// It can't be reached, waits for somebody, or is in trouble. The message says which.
    Unwell,
    /// The host is in maintenance mode, and runs no machines until it leaves it.
    InMaintenance,
    /// There is nothing to judge: it isn't seen.
    Unseen,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_word_and_a_meaning() {
        for reason in Reason::ALL {
            assert!(reason.word().chars().next().is_some_and(char::is_uppercase), "{reason:?}");
            assert!(reason.meaning().ends_with('.'), "{reason:?}");
        }
        assert_eq!(Reason::Paused.word(), "Paused");
    }

    #[test]
    fn every_reason_is_in_the_documentation() {
        let page = include_str!("../../../docs/groups.md");
        for reason in Reason::ALL {
            let row = format!("| `{}` | {} |", reason.word(), reason.meaning());
            assert!(page.contains(&row), "docs/groups.md lacks {row}");
        }
    }
}
