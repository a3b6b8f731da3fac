//! What is in vCenter, as an administrator sees it with govc: every VM and every folder, at one look.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Deserializer, Value};

use crate::VCenter;

const PROPERTIES: [&str; 11] = [
    "name",
    "parent",
    "runtime.host",
    "runtime.powerState",
    "runtime.connectionState",
    "config.instanceUuid",
    "config.hardware.numCPU",
    "config.hardware.memoryMB",
    "config.template",
    "config.files.vmPathName",
    "config.extraConfig",
];

/// A VM as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Its id, such as `vm-42`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The path of the folder that it is in.
    pub folder: String,
    /// The name of the host that it is on.
    pub host: String,
    /// Such as `poweredOn`.
    pub power: String,
    /// Such as `connected`.
    pub connection: String,
    /// Empty while nobody is shown its config.
    pub instance: String,
    /// How many CPUs it has.
    pub cpus: u64,
    /// How much memory it has.
    pub memory_mib: u64,
    /// Whether it is a template.
    pub is_template: bool,
    /// The file that has its config.
    pub file: String,
    /// Its extraConfig.
    pub keys: BTreeMap<String, String>,
}

impl Vm {
    /// Its inventory path.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }

    fn key(&self, name: &str) -> &str {
        self.keys.get(name).map_or("", String::as_str)
    }

    /// The UID of the group that made it. A copy has the marker of the VM that it was copied from, which names another instance.
    #[must_use]
    pub fn marker(&self) -> Option<&str> {
        let is_own = !self.instance.is_empty() && self.key("drover.instance") == self.instance;
        is_own.then(|| self.key("drover.group"))
    }

    /// The place in its group that it was made for.
    #[must_use]
    pub fn slot(&self) -> &str {
        self.key("drover.slot")
    }

    /// The revision of the spec that it was made from.
    #[must_use]
    pub fn revision(&self) -> &str {
        self.key("drover.revision")
    }

    /// What tests tell rounds of VMs apart by.
    #[must_use]
    pub fn round(&self) -> &str {
        self.key("guestinfo.round")
    }

    /// What tests tell templates apart by: a clone has the keys of its template.
    #[must_use]
    pub fn made_from(&self) -> &str {
        self.key("guestinfo.from")
    }
}

/// All of it.
#[derive(Debug, Default)]
pub struct World {
    /// All VMs, templates too.
    pub vms: Vec<Vm>,
    /// The paths of all folders.
    pub folders: BTreeSet<String>,
}

impl World {
    /// As it is now. While vCenter is away, nobody can tell.
    pub fn look(vcenter: &VCenter) -> Result<Self, String> {
        let objects = |kind: &str, properties: &[&str]| -> Result<Vec<Value>, String> {
            let words = ["object.collect", "-json", "-type", kind, "/"];
            let shown = vcenter.govc(&[&words[..], properties].concat()).map_err(|failure| failure.to_string())?;
            let objects: Result<_, _> = Deserializer::from_str(&shown).into_iter().collect();
            objects.map_err(|error| format!("{error}: {shown}"))
        };
        let (vms, folders) = (objects("m", &PROPERTIES)?, objects("f", &["name", "parent"])?);
        let host = |object: &Value| (text(&object["obj"]["value"]), text(of(object, "name")));
        let hosts: BTreeMap<_, _> = objects("h", &["name"])?.iter().map(host).collect();
        let folder = |object: &Value| {
            let parent = text(&of(object, "parent")["value"]);
            (text(&object["obj"]["value"]), (text(of(object, "name")), parent))
        };
        let folders: BTreeMap<_, _> = folders.iter().map(folder).collect();
        let vms = vms.iter().map(|object| vm(object, &folders, &hosts)).collect();
        let folders = folders.keys().map(|id| path(&folders, id)).collect();
        Ok(Self { vms, folders })
    }

    /// The VMs that the group of this UID made.
    pub fn made_by<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a Vm> {
        self.vms.iter().filter(move |vm| vm.marker() == Some(uid))
    }

    /// The VM that has this instance UUID.
    #[must_use]
    pub fn by_instance(&self, instance: &str) -> Option<&Vm> {
        self.vms.iter().find(|vm| vm.instance == instance)
    }
}

fn vm(object: &Value, folders: &BTreeMap<String, (String, String)>, hosts: &BTreeMap<String, String>) -> Vm {
    let host = text(&of(object, "runtime.host")["value"]);
    let keys = of(object, "config.extraConfig")["_value"].as_array().into_iter().flatten();
    Vm {
        id: text(&object["obj"]["value"]),
        name: text(of(object, "name")),
        folder: path(folders, &text(&of(object, "parent")["value"])),
        host: hosts.get(&host).cloned().unwrap_or_default(),
        power: text(of(object, "runtime.powerState")),
        connection: text(of(object, "runtime.connectionState")),
        instance: text(of(object, "config.instanceUuid")),
        cpus: of(object, "config.hardware.numCPU").as_u64().unwrap_or(0),
        memory_mib: of(object, "config.hardware.memoryMB").as_u64().unwrap_or(0),
        is_template: of(object, "config.template") == &Value::Bool(true),
        file: text(of(object, "config.files.vmPathName")),
        keys: keys.map(|key| (text(&key["key"]), text(&key["value"]))).collect(),
    }
}

/// A property of an object.
fn of<'a>(object: &'a Value, name: &str) -> &'a Value {
    let mut properties = object["changeSet"].as_array().into_iter().flatten();
    properties.find(|property| property["name"] == name).map_or(&Value::Null, |property| &property["val"])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The path of a folder, such as `/DC0/vm/vm-operator`. What a datacenter's own folders are in isn't a folder.
fn path(folders: &BTreeMap<String, (String, String)>, id: &str) -> String {
    match folders.get(id) {
        Some((name, parent)) => format!("{}/{name}", path(folders, parent)),
        None if id.is_empty() || id.starts_with("group-") => String::new(),
        None => "/DC0".to_owned(),
    }
}
