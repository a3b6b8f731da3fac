//! Sequences of declarations, made from the schemas of the definitions themselves: each is a few edits of one object.

use std::collections::BTreeMap;

use drover_e2e::{Chance, Sandbox, borders};
use serde_json::{Map, Value, json};

use crate::contradictions;

/// One object's life.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) number: u64,
    pub(crate) seed: u64,
    pub(crate) kind: &'static str,
    pub(crate) api: String,
    /// What is declared before the last, which is valid.
    pub(crate) edits: Vec<Edit>,
    pub(crate) last: Value,
}

/// A spec, and which fields of it are odd.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) fields: Vec<String>,
    pub(crate) spec: Value,
    /// Whether a rule of the schema says so.
    pub(crate) has_to_be_refused: bool,
}

/// What can be written of each kind.
pub(crate) struct Catalogue {
    kinds: BTreeMap<&'static str, Entry>,
}

struct Entry {
    api: String,
    base: Value,
    odd: Vec<borders::Case>,
}

/// How many of a hundred sequences are of which kind.
const SHARES: [(&str, u64); 5] = [("VmGroup", 70), ("VCenter", 9), ("VMInfo", 7), ("HostInfo", 7), ("MyOwnShell", 7)];

impl Catalogue {
    /// From the definitions that the API server has.
    pub(crate) fn read(sandbox: &Sandbox) -> Self {
        let bases = bases(sandbox);
        let mut kinds = BTreeMap::new();
        for definition in sandbox.definitions() {
            let spec = &definition["spec"];
            let Some((kind, base)) = bases.iter().find(|(kind, _)| spec["names"]["kind"] == **kind) else { continue };
            let version = &spec["versions"][0];
            let schema = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let entry = Entry {
                api: format!("{}/{}", text(&spec["group"]), text(&version["name"])),
                odd: borders::cases(schema, base),
                base: base.clone(),
            };
            kinds.insert(*kind, entry);
        }
        assert_eq!(kinds.len(), SHARES.len(), "each kind is installed");
        Self { kinds }
    }

    /// The sequence that a seed and a number give.
    pub(crate) fn plan(&self, seed: u64, number: u64) -> Plan {
        let mut chance = Chance::from_seed(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let kind = kind(&mut chance);
        let entry = &self.kinds[kind];
        let edits = (0..chance.between(2, 4)).map(|_| entry.edit(kind, &mut chance)).collect();
        let last = lasting(kind, valid(kind, &entry.base, &mut chance).spec);
        Plan { number, seed, kind, api: entry.api.clone(), edits, last }
    }
}

fn kind(chance: &mut Chance) -> &'static str {
    let mut left = chance.below(100);
    for (kind, share) in SHARES {
        if left < share {
            return kind;
        }
        left -= share;
    }
    SHARES[0].0
}

impl Entry {
    /// One edit: valid, odd in one field, or in two that may contradict each other, or against a rule.
    fn edit(&self, kind: &str, chance: &mut Chance) -> Edit {
        let roll = chance.below(100);
        if roll < 30 {
            return valid(kind, &self.base, chance);
        }
        if let Some((change, fields)) = chance.pick(&contradictions::of(kind)).filter(|_| roll >= 90) {
            let mut spec = self.base.clone();
            merge(&mut spec, change);
            let fields = fields.iter().map(ToString::to_string).collect();
            return Edit { fields, spec, has_to_be_refused: true };
        }
        let case = chance.pick(&self.odd).expect("a schema has borders");
        let mut edit = Edit { fields: vec![case.field.clone()], spec: case.value.clone(), has_to_be_refused: false };
        if roll >= 65 {
            let other = self.beside(&case.field, chance);
            if put(&mut edit.spec, &other) {
                edit.fields.push(other.field);
            }
        }
        edit
    }

    /// Something odd beside a field: in the same part of the spec half of the time, where two are most likely to contradict each other.
    fn beside(&self, field: &str, chance: &mut Chance) -> borders::Case {
        let is_beside = |other: &&borders::Case| top(&other.field) == top(field) && path(&other.field) != path(field);
        let beside: Vec<_> = self.odd.iter().filter(is_beside).collect();
        let is_near = chance.percent(50);
        let near = chance.pick(&beside).copied().filter(|_| is_near);
        near.or_else(|| chance.pick(&self.odd)).expect("a schema has borders").clone()
    }
}

