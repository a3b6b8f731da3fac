//! Which vCenters there are, and what they are to whom.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use drover_api::{
    VCenterSpec,
    vcenter::{Allowance, Enforce, NAMESPACE_ANNOTATION, Reach},
    vmgroup::Placement,
};
use drover_core::{
    tenancy::{
        pattern::Pattern,
        quota::{Quota, Terms},
        rules::{Allowed, Kind, Rules},
    },
    vcenter::binding::{Candidate, Names, NoVCenter, Serves, Standing},
    vmgroup::extra_config::{KeyPattern, Keys},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};

use super::DEFAULT;
use crate::kube::guard::Unreadable;

/// How long the environment's vCenter is opened to nobody after a VCenter of its name is deleted: that may be about to be created anew.
pub(crate) const RULES_HOLD: Duration = Duration::from_mins(1);

/// The vCenters that there are, by name.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    listed: BTreeMap<String, Listed>,
    /// Those that can't be read.
    unreadable: BTreeSet<String>,
    environment: bool,
    /// Until when a VCenter of the environment's name counts, though it is deleted.
    rules_hold_until: Option<Instant>,
}

#[derive(Debug, PartialEq)]
struct Listed {
    /// Whether it is the environment's vCenter that it has rules for.
    is_of_environment: bool,
    selector: Option<Selector>,
    is_default: bool,
    defaults: Placement,
    /// What namespaces may use, if not everything.
    restriction: Option<Restriction>,
    /// The namespace that hosts are published in.
    hosts_in: Option<String>,
    /// What namespaces may set of extraConfig, beside what everybody may.
    keys: Vec<(Option<Selector>, Arc<[KeyPattern]>)>,
    /// How much each of some namespaces may have, and whether more is refused.
    quotas: Vec<(Option<Selector>, Quota)>,
    enforce: Enforce,
}

/// What some namespaces may use each, and whether others are refused it.
#[derive(Debug, PartialEq)]
struct Restriction {
    enforce: Enforce,
    entries: Vec<(Option<Selector>, Allowed)>,
}

/// What came of a declaration.
pub(crate) struct Declared {
    /// Whether it serves others, or otherwise, than it did.
    pub is_news: bool,
    /// Why it makes no sense, if it makes none. Then it serves nobody.
    pub problem: Option<String>,
}

/// What a namespace says that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Around {
    labels: BTreeMap<String, String>,
    annotation: Option<String>,
    is_ending: bool,
}

impl Around {
    pub(crate) fn of(namespace: &impl ResourceExt) -> Self {
        let annotation = namespace.annotations().get(NAMESPACE_ANNOTATION).cloned();
        let is_ending = namespace.meta().deletion_timestamp.is_some();
        Self { labels: namespace.labels().clone(), annotation, is_ending }
    }

    /// Whether the namespace is being deleted.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    pub(crate) fn names<'a>(&'a self, spec: Option<&'a str>) -> Names<'a> {
        Names { spec, annotation: self.annotation.as_deref() }
    }
}

impl Roster {
    /// Takes up what a VCenter declares.
    pub(crate) fn declare(&mut self, name: &str, spec: &VCenterSpec) -> Declared {
        let mut problem = None;
        let listed = Listed {
            is_of_environment: name == DEFAULT && spec.is_of_environment(),
            selector: selector(spec.namespaces.as_ref(), "spec.namespaces", &mut problem),
            is_default: spec.default,
            hosts_in: spec.publish.namespace.clone().filter(|_| spec.publish.hosts),
            defaults: spec.defaults.clone(),
            restriction: (spec.reach == Reach::Restricted).then(|| Restriction {
                enforce: spec.enforce,
                entries: spec.allow.iter().enumerate().map(|(place, entry)| read(place, entry, &mut problem)).collect(),
            }),
            keys: keys(&spec.allow, &mut problem),
            quotas: spec
                .allow
                .iter()
                .enumerate()
                .filter_map(|(place, entry)| quota(place, entry, &mut problem))
                .collect(),
            enforce: spec.enforce,
        };
        let is_news = self.unreadable.remove(name) | (self.listed.get(name) != Some(&listed));
        self.listed.insert(name.to_owned(), listed);
        // Those whom they refuse have said that they only hold for a while.
        let is_news = is_news | (name == DEFAULT && self.rules_hold_until.take().is_some());
        Declared { is_news, problem }
    }

