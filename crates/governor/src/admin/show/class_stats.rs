//! `SHOW CLASS_STATS`: totals, and averages of the last minute, by class. Times are in microseconds.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::admin::answer::{Answer, Cell, Column, Refusal, int, text};
use crate::admin::command::Call;
use crate::history::ClassCounts;
use crate::statistics::ClassStatistics;

/// The period that averages cover.
const PERIOD: Duration = Duration::from_secs(60);

pub const COLUMNS: &[Column] = &[
    text("class"),
    int("total_xact_count"),
    int("total_query_count"),
    int("total_xact_time"),
    int("total_query_time"),
    int("total_wait_time"),
    int("total_errors"),
    int("total_preempted"),
    int("total_rollback_lost"),
    int("total_rollback_won"),
    int("avg_xact_count"),
    int("avg_query_count"),
    int("avg_xact_time"),
    int("avg_query_time"),
    int("avg_wait_time"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    rows(call, |place, class| [total_cells(call, class), average_cells(call, place)].concat())
}

fn rows(call: &Call<'_>, cells: impl Fn(usize, &ClassStatistics) -> Vec<Cell>) -> Result<Answer, Refusal> {
    let row = |(place, class): (usize, &ClassStatistics)| {
        let mut row = vec![Cell::from(class.name.as_str())];
        row.extend(cells(place, class));
        row
    };
    Ok(Answer::of(call.governor.statistics.classes().enumerate().map(row).collect()))
}

/// Beside a server, traffic does not pass through the governor and is not counted: null.
fn total_cells(call: &Call<'_>, class: &ClassStatistics) -> Vec<Cell> {
    let counts = ClassCounts::of(class);
    let rollbacks = [&class.rollback_lost_nanos, &class.rollback_won_nanos];
    let rollbacks = rollbacks.map(|nanos| Cell::micros(Duration::from_nanos(nanos.load(Relaxed)))).to_vec();
    if call.governor.settings().is_beside {
        return [vec![Cell::Null; 6], vec![counts.preempted.into()], rollbacks].concat();
    }
    let mut cells = vec![
        counts.transactions.into(),
        counts.units.into(),
        Cell::micros(counts.transaction_times.sum()),
        Cell::micros(counts.unit_times.sum()),
        Cell::micros(counts.queue_times.sum()),
        counts.errors.into(),
        counts.preempted.into(),
    ];
    cells.extend(rollbacks);
    cells
}

/// Null until there are two seconds to compare; times are null if nothing ended.
fn average_cells(call: &Call<'_>, place: usize) -> Vec<Cell> {
    let window = call.governor.history.lock().window(place, PERIOD);
    let Some(window) = window.filter(|_| !call.governor.settings().is_beside) else { return vec![Cell::Null; 5] };
    let counts = &window.counts;
    let micros = |time: Option<Duration>| time.map_or(Cell::Null, Cell::micros);
    vec![
        (window.rate(counts.transactions).round() as i64).into(),
        (window.rate(counts.units).round() as i64).into(),
        micros(counts.transaction_times.mean()),
        micros(counts.unit_times.mean()),
        // The mean over transactions that waited: a mean over all would hide waits.
        micros(counts.queue_times.mean()),
    ]
}
