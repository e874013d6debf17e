//! `SHOW QUEUE`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, float, int, text};
use crate::admin::command::Call;
use crate::registry::SessionId;

pub const COLUMNS: &[Column] = &[
    int("position"),
    int("id"),
    text("user"),
    text("database"),
    text("application_name"),
    text("class"),
    float("waited_s"),
    text("why"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let now = call.governor.clock(call.now);
    let rows = call.governor.waiting().into_iter().map(|waiting| {
        let card = call.governor.registry.get(SessionId(waiting.ticket.0));
        let login = card.as_ref().map(|card| &card.login);
        let is_paused = settings.class(waiting.class).is_paused;
        let why = if is_paused { "the class is paused".to_owned() } else { waiting.why.to_string() };
        vec![
            Cell::from(waiting.position),
            waiting.ticket.0.into(),
            login.map(|login| login.user.as_str()).into(),
            login.map(|login| login.database.as_str()).into(),
            login.map(|login| login.application_name.as_str()).into(),
            settings.class(waiting.class).name.as_str().into(),
            Cell::seconds(now.saturating_sub(waiting.since)),
            why.into(),
        ]
    });
    Ok(Answer::of(rows.collect()))
}
