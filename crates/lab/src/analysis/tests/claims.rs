//! Claims judged from runs: whether they hold beyond noise.

use plimsoll_workload::driver::LittlesLaw;

use super::*;
use crate::claim::grade::Grade;
use crate::results::{CacheSwitching, ClaimInterval, ClaimResult, ClaimVerdict, IntervalOf};
use ClaimVerdict::{Fails, Holds, NotJudged, Undecided};

/// Three policies along a DOP: `pabort` is faster than `standard` by a half and `pow` by 1 %; from DOP 4 on none gains.
fn judged(claims: &[&str], repeats: u32, change: impl Fn(&mut RunRecord)) -> Vec<ClaimResult> {
    let mut text = format!(
        "name = \"x\"\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n[sweep]\n\
         policy = [\"standard\", \"pabort\", \"pow\"]\ndop = \"1..8\"\n[run]\nrepeats = {repeats}\n"
    );
    for claim in claims {
        text.push_str(&format!("[[claim]]\ntext = \"it is so\"\nholds = '{claim}'\npublished = \"1.5\"\n"));
    }
    let plan = plan(&text);
    let mut noise = Noise::new(7, 0.02);
    let mut records = measure(&plan, |_, setting, _| {
        let factor = match setting.swept["policy"].as_str().expect("text") {
            "standard" => 1.0,
            "pabort" => 1.5,
            _ => 1.01,
        };
        1_000.0 * factor * (setting.swept["dop"].as_f64().expect("a number") / 4.0).min(1.0) * noise.factor()
    });
    records.iter_mut().for_each(change);
    results(&plan, &records).claims
}

fn check(claims: &[ClaimResult], expect: &[ClaimVerdict]) {
    let told: Vec<ClaimVerdict> = claims.iter().map(|claim| claim.verdict).collect();
    assert_eq!(told, expect, "{claims:#?}");
}

#[test]
fn clear_claims_are_decided_and_close_ones_are_not() {
    let claims = judged(
        &[
            "throughput(pabort, dop=8) > 1.2 * throughput(standard, dop=8)",
            "throughput(pabort, dop=8) < 1.2 * throughput(standard, dop=8)",
            "throughput(pow, dop=8) > 1.01 * throughput(standard, dop=8)",
            "p50(pabort, dop=8) < p50(standard, dop=8)",
            "throughput(pabort, dop=8) == 1.2 * throughput(standard, dop=8)",
            "throughput(pow, dop=8) == 1.01 * throughput(standard, dop=8)",
        ],
        5,
        |_| {},
    );
    check(&claims, &[Holds, Fails, Undecided, Holds, Fails, Undecided]);
    assert!(claims[2].blocks_more != Some(0) && claims[0].blocks_more == Some(0), "{claims:#?}");
    assert!(claims[5].why_not.as_deref().is_some_and(|why| why.contains("equal cannot be shown")), "{:?}", claims[5]);
    assert!(claims.iter().all(|claim| claim.value.is_some()));
    assert!(claims.iter().all(|claim| claim.published.as_deref() == Some("1.5") && claim.text == "it is so"));
}

/// The interval is of left over right, 1.5 / 1.2, or of the left side if the right one is a number.
#[test]
fn intervals_are_of_the_ratio_or_of_the_left_side() {
    let claims = judged(
        &[
            "throughput(pabort, dop=8) > 1.2 * throughput(standard, dop=8)",
            "throughput(pabort, dop=8) / throughput(standard, dop=8) < 1.8",
            "throughput(pabort, dop=8) - throughput(pabort, dop=4) < 200",
        ],
        5,
        |_| {},
    );
    let covers = |claim: &ClaimResult, of, truth| {
        let ClaimInterval { of: found, value, low, high } = claim.interval.expect("it was repeated");
        let (low, high) = (low.expect("two ends"), high.expect("two ends"));
        assert_eq!(found, of);
        assert!(low < truth && truth < high && low < value && value < high, "{claim:?}");
        assert!(high - low < 0.3 * value.abs().max(500.0), "{claim:?}");
    };
    covers(&claims[0], IntervalOf::Ratio, 1.25);
    covers(&claims[1], IntervalOf::Left, 1.5);
    covers(&claims[2], IntervalOf::Left, 0.0);
    check(&claims, &[Holds, Holds, Holds]);
}

