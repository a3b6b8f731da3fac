//! Random values of every generated type, as the XML that writing them must give.

use crate::schema::{Schema, Slot};

/// A small generator of numbers: the same seed gives the same document.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits fit") % end
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// The content of a random object, in the form in which this crate writes it.
pub(crate) fn content(schema: &Schema, object: &str, random: &mut Random, depth: usize) -> String {
    let mut xml = String::new();
    for slot in schema.elements(object) {
        let times = match slot.count {
            '!' => 1,
            '-' => 0,
            _ if depth > 5 => 0,
            '?' => random.below(2),
            _ => random.below(3),
        };
        for _ in 0..times {
            xml += &element(schema, &slot, random, depth);
        }
    }
    xml
}

fn element(schema: &Schema, slot: &Slot, random: &mut Random, depth: usize) -> String {
    let name = &slot.name;
    match slot.kind.as_str() {
        "xsd" => format!("<{name}>{}</{name}>", scalar(&slot.ty, random)),
        "enum" => {
            let newer = "aValueOfTomorrow".to_owned();
            let values = &schema.enums[&slot.ty];
            let value = if random.below(8) == 0 { &newer } else { random.pick(values) };
            format!("<{name}>{value}</{name}>")
        }
        "ref" => format!(r#"<{name} type="{}">{}-{}</{name}>"#, slot.ty, "object", random.below(1000)),
        "object" => {
            let mut types = schema.subtypes(&slot.ty);
            if types.is_empty() {
                return format!("<{name}>{}</{name}>", content(schema, &slot.ty, random, depth + 1));
            }
            types.push(&slot.ty);
            let ty = *random.pick(&types);
            if random.below(8) == 0 {
                let base = content(schema, &slot.ty, random, depth + 1);
                return format!(r#"<{name} xsi:type="TypeOfTomorrow">{base}</{name}>"#);
            }
            format!(r#"<{name} xsi:type="{ty}">{}</{name}>"#, content(schema, ty, random, depth + 1))
        }
        "fault" => {
            let faults = schema.subtypes("MethodFault");
            let ty = *random.pick(&faults);
            let fault = content(schema, ty, random, depth + 2);
            format!(r#"<{name}><fault xsi:type="{ty}">{fault}</fault></{name}>"#)
        }
        "any" => any(schema, name, random, depth),
        other => panic!("the schema has the kind {other}"),
    }
}

fn any(schema: &Schema, name: &str, random: &mut Random, depth: usize) -> String {
    let builtin = [
        ("string", "String"),
        ("boolean", "bool"),
        ("byte", "i8"),
        ("short", "i16"),
        ("int", "i32"),
        ("long", "i64"),
        ("float", "f32"),
        ("double", "f64"),
        ("dateTime", "Timestamp"),
        ("base64Binary", "Binary"),
    ];
    match random.below(5) {
        0 if depth < 5 => {
            let types: Vec<&String> = schema.objects.keys().collect();
            let ty = *random.pick(&types);
            format!(r#"<{name} xsi:type="{ty}">{}</{name}>"#, content(schema, ty, random, depth + 1))
        }
        1 => {
            let enums: Vec<&String> = schema.enums.keys().collect();
            let ty = *random.pick(&enums);
            format!(r#"<{name} xsi:type="{ty}">{}</{name}>"#, random.pick(&schema.enums[ty]))
        }
        2 => format!(r#"<{name} xsi:type="ManagedObjectReference" type="HostSystem">host-1</{name}>"#),
        3 => format!(r#"<{name} xsi:type="ArrayOfString"><string>a</string><string></string></{name}>"#),
        _ => {
            let (xsd, rust) = random.pick(&builtin);
            format!(r#"<{name} xsi:type="xsd:{xsd}">{}</{name}>"#, scalar(rust, random))
        }
    }
}

fn scalar(ty: &str, random: &mut Random) -> String {
    let texts: &[&str] = match ty {
        "String" => &["", "web-0", " two  words ", "a &lt; b &amp; c", "line\nline", "&#13;", "ünïcödé 😀"],
        "bool" => &["true", "false"],
        "i8" => &["0", "-128", "127"],
        "i16" => &["0", "-32768", "32767"],
        "i32" => &["0", "-2147483648", "2147483647", "4096"],
        "i64" => &["0", "-9223372036854775808", "9223372036854775807"],
        "f32" | "f64" => &["0", "-1.5", "INF", "-INF", "0.25"],
        "Timestamp" => &["1970-01-01T00:00:00Z", "2026-01-02T03:04:05.678901Z", "2026-12-31T23:59:59Z"],
        "Binary" => &["", "AAEC/w=="],
        other => panic!("the schema has the built-in type {other}"),
    };
    (*random.pick(texts)).to_owned()
}
