//! `SHOW SERVERS`: the server processes that serve sessions, one row each.

use crate::admin::answer::{Answer, Cell, Column, Refusal, float, int, text};
use crate::admin::command::Call;
use crate::registry::Phase;

pub const COLUMNS: &[Column] = &[
    int("pid"),
    text("user"),
    text("database"),
    text("state"),
    text("addr"),
    float("connected_s"),
    int("client"),
    text("class"),
    text("cpu"),
    int("cancels_in_flight"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let address = settings.server.address();
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
        Some(vec![
            Cell::from(i64::from(process)),
            card.login.user.as_str().into(),
            card.login.database.as_str().into(),
            server.name().into(),
            address.as_str().into(),
            Cell::seconds(call.now.saturating_duration_since(card.opened)),
            card.id.0.into(),
            class.name.as_str().into(),
            share.into(),
            state.cancels.in_flight.into(),
        ])
    });
    Ok(Answer::of(rows.collect()))
}
