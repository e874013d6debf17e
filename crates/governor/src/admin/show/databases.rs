//! `SHOW DATABASES`: pgbouncer's columns, then the server's address.

use std::collections::BTreeMap;

use plimsoll_pg::url::ServerHost;

use super::figures::Figures;
use crate::admin::answer::{Answer, Cell, Column, Refusal, int4, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[
    text("name"),
    text("host"),
    int4("port"),
    text("database"),
    text("force_user"),
    int4("pool_size"),
    int4("min_pool_size"),
    int4("reserve_pool_size"),
    int4("server_lifetime"),
    text("pool_mode"),
    text("load_balance_hosts"),
    int4("max_connections"),
    int4("current_connections"),
    int4("max_client_connections"),
    int4("current_client_connections"),
    int4("paused"),
    int4("disabled"),
    text("server"),
];

/// Databases that have sessions, or that were closed.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let (settings, figures) = (call.governor.settings(), Figures::of(call.governor));
    // Clients, and server connections.
    let mut databases: BTreeMap<String, (u64, u64)> =
        call.governor.doors.names().into_iter().map(|name| (name, (0, 0))).collect();
    for card in call.governor.registry.all() {
        let counts = databases.entry(card.login.database.to_string()).or_default();
        counts.0 += 1;
        counts.1 += u64::from(card.process().is_some());
    }
    for ((database, _), pool) in figures.pools(call.now) {
        databases.entry(database).or_default().1 += pool.servers_idle;
    }
    let host = match &settings.server.host {
        ServerHost::Tcp(host) => host.clone(),
        ServerHost::Socket(folder) => folder.display().to_string(),
    };
    let row = |(name, (clients, servers)): (String, (u64, u64))| {
        let (paused, disabled) = (figures.is_paused(&name), figures.is_disabled(&name));
        vec![
            Cell::from(name.as_str()),
            host.as_str().into(),
            Cell::int4(settings.server.port),
            name.as_str().into(),
            Cell::Null,
            Cell::int4(figures.pool_size()),
            Cell::int4(0),
            Cell::int4(0),
            Cell::int4(figures.server_lifetime_s()),
            figures.mode().into(),
            Cell::Null,
            // There are no limits by database: 0, as in pgbouncer.
            Cell::int4(0),
            Cell::int4(servers),
            Cell::int4(0),
            Cell::int4(clients),
            Cell::int4(u8::from(paused)),
            Cell::int4(u8::from(disabled)),
            settings.server.address().into(),
        ]
    };
    Ok(Answer::of(databases.into_iter().map(row).collect()))
}
