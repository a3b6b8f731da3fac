//! The vSphere API as pyVmomi's type info declares it.

use std::collections::BTreeMap;

use super::CodegenError;
use super::literal::{Call, Literal, parse_call};
use super::pypi::Source;

/// Everything the type info declares, by the API's own dotted names (`vim.vm.ConfigSpec`).
#[derive(Default)]
pub(super) struct TypeInfo {
    pub data: BTreeMap<String, DataType>,
    pub enums: BTreeMap<String, EnumType>,
    pub managed: BTreeMap<String, ManagedType>,
    /// The newest version of the API, as it stands in a `SOAPAction`.
    pub api_version: String,
    by_wire_name: BTreeMap<String, String>,
}

pub(super) struct DataType {
    pub wire: String,
    pub parent: String,
    pub fields: Vec<Field>,
}

pub(super) struct EnumType {
    pub wire: String,
    pub values: Vec<String>,
}

pub(super) struct ManagedType {
    pub wire: String,
    pub parent: String,
    pub properties: Vec<Field>,
    pub methods: Vec<Method>,
}

/// A field of a data object, a property of a managed object, a method's parameter or its result.
#[derive(Clone)]
pub(super) struct Field {
    pub name: String,
    /// The dotted name of the type, of one item where `array` is set.
    pub ty: String,
    pub array: bool,
    pub optional: bool,
    pub secret: bool,
}

pub(super) struct Method {
    pub wire: String,
    pub parameters: Vec<Parameter>,
    pub returns: Field,
    pub privilege: Option<String>,
    pub faults: Vec<String>,
}

pub(super) struct Parameter {
    pub field: Field,
    pub privilege: Option<String>,
}

pub(super) const METHOD_FAULT: &str = "vmodl.MethodFault";
pub(super) const LOCALIZED_FAULT: &str = "vmodl.LocalizedMethodFault";
pub(super) const MANAGED_OBJECT: &str = "vmodl.ManagedObject";

/// How the line starts that names the newest version of the API.
const NEWEST: &str = "newestVersions.Add(\"vim.version.";

impl TypeInfo {
    pub(super) fn parse(sources: &[Source]) -> Result<Self, CodegenError> {
        let mut info = Self::default();
        info.declare_built_in_types();
        for source in sources {
            for (number, line) in source.text.lines().enumerate() {
                if !line.starts_with("Create") && !line.starts_with(NEWEST) {
                    continue;
                }
                info.declare(line).map_err(|reason| CodegenError::TypeInfo {
                    file: source.name.clone(),
                    line: number + 1,
                    reason,
                })?;
            }
        }
        info.by_wire_name = (info.data.iter().map(|(name, data)| (data.wire.clone(), name.clone())))
            .chain(info.enums.iter().map(|(name, ty)| (ty.wire.clone(), name.clone())))
            .chain(info.managed.iter().map(|(name, ty)| (ty.wire.clone(), name.clone())))
            .collect();
        Ok(info)
    }

    /// The types that pyVmomi builds by hand. The wire has a fault inside every slot for a fault wrapped in
    /// `LocalizedMethodFault`.
    fn declare_built_in_types(&mut self) {
        let field = |name: &str, ty: &str, array| Field {
            name: name.to_owned(),
            ty: ty.to_owned(),
            array,
            optional: true,
            secret: false,
        };
        let mut add = |name: &str, parent: &str, fields| {
            let wire = name.rsplit('.').next().unwrap_or(name).to_owned();
            self.data.insert(name.to_owned(), DataType { wire, parent: parent.to_owned(), fields });
        };
        let cause = field("faultCause", METHOD_FAULT, false);
        let messages = field("faultMessage", "vmodl.LocalizableMessage", true);
        add(METHOD_FAULT, "vmodl.DynamicData", vec![cause, messages]);
        add("vmodl.RuntimeFault", METHOD_FAULT, vec![]);
        self.managed.insert(
            MANAGED_OBJECT.to_owned(),
            ManagedType {
                wire: "ManagedObject".to_owned(),
                parent: String::new(),
                properties: vec![],
                methods: vec![],
            },
        );
    }

    fn declare(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix(NEWEST) {
            let newest = rest.trim_end_matches("\")");
            self.api_version = version_number(newest);
            return Ok(());
        }
        let Call { function, arguments } = parse_call(line).map_err(|error| error.to_string())?;
        match (function.as_str(), arguments.as_slice()) {
            ("CreateDataType", [name, wire, parent, _, fields]) => {
                let fields = list(fields)?.iter().map(field).collect::<Result<_, _>>()?;
                let data = DataType { wire: text(wire)?, parent: text(parent)?, fields };
                self.data.insert(text(name)?, data);
            }
            ("CreateEnumType", [name, wire, _, values]) => {
                let values = list(values)?.iter().map(text).collect::<Result<_, _>>()?;
                self.enums.insert(text(name)?, EnumType { wire: text(wire)?, values });
            }
            ("CreateManagedType", [name, wire, parent, _, properties, methods]) => {
                let properties = list(properties)?.iter().map(field).collect::<Result<_, _>>()?;
                let methods = list(methods)?.iter().map(method).collect::<Result<_, _>>()?;
                let managed = ManagedType { wire: text(wire)?, parent: text(parent)?, properties, methods };
                self.managed.insert(text(name)?, managed);
            }
            _ => return Err(format!("{function} is called in a way this generator does not know")),
        }
        Ok(())
    }

