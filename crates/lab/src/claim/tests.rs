//! Claims on a plan and figures made up for the purpose.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use plimsoll_workload::driver::ClientOptions;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::syntax::{
    CALCULATIONS, Call, Expression, Form, Function, Mean, Operator, Quantifier, Selector, Word, functions,
};
use super::*;
use crate::figures::{FigureArgument, Times};
use crate::plan::{
    Arm, Axis, CtrlC, Plan, PlannedWorkload, Reload, RunPlan, Search, ServerLost, Setting, SizingTerms, SweepTarget,
};
use plimsoll_workload::driver::WarmUp;
use plimsoll_workload::registry::Catalog;

mod averages;
mod refused;

static TRANSACTIONS: LazyLock<[Vec<String>; 2]> = LazyLock::new(|| listed([&["new_order", "payment"], &["q1", "q6"]]));

/// The names of the transactions of two workloads.
fn listed(names: [&[&str]; 2]) -> [Vec<String>; 2] {
    names.map(|names| names.iter().map(|name| (*name).to_owned()).collect())
}

/// `oltp` with a tenth of high priority and `olap`, swept over a policy, a DOP and a think time.
fn plan() -> Plan {
    let workload = |name: &str, priority: &str| PlannedWorkload {
        name: name.to_owned(),
        kind: "tpcc".to_owned(),
        scale: 1.0,
        parameters: BTreeMap::new(),
        clients: ClientOptions { priority: priority.parse().expect("a rule"), ..ClientOptions::default() },
    };
    let axis = |key: &str, place, values: Value| {
        let values = values.as_array().expect("a list").clone();
        Axis { key: key.to_owned(), place, values }
    };
    let option = |name: &str| SweepTarget::Option(name.to_owned());
    let arm = |name: &str, members: &[usize]| Arm { name: name.to_owned(), members: members.to_vec() };
    Plan {
        name: "x".to_owned(),
        title: None,
        study: None,
        differs: Vec::new(),
        text: None,
        base: Setting {
            url: "embedded:".to_owned(),
            workloads: vec![workload("oltp", "high:0.1"), workload("olap", "low")],
            ..Setting::default()
        },
        axes: vec![
            axis("lock_policy", option("lock_policy"), json!(["standard", "pabort", "pow"])),
            axis("dop", option("dop"), json!([1, 2, 4])),
            axis("oltp.think", SweepTarget::Workload(0, "think".to_owned()), json!(["exp 20ms", "exp 5ms"])),
        ],
        arms: vec![arm("alone:oltp", &[0]), arm("alone:olap", &[1]), arm("together", &[0, 1])],
        run: RunPlan {
            warmup: WarmUp::For(Duration::ZERO),
            measure: Duration::from_secs(1),
            repeats: 1,
            seed: 7,
            reload: Reload::Never,
            search: Search::Grid,
            sizing: SizingTerms::default(),
            looks: 1,
            server_lost: ServerLost::GoOn,
            others_max: 0.1,
            tries: 3,
            disturbed: crate::plan::Disturbed::Discard,
            again: true,
            failed_max: 0.05,
            ctrl_c: CtrlC::AfterRun,
            cut_after: None,
            simulated_requests: None,
        },
        claims: Vec::new(),
        benchmarks: Catalog::new(7),
    }
}

/// Figures that show their cell.
struct MadeUpFigures(Plan);

