//! `SHOW MEM`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, int, text};
use crate::admin::command::Call;
use crate::own_process::OwnProcess;

pub const COLUMNS: &[Column] = &[text("name"), int("bytes")];

pub fn run(_: &Call<'_>) -> Result<Answer, Refusal> {
    let own = OwnProcess::read();
    let lines =
        [("resident", own.resident_bytes), ("resident_peak", own.resident_peak_bytes), ("virtual", own.virtual_bytes)];
    Ok(Answer::of(lines.into_iter().map(|(name, bytes)| vec![Cell::from(name), bytes.into()]).collect()))
}
