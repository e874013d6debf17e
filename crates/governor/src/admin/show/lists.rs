//! `SHOW LISTS`: pgbouncer's lists, then ours.

use std::collections::BTreeSet;

use super::figures::Figures;
use crate::admin::answer::{Answer, Cell, Column, Refusal, int4, text};
use crate::admin::command::Call;
use crate::registry::Phase;

pub const COLUMNS: &[Column] = &[text("list"), int4("items")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let governor = call.governor;
    let settings = governor.settings();
    let sessions = governor.registry.all();
    let databases: BTreeSet<String> = sessions.iter().map(|card| card.login.database.to_string()).collect();
    let users: BTreeSet<String> = sessions.iter().map(|card| card.login.user.to_string()).collect();
    let pools = Figures::of(governor).pools(call.now);
    let is_starting = |card: &&std::sync::Arc<crate::registry::SessionCard>| card.state().phase == Phase::Starting;
    let starting = sessions.iter().filter(is_starting).count();
    let servers = sessions.iter().filter(|card| card.process().is_some()).count();
    let spare: u64 = pools.values().map(|pool| pool.servers_idle).sum();
    let lists = [
        ("databases", databases.len()),
        ("users", users.len()),
        ("peers", settings.listen.peers.len()),
        ("pools", pools.len()),
        ("peer_pools", settings.listen.peers.len()),
        // No structures are kept for sessions to come.
        ("free_clients", 0),
        ("used_clients", sessions.len() - starting),
        ("login_clients", starting),
        ("free_servers", 0),
        ("used_servers", servers + usize::try_from(spare).unwrap_or_default()),
        // Names are looked up with each connection, and not kept.
        ("dns_names", 0),
        ("dns_zones", 0),
        ("dns_queries", 0),
        ("dns_pending", 0),
        ("classes", settings.classes.len()),
        ("rules", settings.rules.rules().len()),
        ("clients", sessions.len()),
        ("clients_queued", governor.waiting().len()),
        ("servers", servers),
        ("preemptions", governor.events().len()),
        ("workers", settings.listen.workers as usize),
        ("console_users", settings.admin.users.len()),
    ];
    Ok(Answer::of(lists.into_iter().map(|(list, items)| vec![Cell::from(list), Cell::int4(items)]).collect()))
}