impl Figures for MadeUpFigures {
    /// Throughput is 100 x DOP, a tenth of it in the class high; `pow` at think time `exp 5ms` has no valid run. Mean
    /// latency is 1000 µs and, of high, 1000, 250, 200, 500 by policy, twice that at think time `exp 5ms`. Locks are
    /// waited for 10 µs, 8 µs of it for holders; `pow` preempts no transaction.
    fn figure(&self, cell: &Cell, metric: Metric) -> Result<f64, String> {
        let setting = self.0.setting(cell.setting);
        let policy = setting.swept["lock_policy"].as_str().expect("text");
        let dop = setting.swept["dop"].as_f64().expect("a number");
        let busy = setting.swept["oltp.think"] == "exp 5ms";
        let is_high = cell.part == RequestSubset::Class(plimsoll_policy::Priority::HIGH);
        match metric {
            Metric::Throughput if policy == "pow" && busy => Err("no run is valid".to_owned()),
            Metric::Throughput => Ok(100.0 * dop * if is_high { 0.1 } else { 1.0 }),
            Metric::MeanLatency => {
                let high =
                    BTreeMap::from([("standard", 1000.0), ("pabort", 250.0), ("pow", 200.0), ("cr(300ms)", 500.0)]);
                Ok(if is_high { high[policy] } else { 1000.0 } * if busy { 2.0 } else { 1.0 })
            }
            Metric::Listed(figure, asking) => match (figure.key, asking) {
                ("latency_us.p50", _) => Ok(1e3),
                ("latency_us.p90", _) => Ok(2e3),
                ("latency_us.p95", _) => Ok(3e3),
                ("latency_us.p99", _) => Ok(4e3),
                ("latency_us.p999", _) => Ok(5e3),
                ("time_share.lock", _) => Ok(0.25),
                ("locks.queue_time_us.mean", _) => Ok(10.0),
                ("locks.wait_excess_us.mean", _) => Ok(8.0),
                ("locks.requests_by_waits", FigureArgument::Times(Times { from, to })) => {
                    Ok(if to.is_some() { 0.1 } else { 0.2 } * from as f64)
                }
                ("locks.preemptions_per_request", _) => Ok(if policy == "pow" { 0.0 } else { 0.2 }),
                (key, _) => Err(format!("{key} was not measured")),
            },
            // 0.25 and 1 by think time: their geometric mean is 0.5.
            Metric::ThroughputRelativeToAlone => Ok(if busy { 0.25 } else { 1.0 }),
        }
    }

    fn knee(&self, axis: usize, share: f64, cell: &Cell) -> Result<f64, String> {
        assert_eq!(self.0.setting(cell.setting).swept["dop"], 1, "the first value of the axis");
        assert_eq!(axis, 1);
        if share > 0.92 { Ok(4.0) } else { Err("the curve is flat".to_owned()) }
    }
}

fn judge(expression: &str) -> Evaluation {
    let plan = plan();
    let names = Names { plan: &plan, transactions: &*TRANSACTIONS, priorities: &[] };
    let claim = Claim::new("t", expression, None, &names).unwrap_or_else(|error| panic!("{expression}: {error}"));
    claim.evaluate(&plan, &MadeUpFigures(plan.clone()))
}

fn check(expression: &str, holds: bool, value: &str) {
    let found = judge(expression);
    assert_eq!((found.holds, found.value.as_deref()), (Some(holds), Some(value)), "{expression}: {found:?}");
}

fn check_undecided(expression: &str, why: &str) {
    let found = judge(expression);
    assert_eq!(
        (found.holds, found.value.as_deref(), found.why_not.as_deref()),
        (None, None, Some(why)),
        "{expression}"
    );
}

#[test]
fn arithmetic_is_as_usual() {
    check("1 + 2 * 3 == 7", true, "7 == 7");
    check("(1 + 2) * 3 - 4 / 2 == 7", true, "7 == 7");
    check("10 - 4 - 3 == 3", true, "3 == 3");
    check("-2 * -3 > 5.5", true, "6 > 5.5");
    check("min(3, 1, 2) + max(3, 1) + abs(-4) <= 8", true, "8 <= 8");
    check("5ms == 5000 and 2s > 1 and 50% == 0.5", true, "5000 == 5000 and 2000000 > 1 and 0.5 == 0.5");
    check("23257800608 > 20823318031", true, "23.3 G > 20.8 G");
    check("900823993 > 900823000 and 10000000 > 9999999", true, "900.824 M > 900.823 M and 10 M > 9999999");
    check("1 != 1", false, "1 != 1");
    check("100_000 == 1e5", true, "100000 == 100000");
    check("1e3 == 1000 and 2.5e-1 == 0.25", true, "1000 == 1000 and 0.25 == 0.25");
    check("0.1 + 0.2 == 0.3 and 0.1 + 0.2 <= 0.3", true, "0.3 == 0.3 and 0.3 <= 0.3");
    check("0.1 + 0.2 > 0.3", false, "0.3 > 0.3");
    check("1.00001 < 1.00002", true, "1.00001 < 1.00002");
    check("not 1 > 2", true, "not (1 > 2)");
    check("1 < 2 < 3", true, "1 < 2 and 2 < 3");
    check("1 < 3 < 2", false, "3 < 2");
    check("1 > 2 or 3 > 2", true, "3 > 2");
    check("1 > 2 or 2 > 3", false, "1 > 2 and 2 > 3");
    check_undecided("1 / 0 > 1", "1 cannot be divided by 0");
}

