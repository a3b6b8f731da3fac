//! Whether all that a group names is there and may be used, each thing by itself.

use drover_api::VmGroup;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use vim25::ManagedObject;

use super::{
    networks,
    source::{self, Unusable, with_defaults},
};
use crate::{
    fleet::Seat,
    vcenter::rights::{self, Whose},
};

/// What was looked for, and what was found or why it can't be used.
pub(crate) struct Finding {
    pub what: &'static str,
    pub outcome: Result<String, String>,
}

fn finding(what: &'static str, outcome: Result<impl Into<String>, Unusable>) -> Finding {
    Finding { what, outcome: outcome.map(Into::into).map_err(|unusable| unusable.to_string()) }
}

/// Looks for all that a group names, as the operator would, and whether Drover may do there what it has to.
pub(crate) async fn survey(seat: &Seat, secrets: Option<&Api<Secret>>, cluster: &str, group: &VmGroup) -> Vec<Finding> {
    let live = &seat.live;
    let spec = with_defaults(&group.spec, &seat.defaults);
    let base = match source::base(&live.inventory, &spec.placement).await {
        Ok(base) => base,
        // All the rest is looked for in the datacenter.
        Err(unusable) => return vec![finding("folder", Err::<String, _>(unusable))],
    };
    // One that isn't there yet has no UID, and is told from others all the same.
    let whose = Whose::Group(format!("{}/{}", group.namespace().unwrap_or_default(), group.name_any()));
    base.concern(live, &whose, &spec.placement);
    let mut found = vec![finding("folder", Ok(source::folder_name(&spec.placement)))];
    let template = source::find_template(live, &base, &spec.template).await;
    let below = Some(base.datacenter.reference());
    let pool = source::pool(&live.client, &live.inventory, &base, &spec).await;
    let placement = &spec.placement;
    let pool_name = placement.resource_pool.as_ref().or(placement.cluster.as_ref());
    if let Ok(pool) = &pool {
        let hosts = source::hosts(live, below, pool, &spec).await;
        let hosts = hosts.and_then(|hosts| {
            let able = hosts.able(&live.mirror())?;
            Ok(format!("{able} that take VMs"))
        });
        found.push(finding("hosts", hosts));
    }
    found.push(finding("resource pool", pool.map(|_| pool_name.map_or("the only one", String::as_str))));
    let datastore = source::datastore(&live.inventory, &base, &spec).await;
    found.push(finding(
        "datastore",
        datastore.map(|_| placement.datastore.clone().unwrap_or_else(|| "that of the template".to_owned())),
    ));
    match template {
        Err(unusable) => found.push(finding("template", Err::<String, _>(unusable))),
        Ok(template) => {
            let snapshot = source::snapshot(&live.client, &template, &spec).await;
            found.push(finding("template", snapshot.map(|_| spec.template.clone())));
            let networks = match networks::named(&live.inventory, below, &spec).await {
                Ok(networks) => networks::cards(&live.client, &networks, &template, &spec).await,
                Err(unusable) => Err(unusable),
            };
            let are =
                if spec.networks.is_empty() { "those of the template".to_owned() } else { spec.networks.join(", ") };
            found.push(finding("networks", networks.map(|_| are)));
        }
    }
    if spec.guest.cloud_init.is_some() {
        found.push(finding("cloud-init", source::cloud_init(secrets, &spec).await.map(|_| "what it is told is there")));
    }
    if let Ok(source) = source::source(live, &base, None, &spec).await {
        source.concern(live, &whose, &spec);
    }
    found.push(privileges(seat).await);
    found.push(copies(seat, cluster, group));
    found
}

/// The VMs that somebody might take for the group's.
fn copies(seat: &Seat, cluster: &str, group: &VmGroup) -> Finding {
    let copies = seat.live.mirror().copies(group.metadata.uid.as_deref().unwrap_or_default(), cluster);
    let words = match copies.len() {
        0 => "none".to_owned(),
        count => format!(
            "{count} carry the group's marker and aren't its members, and are left alone: {}",
            copies.join(", ")
        ),
    };
    Finding { what: "copies", outcome: Ok(words) }
}

/// Whether Drover may do what it has to, where groups have said that it matters.
pub(super) async fn privileges(seat: &Seat) -> Finding {
    let outcome = match rights::check(&seat.live).await {
        Err(error) => Err(error.to_string()),
        Ok(()) => match seat.live.rights().missing() {
            Some([]) => Ok("all that are needed".to_owned()),
            Some(missing) => Err(rights::sentence(missing)),
            None => Ok("not checked, because nothing that needs any was found".to_owned()),
        },
    };
    Finding { what: "privileges", outcome }
}
