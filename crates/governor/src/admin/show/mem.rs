//! `SHOW MEM`: pgbouncer's columns over the memory of this process.

use crate::admin::answer::{Answer, Cell, Column, Refusal, int, int4, text};
use crate::admin::command::Call;
use crate::own_process::OwnProcess;

pub const COLUMNS: &[Column] =
    &[text("name"), int4("size"), int4("used"), int4("free"), int4("memtotal"), int("bytes")];

pub fn run(_: &Call<'_>) -> Result<Answer, Refusal> {
    let own = OwnProcess::read();
    let lines =
        [("resident", own.resident_bytes), ("resident_peak", own.resident_peak_bytes), ("virtual", own.virtual_bytes)];
    // Nothing is kept in lists of free items: sizes and counts of items are null.
    let row = |(name, bytes): (&str, Option<u64>)| {
        let total = bytes.map_or(Cell::Null, Cell::int4);
        vec![Cell::from(name), Cell::Null, Cell::Null, Cell::Null, total, bytes.into()]
    };
    Ok(Answer::of(lines.into_iter().map(row).collect()))
}
