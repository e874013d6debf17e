//! `SHOW FINGERPRINT 'statement'`.

use plimsoll_notation::sql::fingerprint;

use crate::admin::answer::{Answer, Cell, Column, Refusal, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[text("fingerprint")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let [statement] = call.arguments else {
        let refusal = Refusal::new("42601", "SHOW FINGERPRINT takes one statement");
        return Err(refusal.hint("Put it in quotes: SHOW FINGERPRINT 'select 1'."));
    };
    Ok(Answer::of(vec![vec![Cell::from(format!("{:016x}", fingerprint(statement.as_bytes())))]]))
}
