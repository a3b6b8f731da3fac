//! Any text for a guest: the places that are kept for a VM's values get them, and all else stays as it is.
#![no_main]

use drover_api::VmGroup;
use drover_core::{names::Slot, vmgroup::{Desired, guest::fill}};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (name, group, namespace) = ("web-replica-abcdefgh", "web", "team-a");
    let object = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
        "metadata": {"namespace": namespace, "name": group, "uid": "u"},
        "spec": {"cpu": 1, "memory": 1, "replicas": 3, "template": "t"},
    });
    let object: VmGroup = serde_json::from_value(object).expect("it is a group");
    let desired = Desired::of(&object).expect("it makes sense");
    let filled = fill(&text, name, Slot(7), &desired);
    assert_eq!(filled, expected(&text, &[("name", name), ("slot", "7"), ("group", group), ("namespace", namespace)]));
});

/// The same, from left to right.
fn expected(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let place = values.iter().find_map(|(key, value)| Some((*value, rest.strip_prefix(&format!("{{{{{key}}}}}"))?)));
        match place {
            Some((value, after)) => {
                filled.push_str(value);
                rest = after;
            }
            None => {
                filled.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    filled
}
