//! `SHOW ABORTS`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, int, text};
use crate::admin::command::Call;
use crate::statistics::ClassStatistics;

pub const COLUMNS: &[Column] = &[text("class"), text("cause"), text("outcome"), int("count")];

/// One row per reason that has occurred.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let of_class = |class: &ClassStatistics| {
        let row = |(cause, outcome, count): (crate::statistics::AbortCause, crate::statistics::AbortOutcome, u64)| {
            vec![Cell::from(class.name.as_str()), cause.name().into(), outcome.name().into(), count.into()]
        };
        class.aborts.counted().map(row).collect::<Vec<_>>()
    };
    Ok(Answer::of(call.governor.statistics.classes().flat_map(of_class).collect()))
}
