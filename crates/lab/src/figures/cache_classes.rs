//! How often threads or processes changed their cache class, and the time of a change.

use super::{Figure, Reading, Unit, known, of_run};
use crate::results::CacheSwitching;

pub(super) const FIGURES: &[Figure] = &[
    of_run(
        "device.cache_switches.per_s",
        "cache_switches",
        Unit::PerSecond,
        "how often a query thread (with `cache_switch=per_task`) or a server's process was moved to another cache class",
        |of| Ok(switching(of)?.per_s),
    ),
    of_run(
        "device.cache_switches.us",
        "cache_switch_us",
        Unit::Microseconds,
        "time that such a move took, mean",
        |of| known(switching(of)?.us, "no work has changed its cache class"),
    ),
];

fn switching<'a>(of: &'a Reading<'_>) -> Result<&'a CacheSwitching, String> {
    let none =
        || "the database has no cache classes; `embedded:` and `postgres:` do with `cache_classes=on`".to_owned();
    of.device.cache_switches.as_ref().ok_or_else(none)
}
