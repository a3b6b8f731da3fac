//! The flags of the admission webhook.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::http::flags::{Serve, where_to_serve};

/// Whether and how the API server is told what a change does.
#[derive(Args, Debug)]
#[allow(clippy::struct_field_names, reason = "they are the flags' names")]
pub(crate) struct AdmissionFlags {
    /// Address that the admission webhook is served at, over TLS, such as :9443; 0 is none. Default: 0. The API server finds the webhook by a
    /// `ValidatingWebhookConfiguration` with the label app.kubernetes.io/name=drover.
    #[arg(long, value_name = "ADDRESS", value_parser = where_to_serve, default_value = "0", hide_default_value = true)]
    pub webhook_addr: Serve,
    /// Folder with the certificate and key of the admission webhook, as tls.crt and tls.key, such as cert-manager writes. They are read
    /// again when they change; the caBundle of the configuration is then yours to keep. Default: certificates that each replica makes for
    /// itself and adds to the caBundle.
    #[arg(long, value_name = "DIR")]
    pub webhook_cert_dir: Option<PathBuf>,
    /// How long a certificate that the operator has made for the admission webhook is used, such as 720h or 10s. Default: 720h.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "720h", hide_default_value = true)]
    pub webhook_rotation: Duration,
}

/// A duration as Go writes it, in one unit.
fn duration(text: &str) -> Result<Duration, &'static str> {
    let unit = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("write a number and s, m or h, such as 720h"),
    };
    let number = number.parse::<u32>().map_err(|_| "write a number and s, m or h, such as 720h")?;
    let duration = Duration::from_secs(u64::from(number) * seconds);
    // A year is longer than anybody should trust a certificate.
    if (Duration::from_secs(5)..=Duration::from_hours(24 * 365)).contains(&duration) {
        Ok(duration)
    } else {
        Err("give 5s to 8760h")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_taken_as_go_writes_them() {
        assert_eq!(duration("720h"), Ok(Duration::from_hours(720)));
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        for bad in ["", "10", "h", "1d", "-1h", "1h30m", "4s", "9000h", "99999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
