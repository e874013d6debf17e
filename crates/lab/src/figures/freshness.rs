//! The copy of the data that queries read, if there is one: how fast changes reach it, and how old it is.

use plimsoll_workload::freshness::{Freshness, Spread, Tail};

use super::{Figure, FigureValue, Reading, Unit, known, of_run};

pub(super) const FIGURES: &[Figure] = &[
    of_run(
        "device.freshness.lambda",
        "lambda",
        Unit::ChangesPerSecond,
        "changes that transactions published: tuples of the embedded engine, bytes of log of a server with a standby",
        |of| plain(of, |one| one.lambda, "nothing was published, or there were not two looks"),
    ),
    of_run(
        "device.freshness.mu",
        "mu",
        Unit::ChangesPerSecond,
        "changes applied to the copy per second in which that was being done; of a standby also while its queries hold it up",
        |of| {
            plain(
                of,
                |one| one.mu,
                "the copy was seen at work in too few looks; let more clients write, or measure longer",
            )
        },
    ),
    of_run(
        "device.freshness.mu_merge",
        "mu_merge",
        Unit::ChangesPerSecond,
        "changes that queries merged per second of merging; null of a standby, whose queries merge none",
        |of| plain(of, |one| one.mu_merge, "queries merged no changes"),
    ),
    of_run(
        "device.freshness.busy",
        "propagation_busy",
        Unit::Share,
        "part of the time in which changes were being applied to the copy",
        |of| plain(of, |one| one.busy, "the target does not tell when it applies changes"),
    ),
    of_run(
        "device.freshness.lag_us.p50",
        "lag_p50",
        Unit::Microseconds,
        "age of the oldest change that the copy lacked: the value not exceeded for half of the time; 0 while it lacked none",
        |of| spread(of, |one| one.lag_us, |lag| lag.p50),
    ),
    of_run("device.freshness.lag_us.p95", "lag_p95", Unit::Microseconds, "the same for 95 % of the time", |of| {
        spread(of, |one| one.lag_us, |lag| lag.p95)
    }),
    of_run("device.freshness.lag_us.max", "lag_max", Unit::Microseconds, "the same for all of the time", |of| {
        spread(of, |one| one.lag_us, |lag| lag.max)
    }),
    of_run(
        "device.freshness.lag_changes.p50",
        "lag_changes_p50",
        Unit::Changes,
        "changes that were published and not applied: the number not exceeded for half of the time",
        |of| spread(of, |one| one.lag_changes, |lag| lag.p50),
    ),
    of_run(
        "device.freshness.lag_changes.p95",
        "lag_changes_p95",
        Unit::Changes,
        "the same for 95 % of the time",
        |of| spread(of, |one| one.lag_changes, |lag| lag.p95),
    ),
    of_run(
        "device.freshness.lag_changes.max",
        "lag_changes_max",
        Unit::Changes,
        "the same for all of the time",
        |of| spread(of, |one| one.lag_changes, |lag| lag.max),
    ),
    of_run(
        "device.freshness.delta_bytes",
        "delta_bytes",
        Unit::Bytes,
        "the most memory that changes not yet applied took; null of a standby, which has them in its log",
        |of| plain(of, |one| one.delta_bytes, "the target keeps no changes in memory"),
    ),
    of_run(
        "device.freshness.versions",
        "copy_versions",
        Unit::Count,
        "the most versions of the copy that were alive; null of a standby",
        |of| plain(of, |one| one.versions, "the target keeps no versions of the copy"),
    ),
    of_run(
        "device.freshness.staleness_us.p50",
        "staleness_p50",
        Unit::Microseconds,
        "age of the oldest published change that a query beginning then would not have read, for half of the time; 0 if it would have read all",
        |of| spread(of, |one| one.staleness_us, |age| age.p50),
    ),
    of_run(
        "device.freshness.staleness_us.p95",
        "staleness_p95",
        Unit::Microseconds,
        "the same for 95 % of the time",
        |of| spread(of, |one| one.staleness_us, |age| age.p95),
    ),
    of_run(
        "device.freshness.staleness_us.max",
        "staleness_max",
        Unit::Microseconds,
        "the same for all of the time",
        |of| spread(of, |one| one.staleness_us, |age| age.max),
    ),
    of_run(
        "device.freshness.blocked_us.p999",
        "blocked_p999",
        Unit::Microseconds,
        "how long 99.9 % of the commits at most waited where changes are published, for a snapshot, a fold or another commit; null of fewer than 10,000",
        |of| tail(of, |tail| tail.p999),
    ),
    of_run("device.freshness.blocked_us.max", "blocked_max", Unit::Microseconds, "the longest of these waits", |of| {
        tail(of, |tail| tail.max)
    }),
];

fn plain(of: &Reading<'_>, which: fn(&Freshness) -> Option<f64>, why: &str) -> FigureValue {
    known(which(freshness(of)?), why)
}

fn spread(
    of: &Reading<'_>,
    which: fn(&Freshness) -> Option<Spread>,
    figure: fn(&Spread) -> Option<f64>,
) -> FigureValue {
    known(which(freshness(of)?).as_ref().and_then(figure), "there were too few looks; measure longer")
}

fn tail(of: &Reading<'_>, figure: fn(&Tail) -> Option<f64>) -> FigureValue {
    let why =
        "the target does not tell how long commits waited, or there were fewer than 10,000 of them; measure longer";
    known(freshness(of)?.blocked_us.as_ref().and_then(figure), why)
}

fn freshness<'a>(of: &'a Reading<'_>) -> Result<&'a Freshness, String> {
    of.device.freshness.as_ref().ok_or_else(|| {
        "this target tells of no copy that queries read; `propagation` keeps that of `embedded:` up to date, and on PostgreSQL \
         `standby=1` gives them one"
            .to_owned()
    })
}
