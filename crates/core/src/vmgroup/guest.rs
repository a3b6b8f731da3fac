//! What the guest of a machine is told.

use crate::{names::Slot, vmgroup::Desired};

/// Text for a guest, with the machine's own values in the places that are kept for them: `{{name}}`, `{{slot}}`, `{{group}}` and
/// `{{namespace}}`. What else is in braces stays as it is.
#[must_use]
pub fn fill(text: &str, name: &str, slot: Slot, desired: &Desired) -> String {
    text.replace("{{name}}", name)
        .replace("{{slot}}", &slot.to_string())
        .replace("{{group}}", &desired.name)
        .replace("{{namespace}}", &desired.namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vmgroup::desired::tests::desired;

    #[test]
    fn each_place_gets_its_value_and_other_braces_stay() {
        let desired = desired(&json!({}));
        let filled = fill("{{name}} {{slot}} {{slot}} {{ name }} {{x}} {{{group}}}", "vm", Slot(3), &desired);
        assert_eq!(filled, format!("vm 3 3 {{{{ name }}}} {{{{x}}}} {{{}}}", desired.name));
    }
}
