//! `SHOW USERS`.

use std::collections::BTreeMap;

use crate::admin::answer::{Answer, Cell, Column, Refusal, boolean, int, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[text("name"), text("pool_mode"), int("current_connections"), boolean("break_glass")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let mut users: BTreeMap<String, u64> = settings.break_glass.iter().map(|user| (user.clone(), 0)).collect();
    for card in call.governor.registry.all() {
        *users.entry(card.login.user.to_string()).or_default() += 1;
    }
    let row = |(name, sessions): (String, u64)| {
        let is_let_through = settings.break_glass.contains(&name);
        vec![Cell::from(name), "session".into(), sessions.into(), is_let_through.into()]
    };
    Ok(Answer::of(users.into_iter().map(row).collect()))
}
