//! The operator's flags. Those that Go's `flag` package takes are taken in all of its forms.

use clap::{ArgAction, Args};

use crate::{
    cli::cluster::ClusterFlags,
    http::{
        admission::AdmissionFlags,
        flags::{Serve, truth, where_to_serve},
        serve::Serving,
    },
    kube::scope::Controllers,
    telemetry::{log::LogFlags, traces::TraceFlags},
};

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
    /// Share the vCenters with other replicas by Leases, so that one replica works in each. Without it, only one replica may run. Default: false.
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
    /// Address that /metrics is served at, such as :8443 or 127.0.0.1:8080; 0 is none. Default: 0. Without
    /// --health-probe-bind-address, /healthz and /readyz are served there, too.
    #[arg(
        long,
        visible_alias = "metrics-bind-address",
        value_name = "ADDRESS",
        value_parser = where_to_serve,
        default_value = "0",
        hide_default_value = true
    )]
    pub metrics_addr: Serve,
    #[command(flatten)]
    pub serving: Serving,
    #[command(flatten)]
    pub admission: AdmissionFlags,
    /// Controllers to run, as a list of vmgroup, vcenter, hostinfo, vminfo and myownshell. `*` is all, and a minus sign takes one
    /// away: *,-myownshell. A controller that is left out needs neither its kind nor rights on it; VMs that exist are left as they are.
    /// Without vcenter, Drover reads nothing that is cluster-scoped: it serves the environment's vCenter only, and needs --cluster-id.
    #[arg(long, value_name = "LIST", default_value = "*")]
    pub controllers: Controllers,
    /// Namespaces to read and serve, as a list. Objects in other namespaces are not read, and their VMs are left as they are. Default:
    /// all namespaces.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// The operator's own namespace, for its Leases, and for the Secrets of VCenters that name no namespace. Default: `POD_NAMESPACE`,
    /// then the service account's, then the kubeconfig's.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Id of this Kubernetes cluster, which is written into each VM: VMs of another cluster are never touched. Keep it for as long as
    /// the VMs exist. Default: the UID of the namespace kube-system. A cluster that is rebuilt or restored from a backup needs the id of
    /// the old cluster to take over the VMs of the old cluster.
    #[arg(long, value_name = "ID", value_parser = cluster_id)]
    pub cluster_id: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterFlags,
    #[command(flatten)]
    pub log: LogFlags,
    #[command(flatten)]
    pub traces: TraceFlags,
}

/// The arguments as they are read here. Go's flags have one dash, and so people write them: `-insecure`.
pub(crate) fn with_two_dashes(argument: String) -> String {
    match argument.strip_prefix('-') {
        Some(flag) if flag.len() > 1 && !flag.starts_with('-') => format!("-{argument}"),
        _ => argument,
    }
}

/// An id that can stand in a VM's marker.
fn cluster_id(text: &str) -> Result<String, &'static str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ['-', '.', '_'].contains(&letter);
    if (1..=63).contains(&text.len()) && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err("give 1 to 63 letters, digits, dots, dashes or underscores")
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
    fn the_scope_is_all_unless_it_is_named() {
        let all = parse("").unwrap();
        assert_eq!((all.controllers, all.namespaces.len()), (Controllers::default(), 0));
        let some = parse("--controllers=*,-myownshell -namespaces a,b -n ops --cluster-id=prod-1").unwrap();
        assert_eq!(some.controllers.to_string(), "vmgroup,vcenter,hostinfo,vminfo");
        assert_eq!(some.namespaces, ["a", "b"]);
        assert_eq!((some.namespace.as_deref(), some.cluster_id.as_deref()), (Some("ops"), Some("prod-1")));
        for (line, why) in [
            ("--controllers=vmgroups", "there is no controller \"vmgroups\""),
            ("--controllers=-vmgroup", "no controller is left to run"),
            ("--cluster-id=a/b", "give 1 to 63 letters"),
            ("--cluster-id=", "give 1 to 63 letters"),
        ] {
            let refused = parse(line).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn where_metrics_are_served_is_written_as_in_go() {
        let at = |address: &str| Serve::At(address.parse().unwrap());
        for (line, serve) in [
            ("", Serve::Nowhere),
            ("--metrics-addr=0", Serve::Nowhere),
            ("--metrics-addr=:8080", at(":8080")),
            ("-metrics-addr 127.0.0.1:8080", at("127.0.0.1:8080")),
            ("--metrics-bind-address=:8443", at(":8443")),
        ] {
            assert_eq!(parse(line).unwrap().metrics_addr, serve, "{line}");
        }
        assert_eq!(parse("--health-probe-bind-address=:8081").unwrap().serving.health_probe_bind_address, at(":8081"));
        assert!(parse("-metrics-secure").unwrap().serving.metrics_secure);
        let refused = parse("--metrics-addr=8080").unwrap_err();
        assert!(refused.contains("write :PORT, HOST:PORT, or 0 for none"), "{refused}");
    }
}
