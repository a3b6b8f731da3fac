//! Any text in the keys of a marker: what is read of it is written and read again as the same, and whatever it claims, the group that it
//! claims to be of is looked at and planned for.
#![no_main]

mod shown;

use drover_api::VmGroup;
use drover_core::vmgroup::{
    Desired,
    inventory::Marker,
    marker::{KEYS, Values},
};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use shown::{Shown, reconcile};

fuzz_target!(|bytes: &[u8]| {
    // Each VM is a line: the values of its keys and its instance UUID, by tabs. What is "-" isn't there.
    let text = String::from_utf8_lossy(bytes);
    let markers: Vec<_> = text.lines().take(8).filter_map(read).collect();
    let Some((first, _)) = markers.first() else { return };
    let (namespace, name) = &first.owner;
    let group = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
        "metadata": {"namespace": namespace, "name": name, "uid": first.group, "generation": 1},
        "spec": {"cpu": 1, "memory": 1, "replicas": 3, "template": "t"},
    });
    let group: VmGroup = serde_json::from_value(group).expect("it is a group, whatever it is called");
    let desired = Desired::of(&group).expect("it makes sense");
    let shown = Shown::new(&desired, markers);
    reconcile(&group, &desired, &shown);
});

fn read(line: &str) -> Option<(Marker, String)> {
    let mut parts = line.split('\t').map(|part| Some(part.to_owned()).filter(|part| part != "-"));
    let values: Values = KEYS.map(|_| parts.next().flatten());
    let marker = Marker::read(&values)?;
    let written = marker.write();
    let again = KEYS.map(|key| written.iter().find(|(other, _)| *other == key).map(|(_, value)| value.clone()));
    assert_eq!(Marker::read(&again).as_ref(), Some(&marker));
    Some((marker, parts.next().flatten().unwrap_or_default()))
}
