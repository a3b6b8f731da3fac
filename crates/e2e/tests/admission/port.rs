//! Whoever reaches the webhook's port harms nobody.

use std::{sync::Arc, time::Duration};

use drover_e2e::{Group, SOON, Sandbox, eventually};
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer, pki_types::pem::PemObject};
use serde_json::json;
use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
    time::{Instant, sleep, timeout_at},
};
use tokio_rustls::TlsConnector;

use crate::{
    certificates::{Authority, Mounted, trust},
    configure, free_port, said,
};

const FLOOD: Duration = Duration::from_secs(12);
/// How much more memory the operator may take meanwhile.
const MEMORY: u64 = 96 << 20;

/// What somebody does, and how many do it at once.
const ATTACKS: [(Attack, usize); 4] =
    [(Attack::Silent, 300), (Attack::Slow, 30), (Attack::Endless, 10), (Attack::Deep, 10)];

#[derive(Clone, Copy)]
enum Attack {
    /// Connects, and says nothing.
    Silent,
    /// Begins a question, and sends a byte now and then.
    Slow,
    /// Sends more than anybody reads.
    Endless,
    /// Asks what is hard to read.
    Deep,
}

impl Attack {
    async fn again_and_again(self, port: u16, tls: TlsConnector, until: Instant) {
        while Instant::now() < until {
            let _ = timeout_at(until, self.once(port, &tls)).await;
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Until the operator has enough of it.
    async fn once(self, port: u16, tls: &TlsConnector) -> io::Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        if matches!(self, Self::Silent) {
            return stream.read(&mut [0]).await.map(drop);
        }
        let mut stream = tls.connect("127.0.0.1".try_into().unwrap(), stream).await?;
        let deep = "[".repeat(3 << 20);
        let length = if matches!(self, Self::Deep) { deep.len() } else { 1 << 30 };
        let head = format!("POST /validate HTTP/1.1\r\nHost: drover\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        match self {
            Self::Deep => {
                stream.write_all(deep.as_bytes()).await?;
                stream.read_to_end(&mut Vec::new()).await.map(drop)
            }
            Self::Endless => loop {
                stream.write_all(&[b' '; 16 << 10]).await?;
            },
            Self::Silent | Self::Slow => loop {
                stream.write_all(b" ").await?;
                stream.flush().await?;
                sleep(Duration::from_millis(200)).await;
            },
        }
    }
}

fn connector(authority: &Authority) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

#[test]
fn those_who_flood_the_webhook_take_no_memory_and_stop_neither_probes_nor_work() {
    let sandbox = &Sandbox::start("flooded", &[]).unwrap();
    sandbox.install_kinds();
    let port = free_port();
    configure(sandbox, &[port]);
    let authority = Authority::new();
    trust(sandbox, &[&authority]);
    let operator = Mounted::new(sandbox, &authority.issue()).start(sandbox, port);
    let group = Group::create(sandbox, "flooded", &json!({"replicas": 1}));
    group.runs_with(1);
    let is_told = |vms: &str| {
        eventually(sandbox, SOON, "the API server is answered", || {
            let said = said(&group, "scale vg/flooded --replicas=0 --dry-run=server");
            if said.contains(&format!("Warning: destroys {vms}")) { Ok(()) } else { Err(said) }
        });
    };
    is_told("1 VM");

    let before = operator.own_memory().unwrap();
    let runtime = Runtime::new().unwrap();
    let (tls, until) = (connector(&authority), Instant::now() + FLOOD);
    for (attack, times) in ATTACKS {
        for _ in 0..times {
            runtime.spawn(attack.again_and_again(port, tls.clone(), until));
        }
    }
    let (mut most, mut replicas, mut told) = (0, 1, 0);
    while Instant::now() < until {
        let asked = Instant::now();
        for path in ["/healthz", "/readyz"] {
            assert_eq!(operator.ask("GET", path).map(|answer| answer.0), Ok(200), "{path}");
        }
        assert!(asked.elapsed() < Duration::from_secs(5), "as long as the kubelet waits: {:?}", asked.elapsed());
        most = most.max(operator.own_memory().unwrap());
        let said = said(&group, "scale vg/flooded --replicas=0 --dry-run=server");
        told += usize::from(said.contains("Warning: destroys"));
        // When the operator doesn't answer in time, it is stored all the same.
        replicas = 3 - replicas;
        group.patch(&json!({"replicas": replicas})).unwrap();
        group.runs_with(replicas);
    }
    assert!(most <= before + MEMORY, "from {before} to {most} bytes");
    assert!(told > 0, "the API server is answered now and then");
    drop(runtime);
    group.patch(&json!({"replicas": 2})).unwrap();
    group.runs_with(2);
    is_told("2 VMs");
}
