//! `SHOW CAPTURE`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, boolean, float, int, text};
use crate::admin::command::Call;
use crate::statistics::two_digits;

pub const COLUMNS: &[Column] = &[
    text("state"),
    text("folder"),
    float("seconds"),
    int("units"),
    int("bytes"),
    int("lost"),
    float("units_per_s"),
    boolean("redacted"),
    text("why"),
];

/// One row. Nothing is known of a folder, a time and a rate while nothing is recorded.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let view = call.governor.capture.view(call.now);
    let folder = view.folder.map(|folder| folder.display().to_string());
    let rate = (view.seconds > 0.0).then(|| two_digits(view.counts.units as f64 / view.seconds));
    Ok(Answer::of(vec![vec![
        Cell::from(view.state),
        folder.clone().into(),
        folder.map(|_| (view.seconds * 10.0).round() / 10.0).into(),
        view.counts.units.into(),
        view.counts.bytes.into(),
        view.counts.lost.into(),
        rate.into(),
        view.is_redacted.into(),
        view.why.into(),
    ]]))
}