#[test]
fn figures_are_those_of_the_cells_selected() {
    check("throughput(alone:oltp, standard, dop=2.0) == 200", true, "200 == 200");
    check("throughput(together, oltp, high, dop=4, standard) == 40", true, "40 == 40");
    check("throughput(oltp+olap, workload=olap, dop=4, standard) == 400", true, "400 == 400");
    check("throughput(olap+oltp, class=high, dop=4, \"standard\") == 40", true, "40 == 40");
    check("p50(together, new_order) == 1ms", true, "1000 == 1000");
    check("p999(together, new_order) - p99(together, transaction=payment) == 1ms", true, "1000 == 1000");
    check("p90(together, q6) + p95(alone:olap) == 5ms", true, "5000 == 5000");
    check("share(lock, together, oltp) == 25%", true, "0.25 == 0.25");
    check("throughput(alone:olap, standard, 'think'='exp 5ms', target.dop=2) == 200", true, "200 == 200");
    check("knee(dop, 0.95, alone:olap) <= 4", true, "4 <= 4");
}

#[test]
fn axes_left_open_are_averaged() {
    // (100 + 200 + 400) / 3.
    check("throughput(alone:olap, standard) > 233", true, "233.333 > 233");
    // 1000 and 2000.
    check("mean(alone:olap) == 1500", true, "1500 == 1500");
    check("ratio(oltp) == 0.5", true, "0.5 == 0.5");
    check("ratio(oltp, 'exp 5ms') == 0.25", true, "0.25 == 0.25");
}

#[test]
fn gain_compares_with_the_first_value() {
    check("gain(pow, high, alone:oltp) >= 0.95 * gain(pabort, high, alone:oltp)", true, "5 >= 3.8");
    check("penalty(pow, high, together) < 0.3", true, "0.2 < 0.3");
    check("gain(standard, high, together) == 1", true, "1 == 1");
    // The first swept value is the one that is compared, the second restricts.
    check("gain('exp 5ms', pow, high, together) == 0.5", true, "0.5 == 0.5");
    check("gain(pow, 'exp 5ms', high, together) == 5", true, "5 == 5");
    // All other keys are equal on both sides: selected, fixed, or open.
    check("gain(pow, dop=4, think='exp 5ms', high, together) == 5", true, "5 == 5");
    check("for all t in think: gain(pow, high, together, think=t) == 5", true, "5 == 5 at oltp.think=exp 20ms");
}

#[test]
fn for_all_tells_the_worst_case() {
    check("for all x in dop: throughput(dop=x, standard, alone:oltp) >= 90 * x", true, "100 >= 90 at dop=1");
    check("for all x in dop: throughput(x, standard, alone:oltp) <= 250", false, "400 <= 250 at dop=4");
    check("for all x in dop where x > 1: throughput(x, standard, alone:oltp) >= 180", true, "200 >= 180 at dop=2");
    check(
        "for all x in dop: for all p in lock_policy where throughput(alone:oltp, x, p, 'exp 20ms') > 100: x < 3",
        false,
        "4 < 3 at lock_policy=standard, dop=4",
    );
    check("(for all x in dop: x > 0) and 1 < 2", true, "1 > 0 at dop=1 and 1 < 2");
    check_undecided("for all x in dop where x > 9: x > 1", "no value of `dop` meets the condition behind `where`");
}

#[test]
fn what_was_not_measured_decides_nothing() {
    let why = "all requests of `olap` in `alone:olap` at lock_policy=pow, dop=1, oltp.think=exp 5ms: no run is valid";
    check_undecided("throughput(alone:olap) > 1e-9", why);
    check_undecided("throughput(alone:olap, pow) > 0 or 1 > 2", why);
    check_undecided("throughput(alone:olap, pow) > 0 and 1 < 2", why);
    check_undecided("not throughput(alone:olap, pow) > 0", why);
    // The rest alone decides.
    check("throughput(alone:olap, pow) > 0 or 1 < 2", true, "1 < 2");
    check("2 < 1 and throughput(alone:olap, pow) > 0", false, "2 < 1");
    check(
        "for all p in lock_policy: throughput(alone:olap, p, dop=1) > 200",
        false,
        "100 > 200 at lock_policy=standard",
    );
    let found = judge("for all p in lock_policy: throughput(alone:olap, p) > 1");
    assert_eq!((found.holds, found.why_not.as_deref()), (None, Some(why)));
    let found = judge("share(io, alone:oltp) > 0").why_not.expect("a reason");
    assert!(
        found.ends_with("at lock_policy=standard, dop=1, oltp.think=exp 20ms: time_share.io was not measured"),
        "{found}"
    );
    assert!(judge("knee(dop, 0.9, alone:olap) < 4").why_not.expect("a reason").ends_with("the curve is flat"));
}

