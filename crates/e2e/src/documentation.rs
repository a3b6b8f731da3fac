//! Every command of README.md and docs/*.md is typed by a test, as it stands there; or it is on a list of those that can't be, with the
//! reason. That it is typed means that it stands in the text of a test or script; that the text is used, the compiler sees to.

use std::{collections::BTreeSet, fs, path::Path};

use crate::page::{blocks, commands, read, repository};

/// What a block can be: commands, commands with what they print, or neither.
const LANGUAGES: [&str; 5] = ["sh", "console", "yaml", "json", "text"];

/// Commands that no test types, by the reason why not.
const NOT_TYPED: &[(&str, &[&str])] = &[
    ("tests/demo.rs runs hack/demo.sh, which is what this does when all is built", &["make demo"]),
    ("this is what runs the tests", &["make test"]),
    (
        "it takes minutes; whoever changes what is measured runs it",
        &["make bench CASE=drift", "make bench-full CASE=drift"],
    ),
    (
        "make test runs a small simulation; this one is for the figures of the page",
        &["make simulate CALM=1 VMS=1536 VMGROUPS=384 VCENTERS=16 HOSTS=4 REPLICAS=1 CLONE_SECONDS=10"],
    ),
    (
        "they take minutes; hack/test.sh runs a part of the sequences",
        &["make soak", "make soak T=10m SEED=7", "make sequences N=500 SEED=7", "make sequences SEED=7 SEQUENCE=17"],
    ),
    (
        "kind needs docker; the sandbox's node stands for its cluster, and its registry for loading an image",
        &["kind create cluster", "kind load docker-image controller:latest", "kind delete cluster"],
    ),
    (
        "it needs OLM in the cluster; make test-packages checks the bundle",
        &["operator-sdk run bundle registry.example.com/drover-bundle:v0.1.0 --namespace drover-system"],
    ),
];

#[test]
fn every_command_of_the_pages_is_typed_by_a_test() {
    let typed = Typed::read();
    let excused: BTreeSet<_> = NOT_TYPED.iter().flat_map(|(_, commands)| *commands).map(ToString::to_string).collect();
    let mut shown = BTreeSet::new();
    let mut missing = Vec::new();
    for (path, text) in pages() {
        for block in blocks(&text) {
            let is_known = LANGUAGES.contains(&block.language.as_str());
            assert!(is_known, "{path}: a block says which of {LANGUAGES:?} it is: {block:?}");
        }
        for command in commands(&text) {
            if !typed.has(&command) && !excused.contains(&command) {
                missing.push(format!("{path}: {command}"));
            }
            shown.insert(command);
        }
    }
    assert!(missing.is_empty(), "no test types these:\n{}", missing.join("\n"));
    let stale: Vec<_> = excused.iter().filter(|command| !shown.contains(*command) || typed.has(command)).collect();
    assert!(stale.is_empty(), "these need no excuse:\n{stale:?}");
}

#[test]
fn every_test_that_the_threat_model_names_is_there() {
    let page = pages().into_iter().find(|(path, _)| path.ends_with("security.md")).expect("there is a page").1;
    let (_, model) = page.split_once("## Threat model").expect("it has a threat model");
    let rows = model.lines().filter(|line| line.starts_with("| ")).skip(1);
    let tests = all_below(&repository().join("crates"), "rs");
    assert!(tests_named_in(rows, &tests) > 20);
}