/// `for all` holds if each case does, each judged by itself. A failure of one of many cases must be clearer, because
/// any may fail by chance.
#[test]
fn for_all_holds_or_has_a_counterexample() {
    let claims = judged(
        &[
            "for all d in dop: throughput(pabort, dop=d) > 1.3 * throughput(standard, dop=d)",
            "for all d in dop: throughput(dop=d, standard) > 400",
            "for all d in dop where d >= 4: throughput(pow, dop=d) > 1.01 * throughput(standard, dop=d)",
            "throughput(pabort, dop=8) > throughput(standard, dop=8) or throughput(pow, dop=8) < 1",
            "not throughput(pabort, dop=8) > throughput(standard, dop=8)",
        ],
        5,
        |_| {},
    );
    check(&claims, &[Holds, Fails, Undecided, Holds, Fails]);
    assert!(claims[1].value.as_deref().is_some_and(|value| value.ends_with("> 400 at dop=1")), "{:?}", claims[1]);
}

#[test]
fn knees_can_be_claimed() {
    let claims = judged(
        &["knee(dop, 0.9, standard) <= 5", "knee(dop, 0.95, pabort) <= 2", "knee(dop, 0.9, pow) == 4"],
        3,
        |_| {},
    );
    check(&claims, &[Holds, Fails, Holds]);
}

/// A curve that is level down to the least value says only that the knee is not above it.
#[test]
fn a_knee_at_the_least_value_of_a_sweep_is_not_judged() {
    let of = |values: &str| {
        let text = format!(
            "name = \"x\"\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n[sweep]\ndop = {values}\n[run]\nrepeats = 3\n\
             [[claim]]\ntext = \"it needs few\"\nholds = 'knee(dop, 0.9) <= 4'\n"
        );
        let plan = plan(&text);
        let mut noise = Noise::new(7, 0.01);
        let records = measure(&plan, |_, _, _| 1_000.0 * noise.factor());
        results(&plan, &records).claims
    };
    let claims = of("[2, 4, 8]");
    check(&claims, &[NotJudged]);
    assert!(
        claims[0].why_not.as_deref().is_some_and(|why| why.ends_with("2, is enough; sweep `dop` lower")),
        "{claims:?}"
    );
    check(&of("[1, 4, 8]"), &[Holds]);
}

/// Without a cache that can be divided, cache classes change only how queries are divided into jobs.
#[test]
fn classes_that_were_never_bound_are_not_judged() {
    let claims = |unbound| {
        judged(
            &["throughput(pabort, dop=8) > 1.2 * throughput(standard, dop=8)", "p50(pow, dop=8) > 0"],
            5,
            move |record| {
                if record.point.setting["policy"] == "pabort" {
                    let switching = CacheSwitching { per_s: 1.0, us: None, unbound };
                    record.point.device.cache_switches = Some(switching);
                }
            },
        )
    };
    check(&claims(false), &[Holds, Holds]);
    let unbound = claims(true);
    check(&unbound, &[NotJudged, Holds]);
    assert!(
        unbound[0].why_not.as_deref().is_some_and(|why| why.contains("bound to no part of the cache")),
        "{unbound:?}"
    );
}