    /// Forgets one that is deleted. One of the environment's name counts for a while, so that who replaces it opens the environment's to nobody:
    /// rules for the environment's hold, and after any other nobody uses it.
    pub(crate) fn dismiss(&mut self, name: &str, now: Instant) {
        self.unreadable.remove(name);
        let is_held = self.environment && name == DEFAULT;
        if is_held {
            self.rules_hold_until = Some(now + RULES_HOLD);
        }
        if !(is_held && self.listed.get(name).is_some_and(|listed| listed.is_of_environment)) {
            self.listed.remove(name);
        }
    }

    /// Whether a VCenter of the environment's name counts though it is deleted.
    pub(crate) fn has_held_rules(&self) -> bool {
        self.rules_hold_until.is_some()
    }

    /// Forgets rules that have held long enough, and says whether there were any.
    pub(crate) fn drop_held_rules(&mut self, now: Instant) -> bool {
        let is_over = self.rules_hold_until.is_some_and(|until| until <= now);
        if is_over {
            self.rules_hold_until = None;
            self.listed.remove(DEFAULT);
        }
        is_over
    }

    /// Why no vCenter serves somebody, with what there is to know of rules that hold though their VCenter is deleted.
    pub(crate) fn explained(&self, why: NoVCenter) -> NoVCenter {
        let is_for_it = match &why {
            NoVCenter::NotServing { name, .. } | NoVCenter::Revoked(name) => name == DEFAULT,
            NoVCenter::None { .. } => true,
            NoVCenter::Unusable(name)
                if name == DEFAULT && self.has_held_rules() && !self.unreadable.contains(DEFAULT) =>
            {
                return NoVCenter::Withheld(RULES_HOLD.as_secs());
            }
            _ => false,
        };
        if is_for_it && self.has_held_rules() { NoVCenter::RulesHeld(Box::new(why), RULES_HOLD.as_secs()) } else { why }
    }

