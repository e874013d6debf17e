//! `SHOW STATS`, `SHOW STATS_TOTALS`, `SHOW STATS_AVERAGES` and `SHOW TOTALS`: pgbouncer's columns, by database. Times are
//! in microseconds; averages are over the last minute.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::admin::answer::{Answer, Cell, Column, Refusal, numeric, text};
use crate::admin::command::Call;
use crate::statistics::DatabaseCount::{
    Assignments, Logins, Received, Sent, TransactionNanos, Transactions, UnitNanos, Units, WaitNanos,
};
use crate::statistics::{DatabaseCount, DatabaseCounts};

pub const COLUMNS: &[Column] = &[
    text("database"),
    numeric("total_server_assignment_count"),
    numeric("total_xact_count"),
    numeric("total_query_count"),
    numeric("total_received"),
    numeric("total_sent"),
    numeric("total_xact_time"),
    numeric("total_query_time"),
    numeric("total_wait_time"),
    numeric("total_client_parse_count"),
    numeric("total_server_parse_count"),
    numeric("total_bind_count"),
    numeric("total_client_login_count"),
    numeric("avg_server_assignment_count"),
    numeric("avg_xact_count"),
    numeric("avg_query_count"),
    numeric("avg_recv"),
    numeric("avg_sent"),
    numeric("avg_xact_time"),
    numeric("avg_query_time"),
    numeric("avg_wait_time"),
    numeric("avg_client_parse_count"),
    numeric("avg_server_parse_count"),
    numeric("avg_bind_count"),
    numeric("avg_client_login_count"),
];

pub(crate) const TOTALS: &[Column] = &[
    text("database"),
    numeric("server_assignment_count"),
    numeric("xact_count"),
    numeric("query_count"),
    numeric("bytes_received"),
    numeric("bytes_sent"),
    numeric("xact_time"),
    numeric("query_time"),
    numeric("wait_time"),
    numeric("client_parse_count"),
    numeric("server_parse_count"),
    numeric("bind_count"),
    numeric("client_login_count"),
];

pub(crate) const AVERAGES: &[Column] = &[
    text("database"),
    numeric("server_assignment_count"),
    numeric("xact_count"),
    numeric("query_count"),
    numeric("bytes_received"),
    numeric("bytes_sent"),
    numeric("xact_time"),
    numeric("query_time"),
    numeric("wait_time"),
    numeric("avg_client_parse_count"),
    numeric("avg_server_parse_count"),
    numeric("avg_bind_count"),
    numeric("avg_client_login_count"),
];

pub(crate) const ALL_TOGETHER: &[Column] = &[text("name"), numeric("value")];

/// pgbouncer's names in `SHOW TOTALS`, in the order of the figures.
const NAMES: [&str; FIGURES] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "client_bytes",
    "server_bytes",
    "xact_time",
    "query_time",
    "wait_time",
    "ps_client_parse_count",
    "ps_server_parse_count",
    "ps_bind_count",
    "client_login_count",
];

const FIGURES: usize = 12;

/// Totals of a database. Prepared statements are counted where the governor itself keeps them, which it does not in
/// session mode: pgbouncer has 0 there, too.
fn totals_of(counts: &DatabaseCounts) -> [u64; FIGURES] {
    let count = |of: DatabaseCount| counts.get(of);
    let micros = |of: DatabaseCount| counts.get(of) / 1000;
    [
        count(Assignments),
        count(Transactions),
        count(Units),
        count(Received),
        count(Sent),
        micros(TransactionNanos),
        micros(UnitNanos),
        micros(WaitNanos),
        0,
        0,
        0,
        count(Logins),
    ]
}

/// Rates per second, and mean times. The mean wait is over all transactions, since any of them may wait.
fn averages_of(counts: &DatabaseCounts, length: Duration) -> [u64; FIGURES] {
    let mut averages = totals_of(counts);
    let seconds = length.as_secs_f64().max(1e-9);
    averages.iter_mut().for_each(|total| *total = (*total as f64 / seconds).round() as u64);
    let mean =
        |time: DatabaseCount, of: DatabaseCount| (counts.get(time) / 1000).checked_div(counts.get(of)).unwrap_or(0);
    averages[5] = mean(TransactionNanos, Transactions);
    averages[6] = mean(UnitNanos, Units);
    averages[7] = mean(WaitNanos, Transactions);
    averages
}

/// Totals and averages of every database.
fn figures(call: &Call<'_>) -> BTreeMap<String, ([u64; FIGURES], [u64; FIGURES])> {
    let (length, windows) = call.governor.history.lock().databases().unwrap_or_default();
    let of = |(name, counts): (String, DatabaseCounts)| {
        let window = windows.get(&name).copied().unwrap_or_default();
        (name, (totals_of(&counts), averages_of(&window, length)))
    };
    call.governor.statistics.databases.counts().into_iter().map(of).collect()
}

fn cells(figures: [u64; FIGURES]) -> impl Iterator<Item = Cell> {
    figures.into_iter().map(Cell::Numeric)
}

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let row = |(name, (totals, averages)): (String, _)| {
        [Cell::from(name)].into_iter().chain(cells(totals)).chain(cells(averages)).collect()
    };
    Ok(Answer::of(figures(call).into_iter().map(row).collect()))
}

pub fn totals(call: &Call<'_>) -> Result<Answer, Refusal> {
    let row = |(name, (totals, _)): (String, _)| [Cell::from(name)].into_iter().chain(cells(totals)).collect();
    Ok(Answer::of(figures(call).into_iter().map(row).collect()))
}

pub fn averages(call: &Call<'_>) -> Result<Answer, Refusal> {
    let row = |(name, (_, averages)): (String, _)| [Cell::from(name)].into_iter().chain(cells(averages)).collect();
    Ok(Answer::of(figures(call).into_iter().map(row).collect()))
}

/// All databases together, a figure a row.
pub fn all_together(call: &Call<'_>) -> Result<Answer, Refusal> {
    let sum = |all: &BTreeMap<String, DatabaseCounts>| {
        all.values().fold(DatabaseCounts::default(), |sum, counts| sum.and(counts))
    };
    let (length, windows) = call.governor.history.lock().databases().unwrap_or_default();
    let totals = totals_of(&sum(&call.governor.statistics.databases.counts()));
    let averages = averages_of(&sum(&windows), length);
    let rows = |kind: &'static str, figures: [u64; FIGURES]| {
        NAMES
            .into_iter()
            .zip(figures)
            .map(move |(name, figure)| vec![Cell::from(format!("{kind}_{name}")), Cell::Numeric(figure)])
    };
    Ok(Answer::of(rows("total", totals).chain(rows("avg", averages)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Databases;

    #[test]
    fn times_are_means_and_counts_are_rates() {
        let databases = Databases::default();
        let shop = databases.of("shop");
        for (count, number) in
            [(Transactions, 10), (Units, 20), (TransactionNanos, 50_000_000), (UnitNanos, 40_000_000), (Sent, 1000)]
        {
            shop.add(count, number);
        }
        shop.add(WaitNanos, 1_000_000);
        let counts = databases.counts()["shop"];
        assert_eq!(totals_of(&counts), [0, 10, 20, 0, 1000, 50_000, 40_000, 1000, 0, 0, 0, 0]);
        let averages = averages_of(&counts, Duration::from_secs(10));
        assert_eq!(averages, [0, 1, 2, 0, 100, 5000, 2000, 100, 0, 0, 0, 0]);
        assert_eq!(averages_of(&DatabaseCounts::default(), Duration::ZERO), [0; FIGURES]);
        assert_eq!(counts.since(&counts), DatabaseCounts::default());
    }
}
