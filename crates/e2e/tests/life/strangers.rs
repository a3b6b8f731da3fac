//! Anybody in the cluster can connect to the operator's ports. Who connects and asks for nothing keeps nobody out who asks.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Operator, Program, SOON, Sandbox, Strangers, eventually};
use serde_json::json;

/// How long a probe may take, as the manifests say.
const PROBE: Duration = Duration::from_secs(5);

/// What a probe of the kubelet comes to.
fn probe(server: SocketAddr) -> Result<String, String> {
    let began = Instant::now();
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&server, PROBE)?;
        stream.set_read_timeout(Some(PROBE))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: probe\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = ask().map_err(|error| error.to_string())?;
    if began.elapsed() <= PROBE { Ok(answer) } else { Err(format!("it took {:?}", began.elapsed())) }
}

/// The address that the operator says it serves something at.
fn served_at(sandbox: &Sandbox, operator: &Operator, what: &str) -> SocketAddr {
    eventually(sandbox, SOON, what, || {
        let log = operator.log();
        let line = log.lines().find(|line| line.contains(what)).ok_or_else(|| log.clone())?;
        let address = line.split(['=', ' ', '"']).find_map(|word| word.parse().ok());
        address.ok_or_else(|| line.to_owned())
    })
}

#[test]
fn a_crowd_of_idle_connections_keeps_neither_a_probe_nor_a_scraper_out() {
    let sandbox = Sandbox::start("strangers", &[]).unwrap();
    sandbox.install_kinds();
    let flags = ["--metrics-addr=127.0.0.1:0", "--metrics-secure", "--health-probe-bind-address=127.0.0.1:0"];
    let operator = Operator::start_with(&sandbox, sandbox.vcenter(), &flags).unwrap();
    let [health, metrics] = ["Health served", "Metrics served"].map(|what| served_at(&sandbox, &operator, what));
    let namespace = sandbox.namespace("monitoring");
    namespace.kubectl(&["create", "serviceaccount", "reader"]).unwrap();
    let rule = ["create", "clusterrole", "reader", "--verb=get", "--non-resource-url=/metrics"];
    sandbox.kubectl().run(&rule).unwrap();
    let bind = ["create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=monitoring:reader"];
    sandbox.kubectl().run(&bind).unwrap();
    let token = namespace.kubectl(&["create", "token", "reader"]).unwrap();
    let scrape = || {
        let (server, token) = (format!("--server=https://{metrics}"), format!("--token={}", token.trim()));
        let flags = ["--kubeconfig=/dev/null", "--insecure-skip-tls-verify", "--request-timeout=10s", &server, &token];
        Program::kubectl().run(&[&flags[..], &["get", "--raw", "/metrics"]].concat())
    };
    let scraped = eventually(&sandbox, SOON, "the metrics are served", || scrape().map_err(|failure| failure.stderr));
    assert!(scraped.contains("drover_build_info"), "{scraped}");
    assert!(probe(health).unwrap().ends_with("ok\n"));

    let _crowds = [health, metrics].map(Strangers::crowd);
    let refused = |answer: &Result<String, String>| answer.as_ref().map_or(true, |answer| !answer.ends_with("ok\n"));
    // Longer than any of them may stay, so that all have come more than once.
    let (began, mut probes, mut failures) = (Instant::now(), 0, Vec::new());
    while began.elapsed() < Duration::from_secs(20) {
        probes += 1;
        let answer = probe(health);
        if refused(&answer) {
            failures.push(format!("{:?}: {answer:?}", began.elapsed()));
        }
        if probes % 20 == 0
            && let Err(failure) = scrape()
        {
            failures.push(failure.stderr);
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert!(failures.is_empty(), "{} of {probes} failed: {}", failures.len(), json!(failures));
}
