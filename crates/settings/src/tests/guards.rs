//! Guards in files.

use std::time::Duration;

use plimsoll_policy::{ClassIndex, GuardMode, RunawayLimits};
use plimsoll_testing::says;

use super::{faults, file, good};

#[test]
fn guards_warn_unless_told_otherwise_and_a_limit_is_what_makes_them_look() {
    let settings = good(&file("", "", "")).settings;
    let guards = settings.guards;
    assert_eq!([guards.migrations, guards.idle, guards.runaways, guards.budgets], [GuardMode::Warn; 4]);
    assert_eq!((guards.migrations_wait, guards.migrations_patience), (Duration::from_millis(100), None));
    assert!(guards.look_for_waiters() && !settings.limits_runaways());
    let text = file("", "", "rate = \"10/s\"\nrows_max = 100000\ntime_max = \"5min\"\ntemp_max = \"1GiB\"");
    let settings = good(&text).settings;
    let expect = RunawayLimits { time: Some(Duration::from_secs(300)), rows: Some(100_000), temp_bytes: Some(1 << 30) };
    assert_eq!(settings.runaway_limits(ClassIndex(1)), expect);
    assert!(settings.limits_runaways() && !settings.runaway_limits(ClassIndex(0)).is_any());
    assert!(settings.paces().all(|pace| pace.is_none()), "it only warns");
    assert!(!settings.is_limited(ClassIndex(1)) || settings.is_searched(ClassIndex(1)));
}

#[test]
fn an_enforced_rate_is_a_pace_and_its_burst_is_a_second_unless_given() {
    for (low, burst) in [("rate = \"10/s\"", 10), ("rate = \"30/min\"", 1), ("rate = \"10/s\"\nburst = 3", 3)] {
        let settings = good(&(file("", "", low) + "[guards]\nbudgets = \"enforce\"\n")).settings;
        let paces: Vec<_> = settings.paces().map(|pace| pace.map(|pace| pace.burst)).collect();
        assert_eq!(paces, [None, Some(burst)]);
        assert!(settings.is_limited(ClassIndex(1)));
    }
}

/// One class is tried out while the others are enforced, or the other way round.
#[test]
fn a_class_may_have_a_mode_of_its_own() {
    let of = |low: &str, guards: &str| {
        let low = format!("rate = \"10/s\"\ntime_max = \"1s\"\n{low}");
        good(&(file("", "", &low) + &format!("[guards]\nbudgets = \"{guards}\"\nrunaways = \"{guards}\"\n"))).settings
    };
    let low = ClassIndex(1);
    for (own, all, expect) in [
        ("guards = \"warn\"", "enforce", GuardMode::Warn),
        ("guards = \"enforce\"", "off", GuardMode::Enforce),
        ("guards = \"off\"", "enforce", GuardMode::Off),
        ("", "enforce", GuardMode::Enforce),
    ] {
        let settings = of(own, all);
        assert_eq!([settings.budgets_of(low), settings.runaways_of(low)], [expect; 2], "{own} {all}");
        assert_eq!(settings.paces().flatten().count(), usize::from(expect == GuardMode::Enforce), "{own} {all}");
        assert_eq!(settings.limits_runaways(), expect > GuardMode::Off, "{own} {all}");
        assert_eq!(settings.runaway_limits(low).is_any(), expect > GuardMode::Off, "{own} {all}");
    }
}

#[test]
fn what_is_no_value_is_told_with_its_place() {
    let check = |low: &str, more: &str, expect: &str| {
        let file = file("", "", low) + more;
        says(&file, &faults(&file), expect);
    };
    check("rate = \"10\"", "", "x.toml:9:8: `10` is not a rate; write a number");
    check("burst = 0", "", "0 is not between 1 and 1000000");
    check("temp_max = \"lots\"", "", "`lots` is not a size");
    check("", "[guards]\nmigrations = \"on\"\n", "`on` is not a mode of a guard; there are `off`, `warn`, `enforce`");
    check("", "[guards]\nmigrations_wait = \"1ms\"\n", "`1ms` is shorter than 5ms, the shortest");
    check("", "[guards]\nmigration = \"warn\"\n", "migrations");
}

#[test]
fn a_guard_that_cannot_do_what_it_is_told_is_warned_of() {
    let check = |low: &str, more: &str, expect: &str| {
        let warnings = good(&(file("", "", low) + more)).warnings;
        assert!(warnings.iter().any(|warning| warning.contains(expect)), "{expect} is not in {warnings:#?}");
    };
    check("burst = 5", "", "`burst` and no `rate`");
    check("rate = \"1/s\"", "[guards]\nbudgets = \"off\"\n", "`budgets` in [guards] is \"off\"");
    check("time_max = \"1s\"", "[guards]\nrunaways = \"off\"\n", "`runaways` in [guards] is \"off\"");
    check("rate = \"1/s\"\nguards = \"off\"", "", "has a `rate`, and `guards` of it is \"off\"");
    check("time_max = \"1s\"", "", "without `control` none is cancelled");
    check("", "[guards]\nmigrations = \"enforce\"\n", "each statement has one try; add `control`");
}
