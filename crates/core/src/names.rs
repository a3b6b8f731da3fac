//! Names that are computed, never remembered: whoever asks for the machine of a slot asks for the same name.
//!
//! vCenter lets one object of a name into a folder. A retry, a restarted operator or two at once therefore end with one
//! machine for each slot, whatever any of them remembers.

use std::{borrow::Cow, fmt};

/// The longest name that vCenter takes.
pub const LONGEST: usize = 80;

/// The longest value of a label, and the longest name of a Service.
pub(crate) const LONGEST_LABEL: usize = 63;

/// The longest name that an object in Kubernetes has.
pub(crate) const LONGEST_OBJECT: usize = 253;

/// The how-many-eth batch of clones a VM is from. 0 is that of VMs made before records were kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u32);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A machine's place in its group. Slots are not reused while a machine stands in them, and need not be contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The name of the machine in a slot: `<group>-replica-<8 letters>`, the letters computed from the group's UID and the slot.
#[must_use]
pub fn member(group: &str, uid: &str, slot: Slot) -> String {
    const INFIX: &str = "-replica-";
    // A plan for a great group asks for the name of each member: no more is allocated than the name.
    let letters = eight_letters(hash(&[uid, "/", &slot.to_string()]));
    let mut name = String::with_capacity(LONGEST);
    name.push_str(&shortened(group, LONGEST - INFIX.len() - letters.len()));
    name.push_str(INFIX);
    name.extend(letters);
    name
}

