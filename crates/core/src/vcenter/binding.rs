//! Which vCenter a group, a host or a machine is looked for in.
//!
//! The one that the object names; else the one that its namespace's annotation names; else the one whose selector matches the
//! namespace, if exactly one does; else the default; else the environment's.

/// A vCenter that may be chosen, as one namespace sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whom it serves.
    pub serves: Serves,
    /// What it is to those whom no other serves.
    pub standing: Standing,
}

/// Whom a vCenter serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Everybody who names it.
    Everybody,
    /// This namespace, which its selector matches.
    ThisNamespace,
    /// Others.
    Others,
}

/// What a vCenter is to those whom no other serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Plain,
    /// The default.
    Default,
    /// What the environment gives.
    Environment,
}

/// What names a vCenter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names<'a> {
    /// The object's spec.
    pub spec: Option<&'a str>,
    /// The annotation of its namespace.
    pub annotation: Option<&'a str>,
}

/// Why no vCenter is chosen, as a sentence for people of the namespace. It names no VCenter that only serves others, and doesn't say
/// whether there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the sentences say it")]
pub enum NoVCenter {
    #[error("{by}: there is no VCenter {name:?} that serves this namespace{}", listed(.serving))]
    NotServing { by: &'static str, name: String, serving: Vec<String> },
    #[error("the group has machines there: there is no VCenter {0:?}")]
    Gone(String),
    #[error(
        "the group has machines there: the VCenter {0:?} doesn't serve this namespace: its spec.namespaces selects others"
    )]
    Revoked(String),
    #[error("there is no vCenter: create a VCenter, or set VC_HOST, VC_USER and VC_PASS in the operator's environment")]
    Nowhere,
    #[error(
        "no VCenter serves this namespace: name one in spec.vcenter or in the namespace's annotation \
         vm.codeconnect.vmworld.com/vcenter{}",
        listed(.serving)
    )]
    None { serving: Vec<String> },
    #[error("several VCenters serve this namespace ({}): name one of them in spec.vcenter", .0.join(", "))]
    Several(Vec<String>),
    #[error("several VCenters are the default ({}): leave that to one of them, or name one in spec.vcenter", .0.join(", "))]
    SeveralDefaults(Vec<String>),
    #[error(
        "spec.vcenter: the group has machines in the VCenter {recorded:?}, and can't change over to {wanted:?}: set it back, or \
         scale the group to 0 first"
    )]
    Moved { recorded: String, wanted: String },
    #[error("the namespace {0:?} has not been read yet: may Drover list and watch namespaces?")]
    NamespaceNotRead(String),
    #[error("the VCenter {0:?} can't be used: its condition Connected says why")]
    Unusable(String),
    #[error(
        "one of the VCenters can't be read, and may be the one that serves this namespace: an event on that VCenter says why"
    )]
    Unreadable,
    #[error("{0}. The VCenter \"default\" was deleted: its rules hold for {1} seconds after that")]
    RulesHeld(Box<Self>, u64),
    #[error(
        "the VCenter \"default\" was deleted: the vCenter of the operator's environment is not used for {0} seconds after that"
    )]
    Withheld(u64),
}

fn listed(serving: &[String]) -> String {
    if serving.is_empty() { String::new() } else { format!("; those that can be named are {}", serving.join(", ")) }
}

const SPEC: &str = "spec.vcenter";
const ANNOTATION: &str = "the namespace's annotation vm.codeconnect.vmworld.com/vcenter";

/// Chooses a vCenter.
pub fn choose<'a>(candidates: &[Candidate<'a>], names: Names<'_>) -> Result<&'a str, NoVCenter> {
    if let Some(name) = names.spec {
        return named(candidates, SPEC, name);
    }
    if let Some(name) = names.annotation {
        return named(candidates, ANNOTATION, name);
    }
    let of = |which: fn(&Candidate<'_>) -> bool| -> Vec<&'a str> {
        candidates.iter().filter(|candidate| which(candidate)).map(|candidate| candidate.name).collect()
    };
    let selected = of(|candidate| candidate.serves == Serves::ThisNamespace);
    if let [only] = selected[..] {
        return Ok(only);
    }
    let defaults = of(|candidate| candidate.serves != Serves::Others && candidate.standing == Standing::Default);
    let environment = of(|candidate| candidate.serves != Serves::Others && candidate.standing == Standing::Environment);
    match (&defaults[..], &environment[..]) {
        (&[only], _) | (&[], &[only, ..]) => Ok(only),
        (&[], &[]) if candidates.is_empty() => Err(NoVCenter::Nowhere),
        (&[], &[]) if selected.is_empty() => Err(NoVCenter::None { serving: serving(candidates) }),
        (&[], &[]) => Err(NoVCenter::Several(owned(&selected))),
        (several, _) => Err(NoVCenter::SeveralDefaults(owned(several))),
    }
}

fn named<'a>(candidates: &[Candidate<'a>], by: &'static str, name: &str) -> Result<&'a str, NoVCenter> {
    let found = candidates.iter().find(|candidate| candidate.name == name && candidate.serves != Serves::Others);
    let none = || NoVCenter::NotServing { by, name: name.to_owned(), serving: serving(candidates) };
    found.map(|candidate| candidate.name).ok_or_else(none)
}

