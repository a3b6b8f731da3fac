//! Whether all that a group names is there and may be used, each thing by itself.

use drover_api::{VmGroup, VmGroupSpec, vcenter::Reach, vmgroup::RootDisk};
use drover_core::{
    tenancy::cloud_init::reach as reach_of,
    vmgroup::{extra_config, take_over::marker_uid},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};

use super::{
    keys::{self, BadKeys},
    networks, reach, root_disk,
    source::{self, Unusable, with_defaults},
};
use crate::{
    controllers::binding::BoundVCenter,
    vcenter::{
        privileges::{self, Whose},
        source::why_not_cloned,
        templates::read_at_once,
    },
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
pub(crate) async fn preflight(
    bound: &BoundVCenter,
    secrets: Option<&Api<Secret>>,
    cluster: &str,
    group: &VmGroup,
) -> Vec<Finding> {
    let live = &bound.live;
    let spec = with_defaults(&group.spec, &bound.defaults);
    let choice = match reach::enforced(bound, &spec) {
        Ok(choice) => choice,
        Err(unusable) => return vec![finding("reach", Err::<String, _>(unusable))],
    };
    let choice = choice.as_ref();
    let base = match choice {
        Some(choice) => Ok(choice.base.clone()),
        None => source::base(&live.mirror(), &spec.placement),
    };
    let base = match base {
        Ok(base) => base,
        // All the rest is looked for in the datacenter.
        Err(unusable) => return vec![finding("folder", Err::<String, _>(unusable))],
    };
    // One that isn't there yet has no UID, and is told from others all the same.
    let whose = Whose::Group(format!("{}/{}", group.namespace().unwrap_or_default(), group.name_any()));
    source::require_base(&base, live, &whose, &spec.placement);
    let mut found = vec![finding("folder", Ok(source::folder_name(&spec.placement)))];
    let template = match choice {
        Some(choice) => Ok(choice.template.clone()),
        None => source::find_template(&live.mirror(), &base, &spec.template),
    };
    let pool = source::pool(&live.mirror(), &base, choice, &spec);
    let placement = &spec.placement;
    let pool_name = placement.resource_pool.as_ref().or(placement.cluster.as_ref());
    if let Ok(pool) = &pool {
        let hosts = source::hosts(&live.mirror(), &base, pool, choice, &spec);
        let hosts = hosts.and_then(|hosts| {
            let able = hosts.able(&live.mirror())?;
            Ok(format!("{able} that take VMs"))
        });
        found.push(finding("hosts", hosts));
    }
    found.push(finding("resource pool", pool.map(|_| pool_name.map_or("the only one", String::as_str))));
    let datastore = source::datastore(&live.mirror(), &base, choice, &spec);
    found.push(finding(
        "datastore",
        datastore.map(|_| placement.datastore.clone().unwrap_or_else(|| "that of the template".to_owned())),
    ));
    let known = template.as_ref().ok().cloned();
    if let Some(template) = &known {
        read_at_once(live, template).await;
    }
    let read = template.and_then(|template| {
        let details = source::details(&live.mirror(), &template, &spec)?;
        Ok((template, details))
    });
    match read {
        Err(unusable) => found.push(finding("template", Err::<String, _>(unusable))),
        Ok((template, details)) => {
            let snapshot = source::snapshot(&details, &spec);
            let bar = why_not_cloned(&live.mirror(), &template, &spec.template);
            let usable = bar.map_or(Ok(()), |bar| Err(Unusable::NotAllowed(bar)));
            // Where that is not enforced, nobody else would say so before it is.
            let rules = bound.rules.as_deref();
            let refusal = rules.and_then(|rules| reach::choose(&live.mirror(), rules, &spec, &bound.defaults).err());
            let words =
                refusal.map_or_else(|| spec.template.clone(), |refusal| format!("would be refused: {}", refusal.why));
            found.push(finding("template", usable.and(snapshot).map(|_| words)));
            if spec.root_disk != RootDisk::default() {
                let datastore = source::datastore(&live.mirror(), &base, choice, &spec).ok().flatten();
                let root_disk = root_disk::change(&details, datastore.as_ref(), &spec);
                found.push(finding("root disk", root_disk.map(|_| "as the template's, or larger")));
            }
            let networks = source::named_networks(&live.mirror(), &base, choice, &spec);
            let backings = networks.and_then(|networks| networks::backings(&live.mirror(), &networks, &spec));
            let networks = backings.and_then(|backings| networks::cards(backings, &details, &spec));
            let names: Vec<_> = spec.network_names().collect();
            let are = if names.is_empty() { "those of the template".to_owned() } else { names.join(", ") };
            found.push(finding("networks", networks.map(|_| are)));
        }
    }
    if !spec.extra_config.is_empty() {
        let kept = extra_config::kept(group);
        let words =
            if kept.is_empty() { "keys that it may set".to_owned() } else { format!("kept: {}", kept.join(", ")) };
        let BadKeys { refused, tolerated } = keys::judge(bound, group);
        let words = tolerated.unwrap_or(words);
        found.push(finding("extraConfig", refused.map_or(Ok(words), |why| Err(Unusable::NotAllowed(why)))));
    }
    if spec.guest.cloud_init.is_some() {
        found.push(cloud_init(bound, secrets, &spec).await);
    }
    let source = known.map(|template| source::source(&live.mirror(), &base, Some(template), choice, &spec));
    if let Some(Ok(source)) = source {
        source::require_source(&source, &base, live, &whose, &spec);
    }
    found.push(privileges(bound).await);
    found.push(copies(bound, cluster, group));
    found
}

/// What guests are told, and whether that would be refused once the VCenter's rules are enforced.
async fn cloud_init(bound: &BoundVCenter, secrets: Option<&Api<Secret>>, spec: &VmGroupSpec) -> Finding {
    let rules = bound.rules.as_deref();
    let mut told =
        source::cloud_init(secrets, spec, reach_of(rules)).await.map(|_| "what it is told is there".to_owned());
    if told.is_ok()
        && rules.is_some()
        && let Err(why) = source::cloud_init(secrets, spec, Reach::Restricted).await
    {
        told = Ok(format!("would be refused: {why}"));
    }
    finding("cloud-init", told)
}

/// The VMs that somebody might take for the group's.
fn copies(bound: &BoundVCenter, cluster: &str, group: &VmGroup) -> Finding {
    let copies = bound.live.mirror().copies(&marker_uid(group), cluster);
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
pub(super) async fn privileges(bound: &BoundVCenter) -> Finding {
    let outcome = match privileges::check(&bound.live).await {
        Err(error) => Err(error.to_string()),
        Ok(()) => match bound.live.privileges().missing() {
            Some([]) => Ok("all that are needed".to_owned()),
            Some(missing) => Err(privileges::sentence(missing)),
            None => Ok("not checked, because nothing that needs any was found".to_owned()),
        },
    };
    Finding { what: "privileges", outcome }
}
