//! A gate before the API server, for one operator: its requests pass, wait, are refused or cut off, as a test says.

mod wire;

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use serde_json::json;

use crate::{Sandbox, api::Proxy};

/// A gate before the API server. Who goes through it is the cluster's administrator.
#[derive(Debug)]
pub struct Gate {
    state: Arc<State>,
    kubeconfig: PathBuf,
}

/// Which requests a rule meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// Those that change anything but events.
    Writes,
    /// Those of them that change a group itself and not its status: its finalizers.
    Finalizers,
    /// Those that watch.
    Watches,
    /// Those that read, list or watch what is at paths that end so.
    Reads(&'static str),
    /// Those that make something in a namespace, events too.
    Creations(&'static str),
    /// Those that change something at a path that this is in.
    ChangesOf(&'static str),
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It passes, and is only taken note of.
    Noted,
    /// It waits for the rule to be taken away, and the API server has not seen it. If the client is gone by then, it never does.
    HeldBefore,
    /// The API server has done what it says, and only the answer waits.
    HeldAfter,
    /// It is answered with this status instead.
    Refused(u16),
    /// A watch is told that it begins too long ago, and has to list anew; lists are refused. What goes meanwhile is told by nobody.
    Expired,
}

/// A rule of a gate's, for as long as it isn't removed.
#[derive(Debug)]
pub struct GateRule {
    id: usize,
    state: Arc<State>,
}

#[derive(Debug)]
struct Known {
    id: usize,
    requests: Requests,
    fate: Fate,
    skip: usize,
    count: usize,
    met: Vec<String>,
}

#[derive(Debug)]
struct State {
    proxy: Arc<Proxy>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    next: usize,
    rules: Vec<Known>,
    /// Whether the API server seems to be away.
    is_shut: bool,
    /// Both ends of what passes now.
    open: Vec<(usize, [TcpStream; 2])>,
}

impl Gate {
    /// Opens a gate before a sandbox's API server.
    #[must_use]
    pub fn open(sandbox: &Sandbox) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("what listens has an address");
        let state = State { proxy: sandbox.proxy(), inner: Mutex::default(), changed: Condvar::new() };
        let gate = Self { state: Arc::new(state), kubeconfig: kubeconfig(address) };
        let state = Arc::clone(&gate.state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                // A client that goes away ends its request, and nothing else.
                thread::spawn(move || serve(&state, &client));
            }
        });
        gate
    }

    /// The kubeconfig of a client that goes through the gate.
    pub(crate) fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// Lets so many matching requests pass, and gives the next ones their fate: as many as `count`, or all with 0.
    #[must_use]
    pub fn rule(&self, requests: Requests, fate: Fate, skip: usize, count: usize) -> GateRule {
        let mut inner = self.state.lock();
        inner.next += 1;
        let id = inner.next;
        inner.rules.push(Known { id, requests, fate, skip, count, met: Vec::new() });
        GateRule { id, state: Arc::clone(&self.state) }
    }

    /// Cuts all connections, and takes none until the gate is opened again: the API server is away.
    pub fn shut(&self) {
        self.state.lock().is_shut = true;
        self.cut();
    }

    /// Lets requests pass again.
    pub fn reopen(&self) {
        self.state.lock().is_shut = false;
    }

    /// Cuts all connections, watches too.
    pub fn cut(&self) {
        for (_, ends) in self.state.lock().open.drain(..) {
            wire::hang_up(&ends);
        }
    }
}

/// A request, as far as rules ask.
#[derive(Debug)]
struct Request {
    /// Such as `PATCH /api/…`.
    line: String,
    /// Whether it is an apply of something that its sender has not seen yet.
    makes_by_apply: bool,
}

impl Request {
    fn of(head: &[String], body: &[u8]) -> Self {
        let line = head[0].rsplit_once(' ').map_or("", |(request, _)| request).to_owned();
        let is_apply = head[1..].iter().any(|header| header.to_ascii_lowercase().contains("application/apply-patch"));
        // A status is of something that is there.
        let makes_by_apply =
            is_apply && !line.contains("/status?") && !String::from_utf8_lossy(body).contains("\"resourceVersion\"");
        Self { line, makes_by_apply }
    }
}

