//! To whom credentials go, and what is told of those who answer.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_e2e::{Namespace, VCenter, binary, eventually};
use serde_json::{Value, json};

use super::{Declared, SOON, sandbox, unchecked};

/// What only a stranger's answer has in it.
const THEIRS: &str = "theirs-and-nobody-elses";

/// A server that is no vCenter. It answers everything with a page, and keeps what it is sent.
struct Stranger {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Stranger {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, sent) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
        let kept = Arc::clone(&sent);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                // Whoever hangs up has sent what it has sent.
                thread::spawn(move || drop(answer(stream, &kept)));
            }
        });
        Self { address, sent }
    }

    /// All that it was ever sent.
    fn sent(&self) -> String {
        String::from_utf8_lossy(&self.sent.lock().unwrap()).into_owned()
    }
}

fn answer(stream: TcpStream, kept: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while stream.read_line(&mut line)? > 0 {
        kept.lock().unwrap().extend(line.as_bytes());
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    kept.lock().unwrap().extend(body);
    let page = format!("<html><title>{THEIRS}</title></html>");
    let head = format!("Content-Type: text/{THEIRS}\r\nServer: {THEIRS}\r\nContent-Length: {}", page.len());
    write!(stream.get_mut(), "HTTP/1.1 200 OK\r\n{head}\r\nConnection: close\r\n\r\n{page}")
}

/// Writes the credentials of a vCenter into a Secret of a namespace.
fn declare_secret(namespace: &Namespace, name: &str, of: &VCenter) {
    let data = json!({"username": BASE64_STANDARD.encode(&of.user), "password": BASE64_STANDARD.encode(&of.password)});
    let metadata = json!({"name": name, "namespace": namespace.name});
    namespace.declare(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})).unwrap();
}

#[test]
fn a_secret_of_another_namespace_goes_only_to_the_server_that_it_names() {
    let _turn = unchecked();
    let namespace = sandbox().namespace("keepers");
    let stranger = Stranger::start();
    let lab = Declared { name: "elsewhere".to_owned(), vcenter: sandbox().own_vcenter() };
    declare_secret(&namespace, "lab", &lab.vcenter);
    let reference = json!({"namespace": "keepers", "name": "lab"});
    lab.vcenter.declare(sandbox(), "elsewhere", &json!({"credentialsSecretRef": reference}));
    let message =
        lab.says("Connected", "False", "Invalid", "the Secret keepers/lab does not say which server it is for");
    assert_eq!(lab.vcenter.all_calls("drover"), 0);

    // The command in the message is all that it takes.
    let (_, command) = message.split_once(": kubectl ").unwrap();
    sandbox().kubectl().run(&command.split_whitespace().collect::<Vec<_>>()).unwrap();
    lab.says("Connected", "True", "Connected", "");
    let logins = lab.logins();

    let bundle = lab.get()["spec"]["tls"]["caBundle"].clone();
    lab.patch(&json!({"server": stranger.address.to_string()}));
    lab.says("Connected", "False", "Invalid", "the Secret keepers/lab is for another server than 127.0.0.1:");
    // Not the right one either, where nobody looks who it is.
    lab.patch(&json!({"server": lab.vcenter.host, "tls": {"caBundle": null, "insecure": true}}));
    lab.says("Connected", "False", "Invalid", "is sent over verified TLS only");
    lab.patch(&json!({"server": format!("http://{}", stranger.address)}));
    lab.says("Connected", "False", "Invalid", "is for another server");
    assert_eq!((stranger.sent(), lab.logins()), (String::new(), logins));

    lab.patch(&json!({"server": lab.vcenter.host, "tls": {"caBundle": bundle, "insecure": null}}));
    lab.says("Connected", "True", "Connected", "");
    let annotation = "vm.codeconnect.vmworld.com/server-";
    sandbox().kubectl().run(&["-n", "keepers", "annotate", "secret", "lab", annotation]).unwrap();
    lab.says("Connected", "False", "Invalid", "does not say which server it is for");
    eventually(sandbox(), SOON, "the session is ended", || match lab.vcenter.sessions() {
        0 => Ok(()),
        sessions => Err(format!("{sessions} sessions")),
    });
    sandbox().kubectl().run(&["delete", "vc", "elsewhere"]).unwrap();
}

#[test]
fn clear_text_needs_insecure_and_an_answer_of_a_stranger_is_told_to_nobody() {
    let _turn = unchecked();
    let stranger = Stranger::start();
    let address = format!("http://{}", stranger.address);
    let vcenter = sandbox().vcenter();
    let kubectl = sandbox().kubectl();
    // The check first: an operator that is let run doesn't end.
    for (command, refusal) in
        [("check", "use --insecure"), ("run", "VC_HOST: http:// sends the password in clear text")]
    {
        let mut drover = Command::new(binary());
        drover.arg(command).envs(sandbox().environment()).env("VC_HOST", &address);
        let output = drover.env("VC_USER", &vcenter.user).env("VC_PASS", &vcenter.password).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(refusal), "{command}: {said}");
    }
    let clear = |tls: &Value| {
        let reference = json!({"namespace": "default", "name": "clear"});
        let spec = json!({"server": address, "credentialsSecretRef": reference, "tls": tls});
        let vcenter = json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter",
            "metadata": {"name": "clear"}, "spec": spec,
        });
        kubectl.run_with_input(&["apply", "-f", "-"], &vcenter.to_string())
    };
    vcenter.declare_secret(sandbox(), "clear", &vcenter.password);
    for tls in [json!({}), json!({"thumbprint": "00".repeat(32)})] {
        let refused = clear(&tls).unwrap_err();
        assert!(refused.stderr.contains("server: http:// sends the password in clear text"), "{refused}");
    }
    assert_eq!(stranger.sent(), "");

    // Whoever says so is let, and still no password goes to a server that isn't a vCenter.
    clear(&json!({"insecure": true})).unwrap();
    let lab = Declared { name: "clear".to_owned(), vcenter: vcenter.clone() };
    lab.says("Connected", "False", "VCenterUnreachable", "something else than XML");
    eventually(sandbox(), SOON, "there is an event", || {
        if lab.events("VCenterUnreachable") > 0 { Ok(()) } else { Err("there is none".to_owned()) }
    });
    let sent = stranger.sent();
    assert!(sent.contains("<RetrieveServiceContent ") && !sent.contains(&vcenter.password), "{sent}");
    sandbox().assert_nothing_tells(&[THEIRS]);
    kubectl.run(&["delete", "vc", "clear"]).unwrap();
}