#[test]
fn what_was_not_measured_is_neither_true_nor_false() {
    let claims = judged(
        &[
            "throughput(pow, dop=8) > 1",
            "share(lock, pow, dop=8) > 0.1",
            "throughput(standard, dop=8) > 1",
            "p999(standard, dop=8) > 1",
        ],
        2,
        |record| {
            record.point.workloads[0].all.completed = 200;
            if record.point.setting["policy"] == "pow" && record.point.setting["dop"] == 8 {
                record.point.valid = false;
            }
        },
    );
    check(&claims, &[NotJudged, NotJudged, Holds, NotJudged]);
    let is_told = |claim: &ClaimResult, why: &str| {
        assert!(claim.why_not.as_deref().is_some_and(|told| told.ends_with(why)), "{claim:?}");
    };
    is_told(&claims[0], "there is no valid run of alone:oltp at dop=8, policy=\"pow\"");
    is_told(&claims[3], "it needs 10000 completed requests, so that ten lie beyond it, and there are 400");
}

/// A block in which a side has no valid run does not count; the others decide.
#[test]
fn a_missing_run_leaves_its_block_out() {
    let text = "throughput(pabort, dop=8) > 1.2 * throughput(standard, dop=8)";
    let lose = |record: &mut RunRecord| {
        let setting = &record.point.setting;
        if record.id.repeat > 2 && setting["policy"] == "pabort" && setting["dop"] == 8 {
            record.point.valid = false;
        }
    };
    let (with, without) = (judged(&[text], 4, |_| {}), judged(&[text], 4, lose));
    let width = |claim: &ClaimResult| claim.interval.and_then(|interval| Some(interval.high? - interval.low?));
    assert!(width(&without[0]) > width(&with[0]), "{without:?} {with:?}");
    check(&judged(&[text], 2, |record| record.point.valid &= record.id.repeat == 1), &[Undecided]);
}

#[test]
fn one_repeat_decides_nothing_but_what_is_known_exactly() {
    let close = "throughput(pabort, dop=8) > throughput(standard, dop=8)";
    let claims = judged(&[close, "2 > 1", "throughput(pow, dop=1) > 0", "mean(pow, dop=1) < 0"], 1, |_| {});
    check(&claims, &[Undecided, Holds, Holds, Fails]);
    assert_eq!(claims[0].blocks_more, Some(1));
    let told = (claims[0].interval.and_then(|interval| interval.low), claims[0].why_not.as_deref());
    assert_eq!(told, (None, Some("one block has no spread; at least two are needed")));
}

/// A setting that ran twice differed from itself by a tenth: then a difference of a twentieth is not significant.
#[test]
fn what_a_setting_differs_from_itself_by_is_no_difference() {
    let claims = ["throughput(pabort, dop=8) > 1.43 * throughput(standard, dop=8)"];
    let calm = |record: &mut RunRecord| {
        let result = &mut record.point.workloads[0];
        let truth = if record.point.setting["policy"] == "pabort" { 1500.0 } else { 1000.0 };
        result.all.throughput_per_s = truth + f64::from(record.id.repeat);
    };
    check(&judged(&claims, 3, calm), &[Holds]);
    let found = judged(&claims, 3, |record| {
        calm(record);
        if record.id.is_again {
            record.point.workloads[0].all.throughput_per_s *= 1.1;
        }
    });
    check(&found, &[Undecided]);
    assert!(found[0].why_not.as_deref().is_some_and(|why| why.contains("itself by 10")), "{found:?}");
}

/// Windows with two and three requests in each block look alike by chance: one request more or less is not significant.
#[test]
fn windows_with_a_request_or_two_decide_nothing() {
    let few = |record: &mut RunRecord| {
        let result = &mut record.point.workloads[0];
        result.all.completed = if record.point.setting["policy"] == "pabort" { 3 } else { 2 };
        result.all.throughput_per_s = result.all.completed as f64 / 10.0;
    };
    check(&judged(&["throughput(pabort, dop=8) > throughput(standard, dop=8)"], 2, few), &[Undecided]);
}

