//! What Drover has to be allowed to do in a vCenter, and whether it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    time::{Duration, Instant},
};

use vim25::{Error, ManagedObjectReference, methods::HasPrivilegeOnEntities, types::EntityPrivilege};

use super::VCenterHandle;

/// Nothing tells when rights were granted, so those that are missing are looked for again after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// What an object is to Drover, which decides what it has to be allowed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Where groups make their folders and machines.
    Folder,
    /// What machines are cloned from.
    Template,
    /// A VM that is no template, which machines are cloned from.
    PlainVm,
    ResourcePool,
    Datastore,
    Network,
    /// Where machines are made whose disks are larger than their template's.
    GrownDisks,
    /// What machines are cloned from that are customized.
    Customized,
}

/// What Drover needs. A role with all of these, granted where they apply or above, is enough.
const NEEDED: [(Part, &[&str]); 6] = [
    (
        Part::Folder,
        &[
            "Folder.Create",
            "Folder.Delete",
            // To take vApp properties off a clone, which cloud-init would prefer to what it is told.
            "VApp.ApplicationConfig",
            // vCenter asks for it where something is deployed from a template.
            "VirtualMachine.Config.AddNewDisk",
            "VirtualMachine.Config.AdvancedConfig",
            "VirtualMachine.Config.CPUCount",
            "VirtualMachine.Config.EditDevice",
            "VirtualMachine.Config.Memory",
            "VirtualMachine.Config.Rename",
            // For the instance UUID of a clone.
            "VirtualMachine.Config.Settings",
            "VirtualMachine.Interact.PowerOff",
            "VirtualMachine.Interact.PowerOn",
            "VirtualMachine.Interact.Suspend",
            "VirtualMachine.Inventory.CreateFromExisting",
            "VirtualMachine.Inventory.Delete",
            "VirtualMachine.Inventory.Move",
        ],
    ),
    (Part::Template, &["VirtualMachine.Provisioning.DeployTemplate"]),
    (Part::PlainVm, &["VirtualMachine.Provisioning.Clone"]),
    (Part::ResourcePool, &["Resource.AssignVMToPool"]),
    (Part::Datastore, &["Datastore.AllocateSpace"]),
    (Part::Network, &["Network.Assign"]),
];

/// What Drover needs besides, only for those who ask for it with a field of a VmGroup.
const NEEDED_FOR: [(Part, &str, &[&str]); 2] = [
    (Part::GrownDisks, "spec.rootDisk.sizeGiB", &["VirtualMachine.Config.DiskExtend"]),
    (Part::Customized, "spec.guest.network to Customization", &["VirtualMachine.Provisioning.Customize"]),
];

impl Part {
    fn needs(self) -> &'static [&'static str] {
        let asked_for = NEEDED_FOR.iter().map(|(part, _, privileges)| (part, privileges));
        let mut all = NEEDED.iter().map(|(part, privileges)| (part, privileges)).chain(asked_for);
        all.find(|(part, _)| **part == self).map_or(&[], |(_, privileges)| privileges)
    }

    fn called(self) -> &'static str {
        match self {
            Self::Folder | Self::GrownDisks => "the folder",
            Self::Template | Self::Customized => "the template",
            Self::PlainVm => "the VM",
            Self::ResourcePool => "the resource pool",
            Self::Datastore => "the datastore",
            Self::Network => "the network",
        }
    }
}

/// The role that Drover needs, as commands for a shell.
pub(crate) fn role() -> String {
    let privileges: BTreeSet<_> = NEEDED.iter().flat_map(|(_, privileges)| *privileges).collect();
    let mut text = "# The least that Drover needs. Run this as somebody who may administer vCenter.\n".to_owned();
    text.push_str("govc role.create Drover");
    for privilege in privileges {
        let _ = write!(text, " \\\n  {privilege}");
    }
    text.push('\n');
    for (_, field, privileges) in NEEDED_FOR {
        let _ =
            writeln!(text, "# Only where VmGroups set {field}:\n# govc role.update -a Drover {}", privileges.join(" "));
    }
    text.push_str(
        "# Then grant it to the user that Drover logs in as, on the datacenter, or on just the folder, the templates, the\n\
         # resource pools, the datastores and the networks that its groups use:\n\
         # govc permissions.set -principal drover@vsphere.local -role Drover -propagate=true /DC0\n",
    );
    text
}

/// An object that groups use, for what it is to Drover.
pub(crate) fn required(
    object: &ManagedObjectReference,
    part: Part,
    name: &str,
) -> ((ManagedObjectReference, Part), RequiredObject) {
    ((object.clone(), part), RequiredObject { part, name: name.to_owned() })
}

/// An object that groups use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequiredObject {
    pub part: Part,
    /// What people call it.
    pub name: String,
}

