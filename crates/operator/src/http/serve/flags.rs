//! The flags on how metrics and health are served, under the names that kubebuilder's projects have.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use crate::http::flags::{Serve, truth, where_to_serve};

/// How metrics are served, and where health is.
#[derive(Args, Debug)]
pub(crate) struct Serving {
    /// Serve /metrics over TLS, and only to clients whose bearer token the API server accepts and lets get the URL /metrics. Default:
    /// false, which is plain HTTP for anybody who reaches the port.
    #[arg(
        long,
        value_name = "true|false",
        action = ArgAction::Set,
        value_parser = truth,
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true
    )]
    pub metrics_secure: bool,
    /// Folder with the certificate and key for --metrics-secure, as tls.crt and tls.key. They are read again when they change.
    /// Default: a self-signed certificate, made at each start.
    #[arg(long, visible_alias = "metrics-cert-path", value_name = "DIR")]
    pub metrics_cert_dir: Option<PathBuf>,
    /// Address that /healthz and /readyz are served at, over plain HTTP, such as :8081; 0 is none. Default: 0, and then they are
    /// served beside /metrics.
    #[arg(long, value_name = "ADDRESS", value_parser = where_to_serve, default_value = "0", hide_default_value = true)]
    pub health_probe_bind_address: Serve,
}
