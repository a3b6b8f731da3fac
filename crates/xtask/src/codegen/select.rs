//! Chooses the types that the wanted methods, properties, subtypes and faults reach.

use std::collections::{BTreeMap, BTreeSet};

use super::CodegenError;
use super::typeinfo::{Field, LOCALIZED_FAULT, MANAGED_OBJECT, METHOD_FAULT, Method, TypeInfo, is_root};
use super::wanted::{Wanted, data_type, find_method, find_property, managed_type};

/// What is to be generated. Types are held by their dotted names.
#[derive(Default)]
pub(super) struct Selection<'a> {
    pub data: BTreeSet<&'a str>,
    pub enums: BTreeSet<&'a str>,
    pub references: BTreeSet<&'a str>,
    /// Wanted methods with the managed type that has them, by their name on the wire.
    pub methods: BTreeMap<&'a str, (&'a str, &'a Method)>,
    /// Wanted property paths, by managed type and path.
    pub properties: BTreeMap<(&'a str, &'a str), &'a Field>,
    /// Types that appear as the type of a field, a parameter, a result or a property.
    slots: BTreeSet<&'a str>,
}

/// What a dotted name stands for.
#[derive(PartialEq)]
pub(super) enum Kind {
    Primitive(&'static str),
    Any,
    Enum,
    Managed,
    /// Any fault; the wire wraps it in `LocalizedMethodFault`.
    Fault,
    Data,
}

impl<'a> Selection<'a> {
    pub(super) fn new(info: &'a TypeInfo, wanted: &'a Wanted) -> Result<Self, CodegenError> {
        let mut selection = Self::default();
        for dropped in &wanted.types.dropped {
            check_dropped(info, dropped)?;
        }
        for (object, names) in &wanted.methods {
            for name in names {
                let (managed, method) = find_method(info, object, name)?;
                selection.methods.insert(&method.wire, (managed, method));
                selection.references.insert(managed);
                for field in method.parameters.iter().map(|parameter| &parameter.field).chain([&method.returns]) {
                    selection.slot(info, wanted, field)?;
                }
                for fault in &method.faults {
                    selection.reach(info, wanted, fault)?;
                }
            }
        }
        for (object, paths) in &wanted.properties {
            let managed = managed_type(info, object)?;
            selection.references.insert(managed);
            for path in paths {
                let field = find_property(info, object, path)?;
                selection.properties.insert((managed, path.as_str()), field);
                selection.slot(info, wanted, field)?;
            }
        }
        for wire in wanted.types.subtypes.iter().chain(&wanted.types.faults) {
            selection.reach(info, wanted, data_type(info, wire)?)?;
        }
        selection.reach(info, wanted, METHOD_FAULT)?;
        selection.references.remove(MANAGED_OBJECT);
        Ok(selection)
    }

    fn slot(&mut self, info: &'a TypeInfo, wanted: &Wanted, field: &'a Field) -> Result<(), CodegenError> {
        match kind(info, &field.ty)? {
            Kind::Primitive(_) | Kind::Any => {}
            Kind::Enum => _ = self.enums.insert(&field.ty),
            Kind::Managed => _ = self.references.insert(&field.ty),
            Kind::Fault => _ = self.slots.insert(LOCALIZED_FAULT),
            Kind::Data => {
                self.slots.insert(&field.ty);
                self.reach(info, wanted, &field.ty)?;
            }
        }
        Ok(())
    }

    /// Takes a data type, what it extends, and what its fields hold.
    fn reach(&mut self, info: &'a TypeInfo, wanted: &Wanted, name: &'a str) -> Result<(), CodegenError> {
        if is_root(name) || !self.data.insert(name) {
            return Ok(());
        }
        let unknown = || CodegenError::Unknown { what: "type", name: name.to_owned() };
        let data = info.data.get(name).ok_or_else(unknown)?;
        self.reach(info, wanted, &data.parent)?;
        for field in data.fields.iter().filter(|field| !wanted.is_dropped(&data.wire, &field.name)) {
            self.slot(info, wanted, field)?;
        }
        Ok(())
    }

    /// The selected types that extend `name`, however far; empty when no slot takes it.
    pub(super) fn subtypes(&self, info: &TypeInfo, name: &str) -> Vec<&'a str> {
        let extends = |ty: &str| info.ancestors(ty).any(|ancestor| ancestor == name);
        self.data.iter().copied().filter(|ty| extends(ty)).collect()
    }

    /// The selected types that a slot takes together with some of their subtypes.
    pub(super) fn polymorphic(&self, info: &TypeInfo) -> Vec<(&'a str, Vec<&'a str>)> {
        let families = self.slots.iter().map(|name| (*name, self.subtypes(info, name)));
        families.filter(|(_, subtypes)| !subtypes.is_empty()).collect()
    }

    pub(super) fn is_polymorphic(&self, info: &TypeInfo, name: &str) -> bool {
        self.slots.contains(name) && !self.subtypes(info, name).is_empty()
    }
}

pub(super) fn kind(info: &TypeInfo, name: &str) -> Result<Kind, CodegenError> {
    Ok(match name {
        "void" => Kind::Primitive("()"),
        "string" | "vmodl.URI" | "vmodl.TypeName" | "vmodl.MethodName" | "vmodl.PropertyPath" => {
            Kind::Primitive("String")
        }
        "boolean" => Kind::Primitive("bool"),
        "byte" => Kind::Primitive("i8"),
        "short" => Kind::Primitive("i16"),
        "int" => Kind::Primitive("i32"),
        "long" => Kind::Primitive("i64"),
        "float" => Kind::Primitive("f32"),
        "double" => Kind::Primitive("f64"),
        "vmodl.DateTime" => Kind::Primitive("Timestamp"),
        "vmodl.Binary" => Kind::Primitive("Binary"),
        "anyType" => Kind::Any,
        _ if info.enums.contains_key(name) => Kind::Enum,
        _ if info.managed.contains_key(name) => Kind::Managed,
        _ if info.is_fault(name) => Kind::Fault,
        _ if info.data.contains_key(name) => Kind::Data,
        _ => return Err(CodegenError::Unknown { what: "type", name: name.to_owned() }),
    })
}

fn check_dropped(info: &TypeInfo, dropped: &str) -> Result<(), CodegenError> {
    let found = dropped.split_once('.').is_some_and(|(wire, name)| {
        let data = info.named(wire).and_then(|ty| info.data.get(ty));
        data.is_some_and(|data| data.fields.iter().any(|field| field.name == name && field.optional))
    });
    let unknown = || CodegenError::Unknown { what: "optional field to drop", name: dropped.to_owned() };
    if found { Ok(()) } else { Err(unknown()) }
}