/// Whose need an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// That of groups which say nothing.
    Defaults,
    /// That of the group with this UID.
    Group(String),
}

/// The objects that somebody uses, each for what it is to Drover. One may be several things.
pub(crate) type RequiredObjects = BTreeMap<(ManagedObjectReference, Part), RequiredObject>;

/// What is missing on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub object: RequiredObject,
    pub privileges: Vec<String>,
}

/// What is known of the rights in a vCenter.
#[derive(Debug, Default)]
pub(crate) struct Privileges {
    required: BTreeMap<Whose, RequiredObjects>,
    /// What was found missing, and when it was looked for.
    checked: Option<(Instant, Vec<Missing>)>,
    is_doubted: bool,
    /// Whether it has been looked where groups go that say nothing.
    has_defaults: bool,
}

impl Privileges {
    /// Notes which objects somebody uses, in place of those that are replaced.
    pub(crate) fn require(
        &mut self,
        whose: &Whose,
        is_replaced: impl Fn(&RequiredObject) -> bool,
        used: RequiredObjects,
    ) {
        let before = self.required.get(whose);
        let mut after: RequiredObjects = before.cloned().unwrap_or_default();
        after.retain(|_, object| !is_replaced(object));
        after.extend(used);
        if before != Some(&after) {
            self.required.insert(whose.clone(), after);
            self.requirements_differ();
        }
    }

    /// Forgets what groups needed that are gone.
    pub(crate) fn retain_groups(&mut self, is_there: impl Fn(&str) -> bool) {
        let before = self.required.len();
        self.required.retain(|whose, _| match whose {
            Whose::Defaults => true,
            Whose::Group(uid) => is_there(uid),
        });
        if self.required.len() != before {
            self.requirements_differ();
        }
    }

    fn requirements_differ(&mut self) {
        self.is_doubted = true;
        // What nobody uses lacks nothing.
        if self.required.values().all(BTreeMap::is_empty) {
            self.checked = None;
        }
    }

    /// All objects that somebody uses.
    fn all(&self) -> RequiredObjects {
        self.required.values().flatten().map(|(id, object)| (id.clone(), object.clone())).collect()
    }

    /// They may be others than they were.
    pub(crate) fn doubt(&mut self) {
        self.is_doubted = true;
        self.has_defaults = false;
    }

    /// Whether it is time to look where groups go that say nothing. It is said once for each doubt.
    pub(crate) fn wants_defaults(&mut self) -> bool {
        !std::mem::replace(&mut self.has_defaults, true)
    }

    /// What is missing, if that is known.
    pub(crate) fn missing(&self) -> Option<&[Missing]> {
        self.checked.as_ref().map(|(_, missing)| &missing[..])
    }

    fn is_due(&self) -> bool {
        let is_old = |(at, missing): &(Instant, Vec<Missing>)| !missing.is_empty() && at.elapsed() >= LOOK_AGAIN;
        self.is_doubted || self.checked.as_ref().is_none_or(is_old)
    }
}

/// Looks whether Drover may do what it needs to, if there is a reason to.
pub(crate) async fn check(live: &VCenterHandle) -> Result<(), Error> {
    let required = {
        let mut privileges = live.privileges();
        let required = privileges.all();
        if !privileges.is_due() || required.is_empty() {
            return Ok(());
        }
        privileges.is_doubted = false;
        required
    };
    match ask(live, &required).await {
        Ok(missing) => {
            live.privileges().checked = Some((Instant::now(), missing));
            Ok(())
        }
        Err(error) => {
            let mut privileges = live.privileges();
            privileges.is_doubted = true;
            // One that is gone would fail the question for all.
            if let Some(gone) = error.fault().and_then(vim25::Fault::object) {
                privileges.required.values_mut().for_each(|used| used.retain(|(object, _), _| object != gone));
            }
            Err(error)
        }
    }
}

/// Asks vCenter what of all that is needed is missing on these objects.
pub(crate) async fn ask(live: &VCenterHandle, required: &RequiredObjects) -> Result<Vec<Missing>, Error> {
    let session = live.client.session().await?;
    let Some(this) = session.content.authorization_manager.clone() else { return Ok(Vec::new()) };
    let privileges: BTreeSet<_> = required.values().flat_map(|object| object.part.needs()).collect();
    let objects: BTreeSet<_> = required.keys().map(|(object, _)| object).collect();
    let entity: Vec<_> = objects.into_iter().filter_map(|object| object.clone().try_into().ok()).collect();
    let priv_id = privileges.into_iter().map(ToString::to_string).collect();
    let question = HasPrivilegeOnEntities { this, entity, session_id: session.user.key.clone(), priv_id };
    let answers = live.client.call(&question).await?;
    Ok(missing(required, &answers))
}

