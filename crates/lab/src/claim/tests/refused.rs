//! An expression that is not a claim about the plan is refused, with its place.

use plimsoll_testing::says;

use super::*;

/// A refused expression: the text at the place, and part of the message.
#[track_caller]
fn check_refused(expression: &str, place: &str, expect: &str) {
    let plan = plan();
    let names = Names { plan: &plan, transactions: &*TRANSACTIONS, priorities: &[] };
    let error = Claim::new("t", expression, None, &names).expect_err(expression);
    says(expression, &error.message, expect);
    assert_eq!(&expression[error.span.clone()], place, "{expression}: {error}");
}

#[test]
fn what_is_no_expression_is_refused_at_its_place() {
    check_refused("", "", "expected a number, a function");
    check_refused("throughput(oltp) >", "", "found the end");
    check_refused("throughput(oltp >= 3", ">", "expected `)`");
    check_refused("1 < 2 3", "3", "an operator");
    check_refused("throughput(oltp) = 3", "=", "numbers are compared with `==`");
    check_refused("thruput(oltp) > 3", "thruput", "did you mean `throughput`?");
    check_refused("p42(oltp) > 3", "p42", "there is no function `p42`");
    check_refused("5 parsecs > 3", "p", "`parsecs` is not a unit");
    check_refused("1.2.3 > 3", "1", "expected a number");
    check_refused("1_ > 3", "1", "expected a number");
    check_refused("gain(\"pow) > 3", "\"", "never closed");
    check_refused("for x in dop: x > 3", "x", "expected `all`");
    check_refused("for all x in dop x > 3", "x", "expected `:`");
    check_refused("knee(dop) > 3", ")", "expected `,`");
    check_refused("throughput(dop=) > 3", ")", "a value of `dop`");
    check_refused("average(dop) > 3", ")", "expected `in`");
    check_refused("average(3 in dop: 1) > 3", "3", "a name for the value, as in `average(x in dop: …)`");
    check_refused("average(x in dop) > 3", ")", "expected `:`");
    check_refused("average(x in dop: x > 3", "", "expected `)`");
    check_refused("avarage(x in dop: x) > 3", "avarage", "did you mean `average`?");
    let deep = "(".repeat(60) + "1";
    check_refused(&deep, "(", "levels of nesting");
    check_refused(&format!("1 < {}1", "-".repeat(60)), "-", "levels of nesting");
    check_refused(&"1+".repeat(3000), "1", "at most 4000 are allowed");
}

#[test]
fn names_that_mean_nothing_are_refused_at_their_place() {
    check_refused("throughput(alone:oltb) > 1", "alone:oltb", "did you mean `alone:oltp`?");
    check_refused("throughput(arm=alone) > 1", "alone", "there is no arm `alone`; there are `alone:oltp`");
    check_refused("throughput(workload=x, together) > 1", "x", "there are `oltp` and `olap`");
    check_refused("throughput(class=urgent) > 1", "urgent", "there are `low` and `high`");
    check_refused(
        "throughput(together, oltp, transaction=q6) > 1",
        "throughput(together, oltp, transaction=q6)",
        "`oltp` has no transaction `q6`; there are `new_order` and `payment`",
    );
    check_refused("throughput(nev_order, together) > 1", "nev_order", "did you mean `new_order`?");
    check_refused("throughput(dop=3, together) > 1", "3", "its values are `1`, `2` and `4`");
    check_refused("throughput(dpo=2, together) > 1", "dpo", "`dpo` is not swept here (did you mean `dop`?)");
    check_refused("for all x in dpo: x > 1", "dpo", "did you mean `dop`?");
    check_refused("average(x in dpo: x) > 1", "dpo", "did you mean `dop`?");
    check_refused("average(x in dop: y) > 1", "y", "`y` stands for nothing");
    check_refused("average(x in dop: x) + x > 1", "x", "`x` stands for nothing");
    check_refused("average(high in dop: 1) > 1", "high", "`high` is already a class");
    check_refused("for all x in dop: average(x in dop: x) > 1", "x", "would stand for two values");
    check_refused("average(x in lock_policy: x) > 1", "x", "whose values are not numbers");
    check_refused("waited(many, together, oltp) > 1", "many", "`many` is not a number of times; write 0, 1, 2");
    check_refused("waited(100, together, oltp) > 1", "100", "`100` is not a number of times");
    check_refused(
        "mean_waited(4+, together, oltp) > 1",
        "4+",
        "that waited `0`, `1`, `2`, `3+`, `1+` and `2+` times, not 4+",
    );
    check_refused("for all x in dop: y > 1", "y", "`y` stands for nothing");
    check_refused("dop > 1", "dop", "`dop` is a sweep key, not a number");
    check_refused("for all x in lock_policy: x > 1", "x", "whose values are not numbers");
    check_refused("for all dop in dop: dop > 1", "dop", "`dop` is already a sweep key; choose another name");
    check_refused("for all high in dop: 1 > 1", "high", "`high` is already a class");
    check_refused("for all x in dop: for all x in lock_policy: 1 > 1", "x", "would stand for two values");
    check_refused("for all x in dop: throughput(lock_policy=x, together) > 1", "x", "`x` is a value of `dop`");
    check_refused("share(locks, together, oltp) > 1", "locks", "did you mean `lock`?");
    check_refused("knee(lock_policy, 0.9, together, oltp) > 1", "lock_policy", "no knee: its values are not numbers");
    check_refused(
        "knee(dop, 1.5, alone:oltp) > 1",
        "knee(dop, 1.5, alone:oltp)",
        "at the shares `0.9` and `0.95`; this is 1.5",
    );
    check_refused(
        "knee(dop, 0.9, dop=2, alone:oltp) > 1",
        "knee(dop, 0.9, dop=2, alone:oltp)",
        "do not select a value of it",
    );
}

