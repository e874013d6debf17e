//! `SHOW DATABASES`.

use std::collections::BTreeMap;

use crate::admin::answer::{Answer, Cell, Column, Refusal, int, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[text("name"), text("server"), text("pool_mode"), int("current_connections")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let address = call.governor.settings().server.address();
    let mut databases: BTreeMap<String, u64> = BTreeMap::new();
    for card in call.governor.registry.all() {
        *databases.entry(card.login.database.to_string()).or_default() += 1;
    }
    let row = |(name, sessions): (String, u64)| {
        vec![Cell::from(name), address.as_str().into(), "session".into(), sessions.into()]
    };
    Ok(Answer::of(databases.into_iter().map(row).collect()))
}