fn missing(required: &RequiredObjects, answers: &[EntityPrivilege]) -> Vec<Missing> {
    let mut found = Vec::new();
    for answer in answers {
        let id: ManagedObjectReference = answer.entity.clone().into();
        let lacks = |privilege: &&&str| {
            answer.priv_availability.iter().any(|said| said.priv_id == **privilege && !said.is_granted)
        };
        for (_, object) in required.iter().filter(|((used, _), _)| *used == id) {
            let privileges: Vec<_> = object.part.needs().iter().filter(lacks).map(ToString::to_string).collect();
            if !privileges.is_empty() {
                found.push(Missing { object: object.clone(), privileges });
            }
        }
    }
    found.sort_by(|a, b| (a.object.part, &a.object.name).cmp(&(b.object.part, &b.object.name)));
    found
}

/// What is missing, where, and what to do, as a sentence.
pub(crate) fn sentence(missing: &[Missing]) -> String {
    let on: Vec<_> = missing
        .iter()
        .map(|Missing { object, privileges }| {
            format!("on {} {}: {}", object.part.called(), object.name, privileges.join(", "))
        })
        .collect();
    format!("missing {}; `drover vcenter privileges` prints the role to create", on.join("; "))
}

#[cfg(test)]
mod tests {
    use vim25::types::PrivilegeAvailability;

    use super::*;

    fn object(kind: &str, value: &str) -> ManagedObjectReference {
        ManagedObjectReference::new(kind, value)
    }

    #[test]
    fn what_is_missing_is_said_of_the_objects_that_need_it() {
        let pool = object("ResourcePool", "pool-1");
        let folder = object("Folder", "group-1");
        let all = RequiredObjects::from([
            required(&pool, Part::ResourcePool, "Resources"),
            required(&folder, Part::Folder, "vm-operator"),
            required(&folder, Part::GrownDisks, "vm-operator"),
        ]);
        let answer = |object: &ManagedObjectReference, denied: &[&str]| EntityPrivilege {
            entity: object.clone().try_into().unwrap(),
            priv_availability: ["Folder.Create", "Resource.AssignVMToPool", "VirtualMachine.Config.DiskExtend"]
                .map(|privilege| PrivilegeAvailability {
                    priv_id: privilege.to_owned(),
                    is_granted: !denied.contains(&privilege),
                })
                .into(),
        };
        let both = ["Folder.Create", "Resource.AssignVMToPool", "VirtualMachine.Config.DiskExtend"];
        let found = missing(&all, &[answer(&pool, &both), answer(&folder, &both)]);
        assert_eq!(
            sentence(&found),
            "missing on the folder vm-operator: Folder.Create; on the resource pool Resources: Resource.AssignVMToPool; \
             on the folder vm-operator: VirtualMachine.Config.DiskExtend; `drover vcenter privileges` prints the role to create"
        );
        assert_eq!(missing(&all, &[answer(&pool, &[]), answer(&folder, &[])]), []);
    }

    #[test]
    fn what_somebody_uses_is_forgotten_with_them_and_what_another_uses_too_is_not() {
        let (folder, vm) = (object("Folder", "group-1"), object("VirtualMachine", "vm-1"));
        let group = |uid: &str| Whose::Group(uid.to_owned());
        let mut privileges = Privileges::default();
        privileges.require(&group("a"), |_| false, [required(&folder, Part::Folder, "here")].into());
        privileges.require(&group("b"), |_| false, [required(&folder, Part::Folder, "here")].into());
        privileges.require(&group("b"), |_| false, [required(&vm, Part::Template, "old")].into());
        assert_eq!(privileges.all().len(), 2);
        privileges.is_doubted = false;
        privileges.require(&group("b"), |object| object.name == "old", [required(&vm, Part::Template, "old")].into());
        assert!(!privileges.is_doubted, "nothing has changed");
        privileges.retain_groups(|uid| uid != "b");
        assert!(privileges.is_doubted);
        assert_eq!(privileges.all().into_keys().collect::<Vec<_>>(), [(folder, Part::Folder)]);
        privileges.checked = Some((Instant::now(), Vec::new()));
        privileges.retain_groups(|_| false);
        assert_eq!(privileges.missing(), None);
    }

    #[test]
    fn the_role_has_every_privilege_once() {
        let role = role();
        for privilege in NEEDED.iter().flat_map(|(_, privileges)| *privileges) {
            assert_eq!(role.matches(&format!("\n  {privilege}")).count(), 1, "{privilege}");
        }
        for privilege in NEEDED_FOR.iter().flat_map(|(.., privileges)| *privileges) {
            assert_eq!(role.matches(privilege).count(), 1, "{privilege}");
            assert!(role.contains(&format!("# govc role.update -a Drover {privilege}")), "{role}");
        }
    }
}
