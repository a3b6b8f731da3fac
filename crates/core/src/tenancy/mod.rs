//! What a group may use, and how much of it.

pub mod cloud_init;
pub mod pattern;
pub mod quota;
pub mod rules;

use crate::vmgroup::Power;

/// A VM that clones are to be made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// Whether it is a template, and not a plain VM.
    pub is_template: bool,
    /// Its power state.
    pub power: Power,
    /// Whether it is a VM of a group, whoever's.
    pub is_member: bool,
}

/// Why nothing may be cloned from it, as the end of a sentence that begins with its name. A running VM, or one that Drover made for
/// somebody, holds what its users have written since: that is for nobody to copy by a manifest.
#[must_use]
pub fn template_obstacle(template: Template) -> Option<&'static str> {
    match template {
        Template { is_template: true, .. } | Template { power: Power::Off, is_member: false, .. } => None,
        Template { is_member: true, .. } => {
            Some("is a VM of a VmGroup: clone it to a template in vCenter, and use that")
        }
        Template { power: Power::Suspended, .. } => {
            Some("is suspended: use a template of vCenter, or a VM that is powered off")
        }
        Template { .. } => Some("is powered on: use a template of vCenter, or a VM that is powered off"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_made_from_templates_and_from_vms_that_are_powered_off_and_no_groups() {
        let vm = Template { is_template: false, power: Power::Off, is_member: false };
        let said = |template| template_obstacle(template).unwrap_or_default();
        assert_eq!(said(vm), "");
        assert_eq!(said(Template { is_template: true, ..vm }), "");
        assert!(said(Template { power: Power::On, ..vm }).starts_with("is powered on: "));
        assert!(said(Template { power: Power::Suspended, ..vm }).starts_with("is suspended: "));
        for power in [Power::On, Power::Off, Power::Suspended] {
            assert!(said(Template { power, is_member: true, ..vm }).starts_with("is a VM of a VmGroup: "));
        }
        assert_eq!(said(Template { is_template: true, is_member: true, ..vm }), "", "somebody made it one");
    }
}
