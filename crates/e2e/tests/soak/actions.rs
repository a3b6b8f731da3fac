//! Everything that the storm does, each with how often, beside the others.

use crate::{crashes, drift, edits, faults, storm::Storm};

/// Something that happens in the storm.
pub(crate) struct Action {
    pub(crate) name: &'static str,
    pub(crate) weight: u64,
    /// Does it, and says to whom or what. None: there is nobody now that it could be done to.
    pub(crate) act: fn(&mut Storm) -> Option<String>,
}

const fn action(name: &'static str, weight: u64, act: fn(&mut Storm) -> Option<String>) -> Action {
    Action { name, weight, act }
}

pub(crate) const ACTIONS: &[Action] = &[
    action("edit: replicas", 20, edits::replicas),
    action("edit: CPUs", 6, edits::cpu),
    action("edit: memory", 6, edits::memory),
    action("edit: template", 4, edits::template),
    action("edit: extraConfig", 6, edits::round),
    action("edit: folder", 4, edits::folder),
    action("edit: rootDisk", 3, edits::root_disk),
    action("edit: hosts", 3, edits::hosts),
    action("edit: deletionPolicy", 4, edits::deletion_policy),
    action("edit: update strategy", 4, edits::strategy),
    action("edit: surge and unavailable", 4, edits::rollout),
    action("edit: powerState", 5, edits::power_state),
    action("edit: scaleIn order", 3, edits::scale_in),
    action("edit: scale-in mark", 5, edits::mark),
    action("edit: paused for a while", 4, edits::pause),
    action("edit: template that isn't there, for a while", 3, edits::misname),
    action("group deleted", 8, edits::delete),
    action("group created", 14, edits::create),
    action("drift: powered off", 8, drift::power_off),
    action("drift: suspended", 3, drift::suspend),
    action("drift: CPUs", 4, drift::reconfigure),
    action("drift: renamed", 4, drift::rename),
    action("drift: moved", 4, drift::relocate),
    action("drift: destroyed", 6, drift::destroy),
    action("drift: unregistered for a while", 3, drift::unregister_for_a_while),
    action("drift: unregistered for good", 1, drift::unregister),
    action("drift: group's folder renamed", 2, drift::rename_folder),
    action("others: copy of a member", 3, drift::copy),
    action("others: noise", 3, faults::noise),
    action("others: many VMs, for a while", 2, faults::strangers),
    action("fault: calls fail", 5, faults::calls_fail),
    action("fault: tasks fail", 5, faults::tasks_fail),
    action("fault: tasks act and fail", 5, faults::tasks_act_and_fail),
    action("fault: no room", 2, faults::no_room),
    action("fault: no disk space", 2, faults::no_disk_space),
    action("fault: calls refused", 3, faults::calls_refused),
    action("fault: calls lost", 5, faults::calls_lost),
    action("fault: answers lost", 5, faults::answers_lost),
    action("fault: slow answers", 5, faults::slow),
    action("fault: hanging answers", 5, faults::hanging),
    action("fault: told late", 4, faults::told_late),
    action("fault: sessions lost", 4, faults::sessions_lost),
    action("fault: outage, refused", 2, faults::outage_refused),
    action("fault: outage, unavailable", 2, faults::outage_unavailable),
    action("fault: outage, silent", 2, faults::outage_silent),
    action("fault: another password", 1, faults::password),
    action("fault: another certificate", 2, faults::certificate),
    action("fault: privileges missing", 2, faults::privileges),
    action("fault: VM hidden", 4, faults::hidden),
    action("fault: group's folder hidden", 2, faults::folder_hidden),
    action("fault: config unreadable", 2, faults::unreadable),
    action("fault: recent tasks not told", 2, faults::recent_tasks),
    action("fault: VM inaccessible", 4, faults::inaccessible),
    action("fault: VM disconnected", 3, faults::disconnected),
    action("fault: host lost and back", 3, faults::host_lost),
    action("fault: host in maintenance", 2, faults::maintenance),
    action("fault: host unwell", 2, faults::host_unwell),
    action("guest: tools and address", 4, faults::guest),
    action("API server: frozen", 2, crashes::api_server_frozen),
    action("API server: killed", 1, crashes::api_server_killed),
    action("API server: connections cut", 3, crashes::cut),
    action("API server: away", 2, crashes::shut),
    action("API server: writes refused", 4, crashes::writes_refused),
    action("API server: finalizers refused", 2, crashes::finalizers_refused),
    action("API server: reads refused", 2, crashes::reads_refused),
    action("API server: watches begun anew", 2, crashes::lists_fail),
    action("API server: watches expired", 2, crashes::watches_expired),
    action("API server: writes hang", 2, crashes::writes_hang),
    action("operator: killed", 8, crashes::kill),
    action("operator: killed, back later", 2, crashes::kill_for_a_while),
    action("operator: frozen", 5, crashes::freeze),
    action("operator: told to stop", 2, crashes::stop),
    action("operator: one replica, or two", 4, crashes::replicas),
];

/// One of them, as often as its weight says. Operators are left alone where their memory is watched.
pub(crate) fn choose(storm: &mut Storm, spares_operators: bool) -> &'static Action {
    let kills = |action: &Action| action.name.starts_with("operator: ") && action.name != "operator: frozen";
    let may_be = |action: &&Action| !(spares_operators && kills(action));
    let all = ACTIONS.iter().filter(may_be).map(|action| action.weight).sum();
    let mut left = storm.chance.below(all);
    let mut chosen = ACTIONS.iter().filter(may_be).find(|action| {
        let is_it = left < action.weight;
        left = left.saturating_sub(action.weight);
        is_it
    });
    chosen.take().expect("weights add up to their sum")
}
