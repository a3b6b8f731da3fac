//! Whether the folders of each crate depend on each other in one direction only.
//!
//! What a file names by `crate::` or `super::` is read from its text. Where two paths part, the two modules beside each other are what
//! depends on what. Files of one folder may well name each other; a circle that goes through a folder is an error. In vim25, the generated
//! types and what may hold any of them belong together: it is not looked at.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs, io,
    path::{Path, PathBuf},
};

const CRATES: [&str; 3] = ["api", "core", "operator"];

/// Why the rooms are not in order.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Disorder {
    #[error("{}: {error}", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("these folders depend on each other in circles:\n{}", .0.join("\n"))]
    Circles(Vec<String>),
}

/// A module, by the names on the way to it.
type Module = Vec<String>;

/// The modules beside each other in one that name one another, each with a file that does so.
type Edges = BTreeMap<Module, BTreeMap<(String, String), String>>;

/// Looks at all crates.
pub(crate) fn check() -> Result<String, Disorder> {
    let mut circles = Vec::new();
    for name in CRATES {
        let root = crate::root().join("crates").join(name).join("src");
        circles.extend(circles_of(name, &sources(&root)?));
    }
    if circles.is_empty() {
        Ok("no folders depend on each other in circles".to_owned())
    } else {
        Err(Disorder::Circles(circles))
    }
}

/// The text of all files below a folder, by their paths in it.
fn sources(root: &Path) -> Result<BTreeMap<String, String>, Disorder> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let unreadable = |error| Disorder::Unreadable { path: folder.clone(), error };
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path);
                let text = text.map_err(|error| Disorder::Unreadable { path: path.clone(), error })?;
                let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                found.insert(name, text);
            }
        }
    }
    Ok(found)
}

/// The circles among the folders of a crate, each in words.
fn circles_of(name: &str, sources: &BTreeMap<String, String>) -> Vec<String> {
    let edges = edges(sources);
    let is_folder = |parent: &Module, child: &str| {
        let prefix = [parent.as_slice(), &[child.to_owned(), String::new()]].concat().join("/");
        sources.keys().any(|file| file.starts_with(&prefix))
    };
    let mut circles = BTreeMap::new();
    for (parent, named) in &edges {
        let nodes: BTreeSet<_> = named.keys().map(|(from, _)| from).collect();
        for start in nodes.into_iter().filter(|node| is_folder(parent, node)) {
            if let Some(circle) = circle(start, named) {
                let members: BTreeSet<_> = circle.iter().map(|(from, _)| from.clone()).collect();
                let steps: Vec<_> =
                    circle.iter().map(|step| format!("{} -> {} ({})", step.0, step.1, named[step])).collect();
                circles.entry(members).or_insert_with(|| format!("  {name}: {}", steps.join(", ")));
            }
        }
    }
    circles.into_values().collect()
}

/// The shortest way from a module back to itself.
fn circle(start: &str, named: &BTreeMap<(String, String), String>) -> Option<Vec<(String, String)>> {
    let mut ways = VecDeque::from([vec![]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let at: &str = way.last().map_or(start, |(_, to): &(String, String)| to);
        if !way.is_empty() && at == start {
            return Some(way);
        }
        for step in named.keys().filter(|(from, _)| from == at) {
            if seen.insert(step.1.clone()) {
                ways.push_back(way.iter().cloned().chain([step.clone()]).collect());
            }
        }
    }
    None
}

fn edges(sources: &BTreeMap<String, String>) -> Edges {
    let modules: BTreeSet<Module> = sources.keys().map(|file| module_of(file)).collect();
    let mut edges = Edges::new();
    for (file, text) in sources {
        let here = module_of(file);
        // Tests in a file name what they like.
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for named in mentions(code, &here) {
            let there = (0..=named.len()).rev().map(|length| &named[..length]).find(|path| modules.contains(*path));
            let there = there.unwrap_or_default();
            let common = here.iter().zip(there).take_while(|(one, other)| one == other).count();
            if let (Some(from), Some(to)) = (here.get(common), there.get(common)) {
                let beside = edges.entry(here[..common].to_vec()).or_default();
                beside.entry((from.clone(), to.clone())).or_insert_with(|| file.clone());
            }
        }
    }
    edges
}

fn module_of(file: &str) -> Module {
    let mut module: Module = file.trim_end_matches(".rs").split('/').map(ToOwned::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("mod")) || matches!(file, "lib.rs" | "main.rs") {
        module.pop();
    }
    module
}

/// All paths of this crate that a text names, from the root.
fn mentions(code: &str, here: &Module) -> Vec<Module> {
    let code: String = code.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
    let mut found = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':') {
                continue;
            }
            let mut rest = &code[at..];
            let mut prefix = if word == "crate::" { Module::new() } else { here.clone() };
            if let Some(after) = rest.strip_prefix("crate::") {
                rest = after;
            }
            while let Some(after) = rest.strip_prefix("super::") {
                prefix.pop();
                rest = after;
            }
            tree(rest, prefix, &mut found);
        }
    }
    found
}

/// The paths of a tree such as `a::{b, c::d}`, and what stands after it.
fn tree<'a>(text: &'a str, prefix: Module, found: &mut Vec<Module>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = tree(rest, prefix.clone(), found).trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let path: Module = prefix.into_iter().chain(Some(name.to_owned()).filter(|name| !name.is_empty())).collect();
    if let Some(rest) = rest.strip_prefix("::") {
        return tree(rest, path, found);
    }
    found.push(path);
    // What it is called here, or which of all it is, is no matter.
    let rest = rest.trim_start().strip_prefix('*').unwrap_or(rest);
    match rest.trim_start().strip_prefix("as ") {
        Some(alias) => alias.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_'),
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        circles_of("it", &files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn folders_that_name_each_other_are_found_however_they_do() {
        let one_way =
            [("a/mod.rs", ""), ("a/x.rs", "use crate::{b::{self, Y as Z}, c};"), ("b/mod.rs", ""), ("c.rs", "")];
        assert_eq!(circles(&one_way), [""; 0]);
        for back in ["use crate::a::X;", "fn f() { crate::a::x::go() }", "use super::a;", "use super::{c, a::{x, y}};"]
        {
            let files = [&one_way[..2], &[("b/mod.rs", back), ("c.rs", "")]].concat();
            assert_eq!(circles(&files), ["  it: a -> b (a/x.rs), b -> a (b/mod.rs)"], "{back}");
        }
    }

    #[test]
    fn a_circle_may_lead_through_files_and_lie_deep_within() {
        let through = [
            ("lib.rs", "pub use a::X;"),
            ("a/mod.rs", "use crate::c::C;"),
            ("c.rs", "use crate::b::B;"),
            ("b/mod.rs", "use crate::a::A;"),
        ];
        assert_eq!(circles(&through).len(), 1);
        let deep =
            [("r/a/mod.rs", "use super::b::B;"), ("r/b/mod.rs", "use crate::r::a::A;"), ("r/mod.rs", "use a::A;")];
        assert_eq!(circles(&deep), ["  it: a -> b (r/a/mod.rs), b -> a (r/b/mod.rs)"]);
    }

    #[test]
    fn files_of_a_folder_and_tests_and_comments_name_what_they_like() {
        let files = [
            ("a/mod.rs", "use crate::b::B;"),
            ("a/x.rs", "use super::y::Y; use super::X;"),
            ("a/y.rs", "use super::x::X;"),
            ("b/mod.rs", "// crate::a::A\n#[cfg(test)]\nmod tests { use crate::a::A; }"),
        ];
        assert_eq!(circles(&files), [""; 0]);
    }
}