fn word() -> impl Strategy<Value = Word> {
    let bare = "[a-z][a-z0-9_]{0,5}(-[a-z]{1,3})?".prop_map(|text| (text, false));
    let quoted = "[a-z0-9 '=,()]{0,8}".prop_map(|text| (text, true));
    prop_oneof![bare, quoted].prop_map(|(text, is_quoted)| Word { span: 0..0, text, is_quoted })
}

fn name() -> impl Strategy<Value = String> {
    "[a-z]{1,2}[0-9]"
}

fn call() -> impl Strategy<Value = Form> {
    let selector = (proptest::option::of(word()), word()).prop_map(|(key, value)| Selector { key, value });
    let parts = (0..functions().len(), word(), 0.0..1.0_f64, proptest::collection::vec(selector, 0..3));
    parts.prop_map(|(function, subject, level, selectors)| {
        let function = functions()[function];
        let has_subject = function.takes_subject();
        let level = (function == Function::Knee).then_some(level);
        Form::Figure(Call { function, subject: has_subject.then_some(subject), level, selectors })
    })
}

fn expression() -> impl Strategy<Value = Expression> {
    const OPERATORS: [Operator; 12] = [
        Operator::Or,
        Operator::And,
        Operator::Less,
        Operator::LessOrEqual,
        Operator::Greater,
        Operator::GreaterOrEqual,
        Operator::Equal,
        Operator::NotEqual,
        Operator::Add,
        Operator::Subtract,
        Operator::Multiply,
        Operator::Divide,
    ];
    let at = |form| Expression { span: 0..0, form };
    let leaf = prop_oneof![(0.0..1e9_f64).prop_map(Form::Number), name().prop_map(Form::Variable), call()].prop_map(at);
    leaf.prop_recursive(4, 24, 3, move |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let all = (name(), word(), proptest::option::of(inner.clone()), inner.clone());
        let average = (name(), word(), proptest::option::of(inner.clone()), inner.clone());
        prop_oneof![
            (0..OPERATORS.len(), boxed.clone(), boxed.clone()).prop_map(|(at, l, r)| Form::Binary(OPERATORS[at], l, r)),
            boxed.clone().prop_map(Form::Not),
            boxed.prop_map(Form::Negative),
            (0..CALCULATIONS.len(), proptest::collection::vec(inner, 1..3))
                .prop_map(|(at, arguments)| Form::Calculation(CALCULATIONS[at].1, arguments)),
            all.prop_map(|(text, axis, condition, body)| {
                let variable = Word { span: 0..0, text, is_quoted: false };
                Form::ForAll(Box::new(Quantifier { variable, axis, condition, body }))
            }),
            average.prop_map(|(text, axis, condition, body)| {
                let variable = Word { span: 0..0, text, is_quoted: false };
                Form::Average(
                    Mean::ALL[usize::from(condition.is_none())],
                    Box::new(Quantifier { variable, axis, condition, body }),
                )
            }),
        ]
        .prop_map(at)
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(expression in expression()) {
        let printed = expression.to_string();
        let read = parse(&printed);
        prop_assert_eq!(read.as_ref(), Ok(&expression), "{}", printed);
    }

    #[test]
    fn no_text_makes_reading_panic(text in "\\PC*") {
        let _ = parse(&text);
    }

    #[test]
    fn no_tokens_make_reading_or_binding_panic(
        tokens in proptest::collection::vec(
            prop_oneof![
                "[a-z0-9é.]{1,3}",
                proptest::sample::select(vec![
                    "(", ")", ",", "=", "<", ">=", "+", "-", "*", "/", "and", "not", "for all x in dop:", "average(x in dop:", "waited(", "where", "\"", "throughput(",
                    "gain(", "knee(dop, 0.9, ", "share(", "pow", "together", "high", "oltp", "dop", "x", "5 ms", "%", "1",
                ])
                .prop_map(str::to_owned)
            ],
            0..12,
        )
    ) {
        let text = tokens.join(" ");
        let plan = plan();
        let names = Names { plan: &plan, transactions: &*TRANSACTIONS, priorities: &[] };
        if let Ok(claim) = Claim::new("t", &text, None, &names) {
            claim.evaluate(&plan, &MadeUpFigures(plan.clone()));
        }
    }
}
