//! `SHOW PEERS` and `SHOW PEER_POOLS`: the other governors behind the same address.

use crate::admin::answer::{Answer, Cell, Column, Refusal, int4, text};
use crate::admin::command::Call;
use crate::settings::Peer;

pub const COLUMNS: &[Column] = &[int4("peer_id"), text("host"), int4("port"), int4("pool_size")];

pub(crate) const POOLS: &[Column] = &[
    int4("peer_id"),
    int4("cl_active_cancel_req"),
    int4("cl_waiting_cancel_req"),
    int4("sv_active_cancel"),
    int4("sv_login"),
];

/// Peers have no numbers of their own: they are counted in the order of the settings.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let row = |(place, peer): (usize, &Peer)| {
        let (host, port) = match peer {
            Peer::Tcp(address) => address.rsplit_once(':').unwrap_or((address, "")),
            Peer::Socket(_) => ("", ""),
        };
        let host = if host.is_empty() { peer.to_string() } else { host.trim_matches(['[', ']']).to_owned() };
        let port = port.parse::<u16>().map_or(Cell::Null, Cell::int4);
        // Each cancel has a connection of its own.
        vec![Cell::int4(place + 1), host.into(), port, Cell::int4(0)]
    };
    Ok(Answer::of(settings.listen.peers.iter().enumerate().map(row).collect()))
}

/// Every cancel goes to every peer.
pub fn pools(call: &Call<'_>) -> Result<Answer, Refusal> {
    let (peers, under_way) = (call.governor.settings().listen.peers.len(), call.governor.cancels_at_peers());
    let row = |place: usize| {
        vec![Cell::int4(place + 1), Cell::int4(under_way), Cell::int4(0), Cell::int4(under_way), Cell::int4(0)]
    };
    Ok(Answer::of((0..peers).map(row).collect()))
}
