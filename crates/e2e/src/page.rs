//! Pages of the documentation, whose commands are typed as they stand.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use crate::{Sandbox, Terminal, process};

/// Types the commands of a page.
#[derive(Debug)]
pub struct Page {
    text: String,
    environment: BTreeMap<String, String>,
    /// Where they are typed, and what is not on the page too.
    pub terminal: Terminal,
}

impl Page {
    /// A page by its path in the repository, for a sandbox.
    #[must_use]
    pub fn open(sandbox: &Sandbox, path: &str) -> Self {
        let terminal = Terminal::of(sandbox).with(&[("PROFILE", "quick")]);
        Self { text: read(&repository().join(path)), environment: sandbox.environment().clone(), terminal }
    }

    /// A page whose commands need neither a cluster nor a vCenter.
    #[must_use]
    pub fn open_without_sandbox(path: &str) -> Self {
        Self { text: read(&repository().join(path)), environment: BTreeMap::new(), terminal: Terminal::at_root() }
    }

    /// The same with further variables where it is typed.
    #[must_use]
    pub fn with(self, variables: &[(&str, &str)]) -> Self {
        Self { terminal: self.terminal.with(variables), ..self }
    }

    /// Types a line that has to be on the page, and to succeed. Returns what is printed.
    #[track_caller]
    #[allow(clippy::must_use_candidate)] // many are typed for what they do
    pub fn run(&self, line: &str) -> String {
        self.run_with(line, &[])
    }

    /// The same with something else in the place of the page's examples.
    #[track_caller]
    #[allow(clippy::must_use_candidate)]
    pub fn run_with(&self, line: &str, examples: &[(&str, &str)]) -> String {
        self.terminal.run(&self.here(line, examples))
    }

    /// The same of a command that ends with this code.
    #[track_caller]
    #[allow(clippy::must_use_candidate)]
    pub fn run_to(&self, code: i32, line: &str, examples: &[(&str, &str)]) -> String {
        self.terminal.run(&format!("{} && code=0 || code=$?; [ $code = {code} ]", self.here(line, examples)))
    }

    /// Types lines that have to be on the page, in one shell, and to succeed.
    #[track_caller]
    #[allow(clippy::must_use_candidate)]
    pub fn run_all(&self, lines: &[&str]) -> String {
        let lines: Vec<_> = lines.iter().map(|line| self.here(line, &[])).collect();
        self.terminal.run(&lines.join(" && "))
    }

    /// Types a line that has to be on the page, and to be refused. Returns what is said.
    #[track_caller]
    #[must_use]
    pub fn refuses(&self, line: &str) -> String {
        self.terminal.refuses(&self.here(line, &[]))
    }

    /// Types lines that have to be on the page, in one shell, the last of which goes on until what is returned is dropped.
    #[track_caller]
    #[must_use]
    pub fn start(&self, lines: &[&str]) -> Running {
        let mut lines: Vec<_> = lines.iter().map(|line| self.here(line, &[])).collect();
        let last = lines.pop().expect("there is a line");
        Running::start(&self.terminal, &lines.join(" && "), &last)
    }

    /// What the page shows that a command prints.
    #[track_caller]
    #[must_use]
    pub fn printed(&self, line: &str) -> String {
        let typed = format!("$ {line}");
        let block = blocks(&self.text).into_iter().find(|block| block.lines.contains(&typed));
        let block = block.unwrap_or_else(|| panic!("the page has no line `{typed}`"));
        let after = block.lines.iter().skip_while(|line| **line != typed).skip(1);
        after.take_while(|line| !line.starts_with("$ ")).flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    /// The file that the page shows which has this line.
    #[track_caller]
    #[must_use]
    pub fn file(&self, line: &str) -> String {
        let mut blocks = self.text.split("\n```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
        let found = blocks.find(|block| block.lines().any(|has| has == line));
        found.unwrap_or_else(|| panic!("the page has no file with `{line}`")).to_owned() + "\n"
    }

    /// A line of the page, as it is typed here.
    #[track_caller]
    #[must_use]
    pub fn here(&self, line: &str, examples: &[(&str, &str)]) -> String {
        assert!(commands(&self.text).iter().any(|command| command == line), "the page has no command `{line}`");
        for (example, _) in examples {
            assert!(line.contains(example), "`{line}` has no {example}");
        }
        let line = examples.iter().fold(line.to_owned(), |line, (example, own)| line.replace(example, own));
        self.with_own_names(&line)
    }

    /// A line with this sandbox's names in the place of the page's examples.
    #[must_use]
    pub fn with_own_names(&self, line: &str) -> String {
        let examples = [
            ("vc.example.com", "VC_HOST"),
            ("drover@vsphere.local", "VC_USER"),
            ("change-me", "VC_PASS"),
            ("my-ca.crt", "VC_CA_FILE"),
        ];
        let own = |line: String, (example, name): (&str, &str)| match self.environment.get(name) {
            Some(value) => line.replace(&format!("={example}"), &format!("='{value}'")),
            None => line,
        };
        let line = examples.into_iter().fold(line.to_owned(), own);
        // The node asks its own registry, whichever a pod names; a push goes where it says.
        match self.environment.get("NODE_REGISTRY") {
            Some(registry) if line.contains("docker-push") => line.replace("registry.example.com", registry),
            _ => line,
        }
    }
}

/// A command that runs until it is dropped, and a minute or two at most.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts the second of two lines when the first is done.
    #[must_use]
    pub fn start(terminal: &Terminal, before: &str, line: &str) -> Self {
        let before = if before.is_empty() { String::new() } else { format!("{before} && ") };
        let mut command = terminal.command(&format!("{before}exec timeout -s TERM 180 {line}"));
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("a shell can be started"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // `timeout` hands it on to all that it has started.
        process::signal(self.0.id(), "TERM");
        let _ = self.0.wait();
    }
}

/// The commands of a page: each line of a block that is marked as `sh`, and each that is typed in one marked as `console`. What follows by
/// `<<` belongs to its command.
pub(crate) fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for Block { language, lines } in blocks(page) {
        let typed = |line: &str| match language.as_str() {
            "sh" => Some(line.to_owned()),
            "console" => line.strip_prefix("$ ").map(ToOwned::to_owned),
            _ => None,
        };
        let mut lines = lines.iter().map(String::as_str);
        while let Some(line) = lines.next() {
            let Some(line) = typed(line) else { continue };
            let mut command =
                line.split_once("  #").map_or(line.as_str(), |(command, _)| command).trim_end().to_owned();
            if command.ends_with("<<'EOF'") {
                for line in lines.by_ref().take_while(|line| *line != "EOF") {
                    command += "\n";
                    command += line;
                }
                command += "\nEOF";
            }
            commands.push(command);
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// What a page shows between two fences.
#[derive(Debug)]
pub(crate) struct Block {
    pub language: String,
    pub lines: Vec<String>,
}

/// The blocks of a page. One may stand in a list, with all its lines further to the right.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let Some(language) = line[indent..].strip_prefix("```") else { continue };
        let inside = lines.by_ref().take_while(|line| line.trim() != "```");
        let lines = inside.map(|line| line.get(indent..).unwrap_or_default().to_owned()).collect();
        blocks.push(Block { language: language.to_owned(), lines });
    }
    blocks
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
