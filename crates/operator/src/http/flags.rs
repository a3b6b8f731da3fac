//! Where to serve, as flags say it.

use std::{fmt, io, str::FromStr};

use tokio::net::TcpListener;

/// Where to listen, as Go writes it: `:8080` is every address of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: u16,
}

/// Text that is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write :PORT, HOST:PORT, or 0 for none")]
pub(crate) struct BadAddress;

/// Whether, and where, to serve what is known of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Serve {
    Nowhere,
    At(Address),
}

/// An address, or Go's word for none.
pub(crate) fn where_to_serve(text: &str) -> Result<Serve, BadAddress> {
    match text {
        "0" => Ok(Serve::Nowhere),
        address => address.parse().map(Serve::At),
    }
}

/// What Go takes for a bool.
pub(crate) fn truth(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it is neither true nor false"),
    }
}

impl Address {
    pub(super) async fn bind(&self) -> io::Result<TcpListener> {
        if !self.host.is_empty() {
            return TcpListener::bind((self.host.as_str(), self.port)).await;
        }
        match TcpListener::bind(("::", self.port)).await {
            // There are machines without IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", self.port)).await,
            outcome => outcome,
        }
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (host, port) = text.rsplit_once(':').ok_or(BadAddress)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            // Whether the last part of an IPv6 address is a port can't be told without the brackets.
            return Err(BadAddress);
        }
        Ok(Self { host: bare.unwrap_or(host).to_owned(), port: port.parse().map_err(|_| BadAddress)? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}