    /// The dotted name of the type that the wire calls `wire`.
    pub(super) fn named(&self, wire: &str) -> Option<&str> {
        self.by_wire_name.get(wire).map(String::as_str)
    }

    /// The name on the wire of a data, enum or managed type.
    pub(super) fn wire<'a>(&'a self, name: &'a str) -> &'a str {
        let data = self.data.get(name).map(|ty| ty.wire.as_str());
        let data = data.or_else(|| self.enums.get(name).map(|ty| ty.wire.as_str()));
        data.or_else(|| self.managed.get(name).map(|ty| ty.wire.as_str())).unwrap_or(name)
    }

    /// The data types that `name` extends, nearest first, without the empty roots of the type system.
    pub(super) fn ancestors<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let parent = |name: &str| self.data.get(name).map(|ty| ty.parent.as_str()).filter(|parent| !is_root(parent));
        std::iter::successors(parent(name), move |name| parent(name))
    }

    /// The managed types that `name` extends, nearest first.
    pub(super) fn managed_ancestors<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let parent = |name: &str| self.managed.get(name).map(|ty| ty.parent.as_str()).filter(|name| !name.is_empty());
        std::iter::successors(parent(name), move |name| parent(name))
    }

    pub(super) fn is_fault(&self, name: &str) -> bool {
        name == METHOD_FAULT || self.ancestors(name).any(|ancestor| ancestor == METHOD_FAULT)
    }
}

/// The roots of the type system have no elements on the wire.
pub(super) fn is_root(name: &str) -> bool {
    matches!(name, "vmodl.DataObject" | "vmodl.DynamicData" | "")
}

/// `v9_1_1_0` is `9.1.1.0` on the wire.
fn version_number(name: &str) -> String {
    name.trim_start_matches('v').replace('_', ".")
}

fn text(literal: &Literal) -> Result<String, String> {
    match literal {
        Literal::Str(text) => Ok(text.clone()),
        other => Err(format!("expected a string, found {other:?}")),
    }
}

fn optional_text(literal: &Literal) -> Result<Option<String>, String> {
    if *literal == Literal::None { Ok(None) } else { text(literal).map(Some) }
}

fn list(literal: &Literal) -> Result<&[Literal], String> {
    match literal {
        Literal::List(items) => Ok(items),
        Literal::None => Ok(&[]),
        other => Err(format!("expected a list, found {other:?}")),
    }
}

fn flags(literal: &Literal) -> Result<&[String], String> {
    match literal {
        Literal::Flags(names) => Ok(names),
        Literal::Int(0) => Ok(&[]),
        other => Err(format!("expected flags, found {other:?}")),
    }
}

fn new_field(name: String, ty: &str, flags: &[String]) -> Field {
    let has = |flag: &str| flags.iter().any(|name| name == flag);
    let array = ty.ends_with("[]");
    // A link names another object of the same document by its key.
    let ty = if has("F_LINK") { "string" } else { ty.trim_end_matches("[]") };
    Field { name, ty: ty.to_owned(), array, optional: has("F_OPTIONAL"), secret: has("F_SECRET") }
}

fn field(literal: &Literal) -> Result<Field, String> {
    match list(literal)? {
        [name, ty, _, field_flags] | [name, ty, _, field_flags, _] => {
            Ok(new_field(text(name)?, &text(ty)?, flags(field_flags)?))
        }
        other => Err(format!("a field has {} parts", other.len())),
    }
}

fn method(literal: &Literal) -> Result<Method, String> {
    let [_, wire, _, parameters, returns, privilege, faults] = list(literal)? else {
        return Err("a method does not have seven parts".to_owned());
    };
    let [return_flags, return_type, _] = list(returns)? else {
        return Err("a method's result does not have three parts".to_owned());
    };
    Ok(Method {
        wire: text(wire)?,
        parameters: list(parameters)?.iter().map(parameter).collect::<Result<_, _>>()?,
        returns: new_field("returnval".to_owned(), &text(return_type)?, flags(return_flags)?),
        privilege: optional_text(privilege)?,
        faults: list(faults)?.iter().map(text).collect::<Result<_, _>>()?,
    })
}

fn parameter(literal: &Literal) -> Result<Parameter, String> {
    let privilege = match list(literal)? {
        [_, _, _, _, privilege] => optional_text(privilege)?,
        other => return Err(format!("a parameter has {} parts", other.len())),
    };
    Ok(Parameter { field: field(literal)?, privilege })
}
