//! `SHOW HELP`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, text};
use crate::admin::command::{COMMANDS, Call};

pub const COLUMNS: &[Column] = &[text("command"), text("about"), text("who")];

pub fn run(_: &Call<'_>) -> Result<Answer, Refusal> {
    let row = |command: &crate::admin::command::Command| {
        let who = if command.changes { "users that may change" } else { "every user" };
        vec![Cell::from(command.syntax()), command.about.into(), who.into()]
    };
    Ok(Answer::of(COMMANDS.iter().map(row).collect()))
}
