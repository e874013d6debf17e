//! `SHOW GOVERNED`.

use plimsoll_settings::governed::Governed;

use crate::admin::answer::{Answer, Cell, Column, Refusal, int, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[
    text("fingerprint"),
    text("class"),
    text("limits"),
    int("transactions_60_s"),
    int("beyond_rate"),
    int("runaways"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let row = |statement: Governed| {
        let counts = call.governor.counts_of(&statement, &settings);
        vec![
            Cell::from(format!("{:016x}", statement.fingerprint)),
            statement.class.as_str().into(),
            statement.limits().into(),
            counts.map(|counts| counts.transactions).into(),
            counts.map(|counts| counts.beyond_rate).into(),
            counts.map(|counts| counts.runaways).into(),
        ]
    };
    Ok(Answer::of(call.governor.governed().into_iter().map(row).collect()))
}