/// The vCenter that has a group's machines, which the group knows in any case.
fn recorded<'a>(candidates: &[Candidate<'a>], name: &str) -> Result<&'a str, NoVCenter> {
    match candidates.iter().find(|candidate| candidate.name == name) {
        None => Err(NoVCenter::Gone(name.to_owned())),
        Some(candidate) if candidate.serves == Serves::Others => Err(NoVCenter::Revoked(name.to_owned())),
        Some(candidate) => Ok(candidate.name),
    }
}

/// Those that this namespace may name.
fn serving(candidates: &[Candidate<'_>]) -> Vec<String> {
    let serving = candidates.iter().filter(|candidate| candidate.serves != Serves::Others);
    serving.map(|candidate| candidate.name.to_owned()).collect()
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Where a group is at home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// Here, as is written down.
    At(String),
    /// Here, once that is written down: then it is known wherever the next reconcile takes place.
    Settle(String),
    /// Nowhere for long: it has no machines, and what is left of it goes before it settles elsewhere.
    Leave(String),
}

/// What is known of the vCenter that is written down as a group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether there still is such a vCenter.
    pub is_there: bool,
}

/// Where a group is at home, by what is written down and what would be chosen now. Whether it has machines there, or may have, is
/// asked only where that matters, because they have to be looked for. A group's vCenter can't change once it has
/// members: where only the circumstances would choose another, it stays.
pub fn home(
    candidates: &[Candidate<'_>],
    names: Names<'_>,
    before: Option<Recorded<'_>>,
    has_members: impl FnOnce() -> bool,
) -> Result<Home, NoVCenter> {
    let wanted = choose(candidates, names);
    let Some(before) = before else { return wanted.map(|name| Home::Settle(name.to_owned())) };
    if wanted == Ok(before.name) {
        return Ok(Home::At(before.name.to_owned()));
    }
    if has_members() {
        if let (Some(_), Ok(wanted)) = (names.spec, &wanted) {
            return Err(NoVCenter::Moved { recorded: before.name.to_owned(), wanted: (*wanted).to_owned() });
        }
        return recorded(candidates, before.name).map(|name| Home::At(name.to_owned()));
    }
    let wanted = wanted?.to_owned();
    Ok(if before.is_there { Home::Leave(before.name.to_owned()) } else { Home::Settle(wanted) })
}

/// Where a group goes to its end: to the vCenter that is written down as its own, whomever that serves now.
pub fn end<'a>(candidates: &[Candidate<'a>], name: &str) -> Result<&'a str, NoVCenter> {
    let open: Vec<_> =
        candidates.iter().map(|candidate| Candidate { serves: Serves::Everybody, ..*candidate }).collect();
    recorded(&open, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Candidate<'static> = Candidate { name: "open", serves: Serves::Everybody, standing: Standing::Plain };
    const OURS: Candidate<'static> = Candidate { name: "ours", serves: Serves::ThisNamespace, ..OPEN };
    const ALSO_OURS: Candidate<'static> = Candidate { name: "also-ours", ..OURS };
    const THEIRS: Candidate<'static> = Candidate { name: "theirs", serves: Serves::Others, ..OPEN };
    const DEFAULT: Candidate<'static> = Candidate { name: "usual", standing: Standing::Default, ..OPEN };
    const ENVIRONMENT: Candidate<'static> = Candidate { name: "default", standing: Standing::Environment, ..OPEN };

    fn chosen(candidates: &[Candidate<'static>], spec: Option<&str>, annotation: Option<&str>) -> String {
        match choose(candidates, Names { spec, annotation }) {
            Ok(name) => name.to_owned(),
            Err(none) => none.to_string(),
        }
    }

    #[test]
    fn the_spec_goes_before_the_annotation_before_the_selector_before_the_default_before_the_environment() {
        let all = [OPEN, OURS, THEIRS, DEFAULT, ENVIRONMENT];
        assert_eq!(chosen(&all, Some("open"), Some("ours")), "open");
        assert_eq!(chosen(&all, None, Some("open")), "open");
        assert_eq!(chosen(&all, None, None), "ours");
        assert_eq!(chosen(&[OPEN, THEIRS, DEFAULT, ENVIRONMENT], None, None), "usual");
        assert_eq!(chosen(&[OPEN, THEIRS, ENVIRONMENT], None, None), "default");
        let theirs = Candidate { serves: Serves::Others, ..ENVIRONMENT };
        let none = chosen(&[OPEN, theirs], None, None);
        assert!(none.starts_with("no VCenter serves this namespace: ") && none.ends_with("are open"), "{none}");
    }

    #[test]
    fn two_selectors_that_match_leave_it_to_the_default() {
        assert_eq!(chosen(&[OURS, ALSO_OURS, DEFAULT], None, None), "usual");
        let message = chosen(&[OURS, ALSO_OURS], None, None);
        assert_eq!(
            message,
            "several VCenters serve this namespace (ours, also-ours): name one of them in spec.vcenter"
        );
    }

    #[test]
    fn one_that_serves_others_is_said_as_one_that_is_not_there_with_those_that_can_be_named() {
        let message = chosen(&[THEIRS], Some("theirs"), None);
        assert_eq!(message, "spec.vcenter: there is no VCenter \"theirs\" that serves this namespace");
        assert_eq!(chosen(&[], Some("theirs"), None), message, "whether there is one is not said");
        assert!(chosen(&[THEIRS], None, Some("theirs")).starts_with("the namespace's annotation"));
        assert_eq!(
            chosen(&[OPEN, OURS, THEIRS], Some("lab"), None),
            "spec.vcenter: there is no VCenter \"lab\" that serves this namespace; those that can be named are open, ours"
        );
        assert!(chosen(&[OPEN, THEIRS], None, None).ends_with("; those that can be named are open"));
        assert!(chosen(&[], None, None).starts_with("there is no vCenter: create a VCenter, or set VC_HOST"));
    }

    #[test]
    fn no_message_names_a_vcenter_that_serves_others() {
        let theirs = [THEIRS, Candidate { standing: Standing::Default, ..THEIRS }];
        let sets = [
            vec![],
            vec![OPEN],
            vec![OURS, ALSO_OURS],
            vec![OPEN, OURS],
            vec![DEFAULT, Candidate { name: "o", ..DEFAULT }],
        ];
        for (set, their) in sets.iter().flat_map(|set| theirs.map(|their| (set, their))) {
            let all: Vec<_> = set.iter().copied().chain([their]).collect();
            for names in [(None, None), (Some("lab"), None), (None, Some("lab"))] {
                let said = chosen(&all, names.0, names.1);
                assert!(!said.contains("theirs"), "{said}");
                if !set.is_empty() {
                    assert_eq!(said, chosen(set, names.0, names.1), "it is as if theirs was not there");
                }
            }
            let gone = home(&all, Names::default(), Some(Recorded { name: "old", is_there: false }), || true);
            assert!(gone.as_ref().is_err_and(|gone| !gone.to_string().contains("theirs")), "{gone:?}");
            assert!(!end(&all, "old").unwrap_err().to_string().contains("theirs"));
        }
    }

    #[test]
    fn a_default_that_serves_others_is_none_here_and_two_are_too_many() {
        let theirs = Candidate { standing: Standing::Default, ..THEIRS };
        assert_eq!(chosen(&[theirs, ENVIRONMENT], None, None), "default");
        let other = Candidate { name: "other", ..DEFAULT };
        assert!(chosen(&[DEFAULT, other], None, None).starts_with("several VCenters are the default (usual, other)"));
    }

    fn recorded(name: &str) -> Recorded<'_> {
        Recorded { name, is_there: true }
    }

    #[test]
    fn a_group_settles_once_and_stays_while_it_has_machines() {
        let all = [OPEN, OURS, ENVIRONMENT];
        let none = Names::default();
        assert_eq!(home(&all, none, None, || false), Ok(Home::Settle("ours".to_owned())));
        assert_eq!(home(&all, none, Some(recorded("ours")), || true), Ok(Home::At("ours".to_owned())));
        // Its namespace was given to another since.
        assert_eq!(home(&all, none, Some(recorded("default")), || true), Ok(Home::At("default".to_owned())));
        assert_eq!(home(&all, none, Some(recorded("default")), || false), Ok(Home::Leave("default".to_owned())));
    }

    #[test]
    fn a_group_with_machines_is_not_moved_by_its_spec() {
        let to_open = Names { spec: Some("open"), annotation: None };
        let moved = home(&[OPEN, OURS], to_open, Some(recorded("ours")), || true).unwrap_err();
        assert!(moved.to_string().contains("has machines in the VCenter \"ours\""), "{moved}");
        assert_eq!(home(&[OPEN, OURS], to_open, Some(recorded("ours")), || false), Ok(Home::Leave("ours".to_owned())));
    }

    #[test]
    fn a_vcenter_that_is_gone_or_serves_others_now_is_named() {
        let gone = Recorded { name: "old", is_there: false };
        assert!(
            home(&[OURS], Names::default(), Some(gone), || true)
                .unwrap_err()
                .to_string()
                .contains("no VCenter \"old\"")
        );
        assert_eq!(home(&[OURS], Names::default(), Some(gone), || false), Ok(Home::Settle("ours".to_owned())));
        let revoked = home(&[OURS, THEIRS], Names::default(), Some(recorded("theirs")), || true).unwrap_err();
        assert_eq!(revoked, NoVCenter::Revoked("theirs".to_owned()));
    }

    #[test]
    fn a_group_ends_where_it_was_made_though_that_serves_others_now() {
        assert_eq!(end(&[OURS, THEIRS], "theirs"), Ok("theirs"));
        let gone = end(&[OURS, THEIRS], "old").unwrap_err().to_string();
        assert_eq!(gone, "the group has machines there: there is no VCenter \"old\"");
    }
}
