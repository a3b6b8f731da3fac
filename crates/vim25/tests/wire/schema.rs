//! The order of elements, as the generator took it from the type info.

use std::collections::BTreeMap;

/// The generated `schema.txt`.
pub(crate) struct Schema {
    pub objects: BTreeMap<String, Object>,
    pub methods: BTreeMap<String, Vec<Slot>>,
    pub enums: BTreeMap<String, Vec<String>>,
}

pub(crate) struct Object {
    pub base: Option<String>,
    pub own: Vec<Slot>,
}

#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub name: String,
    pub kind: String,
    pub ty: String,
    pub count: char,
}

impl Schema {
    pub(crate) fn load() -> Self {
        let mut schema = Self { objects: BTreeMap::new(), methods: BTreeMap::new(), enums: BTreeMap::new() };
        let mut current: Option<&mut Vec<Slot>> = None;
        for line in include_str!("../schema.txt").lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [name, slot, count] if line.starts_with("  ") => {
                    let (kind, ty) = slot.split_once(':').expect("a slot is KIND:TYPE");
                    let count = count.chars().next().expect("a count is one character");
                    let slot = Slot { name: (*name).to_owned(), kind: kind.to_owned(), ty: ty.to_owned(), count };
                    current.as_mut().expect("a slot follows its owner").push(slot);
                }
                ["object", name, base @ ..] => {
                    let base = base.first().map(|base| (*base).to_owned());
                    let object = schema.objects.entry((*name).to_owned()).or_insert(Object { base, own: vec![] });
                    current = Some(&mut object.own);
                }
                ["method", name, ..] => current = Some(schema.methods.entry((*name).to_owned()).or_default()),
                ["enum", name, values @ ..] => {
                    let values = values.iter().map(|value| (*value).to_owned()).collect();
                    schema.enums.insert((*name).to_owned(), values);
                }
                _ => assert!(line.starts_with('#') || line.is_empty(), "{line}"),
            }
        }
        schema
    }

    /// The elements of an object: those of its base first.
    pub(crate) fn elements(&self, object: &str) -> Vec<Slot> {
        let found = self.objects.get(object).unwrap_or_else(|| panic!("the schema has no {object}"));
        let mut elements = found.base.as_ref().map_or_else(Vec::new, |base| self.elements(base));
        elements.extend(found.own.iter().cloned());
        elements
    }

    pub(crate) fn extends(&self, object: &str, base: &str) -> bool {
        let parent = self.objects.get(object).and_then(|object| object.base.as_deref());
        parent.is_some_and(|parent| parent == base || self.extends(parent, base))
    }

    /// The types that extend `base`.
    pub(crate) fn subtypes(&self, base: &str) -> Vec<&str> {
        self.objects.keys().map(String::as_str).filter(|object| self.extends(object, base)).collect()
    }
}