#[test]
fn what_can_mean_several_things_is_refused_with_the_choices() {
    check_refused(
        "throughput(together) > 1",
        "throughput(together)",
        "this can be of `oltp` and `olap`; name the workload",
    );
    check_refused(
        "p95(oltp) > 1",
        "p95(oltp)",
        "runs in several arms; name the one that you mean: `alone:oltp` and `together`",
    );
    check_refused("p95(together, low) > 1", "p95(together, low)", "this can be of `oltp` and `olap`");
    check_refused("p95(alone:olap, oltp) > 1", "p95(alone:olap, oltp)", "`oltp` does not run in arm `alone:olap`");
    check_refused("p95(alone:olap, high) > 1", "p95(alone:olap, high)", "`olap` has no requests of class `high`");
    check_refused("p95(together, alone:oltp) > 1", "alone:oltp", "two arms are selected");
    check_refused("p95(dop=1, dop=2) > 1", "2", "two values of one sweep key");
    check_refused("p95(together, high, new_order) > 1", "new_order", "by class or by transaction");
    let figure = "share(round_trip, together, high)";
    check_refused(&format!("{figure} > 1"), figure, "of workloads, not of parts");
    check_refused(
        "waits(together, new_order) > 1",
        "waits(together, new_order)",
        "waits is known of workloads and classes, not of new_order",
    );
    check_refused("ratio(alone:oltp) > 1", "ratio(alone:oltp)", "nothing runs beside it");
    check_refused("gain(high, together) > 1", "gain(high, together)", "compares a swept value");
    check_refused("throughput(alone:oltp)", "throughput(alone:oltp)", "is a number, where something must hold");
    check_refused("(1 < 2) + 3 > 1", "(1 < 2)", "is true or false, but a number is needed");
    check_refused("average(t in dop: t > 1) > 1", "t > 1", "is true or false, but a number is needed");
    check_refused("average(t in dop: t)", "average(t in dop: t)", "is a number, where something must hold");
    check_refused("abs(1, 2) > 1", "abs(1, 2)", "abs takes one number");
    let mut plan = plan();
    plan.axes[0].values.push(json!(2));
    let names = Names { plan: &plan, transactions: &*TRANSACTIONS, priorities: &[] };
    let error = Claim::new("t", "throughput(2, alone:oltp) > 1", None, &names).expect_err("two axes");
    assert_eq!(error.message, "`2` is ambiguous; write `lock_policy=2` or `dop=2`");
    // A workload may have the name of its only transaction, but not of one of several.
    plan.base.workloads[1].name = "q6".to_owned();
    let check = |transactions: [&[&str]; 2], expect: Option<&str>| {
        let transactions = listed(transactions);
        let names = Names { plan: &plan, transactions: &transactions, priorities: &[] };
        let error = Claim::new("t", "mean(q6, together) > 1", None, &names).err();
        assert_eq!(error.map(|error| error.message).as_deref(), expect);
    };
    check([&["new_order"], &["q6"]], None);
    check([&["new_order"], &["q1", "q6"]], Some("`q6` is ambiguous; write `workload=q6` or `transaction=q6`"));
    plan.arms.remove(0);
    let names = Names { plan: &plan, transactions: &*TRANSACTIONS, priorities: &[] };
    let error = Claim::new("t", "ratio(oltp) > 1", None, &names).expect_err("not alone");
    assert_eq!(error.message, "a ratio needs `oltp` alone to compare with; add alone:oltp to `arms`");
}
