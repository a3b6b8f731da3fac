//! Sequences of declarations, made from the schemas of the definitions themselves: each is a few edits of one object.

use std::collections::BTreeMap;

use drover_e2e::{Chance, Sandbox, borders};
use serde_json::{Value, json};

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
        Plan { number, seed, kind, api: entry.api.clone(), edits, last: entry.base.clone() }
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
    /// One edit: valid, odd in one field, or in two that may contradict each other.
    fn edit(&self, kind: &str, chance: &mut Chance) -> Edit {
        let roll = chance.below(100);
        if roll < 30 {
            return valid(kind, &self.base, chance);
        }
        let case = chance.pick(&self.odd).expect("a schema has borders");
        let mut edit = Edit { fields: vec![case.field.clone()], spec: case.value.clone() };
        if roll >= 75 {
            let other = chance.pick(&self.odd).expect("a schema has borders");
            if let (Some(spec), Some(fields)) = (edit.spec.as_object_mut(), other.value.as_object()) {
                let top = other.field.trim_start_matches('.').split(['.', '[']).next().unwrap_or_default();
                spec.extend(fields.get(top).map(|value| (top.to_owned(), value.clone())));
                edit.fields.push(other.field.clone());
            }
        }
        edit
    }
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
    Edit { fields: Vec::new(), spec }
}

/// A valid spec of each kind, which every sequence ends with.
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
