//! Those who connect to a server and never ask for anything.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    runtime::{Builder, Runtime},
    time::{sleep, timeout},
};

/// How many of them come from this machine's usual address, and how many each from one of their own.
const ALIKE: u8 = 200;
const APART: u8 = 200;
/// How soon each comes back who was sent away.
const PAUSE: Duration = Duration::from_millis(200);

/// A crowd that keeps connections to a server. It goes when this is dropped.
#[derive(Debug)]
pub struct Strangers {
    runtime: Option<Runtime>,
}

impl Strangers {
    /// Has a crowd come to a server, and stay. One half says nothing, and the other half begins a request, a byte a second, and never ends it.
    #[must_use]
    pub fn crowd(server: SocketAddr) -> Self {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread can be started");
        let alike = (1..=ALIKE).map(|number| (number, Ipv4Addr::LOCALHOST));
        let apart = (1..=APART).map(|number| (number, Ipv4Addr::new(127, 1, 0, number)));
        for (number, from) in alike.chain(apart) {
            runtime.spawn(async move {
                loop {
                    // However it ends, the next one is begun.
                    let _ = stay(from, server, number % 2 == 0).await;
                    sleep(PAUSE).await;
                }
            });
        }
        Self { runtime: Some(runtime) }
    }
}

/// Keeps a connection until the server closes it.
async fn stay(from: Ipv4Addr, server: SocketAddr, speaks: bool) -> std::io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let mut stream = socket.connect(server).await?;
    for byte in b"GET /healthz HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'y')) {
        if speaks {
            stream.write_all(&[*byte]).await?;
        }
        if timeout(Duration::from_secs(1), stream.read(&mut [0; 64])).await.is_ok() {
            break;
        }
    }
    Ok(())
}

impl Drop for Strangers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