#[test]
fn what_the_map_for_contributors_names_is_there() {
    let page = pages().into_iter().find(|(path, _)| path.ends_with("architecture.md")).expect("there is a page").1;
    let linked = page.split("](../").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let quoted = page.split('`').skip(1).step_by(2).filter(|word| word.starts_with("crates/") && !word.contains(' '));
    let paths: BTreeSet<_> = linked.chain(quoted).collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        assert!(repository().join(path).exists(), "there is no {path}");
    }
    // Where a table is of one folder, its first column names what is in it.
    for (folder, heading) in [
        ("crates/operator/src/controllers/vmgroup", "| in `controllers/vmgroup/` |"),
        ("crates/operator/src/vcenter", "| in `vcenter/` |"),
        ("crates/operator/src", "| folder | does |"),
        ("crates/core/src/vmgroup", "| in `vmgroup/` |"),
        ("crates/core/src", "| folder or file | decides |"),
        ("crates/operator/src/kube/leadership", "| file in `kube/leadership/` |"),
    ] {
        let (_, table) = page.split_once(heading).unwrap_or_else(|| panic!("there is no table {heading}"));
        let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
        let names: Vec<_> =
            rows.flat_map(|row| row.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2)).collect();
        assert!(names.len() > 3, "{heading}: {names:?}");
        for name in &names {
            assert!(repository().join(folder).join(name).exists(), "there is no {folder}/{name}");
        }
        for entry in fs::read_dir(repository().join(folder)).expect("the folder is there") {
            let name = entry.expect("it can be read").file_name().to_string_lossy().into_owned();
            let stem = name.strip_suffix(".rs").unwrap_or(&name).to_owned();
            let is_known =
                |of: &str| of.trim_end_matches('/').strip_suffix(".rs").unwrap_or(of.trim_end_matches('/')) == stem;
            let is_plain = ["mod", "lib", "main", "tests"].contains(&stem.as_str());
            assert!(is_plain || names.iter().any(|of| is_known(of)), "{heading} says nothing of {folder}/{name}");
        }
    }
    let (_, rules) = page.split_once("| rule | guarded by |").expect("the rules are there");
    let rows = rules.lines().skip(2).take_while(|line| line.starts_with("| "));
    assert!(tests_named_in(rows, &all_below(&repository().join("crates"), "rs")) > 9);
}

/// How many tests the last column of a table names, all of which are there.
fn tests_named_in<'a>(rows: impl Iterator<Item = &'a str>, tests: &str) -> usize {
    let mut count = 0;
    for row in rows {
        let names = row.rsplit('|').nth(1).expect("a row ends with its tests").split('`').skip(1).step_by(2);
        for name in names {
            count += 1;
            assert!(tests.contains(&format!("fn {name}()")), "there is no test {name}");
        }
    }
    count
}

/// What tests type: texts in the end-to-end tests, and lines of the scripts that make targets call.
struct Typed {
    tests: String,
    scripts: String,
}

impl Typed {
    fn read() -> Self {
        let root = repository();
        Self { tests: all_below(&root.join("crates/e2e/tests"), "rs"), scripts: all_below(&root.join("hack"), "sh") }
    }

    fn has(&self, command: &str) -> bool {
        // The whole of a text, and not a part of one.
        self.tests.contains(&format!("\"{command}\"")) || self.scripts.lines().any(|line| line.trim() == command)
    }
}

/// README.md and the pages of docs, with their paths.
fn pages() -> Vec<(String, String)> {
    let root = repository();
    let mut paths = vec![root.join("README.md")];
    let docs = fs::read_dir(root.join("docs")).expect("there are pages").flatten().map(|entry| entry.path());
    paths.extend(docs.filter(|path| path.extension().is_some_and(|it| it == "md")));
    let name = |path: &Path| path.strip_prefix(&root).expect("it is below").display().to_string();
    paths.iter().map(|path| (name(path), read(path))).collect()
}

/// The texts of all files of a kind in a folder and those below.
fn all_below(folder: &Path, extension: &str) -> String {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten();
    let text = |path: &Path| match path.is_dir() {
        true => all_below(path, extension),
        false if path.extension().is_some_and(|it| it == extension) => read(path),
        false => String::new(),
    };
    entries.map(|entry| text(&entry.path())).collect()
}

#[test]
fn commands_are_read_as_a_person_reads_them() {
    let page = "\
```sh
make demo    # shows it
cat <<'EOF'
a  # file
EOF
```

1. In a list:

   ```console
   $ drover check -o json
   {
   }
   ```

```yaml
kind: VmGroup
```
";
    assert_eq!(commands(page), ["make demo", "cat <<'EOF'\na  # file\nEOF", "drover check -o json"]);
}
