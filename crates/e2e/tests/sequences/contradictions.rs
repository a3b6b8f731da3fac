//! Declarations of which each field is all right by itself, and that the rules of the schemas refuse together.

use serde_json::{Value, json};

/// What is declared beside what is valid, and which fields are at odds.
type Contradiction = (Value, &'static [&'static str]);

/// Those of a kind.
pub(crate) fn of(kind: &str) -> Vec<Contradiction> {
    match kind {
        "VmGroup" => of_groups(),
        "VCenter" => of_vcenters(),
        "MyOwnShell" => vec![
            (json!({"command": ["", "sh"]}), &[".command"]),
            (json!({"image": "busybox latest"}), &[".image"]),
            (json!({"ttl": "0d0h"}), &[".ttl"]),
            (json!({"ttl": "5m8h"}), &[".ttl"]),
        ],
        _ => Vec::new(),
    }
}

fn of_groups() -> Vec<Contradiction> {
    let both = json!({"inline": "#cloud-config", "secretKeyRef": {"name": "s", "key": "k"}});
    let long = "guestinfo.".to_owned() + &"k".repeat(250);
    vec![
        (json!({"update": {"maxSurge": 0, "maxUnavailable": 0}}), &[".update.maxSurge", ".update.maxUnavailable"]),
        (json!({"update": {"maxSurge": "0%", "maxUnavailable": 0}}), &[".update.maxSurge", ".update.maxUnavailable"]),
        (json!({"guest": {"cloudInit": {"userData": both}}}), &[".guest.cloudInit.userData"]),
        (json!({"guest": {"cloudInit": {"userData": {}}}}), &[".guest.cloudInit.userData"]),
        (json!({"guest": {"cloudInit": {"metadata": both}}}), &[".guest.cloudInit.metadata"]),
        (
            json!({"guest": {"cloudInit": {"userData": {"inline": "a"}}}, "extraConfig": {"guestinfo.userdata": "b"}}),
            &[".extraConfig"],
        ),
        (json!({"extraConfig": {"Drover.group": "u"}}), &[".extraConfig"]),
        (json!({"extraConfig": {"workingDir": "/"}}), &[".extraConfig"]),
        (json!({"extraConfig": {long: "x"}}), &[".extraConfig"]),
        (json!({"clone": {"mode": "Linked"}, "rootDisk": {"sizeGiB": 40}}), &[".clone.mode", ".rootDisk"]),
        (json!({"networks": ["lan"], "networkAdapters": [{"network": "lan"}]}), &[".networks", ".networkAdapters"]),
        (
            json!({"replicas": 2, "networkAdapters": [{"network": "lan", "addresses": ["10.0.0.1/24"]}]}),
            &[".replicas", ".networkAdapters"],
        ),
        (
            json!({"replicas": 1, "networkAdapters": [{"network": "lan", "mac": "Generated", "addresses": ["10.0.0.1/24"]}]}),
            &[".networkAdapters"],
        ),
        (
            json!({"networkAdapters": [{"network": "lan", "mac": "PerSlot"}], "update": {"maxSurge": 1}}),
            &[".networkAdapters", ".update.maxSurge"],
        ),
        (json!({"guest": {"network": "Customization", "cloudInit": {"userData": {"inline": "a"}}}}), &[".guest"]),
    ]
}

fn of_vcenters() -> Vec<Contradiction> {
    vec![
        (json!({"tls": {"insecure": true}}), &[".tls.insecure", ".tls.caBundle"]),
        (json!({"tls": {"thumbprint": "a".repeat(64)}}), &[".tls.thumbprint", ".tls.caBundle"]),
        (json!({"credentialsSecretRef": null}), &[".server", ".credentialsSecretRef"]),
        (json!({"server": "http://vc.example.com"}), &[".server"]),
        (json!({"server": "user@vc.example.com"}), &[".server"]),
        (json!({"publish": {"hosts": true}}), &[".publish.hosts", ".publish.namespace"]),
    ]
}