impl Requests {
    /// Whether a request is one of them.
    fn have(self, request: &Request) -> bool {
        let (method, path) = request.line.split_once(' ').unwrap_or_default();
        let is_write = matches!(method, "POST" | "PUT" | "PATCH" | "DELETE") && !path.contains("/events");
        match self {
            Self::Writes => is_write,
            Self::Finalizers => is_write && path.contains("/vmgroups/") && !path.contains("/status"),
            Self::ChangesOf(part) => is_write && path.contains(part),
            Self::Watches => method == "GET" && path.contains("watch=true"),
            Self::Reads(end) => method == "GET" && path.split('?').next().is_some_and(|path| path.ends_with(end)),
            Self::Creations(namespace) => {
                (method == "POST" || request.makes_by_apply) && path.contains(&format!("/namespaces/{namespace}/"))
            }
        }
    }
}

impl GateRule {
    /// The requests that it has met so far, as `PATCH /api/…`.
    #[must_use]
    pub fn met(&self) -> Vec<String> {
        let inner = self.state.lock();
        inner.rules.iter().find(|rule| rule.id == self.id).map(|rule| rule.met.clone()).unwrap_or_default()
    }

    /// Takes it away: requests that it holds go on. Returns what it had met.
    #[must_use]
    pub fn remove(self) -> Vec<String> {
        let met = self.met();
        self.state.lock().rules.retain(|rule| rule.id != self.id);
        self.state.changed.notify_all();
        met
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the rules say of a request, and which one does.
    fn fate(&self, request: &Request) -> Option<(usize, Fate)> {
        let mut inner = self.lock();
        let mut meant = inner.rules.iter_mut().filter(|rule| rule.requests.have(request));
        let rule = meant.find_map(|rule| {
            if rule.skip > 0 {
                rule.skip -= 1;
                return None;
            }
            (rule.count == 0 || rule.met.len() < rule.count).then_some(rule)
        })?;
        rule.met.push(request.line.clone());
        Some((rule.id, rule.fate))
    }

    /// Waits until a rule is taken away.
    fn wait_for_the_end_of(&self, id: usize) {
        let is_there = |inner: &mut Inner| inner.rules.iter().any(|rule| rule.id == id);
        drop(self.changed.wait_while(self.lock(), is_there));
    }
}

/// Serves one request of a client's, which has to connect anew for the next.
fn serve(state: &State, client: &TcpStream) -> io::Result<()> {
    if state.lock().is_shut {
        return Ok(());
    }
    let (head, body) = wire::read(client)?;
    let request = Request::of(&head, &body);
    let fate = state.fate(&request);
    match fate {
        Some((_, Fate::Refused(status))) => return wire::refuse(client, status),
        Some((_, Fate::Expired)) if Requests::Watches.have(&request) => return wire::expire(client),
        Some((_, Fate::Expired)) => return wire::refuse(client, 500),
        _ => {}
    }
    if let Some((id, Fate::HeldBefore)) = fate {
        state.wait_for_the_end_of(id);
        if wire::is_gone(client) {
            return Ok(());
        }
    }
    let server = TcpStream::connect(state.proxy.address())?;
    let headers = head[1..].iter().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let lines: Vec<_> =
        [head[0].as_str(), "Connection: close"].into_iter().chain(headers.map(String::as_str)).collect();
    (&server).write_all(format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes())?;
    (&server).write_all(&body)?;
    if let Some((id, Fate::HeldAfter)) = fate {
        let mut answer = Vec::new();
        (&server).read_to_end(&mut answer)?;
        state.wait_for_the_end_of(id);
        return (&*client).write_all(&answer);
    }
    let number = {
        let mut inner = state.lock();
        inner.next += 1;
        let number = inner.next;
        inner.open.push((number, [client.try_clone()?, server.try_clone()?]));
        number
    };
    let passed = wire::pass(&server, client);
    state.lock().open.retain(|(other, _)| *other != number);
    wire::hang_up(&[client.try_clone()?, server]);
    passed
}

fn kubeconfig(address: SocketAddr) -> PathBuf {
    let dir = Sandbox::folder(&format!("gate-{}", address.port()));
    fs::create_dir_all(&dir).expect("the temporary folder can be written to");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "gate",
        "clusters": [{"name": "gate", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "gate", "user": {}}],
        "contexts": [{"name": "gate", "context": {"cluster": "gate", "user": "gate"}}],
    });
    let path = dir.join("kubeconfig");
    fs::write(&path, config.to_string()).expect("the temporary folder can be written to");
    path
}
