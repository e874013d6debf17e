//! The columns that pgbouncer has for clients and server connections, and `SHOW SOCKETS`, which lists both.

use std::time::{Instant, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::figures::{Figures, client_state, server_state, waited};
use crate::admin::answer::{Answer, Cell, Column, Refusal, int4, text};
use crate::admin::command::Call;
use crate::pool::pools::{Idle, PoolKey};
use crate::registry::{CardState, Phase, SessionCard};

/// pgbouncer's columns, then others.
macro_rules! socket_columns {
    ($($own:expr),* $(,)?) => {
        &[
            text("type"),
            text("user"),
            text("database"),
            text("replication"),
            text("state"),
            text("addr"),
            int4("port"),
            text("local_addr"),
            int4("local_port"),
            text("connect_time"),
            text("request_time"),
            int4("wait"),
            int4("wait_us"),
            int4("close_needed"),
            text("ptr"),
            text("link"),
            int4("remote_pid"),
            text("tls"),
            text("application_name"),
            int4("prepared_statements"),
            int4("id"),
            $($own),*
        ]
    };
}
pub(super) use socket_columns;

/// One side of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideOf {
    Client,
    Server,
}

/// pgbouncer's cells. What the governor does not know of a connection is null.
pub(super) fn cells(call: &Call<'_>, card: &SessionCard, state: &CardState, side: SideOf) -> Vec<Cell> {
    let figures = Figures::of(call.governor);
    let (client, server) = (format!("c{}", card.id.0), card.process().map(|process| format!("s{process}")));
    let linked = server.clone().filter(|_| figures.is_linked(card));
    let waits = waited(state, call.now);
    let (of_client, address) = (side == SideOf::Client, &call.governor.settings().server);
    let (host, port) = match side {
        SideOf::Client => ends_of(&card.peer),
        SideOf::Server => ends_of(&address.address()),
    };
    let (ptr, link) = match side {
        SideOf::Client => (client, linked.unwrap_or_default()),
        SideOf::Server => (server.unwrap_or_default(), linked.map(|_| client).unwrap_or_default()),
    };
    vec![
        (if of_client { "C" } else { "S" }).into(),
        card.login.user.as_str().into(),
        card.login.database.as_str().into(),
        "none".into(),
        (if of_client { client_state(&figures, card, state) } else { server_state(&figures, card, state) }).into(),
        host.into(),
        port.map_or(Cell::Null, Cell::int4),
        Cell::Null,
        Cell::Null,
        moment(call.now, card.opened).into(),
        moment(call.now, state.asked).into(),
        Cell::int4(if of_client { waits.as_secs() } else { 0 }),
        Cell::int4(if of_client { waits.subsec_micros() } else { 0 }),
        Cell::int4(u8::from(card.ends_when_idle())),
        ptr.into(),
        link.into(),
        Cell::int4(card.process().filter(|_| !of_client).unwrap_or(0)),
        Cell::Null,
        card.login.application_name.as_str().into(),
        Cell::Null,
        Cell::int4(card.id.0),
    ]
}

/// pgbouncer's cells of a connection of a pool that serves no client.
pub(super) fn idle_cells(call: &Call<'_>, key: &PoolKey, idle: &Idle, is_closing: bool) -> Vec<Cell> {
    let (host, port) = ends_of(&call.governor.settings().server.address());
    vec![
        "S".into(),
        (&*key.user).into(),
        (&*key.database).into(),
        "none".into(),
        "idle".into(),
        host.into(),
        port.map_or(Cell::Null, Cell::int4),
        Cell::Null,
        Cell::Null,
        moment(call.now, idle.made).into(),
        moment(call.now, idle.since).into(),
        Cell::int4(0),
        Cell::int4(0),
        Cell::int4(u8::from(is_closing)),
        format!("s{}", idle.process).into(),
        "".into(),
        Cell::int4(idle.process),
        Cell::Null,
        Cell::Null,
        Cell::Null,
        Cell::Null,
    ]
}

/// The host and the port of an address; a Unix socket has no port.
fn ends_of(address: &str) -> (String, Option<u16>) {
    let parts = address.rsplit_once(':').filter(|_| !address.starts_with('/'));
    let port = parts.and_then(|(_, port)| port.parse().ok());
    match (parts, port) {
        (Some((host, _)), Some(port)) => (host.trim_matches(['[', ']']).to_owned(), Some(port)),
        _ if address.parse::<std::net::IpAddr>().is_ok() => (address.to_owned(), None),
        _ => ("unix".to_owned(), None),
    }
}

/// A moment as pgbouncer writes it: `2026-01-02 03:04:05 UTC`.
fn moment(now: Instant, at: Instant) -> String {
    let at = SystemTime::now() - now.saturating_duration_since(at);
    let shown = |at: Timestamp| at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    Timestamp::try_from(at).map(shown).unwrap_or_default()
}

pub const COLUMNS: &[Column] = socket_columns![
    int4("recv_pos"),
    int4("pkt_pos"),
    int4("pkt_remain"),
    int4("send_pos"),
    int4("send_remain"),
    int4("pkt_avail"),
    int4("send_avail"),
];

/// Clients, then server connections. Sessions own no buffers, so that pgbouncer's columns about these are 0.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let mut answer = sockets(call, |_| true)?;
    let idle = call.governor.pools.idle().into_iter();
    answer.rows.extend(idle.map(|(key, idle, is_closing)| with_buffers(idle_cells(call, &key, &idle, is_closing))));
    Ok(answer)
}

/// Those of sessions whose server works for them, or that wait.
pub fn active(call: &Call<'_>) -> Result<Answer, Refusal> {
    sockets(call, |state| state.phase == Phase::Active || state.is_waiting())
}

fn sockets(call: &Call<'_>, is_shown: impl Fn(&CardState) -> bool) -> Result<Answer, Refusal> {
    let cards = call.governor.registry.all();
    let mut rows = Vec::new();
    for side in [SideOf::Client, SideOf::Server] {
        for card in &cards {
            let state = card.state().clone();
            if is_shown(&state) && (side == SideOf::Client || card.process().is_some()) {
                rows.push(with_buffers(cells(call, card, &state, side)));
            }
        }
    }
    Ok(Answer::of(rows))
}

fn with_buffers(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.extend(std::iter::repeat_n(Cell::Int4(0), 7));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let check =
            |address: &str, host: &str, port| assert_eq!(ends_of(address), (host.to_owned(), port), "{address}");
        check("127.0.0.1:5000", "127.0.0.1", Some(5000));
        check("[::1]:5000", "::1", Some(5000));
        check("db.example:5432", "db.example", Some(5432));
        check("10.0.0.7", "10.0.0.7", None);
        check("local", "unix", None);
        check("/var/run/postgresql/.s.PGSQL.5432", "unix", None);
    }
}
