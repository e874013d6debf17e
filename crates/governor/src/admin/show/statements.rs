//! `SHOW STATEMENTS`.

use crate::activity::Statement;
use crate::admin::answer::{Answer, Cell, Column, Refusal, float, int, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[
    text("fingerprint"),
    text("class"),
    float("share"),
    float("share_low"),
    float("share_high"),
    int("samples"),
    int("running"),
    float("longest_s"),
    text("statement"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let minute = call.governor.activity.lock().minute(call.governor.clock(call.now));
    let row = |of: Statement| {
        let (share, low, high) = of.share;
        vec![
            of.fingerprint.map(|fingerprint| format!("{fingerprint:016x}")).into(),
            of.class.map(|class| settings.class(class).name.as_str()).into(),
            share.into(),
            low.into(),
            high.into(),
            of.samples.into(),
            of.running.into(),
            Cell::seconds(of.longest),
            Cell::from(of.text.unwrap_or_else(|| "(other statements)".to_owned())),
        ]
    };
    Ok(Answer::of(minute.statements.into_iter().map(row).collect()))
}
