//! How the names of the vSphere API are spelled in Rust.

/// `capacityInKB` becomes `capacity_in_kb`, `numCPUs` becomes `num_cpus`.
pub(super) fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, &c) in letters.iter().enumerate() {
        if c.is_ascii_uppercase() && i > 0 && starts_word(&letters, i) {
            out.push('_');
        }
        out.push(if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
    }
    out.trim_start_matches('_').to_owned()
}

/// An upper-case letter starts a word after a lower-case one, and as the last capital of a run (`USBController`),
/// unless what follows is only the `s` of a plural (`CPUs`).
fn starts_word(letters: &[char], i: usize) -> bool {
    let before = letters[i - 1];
    let plural = letters.get(i + 1) == Some(&'s') && letters.get(i + 2).is_none_or(|c| !c.is_ascii_lowercase());
    let last_of_run = letters.get(i + 1).is_some_and(char::is_ascii_lowercase) && !plural;
    before.is_ascii_lowercase() || (last_of_run && before != '_')
}

/// The name of a struct's field, safe from Rust's keywords.
pub(super) fn field(name: &str) -> String {
    let snake = snake(name);
    if KEYWORDS.contains(&snake.as_str()) { format!("{snake}_") } else { snake }
}

/// `config.hardware.numCPU` becomes `CONFIG_HARDWARE_NUM_CPU`.
pub(super) fn constant(path: &str) -> String {
    path.split('.').map(snake).collect::<Vec<_>>().join("_").to_ascii_uppercase()
}

/// `poweredOn` becomes `PoweredOn`; characters that no identifier has part words.
pub(super) fn variant(value: &str) -> String {
    let mut out = String::new();
    for part in value.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()) {
        let (head, tail) = part.split_at(1);
        out.push_str(&head.to_ascii_uppercase());
        out.push_str(tail);
    }
    match out.as_str() {
        "Other" => "OtherValue".to_owned(),
        "Self" => "SelfValue".to_owned(),
        _ if out.starts_with(|c: char| c.is_ascii_digit()) => format!("N{out}"),
        _ => out,
    }
}

/// `CloneVM_Task` becomes `CloneVMTask`.
pub(super) fn request(method: &str) -> String {
    method.replace('_', "")
}

const KEYWORDS: &[&str] = &[
    "as", "async", "await", "base", "box", "break", "const", "continue", "crate", "do", "dyn", "else", "enum",
    "extern", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut",
    "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_read_as_rust_people_would_write_them() {
        for (wire, rust) in [
            ("capacityInKB", "capacity_in_kb"),
            ("numCPUs", "num_cpus"),
            ("numHBAs", "num_hbas"),
            ("virtualICH7MPresent", "virtual_ich7m_present"),
            ("ipV6Spec", "ip_v6_spec"),
            ("vAppConfig", "v_app_config"),
            ("instanceUuid", "instance_uuid"),
            ("_this", "this"),
            ("sessionID", "session_id"),
            ("supportedOUI", "supported_oui"),
            ("type", "type_"),
        ] {
            assert_eq!(field(wire), rust);
        }
    }

    #[test]
    fn values_become_variants_that_never_clash_with_other() {
        for (value, rust) in [("poweredOn", "PoweredOn"), ("other", "OtherValue"), ("1-2", "N12"), ("thin_x", "ThinX")]
        {
            assert_eq!(variant(value), rust);
        }
    }

    #[test]
    fn paths_become_constants() {
        assert_eq!(constant("config.hardware.numCPU"), "CONFIG_HARDWARE_NUM_CPU");
    }
}