    /// The names of all that are declared, whether or not they can be read.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let is_there = |name: &&str| !(self.has_held_rules() && *name == DEFAULT);
        self.listed.keys().map(String::as_str).filter(is_there).chain(self.unreadable.iter().map(String::as_str))
    }

    /// Whether there is one of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.listed.contains_key(name) || self.unreadable.contains(name) || self.has_environment() && name == DEFAULT
    }

    /// Takes up that a VCenter can't be read. One that could be stays as it was.
    pub(crate) fn note_unreadable(&mut self, unreadable: &Unreadable) {
        let name = unreadable.metadata.name.clone().unwrap_or_default();
        let is_only_held = name == DEFAULT && self.has_held_rules();
        if is_only_held || !self.listed.contains_key(&name) {
            self.unreadable.insert(name);
        }
    }

    /// Forgets those that can't be read and aren't there any more, and says whether there were any.
    pub(crate) fn retain_unreadable(&mut self, is_there: impl Fn(&str) -> bool, now: Instant) -> bool {
        let gone: Vec<_> = self.unreadable.iter().filter(|name| !is_there(name)).cloned().collect();
        for name in &gone {
            self.dismiss(name, now);
        }
        !gone.is_empty()
    }

    /// Whether all can be read. Where one can't, nobody knows whom it serves, and whether it is the default.
    pub(crate) fn is_readable(&self) -> Result<(), NoVCenter> {
        if self.unreadable.is_empty() { Ok(()) } else { Err(NoVCenter::Unreadable) }
    }

    pub(crate) fn set_environment(&mut self) {
        self.environment = true;
    }

    /// Whether the environment gives one. A VCenter of its name takes its place, unless that has no server of its own. One that can't be
    /// read may have rules for it, and so may one that was deleted a moment ago.
    pub(crate) fn has_environment(&self) -> bool {
        let is_left = self.listed.get(DEFAULT).map_or(!self.has_held_rules(), |listed| listed.is_of_environment);
        self.environment && is_left && !self.unreadable.contains(DEFAULT)
    }

    /// Whether there are no rules for the one that the environment gives.
    pub(crate) fn has_plain_environment(&self) -> bool {
        self.has_environment() && !self.listed.contains_key(DEFAULT)
    }

    pub(crate) fn defaults(&self, name: &str) -> Placement {
        self.listed.get(name).map(|listed| listed.defaults.clone()).unwrap_or_default()
    }

    /// Whether namespaces are refused what they may not use of the one of this name, if that is restricted.
    pub(crate) fn enforcement(&self, name: &str) -> Option<Enforce> {
        Some(self.listed.get(name)?.restriction.as_ref()?.enforce)
    }

    /// What a namespace may use of the one of this name, if not everything.
    pub(crate) fn rules(&self, name: &str, namespace: &str, around: &Around) -> Option<Arc<Rules>> {
        let Listed { restriction, hosts_in, .. } = self.listed.get(name)?;
        let Restriction { enforce, entries } = restriction.as_ref()?;
        let is_for_it = |selector: &Option<Selector>| selector.as_ref().is_none_or(|it| it.matches(&around.labels));
        let allowed =
            entries.iter().filter(|(selector, _)| is_for_it(selector)).map(|(_, allowed)| Arc::clone(allowed));
        let rules = Rules::new(name, namespace, *enforce, allowed.collect());
        Some(Arc::new(rules.with_hosts(hosts_in.as_deref() == Some(namespace))))
    }

    /// The keys of extraConfig that a namespace may set in the one of this name, beside those that everybody may.
    pub(crate) fn keys(&self, name: &str, around: &Around) -> Keys {
        let entries = self.listed.get(name).into_iter().flat_map(|listed| &listed.keys);
        let for_it = entries.filter(|(selector, _)| selector.as_ref().is_none_or(|it| it.matches(&around.labels)));
        let allowed = for_it.map(|(_, keys)| Arc::clone(keys)).collect();
        Keys { allowed, enforce: self.listed.get(name).map(|listed| listed.enforce).unwrap_or_default() }
    }

    /// Whether the one of this name has a quota for anybody.
    pub(crate) fn has_quotas(&self, name: &str) -> bool {
        self.listed.get(name).is_some_and(|listed| !listed.quotas.is_empty())
    }

    /// Whether the one of this name has a quota for disks.
    pub(crate) fn limits_storage(&self, name: &str) -> bool {
        let listed = self.listed.get(name);
        listed.is_some_and(|listed| listed.quotas.iter().any(|(_, quota)| quota.limits_storage()))
    }

    /// How much a namespace may have in the one of this name, if not as much as it likes.
    pub(crate) fn quota(&self, name: &str, around: &Around) -> Option<Terms> {
        let Listed { quotas, enforce, .. } = self.listed.get(name)?;
        let is_for_it = |selector: &Option<Selector>| selector.as_ref().is_none_or(|it| it.matches(&around.labels));
        let quotas = quotas.iter().filter(|(selector, _)| is_for_it(selector)).map(|(_, quota)| *quota);
        Some(Terms { quota: quotas.reduce(Quota::and)?, is_enforced: *enforce == Enforce::Enforce })
    }

    /// What each is to a namespace.
    pub(crate) fn candidates(&self, around: &Around) -> Vec<Candidate<'_>> {
        let listed = self.listed.iter().map(|(name, listed)| Candidate {
            name,
            serves: match &listed.selector {
                None => Serves::Everybody,
                Some(selector) if selector.matches(&around.labels) => Serves::ThisNamespace,
                Some(_) => Serves::Others,
            },
            standing: match listed {
                Listed { is_default: true, .. } => Standing::Default,
                Listed { is_of_environment: true, .. } => Standing::Environment,
                Listed { .. } => Standing::Plain,
            },
        });
        let environment = Candidate { name: DEFAULT, serves: Serves::Everybody, standing: Standing::Environment };
        // Where one of its name can't be read, it is there, and can't be used.
        let is_alone = self.environment && !self.listed.contains_key(DEFAULT);
        listed.chain(is_alone.then_some(environment)).collect()
    }
}

/// A selector as it is declared. What can't be read selects nothing.
fn selector(declared: Option<&LabelSelector>, field: &str, problem: &mut Option<String>) -> Option<Selector> {
    let read = Selector::try_from(declared?.clone());
    Some(read.unwrap_or_else(|error| {
        problem.get_or_insert_with(|| format!("{field}: {error}"));
        nobody()
    }))
}

