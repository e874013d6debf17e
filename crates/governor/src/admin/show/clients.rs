//! `SHOW CLIENTS`: pgbouncer's columns, then what the governor knows of each session.

use super::sockets::{SideOf, cells, socket_columns};
use crate::admin::answer::{Answer, Cell, Column, Refusal, float, int, int4, text};
use crate::admin::command::Call;
use crate::registry::{ChosenBy, Immunity, Phase};
use crate::settings::Settings;
use plimsoll_policy::NoReplay;

pub const COLUMNS: &[Column] = socket_columns![
    text("class"),
    text("chosen_by"),
    // In words like PostgreSQL's; `state` is pgbouncer's.
    text("phase"),
    float("phase_s"),
    float("transaction_s"),
    int("transactions"),
    int("rollbacks"),
    text("immune"),
    int("server_pid"),
    float("connected_s"),
    int("holder_id"),
    int("holder_pid"),
    text("replay"),
    // Why the session keeps its connection of the pool.
    text("pinned"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let commits_wait = call.governor.health.lock().commits_may_wait(call.now);
    let blocked = call.governor.blocked();
    let rows = call.governor.registry.all().into_iter().map(|card| {
        let state = card.state().clone();
        let since = |moment| Cell::seconds(call.now.saturating_duration_since(moment));
        let holder = blocked.iter().find(|blocked| blocked.waiter == card.id);
        let is_between = matches!(state.phase, Phase::Starting | Phase::Idle);
        let may_lose = state.phase.is_inside() && settings.class(state.class).preemptible;
        let is_victim = may_lose && state.observed.is_none();
        let own = vec![
            Cell::from(settings.class(state.class).name.as_str()),
            chosen_by(&settings, state.chosen_by).into(),
            state.phase.name().into(),
            since(state.since),
            if is_between { Cell::Null } else { since(state.transaction_since) },
            // Beside a server, some transactions fall between two looks and are not counted.
            if state.observed.is_some() { Cell::Null } else { state.transaction.into() },
            state.rollbacks.into(),
            // Why its transaction must not be rolled back now although its class allows it.
            state.immunity(commits_wait, call.now).map(Immunity::name).into(),
            card.process().map(i64::from).into(),
            since(card.opened),
            // The session that it waits for in the end, if the last look has shown one.
            holder.and_then(|blocked| blocked.holder).map(|holder| holder.0).into(),
            holder.map(|blocked| i64::from(blocked.holder_process)).into(),
            // Whether a replay is expected to succeed, or why not.
            is_victim.then(|| state.replayable.map_or_else(NoReplay::name, |()| "possible")).into(),
            state.pinned.clone().into(),
        ];
        [cells(call, &card, &state, SideOf::Client), own].concat()
    });
    Ok(Answer::of(rows.collect()))
}

/// Why a session or its transaction has its class, in words.
pub fn chosen_by(settings: &Settings, chosen_by: ChosenBy) -> String {
    match chosen_by {
        ChosenBy::Rule(None) => "default".to_owned(),
        ChosenBy::Rule(rule) => settings.rules.describe(rule),
        ChosenBy::Setting => "SET plimsoll.class".to_owned(),
        ChosenBy::Tag => "tag".to_owned(),
    }
}
