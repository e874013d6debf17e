//! `SHOW VERSION`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[text("version")];

pub fn run(_: &Call<'_>) -> Result<Answer, Refusal> {
    Ok(Answer::of(vec![vec![Cell::from(concat!("Plimsoll ", env!("CARGO_PKG_VERSION")))]]))
}
