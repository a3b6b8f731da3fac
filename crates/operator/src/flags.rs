//! The operator's flags. Those that Go's `flag` package takes are taken in all of its forms.

use clap::{ArgAction, Args};

use crate::serve::{Address, BadAddress};

/// How the operator is to run.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// Connect to vCenter without checking its certificate: anybody on the way can read the password.
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
    pub insecure: bool,
    /// Work only while holding a Lease, so that of several operators one works and the others stand by.
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
    pub enable_leader_election: bool,
    /// Serve /metrics, /healthz and /readyz at this address, such as :8080 or 127.0.0.1:8080; 0 is none.
    #[arg(long, value_name = "ADDRESS", value_parser = where_to_serve, default_value = "0", hide_default_value = true)]
    pub metrics_addr: Serve,
}

/// Whether, and where, to serve what is known of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Serve {
    Nowhere,
    At(Address),
}

/// The arguments as they are read here. Go's flags have one dash, and so people write them: `-insecure`.
pub(crate) fn with_two_dashes(argument: String) -> String {
    match argument.strip_prefix('-') {
        Some(flag) if flag.len() > 1 && !flag.starts_with('-') => format!("-{argument}"),
        _ => argument,
    }
}

/// What Go takes for a bool.
fn truth(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it is neither true nor false"),
    }
}

/// An address, or Go's word for none.
fn where_to_serve(text: &str) -> Result<Serve, BadAddress> {
    match text {
        "0" => Ok(Serve::Nowhere),
        address => address.parse().map(Serve::At),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn parse(line: &str) -> Result<Flags, String> {
        let words = line.split_whitespace().map(ToOwned::to_owned).map(with_two_dashes);
        let parsed = Line::try_parse_from(std::iter::once("drover".to_owned()).chain(words));
        parsed.map(|line| line.flags).map_err(|error| error.to_string())
    }

    #[test]
    fn a_bool_is_written_as_in_go() {
        for (line, insecure) in [
            ("", false),
            ("-insecure", true),
            ("--insecure", true),
            ("-insecure=true", true),
            ("--insecure=T", true),
            ("-insecure=false", false),
            ("--insecure=0", false),
        ] {
            assert_eq!(parse(line).unwrap().insecure, insecure, "{line}");
        }
        assert!(parse("-enable-leader-election").unwrap().enable_leader_election);
        assert!(!parse("--enable-leader-election=false --insecure").unwrap().enable_leader_election);
        let refused = parse("--insecure=maybe").unwrap_err();
        assert!(refused.contains("neither true nor false"), "{refused}");
    }

    #[test]
    fn where_metrics_are_served_is_written_as_in_go() {
        let at = |address: &str| Serve::At(address.parse().unwrap());
        for (line, serve) in [
            ("", Serve::Nowhere),
            ("--metrics-addr=0", Serve::Nowhere),
            ("--metrics-addr=:8080", at(":8080")),
            ("-metrics-addr 127.0.0.1:8080", at("127.0.0.1:8080")),
        ] {
            assert_eq!(parse(line).unwrap().metrics_addr, serve, "{line}");
        }
        let refused = parse("--metrics-addr=8080").unwrap_err();
        assert!(refused.contains("write :PORT, HOST:PORT, or 0 for none"), "{refused}");
    }
}
