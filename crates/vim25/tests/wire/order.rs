//! Checks a written message against the order in the type info.

use quick_xml::events::{BytesStart, Event};

use crate::schema::{Schema, Slot};

/// An element with its attributes and what is inside.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub name: String,
    pub xsi_type: Option<String>,
    pub children: Vec<Node>,
}

impl Node {
    pub(crate) fn parse(xml: &str) -> Self {
        let mut reader = quick_xml::Reader::from_str(xml);
        reader.config_mut().expand_empty_elements = true;
        let mut open = vec![Node::default()];
        loop {
            match reader.read_event().expect("what is written is well-formed") {
                Event::Start(start) => open.push(Self::new(&start)),
                Event::End(_) => {
                    let node = open.pop().expect("an end has a start");
                    open.last_mut().expect("the root is never closed").children.push(node);
                }
                Event::Eof => return open.pop().and_then(|mut root| root.children.pop()).expect("there is a root"),
                _ => {}
            }
        }
    }

    fn new(start: &BytesStart<'_>) -> Self {
        let attribute = start.try_get_attribute("xsi:type").expect("attributes are well-formed");
        let xsi_type = attribute.map(|attribute| attribute.value.into_owned());
        Self { name: start.name().into_inner().to_owned(), xsi_type, children: vec![] }
    }

    pub(crate) fn child(&self, name: &str) -> &Node {
        self.children.iter().find(|child| child.name == name).unwrap_or_else(|| panic!("<{name}> is missing"))
    }
}

/// What is out of order in a request, if anything.
pub(crate) fn check_request(schema: &Schema, request: &Node) -> Result<(), String> {
    let slots = schema.methods.get(&request.name).ok_or_else(|| format!("no method {}", request.name))?;
    check(schema, request, slots)
}

fn check(schema: &Schema, node: &Node, slots: &[Slot]) -> Result<(), String> {
    let mut reached = 0;
    let mut last: Option<&str> = None;
    for child in &node.children {
        let at = slots.iter().position(|slot| slot.name == child.name);
        let at = at.ok_or_else(|| format!("<{}> does not belong in <{}>", child.name, node.name))?;
        let slot = &slots[at];
        if slot.count == '-' {
            return Err(format!("<{}> in <{}> is dropped", child.name, node.name));
        }
        let again = last == Some(&child.name);
        if at < reached || (again && slot.count != '*') {
            return Err(format!("<{}> comes too late in <{}>", child.name, node.name));
        }
        reached = at;
        last = Some(&child.name);
        check_slot(schema, child, slot)?;
    }
    match slots.iter().find(|slot| slot.count == '!' && !node.children.iter().any(|child| child.name == slot.name)) {
        Some(missing) => Err(format!("<{}> is missing in <{}>", missing.name, node.name)),
        None => Ok(()),
    }
}

fn check_slot(schema: &Schema, node: &Node, slot: &Slot) -> Result<(), String> {
    match (slot.kind.as_str(), &node.xsi_type) {
        ("object", Some(ty)) => {
            if *ty != slot.ty && !schema.extends(ty, &slot.ty) {
                return Err(format!("{ty} does not extend {}", slot.ty));
            }
            check(schema, node, &schema.elements(ty))
        }
        ("object", None) => check(schema, node, &schema.elements(&slot.ty)),
        ("any", Some(ty)) if schema.objects.contains_key(ty) => check(schema, node, &schema.elements(ty)),
        _ => Ok(()),
    }
}
