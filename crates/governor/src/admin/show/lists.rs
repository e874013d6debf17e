//! `SHOW LISTS`.

use std::collections::BTreeSet;

use crate::admin::answer::{Answer, Cell, Column, Refusal, int, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[text("list"), int("items")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let governor = call.governor;
    let settings = governor.settings();
    let sessions = governor.registry.all();
    let databases: BTreeSet<String> = sessions.iter().map(|card| card.login.database.to_string()).collect();
    let users: BTreeSet<String> = sessions.iter().map(|card| card.login.user.to_string()).collect();
    let lists = [
        ("databases", databases.len()),
        ("users", users.len()),
        ("classes", settings.classes.len()),
        ("rules", settings.rules.rules().len()),
        ("clients", sessions.len()),
        ("clients_queued", governor.waiting().len()),
        ("servers", sessions.iter().filter(|card| card.process().is_some()).count()),
        ("preemptions", governor.events().len()),
        ("workers", settings.listen.workers as usize),
        ("console_users", settings.admin.users.len()),
    ];
    Ok(Answer::of(lists.into_iter().map(|(list, items)| vec![Cell::from(list), items.into()]).collect()))
}