/// The instance UUID of the VM that is a slot's in an incarnation: whoever asks for it asks for the same, and no other VM has it.
#[must_use]
pub fn instance(uid: &str, slot: Slot, incarnation: Incarnation) -> String {
    let half = |part: &str| hash(&[part, "/", uid, "/", &slot.to_string(), "/", &incarnation.to_string()]);
    // A UUID says which kind it is: version 8, of a maker's own devising, variant 1.
    let high = half("high") & 0xffff_ffff_ffff_0fff | 0x8000;
    let low = half("low") & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
    let (first, second, third) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
    format!("{first:08x}-{second:04x}-{third:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
}

/// The name of a group's folder: `<namespace>.<name>`. A namespace has no dot, so no two groups share one.
#[must_use]
pub fn folder(namespace: &str, name: &str) -> String {
    shortened(&format!("{namespace}.{name}"), LONGEST).into_owned()
}

/// A name as the value of a label, which Kubernetes keeps shorter than names.
#[must_use]
pub fn label(name: &str) -> String {
    shortened(name, LONGEST_LABEL).into_owned()
}

/// Text as the name of an object in Kubernetes: small letters, digits, dashes and dots, at most 253 of them, and letters or digits
/// around each dot and at both ends. What is such a name already stays as it is. Several texts may come to one name: whoever
/// names more than one object so has to look for that.
#[must_use]
pub fn object(text: &str) -> String {
    let plain = |letter: char| match letter.to_ascii_lowercase() {
        letter if letter.is_ascii_alphanumeric() || letter == '.' => letter,
        _ => '-',
    };
    let plain: String = text.chars().map(plain).collect();
    let labels = plain.split('.').map(|label| label.trim_matches('-')).filter(|label| !label.is_empty());
    let name = labels.collect::<Vec<_>>().join(".");
    if !name.is_empty() && name.len() <= LONGEST_OBJECT {
        return name;
    }
    let tail = letters(hash(&[text]));
    // It is ASCII, so it can be cut anywhere.
    let kept = name[..name.len().min(LONGEST_OBJECT - tail.len() - 1)].trim_end_matches(['.', '-']);
    format!("{}-{tail}", if kept.is_empty() { "unnamed" } else { kept })
}

/// Text cut to a length, with a hash of the whole in the place of what is cut.
fn shortened(text: &str, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest {
        return Cow::Borrowed(text);
    }
    Cow::Owned(told_apart(text, longest, text))
}

/// Text, cut to a length where it has to be, with a hash of what it stands for at its end.
pub(crate) fn told_apart(text: &str, longest: usize, whole: &str) -> String {
    let tail = format!("-{}", letters(hash(&[whole])));
    format!("{}{tail}", &text[..text.floor_char_boundary(longest - tail.len())])
}

/// Eight letters for a number: enough that the members of a group, and groups cut to one length, don't meet.
pub(crate) fn letters(number: u64) -> String {
    eight_letters(number).into_iter().collect()
}

fn eight_letters(mut number: u64) -> [char; 8] {
    [(); 8].map(|()| {
        // The remainder is below 26.
        let letter = b'a' + u8::try_from(number % 26).unwrap_or(0);
        number /= 26;
        char::from(letter)
    })
}

/// FNV-1a with a final mix: the same on every machine and in every version, which the standard library doesn't promise.
#[must_use]
pub fn hash(parts: &[&str]) -> u64 {
    let mut folded: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes() {
            folded = (folded ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let mixed = (folded ^ (folded >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const UID: &str = "c7ff0546-b9f0-49b5-8ea6-748b1f10d039";

    #[test]
    fn a_members_name_depends_on_the_uid_and_the_slot_alone() {
        assert_eq!(member("vmgroup-sample", UID, Slot(0)), "vmgroup-sample-replica-gmufjqxn");
        assert_eq!(member("vmgroup-sample", UID, Slot(0)), member("vmgroup-sample", UID, Slot(0)));
        assert_ne!(member("vmgroup-sample", "another", Slot(0)), member("vmgroup-sample", UID, Slot(0)));
    }

    #[test]
    fn ten_thousand_slots_of_ten_groups_have_as_many_names() {
        let uids: Vec<_> = (0..10).map(|n| format!("{UID}-{n}")).collect();
        let names = uids.iter().flat_map(|uid| (0..10_000).map(move |slot| member("g", uid, Slot(slot))));
        assert_eq!(names.collect::<HashSet<_>>().len(), 100_000);
    }

    #[test]
    fn every_vm_that_a_group_ever_has_is_given_a_uuid_of_its_own() {
        assert_eq!(instance(UID, Slot(0), Incarnation(1)), instance(UID, Slot(0), Incarnation(1)));
        let all = (0..100).flat_map(|slot| (0..100).map(move |number| instance(UID, Slot(slot), Incarnation(number))));
        let all: HashSet<_> = all.collect();
        assert_eq!(all.len(), 10_000);
        for uuid in all {
            let parts: Vec<_> = uuid.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{uuid}");
            assert!(uuid.as_bytes()[14] == b'8' && b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        }
    }

    #[test]
    fn any_text_becomes_the_name_of_an_object() {
        for (text, name) in [
            ("esxi-dell-e.rainpole.com", "esxi-dell-e.rainpole.com"),
            ("ESXi-1.Example.COM.", "esxi-1.example.com"),
            ("10.0.0.7", "10.0.0.7"),
            ("fe80::1", "fe80--1"),
            ("DC0_C0_H0", "dc0-c0-h0"),
            ("_odd_.-x-", "odd.x"),
            ("web.-abcdefgh-replica-ijklmnop", "web.abcdefgh-replica-ijklmnop"),
        ] {
            assert_eq!(object(text), name);
        }
        assert!(object("東京").starts_with("unnamed-"));
        assert_ne!(object("東京"), object("大阪"));
    }

    #[test]
    fn groups_whose_names_look_alike_have_folders_of_their_own() {
        assert_ne!(folder("a-b", "c"), folder("a", "b-c"));
        assert_eq!(folder("myoperator-vms", "vmgroup-sample"), "myoperator-vms.vmgroup-sample");
    }

    #[test]
    fn long_names_are_cut_to_what_vcenter_takes_and_stay_different() {
        let long = "n".repeat(253);
        for name in [folder("ns", &long), member(&long, UID, Slot(1)), folder(&"é".repeat(60), &long)] {
            assert!(name.len() <= LONGEST, "{name}");
        }
        assert_ne!(folder("ns", &format!("{long}a")), folder("ns", &format!("{long}b")));
        assert_ne!(member(&format!("{long}a"), UID, Slot(1)), member(&format!("{long}b"), UID, Slot(1)));
        assert!(member(&long, UID, Slot(1)).contains("-replica-"));
        assert_eq!((label("web").as_str(), label(&long).len()), ("web", 63));
    }
}
