//! A watch by which a replica learns at once that a lease has changed hands, and looks at all of them.

use std::{collections::BTreeMap, pin::pin};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, ResourceExt,
    runtime::watcher::{self, Event},
};

use super::{Leases, election::holder, names::LABEL};
use crate::{kube::shared_watch::told, loops::Pulse};

/// Has leases looked at whenever another replica has taken or given back one, for as long as the operator runs.
pub(super) async fn watch(api: Api<Lease>, leases: Leases, me: String, pulse: Pulse) {
    let config = watcher::Config::default().labels(LABEL);
    let mut told = pin!(told(vec![api], &config));
    let mut holders = BTreeMap::new();
    while let Some(event) = pulse.wait(told.next()).await {
        let is_news = match event {
            Event::Apply(lease) | Event::InitApply(lease) => {
                let holder = lease.spec.as_ref().and_then(holder).map(ToOwned::to_owned);
                let before = holders.insert(lease.name_any(), holder.clone());
                before.as_ref() != Some(&holder) && holder.as_ref() != Some(&me)
            }
            Event::Delete(lease) => holders.remove(&lease.name_any()).is_some(),
            Event::Init => {
                holders.clear();
                false
            }
            Event::InitDone => false,
        };
        if is_news {
            leases.look();
        }
    }
}