/// The names on the way to a field, up to the first list or map.
fn path(field: &str) -> Vec<&str> {
    let names = field.split('[').next().unwrap_or_default();
    names.split('.').filter(|name| !name.is_empty()).collect()
}

fn top(field: &str) -> Option<&str> {
    path(field).first().copied()
}

/// Puts what is odd about a case into a spec, and leaves all else of it as it is. False if there is no place for it.
fn put(spec: &mut Value, case: &borders::Case) -> bool {
    let names = path(&case.field);
    let Some((last, way)) = names.split_last() else { return false };
    let mut place = spec;
    for name in way {
        let Some(fields) = place.as_object_mut() else { return false };
        place = fields.entry(*name).or_insert_with(|| Value::Object(Map::new()));
    }
    let odd = names.iter().fold(&case.value, |value, name| &value[*name]);
    let Some(fields) = place.as_object_mut() else { return false };
    fields.insert((*last).to_owned(), odd.clone());
    true
}

/// Changes a value as a merge patch does.
fn merge(value: &mut Value, change: &Value) {
    let (Some(fields), true) = (change.as_object(), value.is_object()) else {
        *value = change.clone();
        return;
    };
    for (name, field) in fields {
        if field.is_null() {
            value.as_object_mut().into_iter().for_each(|fields| drop(fields.remove(name)));
        } else {
            merge(&mut value[name], field);
        }
    }
}

/// The same as what an object can end with: nothing that keeps it from getting there, or from going with all that it had.
fn lasting(kind: &str, mut spec: Value) -> Value {
    match kind {
        "VmGroup" => (spec["deletionPolicy"], spec["paused"]) = (json!("Delete"), json!(false)),
        // There is no node that a shell could run on.
        "MyOwnShell" => spec["size"] = json!(0),
        _ => {}
    }
    spec
}

/// A spec that makes sense.
fn valid(kind: &str, base: &Value, chance: &mut Chance) -> Edit {
    let mut spec = base.clone();
    let mut word = |words: &[&str]| json!(chance.pick(words));
    match kind {
        "VmGroup" => {
            spec["powerState"] = word(&["On", "On", "Off", "Suspended"]);
            spec["scaleIn"] = word(&["Newest", "Oldest"]);
            spec["deletionPolicy"] = word(&["Delete", "Retain", "PowerOff"]);
            spec["update"] =
                json!({"strategy": word(&["InPlaceFirst", "Replace", "OnDelete"]), "maxSurge": chance.below(2)});
            spec["replicas"] = json!(chance.below(4));
            spec["cpu"] = json!(chance.between(1, 4));
            spec["memory"] = json!(chance.between(1, 4));
            spec["paused"] = json!(chance.percent(20));
        }
        "MyOwnShell" => spec["size"] = json!(chance.below(2)),
        "VCenter" => spec["limits"] = json!({"operations": chance.between(1, 9)}),
        _ => {}
    }
    Edit { fields: Vec::new(), spec, has_to_be_refused: false }
}

/// A valid spec of each kind, which all others vary.
fn bases(sandbox: &Sandbox) -> BTreeMap<&'static str, Value> {
    let vcenter = sandbox.vcenter();
    let authority = std::fs::read_to_string(&vcenter.ca_file).expect("the sandbox has written its authority");
    BTreeMap::from([
        (
            "VmGroup",
            json!({
                "cpu": 1, "memory": 1, "replicas": 1, "template": "vm-operator-template", "vcenter": "default",
                "shutdown": {"graceSeconds": 0},
            }),
        ),
        ("HostInfo", json!({"hostname": "DC0_C0_H0", "vcenter": "default"})),
        ("VMInfo", json!({"nodename": "vm-operator-template", "vcenter": "default"})),
        // There is no node that a shell could run on.
        ("MyOwnShell", json!({"size": 0})),
        (
            "VCenter",
            json!({
                "server": vcenter.host, "credentialsSecretRef": {"namespace": "default", "name": "default"},
                "tls": {"caBundle": authority}, "namespaces": {"matchLabels": {"no": "such"}},
            }),
        ),
    ])
}
