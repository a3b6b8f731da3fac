//! A running sandbox, and what tests share of it.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use crate::{
    Failure, Program, VCenter,
    api::{self, Proxy},
    discretion::Discretion,
};

/// A running sandbox. It ends with this process, however that ends.
#[derive(Debug)]
pub struct Sandbox {
    dir: PathBuf,
    environment: BTreeMap<String, String>,
    vcenters: Vec<VCenter>,
    taken: AtomicUsize,
    proxy: OnceLock<Arc<Proxy>>,
}

impl Sandbox {
    /// The sandbox that the tests of one binary share, started with these flags of `sandbox up` at first use.
    pub fn shared(flags: &[&str]) -> &'static Self {
        static SHARED: OnceLock<Sandbox> = OnceLock::new();
        SHARED.get_or_init(|| Self::start("shared", flags).unwrap_or_else(|failure| panic!("{failure}")))
    }

    /// Starts a sandbox for one test.
    pub fn start(name: &str, flags: &[&str]) -> Result<Self, Failure> {
        let dir = Self::folder(name);
        let owner = process::id().to_string();
        Program::of_sandbox(&["up", "--dir", text(&dir), "--owner", &owner]).run(flags)?;
        Ok(Self::at(dir))
    }

    /// The sandbox that runs in a folder.
    #[must_use]
    pub fn at(dir: PathBuf) -> Self {
        let environment = read_environment(&dir.join("env"));
        let vcenters = (1..).map_while(|number| VCenter::from_environment(&environment, number)).collect();
        Self { dir, environment, vcenters, taken: AtomicUsize::new(0), proxy: OnceLock::new() }
    }

    /// A folder for a sandbox of this process. Those of processes that have ended are removed.
    #[must_use]
    pub fn folder(name: &str) -> PathBuf {
        let all = env::temp_dir().join("drover-e2e");
        fs::create_dir_all(&all).expect("the temporary folder can be written to");
        for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
            let owner = entry.file_name().to_string_lossy().split('-').next().map(ToOwned::to_owned);
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                // Another test binary may remove it at the same time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        all.join(format!("{}-{name}", process::id()))
    }

    /// The folder that the sandbox runs in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The variables of the sandbox's `env` file.
    #[must_use]
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// The first vCenter, which all tests share and none disturbs.
    #[must_use]
    pub fn vcenter(&self) -> &VCenter {
        &self.vcenters[0]
    }

    /// A vCenter for one test alone.
    #[must_use]
    pub fn own_vcenter(&self) -> VCenter {
        let number = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
        self.vcenters.get(number).cloned().expect("the sandbox has a vCenter left: raise its --vcenters")
    }

    /// kubectl, as the cluster's administrator.
    #[must_use]
    pub fn kubectl(&self) -> Program {
        Program::kubectl().with(&self.environment)
    }

    /// An object that is in no namespace, or a list of a kind's objects, as the API server has it.
    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        self.proxy().get(path)
    }

    /// Declares an object that is in no namespace, or in that called default.
    pub fn declare(&self, object: &Value) -> Result<Value, Failure> {
        self.proxy().declare("default", object)
    }

    /// What stands between here and the API server.
    pub(crate) fn proxy(&self) -> Arc<Proxy> {
        let start = || {
            let name = self.dir.file_name().unwrap_or_default().to_string_lossy().replacen('-', "-proxy-", 1);
            Arc::new(Proxy::start(&self.dir.with_file_name(name), &self.kubectl()))
        };
        Arc::clone(self.proxy.get_or_init(start))
    }

    /// Installs Drover's kinds.
    pub fn install_kinds(&self) {
        self.install_kinds_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd/bases"));
    }

    /// Installs the kinds that are in a folder.
    pub fn install_kinds_of(&self, bases: &Path) {
        let kubectl = self.kubectl();
        for arguments in [
            &["apply", "--server-side", "-f", text(bases)][..],
            &["wait", "--for=condition=Established", "crd", "--all", "--timeout=20s"],
        ] {
            kubectl.run(arguments).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }

    /// The definitions of Drover's kinds, as the API server has them.
    #[must_use]
    pub fn definitions(&self) -> Vec<Value> {
        let all = self.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
        let all = all.unwrap_or_else(|failure| panic!("{failure}"));
        all["items"].as_array().expect("a list has items").clone()
    }

    /// Makes a namespace for one test.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Namespace {
        self.proxy().make_namespace(name).unwrap_or_else(|failure| panic!("{failure}"));
        self.existing_namespace(name)
    }

    /// A namespace that is there.
    #[must_use]
    pub fn existing_namespace(&self, name: &str) -> Namespace {
        let discretion = self.discretion(&[]);
        Namespace {
            name: name.to_owned(),
            kubectl: self.kubectl().arguments(&["--namespace", name]),
            proxy: self.proxy(),
            discretion,
        }
    }

    /// Asserts that Drover has written no vCenter's password anywhere, nor these.
    pub fn assert_nothing_tells(&self, more: &[&str]) {
        self.discretion(more).assert();
    }

    fn discretion(&self, more: &[&str]) -> Discretion {
        let passwords = self.vcenters.iter().map(|vcenter| vcenter.password.as_str()).chain(more.iter().copied());
        let passwords = passwords.map(ToOwned::to_owned).collect();
        Discretion { logs: self.dir.join("log"), proxy: self.proxy(), passwords }
    }

    /// The world as it is, for a person who has to find out why a test failed.
    #[must_use]
    pub fn dump(&self) -> String {
        let mut dump = String::new();
        let kubectl = self.kubectl();
        for what in ["vmgroups", "hostinfoes", "vminfoes", "myownshells", "deployments", "pods", "events"] {
            let shown = kubectl.run(&["get", what, "--all-namespaces", "-o", "wide"]);
            let _ = writeln!(dump, "== kubectl get {what}\n{}", shown.unwrap_or_else(|failure| failure.to_string()));
        }
        for vcenter in &self.vcenters {
            let machines =
                vcenter.govc(&["find", "-l", "/", "-type", "m"]).unwrap_or_else(|failure| failure.to_string());
            let calls = vcenter.control("GET", "/calls", &Value::Null);
            let _ = writeln!(dump, "== {}: machines\n{machines}== calls\n{calls:?}", vcenter.host);
        }
        let _ = writeln!(dump, "== logs are in {}", self.dir.join("log").display());
        dump
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // The shared one isn't dropped, and a failed stop is made good by the owner's end.
        let _ = Program::of_sandbox(&["down"]).run(&["--dir", text(&self.dir)]);
    }
}

