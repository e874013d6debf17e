//! `SHOW USERS`: pgbouncer's columns, then whether a user is let through ungoverned.

use std::collections::BTreeMap;

use super::figures::Figures;
use crate::admin::answer::{Answer, Cell, Column, Refusal, boolean, int4, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[
    text("name"),
    text("pool_size"),
    text("reserve_pool_size"),
    text("pool_mode"),
    int4("max_user_connections"),
    int4("current_connections"),
    int4("max_user_client_connections"),
    int4("current_client_connections"),
    boolean("break_glass"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let (settings, figures) = (call.governor.settings(), Figures::of(call.governor));
    let mut users: BTreeMap<String, (u64, u64)> =
        settings.break_glass.iter().map(|user| (user.clone(), (0, 0))).collect();
    for card in call.governor.registry.all() {
        let counts = users.entry(card.login.user.to_string()).or_default();
        counts.0 += 1;
        counts.1 += u64::from(card.process().is_some());
    }
    let row = |(name, (clients, servers)): (String, (u64, u64))| {
        let is_let_through = settings.break_glass.contains(&name);
        vec![
            Cell::from(name),
            "".into(),
            "".into(),
            figures.mode().into(),
            // There are no limits by user: 0, as in pgbouncer.
            Cell::int4(0),
            Cell::int4(servers),
            Cell::int4(0),
            Cell::int4(clients),
            is_let_through.into(),
        ]
    };
    Ok(Answer::of(users.into_iter().map(row).collect()))
}
