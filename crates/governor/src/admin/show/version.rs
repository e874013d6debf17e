//! `SHOW VERSION`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, text};
use crate::admin::command::Call;

/// The columns.
pub const COLUMNS: &[Column] = &[text("version")];

/// The rows.
pub fn run(_: &Call<'_>) -> Result<Answer, Refusal> {
    Ok(Answer::of(vec![vec![Cell::from(concat!("Plimsoll ", env!("CARGO_PKG_VERSION")))]]))
}