/// A namespace of one test.
#[derive(Debug)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    kubectl: Program,
    proxy: Arc<Proxy>,
    discretion: Discretion,
}

impl Drop for Namespace {
    /// At the end of each test, all that Drover has written is searched for passwords.
    fn drop(&mut self) {
        if !thread::panicking() {
            self.discretion.assert();
        }
    }
}

impl Namespace {
    /// kubectl in this namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.kubectl.run(arguments)
    }

    /// kubectl in this namespace, with something to read.
    pub fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String, Failure> {
        self.kubectl.run_with_input(arguments, input)
    }

    /// `kubectl apply` of a manifest, or of several.
    pub fn apply(&self, manifest: &str) -> Result<String, Failure> {
        self.kubectl_with_input(&["apply", "-f", "-"], manifest)
    }

    /// Declares an object as `kubectl apply --server-side` does.
    pub fn declare(&self, object: &Value) -> Result<Value, Failure> {
        self.proxy.declare(&self.name, object)
    }

    /// Makes an object, and leaves it to the API server what to think of its fields.
    pub fn create(&self, object: &Value) -> Result<Value, Failure> {
        self.proxy.create(&self.name, object)
    }

    /// Puts an object's status in the place of the one that it has.
    pub fn replace_status(&self, object: &Value) -> Result<Value, Failure> {
        self.proxy.replace_status(&self.name, object)
    }

    /// Changes an object with a merge patch.
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<Value, Failure> {
        self.proxy.merge(&format!("{}/{name}", api::path(kind, &self.name)), patch)
    }

    /// Deletes an object, and waits for nothing.
    pub fn delete(&self, kind: &str, name: &str) -> Result<Value, Failure> {
        self.proxy.delete(&format!("{}/{name}", api::path(kind, &self.name)))
    }

    /// An object as the API server has it.
    pub fn get(&self, kind: &str, name: &str) -> Result<Value, Failure> {
        self.proxy.get(&format!("{}/{name}", api::path(kind, &self.name)))
    }

    /// All objects of a kind.
    pub fn list(&self, kind: &str) -> Result<Vec<Value>, Failure> {
        let list = self.proxy.get(&api::path(kind, &self.name))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// What the events say that are about objects of a kind and have this reason.
    pub fn events(&self, kind: &str, reason: &str) -> Result<Vec<String>, Failure> {
        let is_it = |event: &Value| event["regarding"]["kind"] == kind && event["reason"] == reason;
        let events = self.list("event")?.into_iter().filter(is_it);
        Ok(events.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect())
    }
}

/// A VmGroup of two small machines, with what else its spec says.
#[must_use]
pub fn vm_group(name: &str, spec: &Value) -> Value {
    let mut group = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1",
        "kind": "VmGroup",
        "metadata": {"name": name},
        "spec": {"cpu": 1, "memory": 1, "replicas": 2, "template": "vm-operator-template", "shutdown": {"graceSeconds": 0}},
    });
    if let (Some(known), Some(more)) = (group["spec"].as_object_mut(), spec.as_object()) {
        known.extend(more.clone());
    }
    group
}

/// Reads `export NAME='value'` lines. PATH is left as it is: programs are run by their full name here.
fn read_environment(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let pairs = text.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    pairs
        .filter(|(name, _)| *name != "PATH")
        .map(|(name, value)| (name.to_owned(), value.trim_matches('\'').replace(r"'\''", "'")))
        .collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the temporary folder's name is text")
}
