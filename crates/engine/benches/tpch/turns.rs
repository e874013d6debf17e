//! Times of queries that were run by turns, and ratios of them.

use std::time::Duration;

use plimsoll_model::statistics::{Samples, compare_settings};

/// What a query took in each turn on each engine; empty where an engine takes no part.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    /// Ours, planning included.
    pub ours: Vec<Duration>,
    pub planning: Vec<Duration>,
    /// DataFusion as it comes.
    pub stock: Vec<Duration>,
    pub duckdb: Vec<Duration>,
    pub duckdb_planning: Vec<Duration>,
}

impl Turns {
    pub const HEAD: &str =
        "query      best  median    plan |   stock  ours/stock (95 %)     |  DuckDB    plan  ours/DuckDB (95 %)";

    /// One line of figures, milliseconds and ratios.
    pub fn line(&self, name: &str) -> String {
        let milliseconds = |time: Option<Duration>| {
            time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e3))
        };
        let best = milliseconds(self.ours.iter().min().copied());
        let [ours, planning, stock, duckdb, duckdb_planning] =
            [&self.ours, &self.planning, &self.stock, &self.duckdb, &self.duckdb_planning]
                .map(|times| milliseconds(median(times)));
        let (to_stock, to_duckdb) = (ratio(&self.ours, &self.stock), ratio(&self.ours, &self.duckdb));
        format!(
            "{name:<6} {best:>8} {ours:>7} {planning:>7} | {stock:>7}  {to_stock:<22} | {duckdb:>7} {duckdb_planning:>7}  {to_duckdb}"
        )
    }
}

/// All queries as one, turn by turn.
pub fn sums(all: &[Turns]) -> Turns {
    let turns = all.iter().map(|turns| turns.ours.len()).min().unwrap_or(0);
    let sum = |of: fn(&Turns) -> &Vec<Duration>| -> Vec<Duration> {
        let turn = |turn: usize| all.iter().map(|turns| of(turns).get(turn).copied()).sum::<Option<Duration>>();
        (0..turns).map_while(turn).collect()
    };
    Turns {
        ours: sum(|turns| &turns.ours),
        planning: sum(|turns| &turns.planning),
        stock: sum(|turns| &turns.stock),
        duckdb: sum(|turns| &turns.duckdb),
        duckdb_planning: sum(|turns| &turns.duckdb_planning),
    }
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort();
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 0 => Some((sorted[half - 1] + sorted[half]) / 2),
        _ => Some(sorted[half]),
    }
}

/// Our time over another's within each turn but the first, which finds caches cold, with its 95 % interval.
pub fn ratio(ours: &[Duration], other: &[Duration]) -> String {
    let warm = |times: &[Duration]| {
        let skipped = times.iter().take(ours.len().min(other.len())).skip(usize::from(ours.len() > 2));
        skipped.map(Duration::as_secs_f64).collect::<Vec<f64>>()
    };
    if other.is_empty() {
        return "-".to_owned();
    }
    let samples = Samples::complete(&[warm(ours), warm(other)]);
    let Some(ratio) = compare_settings(&samples, 0, 1, None).ratio else { return "-".to_owned() };
    match ratio.low.zip(ratio.high) {
        Some((low, high)) => format!("{:.2} ({low:.2} to {high:.2})", ratio.value),
        None => format!("{:.2}", ratio.value),
    }
}
