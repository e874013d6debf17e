//! `SHOW SERVERS`: the server processes that serve sessions, then those of pools that serve none, one row each:
//! pgbouncer's columns, then ours.

use super::sockets::{SideOf, cells, idle_cells, socket_columns};
use crate::admin::answer::{Answer, Cell, Column, Refusal, int, int4, text};
use crate::admin::command::Call;
use crate::registry::Phase;

pub const COLUMNS: &[Column] =
    socket_columns![int("client"), text("phase"), text("class"), text("cpu"), int("cancels_in_flight"),];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let health = call.governor.health.lock().clone();
    let rows = call.governor.registry.all().into_iter().filter_map(|card| {
        let process = card.process()?;
        let state = card.state().clone();
        // A client that waits for admission between its transactions leaves its server process idle.
        let server = if state.phase == Phase::Queued { Phase::Idle } else { state.phase };
        let class = settings.class(state.class);
        let untouchable = health.untouchable.iter().find(|(other, _)| *other == process);
        let share =
            untouchable.map_or_else(|| class.cpu_in_force().to_string(), |(_, why)| format!("not changed: {why}"));
        let own = vec![
            Cell::from(card.id.0),
            server.name().into(),
            class.name.as_str().into(),
            share.into(),
            state.cancels.in_flight.into(),
        ];
        Some([cells(call, &card, &state, SideOf::Server), own].concat())
    });
    let idle = call.governor.pools.idle().into_iter().map(|(key, idle, is_closing)| {
        let (none, share) = (Cell::Null, idle.share.to_string());
        let own = vec![none.clone(), Phase::Idle.name().into(), none, share.into(), Cell::from(0_u32)];
        [idle_cells(call, &key, &idle, is_closing), own].concat()
    });
    Ok(Answer::of(rows.chain(idle).collect()))
}