/// An entry of `spec.allow`. What can't be read allows nothing.
fn read(place: usize, entry: &Allowance, problem: &mut Option<String>) -> (Option<Selector>, Allowed) {
    let selector = selector(entry.namespaces.as_ref(), &format!("spec.allow[{place}].namespaces"), problem);
    let lists = [
        (Kind::Template, &entry.templates),
        (Kind::Folder, &entry.folders),
        (Kind::Cluster, &entry.clusters),
        (Kind::ResourcePool, &entry.resource_pools),
        (Kind::Datastore, &entry.datastores),
        (Kind::Network, &entry.networks),
    ];
    let mut patterns = Vec::new();
    for (kind, text) in lists.into_iter().flat_map(|(kind, list)| list.iter().map(move |text| (kind, text))) {
        match Pattern::parse(text) {
            Ok(pattern) => patterns.push((kind, pattern)),
            Err(bad) => {
                problem.get_or_insert_with(|| format!("spec.allow[{place}].{}: {text:?}: {bad}", kind.list()));
            }
        }
    }
    (selector, patterns.into())
}

/// The keys that entries of `spec.allow` allow.
fn keys(allow: &[Allowance], problem: &mut Option<String>) -> Vec<(Option<Selector>, Arc<[KeyPattern]>)> {
    let with_keys = allow.iter().enumerate().filter(|(_, entry)| !entry.extra_config.is_empty());
    let read = with_keys.map(|(place, entry)| {
        let field = format!("spec.allow[{place}].namespaces");
        let patterns = entry.extra_config.iter().map(|text| KeyPattern::new(text));
        (selector(entry.namespaces.as_ref(), &field, problem), patterns.collect())
    });
    read.collect()
}

/// The quota of an entry of `spec.allow`, if it has one.
fn quota(place: usize, entry: &Allowance, problem: &mut Option<String>) -> Option<(Option<Selector>, Quota)> {
    let quota = Quota::of(entry.quota.as_ref()?);
    Some((selector(entry.namespaces.as_ref(), &format!("spec.allow[{place}].namespaces"), problem), quota))
}

