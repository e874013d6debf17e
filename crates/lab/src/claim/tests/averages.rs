//! Averages over a sweep, values with parentheses, and figures of lock waiting.

use super::*;

#[test]
fn values_with_parentheses_stand_in_quotes() {
    let mut plan = plan();
    plan.axes[0].values.push(json!("cr(300ms)"));
    let names = Names { plan: &plan, transactions: &*TRANSACTIONS, priorities: &[] };
    let new = |expression: &str| Claim::new("t", expression, None, &names);
    for quoted in ["gain(\"cr(300ms)\", high, together) > 1", "gain(lock_policy='cr(300ms)', high, together) > 1"] {
        let claim = new(quoted).unwrap_or_else(|error| panic!("{quoted}: {error}"));
        assert_eq!(claim.evaluate(&plan, &MadeUpFigures(plan.clone())).holds, Some(true), "{quoted}");
    }
    for (bare, at) in [("gain(cr(300ms), high) > 1", 7), ("gain(lock_policy=cr(300ms), high) > 1", 19)] {
        let error = new(bare).expect_err(bare);
        assert_eq!(error.message, "a value with parentheses stands in quotes, as \"cr(300ms)\"");
        assert_eq!(error.span, at..at + 1, "{bare}");
    }
}

#[test]
fn averages_are_arithmetic_means_over_values() {
    check("average(x in dop: x) == 7 / 3", true, "2.33 == 2.33");
    check("average(x in dop where x > 1: 1 / x) == 0.375", true, "0.375 == 0.375");
    check("average(t in think: mean(high, pow, together, t)) == 300", true, "300 == 300");
    // The mean of ratios, not the ratio of means, nor the geometric mean that `gain` takes over open keys.
    check("average(t in think: mean(high, together, standard, t) / 1ms) == 1.5", true, "1.5 == 1.5");
    check("average(p in lock_policy: gain(p, high, together)) == (1 + 4 + 5) / 3", true, "3.33 == 3.33");
    check("geomean(x in dop: x) == 2", true, "2 == 2");
    check("geomean(p in lock_policy: gain(p, high, together)) < 2.72", true, "2.71 < 2.72");
    check_undecided("geomean(x in dop: x - 1) > 0", "0 has no geometric mean with others");
    check(
        "average(t in oltp.think: gain(pow, high, together, t)) >= 0.95 * average(t in think: gain(pabort, high, together, t))",
        true,
        "5 >= 3.8",
    );
    check("average(x in dop: average(t in think: x)) == average(x in dop: x)", true, "2.33 == 2.33");
    check("for all x in dop: average(t in think: x * 2) >= 2", true, "2 >= 2 at dop=1");
    check("average(x in dop: x) * 3 + abs(-average(x in dop: 1)) == 8", true, "8 == 8");
    check_undecided("average(x in dop where x > 9: x) > 1", "no value of `dop` meets the condition behind `where`");
    let why = "all requests of `olap` in `alone:olap` at lock_policy=pow, dop=1, oltp.think=exp 5ms: no run is valid";
    check_undecided("average(p in lock_policy: throughput(alone:olap, p)) > 1", why);
}

#[test]
fn jains_index_tells_how_even_shares_are() {
    check("jain(2, 2, 2) == 1 and jain(1, 0, 0, 0) == 0.25", true, "1 == 1 and 0.25 == 0.25");
    check("jain(mean(high, together, pow), mean(high, together, pow)) >= 0.99", true, "1 >= 0.99");
    check_undecided("jain(1, -2) > 0", "-2 is no share");
    check_undecided("jain(0, 0) > 0", "all shares are 0");
}

#[test]
fn lock_waiting_is_told_of_workloads_and_classes() {
    check("0.75 < wait_excess(high, together) / queue_time(high, together) <= 0.8", true, "0.75 < 0.8 and 0.8 <= 0.8");
    check("queue_time(together, oltp) == 10us", true, "10 == 10");
    check(
        "waited(3+, together, oltp, low) == 60% and waited(2, together, high) == 20%",
        true,
        "0.6 == 0.6 and 0.2 == 0.2",
    );
    check("preemptions(pow, alone:oltp) <= preemptions(pabort, alone:oltp) / 5", true, "0 <= 0.04");
    let found = judge("work_lost(pow, high, together) > 0.7").why_not.expect("a reason");
    assert!(found.ends_with("locks.work_lost_share was not measured"), "{found}");
}