#[test]
fn responses_of_windows_that_break_little_s_law_decide_nothing() {
    let of_windows = |in_system: fn(u32) -> f64| {
        let claims = ["p50(standard, dop=8) > 0", "throughput(standard, dop=8) > 1"];
        judged(&claims, 2, |record| {
            let law = LittlesLaw { in_system_s: in_system(record.id.repeat), response_s: 10.0 };
            record.point.workloads[0].window.littles_law = Some(law);
        })
    };
    let claims = of_windows(|_| 12.0);
    let why = "undecided, because in alone:oltp oltp spent 20 % more time within the window than the responses";
    assert_eq!(claims[0].verdict, NotJudged);
    assert!(claims[0].why_not.as_deref().is_some_and(|told| told.contains(why)), "{:?}", claims[0]);
    assert_eq!(claims[1].verdict, Holds, "throughput does not rest on responses");
    // Requests cut off at the end of one window and at the beginning of the other average out.
    let claims = of_windows(|block| if block == 1 { 12.0 } else { 8.0 });
    assert_eq!(claims[0].verdict, Holds, "{:?}", claims[0]);
}

/// A second workload's stalls of ten seconds left more requests in flight at the end of windows than at their
/// beginning. A mean that is some percent off decides nothing near a bound, and does not matter far from it.
#[test]
fn means_of_windows_that_break_little_s_law_a_little_are_judged_both_ways() {
    let of_windows = |in_system_s: f64| {
        let claims =
            ["mean(standard, dop=8) < 1.1ms", "mean(standard, dop=8) < 1.5ms", "mean(standard, dop=8) > 1.5ms"];
        judged(&claims, 3, |record| {
            record.point.workloads[0].window.littles_law = Some(LittlesLaw { in_system_s, response_s: 10.0 });
        })
    };
    check(&of_windows(10.0), &[Holds, Holds, Fails]);
    let claims = of_windows(12.0);
    check(&claims, &[Undecided, Holds, Fails]);
    assert!(claims[0].why_not.as_deref().is_some_and(|why| why.contains("make the windows longer")), "{claims:#?}");
    let ClaimInterval { low, high, .. } = claims[1].interval.expect("it was repeated");
    assert!(low.is_some_and(|low| low < 1000.0) && high.is_some_and(|high| high > 1200.0), "both means: {claims:#?}");
    check(&of_windows(14.0), &[NotJudged; 3]);
}

#[test]
fn ours_is_graded_by_the_published_figure_whatever_the_verdict() {
    let near =
        |claim: &str, ours: &str, published: &str| format!("{claim}'\nnear = {{ ours = \"{ours}\", {published} }} #");
    let gain = "throughput(pabort, dop=8) / throughput(standard, dop=8)";
    let claims = [
        near("throughput(pabort, dop=8) < throughput(standard, dop=8)", gain, "published = 1.6, factor = 1.2"),
        near("mean(pow) > 0", gain, "published = 3.7"),
        near("mean(pow) > 0", gain, "published = [0.5, 0.6]"),
        near("mean(pow) > 0", "device(dram_read_gb_s, pow, dop=1)", "published = 2"),
        "mean(pow) > 0".to_owned(),
    ];
    let claims = judged(&claims.each_ref().map(String::as_str), 3, |_| {});
    let grades: Vec<_> = claims.iter().map(|claim| claim.grade).collect();
    assert_eq!(grades, [Some(Grade::Match), Some(Grade::Direction), Some(Grade::Contrary), None, None]);
    let match_ = claims[0].near.as_ref().expect("it has a published figure");
    let [low, high] = match_.interval.expect("it was repeated");
    assert!(match_.ours.is_some_and(|ours| low <= ours && ours <= high && (1.4..1.6).contains(&ours)), "{match_:?}");
    let unknown = claims[3].near.as_ref().expect("it has a published figure");
    assert!(unknown.ours.is_none() && unknown.why_not.as_ref().is_some_and(|why| why.contains("was not measured")));
    assert_eq!(claims[4].near, None);
    // Changing the text of a claim does not make it another claim.
    assert!(claims[1].hash.starts_with(&claims[4].hash) && claims[1].hash != claims[2].hash);
}