/// A selector that no labels match.
fn nobody() -> Selector {
    use kube::core::Expression::{DoesNotExist, Exists};
    [Exists(String::new()), DoesNotExist(String::new())].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;
    use serde_json::{Value, json};

    use super::*;

    /// What a namespace may use of a VCenter that is declared so, and what is wrong with that.
    fn allowed(spec: &Value, namespace: &str) -> (String, Option<String>) {
        let mut whole = json!({"server": "vc", "credentialsSecretRef": {"name": "vc"}, "reach": "Restricted"});
        whole.as_object_mut().unwrap().extend(spec.as_object().cloned().unwrap());
        let mut roster = Roster::default();
        let declared = roster.declare("lab", &serde_json::from_value(whole).unwrap());
        let labels = [("kubernetes.io/metadata.name", namespace), ("tier", "web")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let rules = roster.rules("lab", namespace, &Around { labels, ..Around::default() });
        let paths = ["/DC0/vm/a", "/DC0/vm/b", "/DC0/vm/c"];
        let may = |path: &&str| rules.as_ref().is_none_or(|rules| rules.allows(Kind::Template, path));
        (paths.into_iter().filter(may).collect::<Vec<_>>().join(" "), declared.problem)
    }

    fn of(name: &str) -> Value {
        json!({"matchLabels": {"kubernetes.io/metadata.name": name}})
    }

    #[test]
    fn entries_that_select_a_namespace_add_up() {
        let allow = json!({"allow": [
            {"templates": ["/**/a"]},
            {"namespaces": of("team-a"), "templates": ["/DC0/vm/b"]},
            {"namespaces": of("team-b"), "templates": ["/DC0/vm/c"]},
        ]});
        assert_eq!(allowed(&allow, "team-a"), ("/DC0/vm/a /DC0/vm/b".to_owned(), None));
        assert_eq!(allowed(&allow, "team-b"), ("/DC0/vm/a /DC0/vm/c".to_owned(), None));
        assert_eq!(allowed(&json!({}), "team-a"), (String::new(), None), "nothing is allowed");
        assert_eq!(allowed(&json!({"reach": "Open"}), "team-a").0, "/DC0/vm/a /DC0/vm/b /DC0/vm/c");
    }

    #[test]
    fn keys_are_allowed_by_entries_that_select_a_namespace_whatever_the_reach() {
        let entry = json!({"namespaces": of("team-a"), "extraConfig": ["company.*"]});
        for reach in ["Open", "Restricted"] {
            let spec = json!({
                "server": "vc", "credentialsSecretRef": {"name": "vc"}, "reach": reach,
                "allow": [entry, {"templates": ["/**"]}, {"extraConfig": ["key"]}],
            });
            let mut roster = Roster::default();
            roster.declare("lab", &serde_json::from_value(spec).unwrap());
            let keys = |namespace: &str| {
                let labels = [("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())].into();
                roster.keys("lab", &Around { labels, ..Around::default() }).allowed
            };
            let (company, key): (Arc<[_]>, Arc<[_]>) =
                ([KeyPattern::new("company.*")].into(), [KeyPattern::new("key")].into());
            assert_eq!(keys("team-a"), [company, Arc::clone(&key)]);
            assert_eq!(keys("team-b"), [key]);
        }
        assert_eq!(Roster::default().keys("default", &Around::default()), Keys::default());
    }

    #[test]
    fn the_environments_has_the_rules_of_a_vcenter_of_its_name_that_has_no_server() {
        let spec = |spec: Value| serde_json::from_value::<VCenterSpec>(spec).unwrap();
        let around = |team: &str| {
            let labels = [("team".to_owned(), team.to_owned())].into();
            Around { labels, ..Around::default() }
        };
        let seen = |roster: &Roster, team| {
            let around = around(team);
            let all = roster.candidates(&around).into_iter().map(|it| (it.name.to_owned(), it.serves, it.standing));
            (all.collect::<Vec<_>>(), roster.has_environment())
        };
        let default = |serves, standing| vec![(DEFAULT.to_owned(), serves, standing)];
        let mut roster = Roster::default();
        roster.set_environment();
        assert_eq!(seen(&roster, "a"), (default(Serves::Everybody, Standing::Environment), true));
        roster.declare(DEFAULT, &spec(json!({"namespaces": {"matchLabels": {"team": "a"}}})));
        assert_eq!(seen(&roster, "a"), (default(Serves::ThisNamespace, Standing::Environment), true));
        assert_eq!(seen(&roster, "b"), (default(Serves::Others, Standing::Environment), true));
        assert!(!roster.has_plain_environment());
        roster.declare(DEFAULT, &spec(json!({"server": "vc", "credentialsSecretRef": {"name": "vc"}})));
        assert_eq!(seen(&roster, "b"), (default(Serves::Everybody, Standing::Plain), false));
        let now = Instant::now();
        roster.dismiss(DEFAULT, now);
        assert!(roster.drop_held_rules(now + RULES_HOLD));
        // Nobody knows what the rules are of one that can't be read.
        roster.unreadable.insert(DEFAULT.to_owned());
        assert_eq!(seen(&roster, "b"), (default(Serves::Everybody, Standing::Environment), false));
        assert!(
            roster.retain_unreadable(|_| false, now) && !roster.has_environment(),
            "it may be about to be created anew"
        );
        assert!(roster.drop_held_rules(now + RULES_HOLD) && roster.has_plain_environment());
    }

    #[test]
    fn rules_for_the_environments_outlast_their_vcenter_for_a_while() {
        let rules: VCenterSpec = serde_json::from_value(json!({"namespaces": {"matchLabels": {"team": "a"}}})).unwrap();
        let serves = |roster: &Roster| roster.candidates(&Around::default())[0].serves;
        let mut roster = Roster::default();
        roster.set_environment();
        roster.declare(DEFAULT, &rules);
        let now = Instant::now();
        roster.dismiss(DEFAULT, now);
        assert_eq!((serves(&roster), roster.names().count()), (Serves::Others, 0));
        let none = || NoVCenter::None { serving: Vec::new() };
        assert!(roster.explained(none()).to_string().ends_with("its rules hold for 60 seconds after that"));
        // It is created anew, and deleted again: the first end of the time is none.
        let (later, end) = (now + RULES_HOLD / 2, now + RULES_HOLD);
        assert!(roster.declare(DEFAULT, &rules).is_news, "what is said has changed");
        assert_eq!((roster.explained(none()), roster.names().count()), (none(), 1));
        roster.dismiss(DEFAULT, later);
        assert!(!roster.drop_held_rules(end));
        assert_eq!(serves(&roster), Serves::Others);
        assert!(roster.drop_held_rules(later + RULES_HOLD) && !roster.drop_held_rules(later + RULES_HOLD));
        assert_eq!((serves(&roster), roster.explained(none())), (Serves::Everybody, none()));
    }

    #[test]
    fn one_that_is_created_anew_and_cant_be_read_opens_the_environments_to_nobody() {
        let rules: VCenterSpec = serde_json::from_value(json!({"namespaces": {"matchLabels": {"team": "a"}}})).unwrap();
        let mut roster = Roster::default();
        roster.set_environment();
        roster.declare(DEFAULT, &rules);
        let now = Instant::now();
        roster.dismiss(DEFAULT, now);
        let metadata = ObjectMeta { name: Some(DEFAULT.to_owned()), ..ObjectMeta::default() };
        roster.note_unreadable(&Unreadable { metadata, why: String::new() });
        assert!(roster.drop_held_rules(now + RULES_HOLD));
        assert!(!roster.has_environment() && roster.is_readable().is_err());
    }

    #[test]
    fn the_environments_is_not_opened_as_soon_as_one_with_a_server_is_deleted() {
        let spec = json!({"server": "vc", "credentialsSecretRef": {"name": "vc"}});
        let mut roster = Roster::default();
        roster.set_environment();
        roster.declare(DEFAULT, &serde_json::from_value(spec).unwrap());
        let now = Instant::now();
        roster.dismiss(DEFAULT, now);
        assert!(!roster.has_environment() && roster.names().count() == 0);
        let why = roster.explained(NoVCenter::Unusable(DEFAULT.to_owned()));
        assert_eq!(why, NoVCenter::Withheld(60));
        assert!(roster.drop_held_rules(now + RULES_HOLD));
        assert!(roster.has_plain_environment());
    }

    #[test]
    fn of_several_quotas_the_least_counts_whatever_the_reach() {
        for reach in ["Open", "Restricted"] {
            let spec = json!({"server": "vc", "credentialsSecretRef": {"name": "vc"}, "reach": reach, "enforce": "Warn", "allow": [
                {"quota": {"vms": 10, "cpus": 8}},
                {"namespaces": of("team-a"), "quota": {"vms": 20, "memory": 64}},
                {"namespaces": of("team-a"), "templates": ["/**"]},
            ]});
            let mut roster = Roster::default();
            roster.declare("lab", &serde_json::from_value(spec).unwrap());
            let quota = |namespace: &str| {
                let labels = [("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())].into();
                roster.quota("lab", &Around { labels, ..Around::default() })
            };
            let terms = |declared: Value| {
                let quota = Quota::of(&serde_json::from_value(declared).unwrap());
                Some(Terms { quota, is_enforced: false })
            };
            assert_eq!(quota("team-a"), terms(json!({"vms": 10, "cpus": 8, "memory": 64})));
            assert_eq!(quota("team-b"), terms(json!({"vms": 10, "cpus": 8})));
            assert_eq!(roster.quota("other", &Around::default()), None);
        }
    }

    #[test]
    fn what_cant_be_read_allows_nothing_to_nobody_and_is_named() {
        let selector = json!({"matchExpressions": [{"key": "tier", "operator": "Like", "values": ["web"]}]});
        let (allows, problem) = allowed(&json!({"allow": [{"namespaces": selector, "templates": ["/**"]}]}), "team-a");
        assert_eq!(allows, "");
        assert!(problem.unwrap().starts_with("spec.allow[0].namespaces: "));
        let (allows, problem) = allowed(&json!({"allow": [{"templates": ["/**/a", "**/b"]}]}), "team-a");
        assert_eq!(allows, "/DC0/vm/a");
        assert_eq!(problem.unwrap(), r#"spec.allow[0].templates: "**/b": a pattern begins with /"#);
    }
}
