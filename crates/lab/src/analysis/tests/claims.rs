//! Claims judged from runs: whether they hold, and how surely.

use super::*;
use crate::claim::grade::Grade;
use crate::results::ClaimResult;

/// Three policies along a DOP: `pabort` is by a half and `pow` by 1 % faster than `standard`; from DOP 4 on none gains.
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

#[test]
fn clear_claims_are_sure_and_close_ones_are_not() {
    let claims = judged(
        &[
            "throughput(pabort, dop=8) > 1.2 * throughput(standard, dop=8)",
            "throughput(pabort, dop=8) < 1.2 * throughput(standard, dop=8)",
            "throughput(pow, dop=8) > 1.01 * throughput(standard, dop=8)",
            "p50(pabort, dop=8) < p50(standard, dop=8)",
        ],
        5,
        |_| {},
    );
    let told: Vec<_> = claims.iter().map(|claim| (claim.holds, claim.confidence)).collect();
    assert_eq!(
        [told[0], told[1], told[3]],
        [(Some(true), Some(1.0)), (Some(false), Some(0.0)), (Some(true), Some(1.0))]
    );
    let close = told[2].1.expect("it was repeated");
    assert!((0.02..=0.98).contains(&close), "{close}");
    assert!(told[2].0.is_some());
    assert!(claims.iter().all(|claim| claim.value.is_some() && claim.why_not.is_none()));
    assert!(claims.iter().all(|claim| claim.published.as_deref() == Some("1.5") && claim.text == "it is so"));
}

#[test]
fn knees_can_be_claimed() {
    let claims = judged(
        &["knee(dop, 0.9, standard) <= 5", "knee(dop, 0.95, pabort) <= 2", "knee(dop, 0.9, pow) == 4"],
        3,
        |_| {},
    );
    assert_eq!((claims[0].holds, claims[0].confidence), (Some(true), Some(1.0)), "{:?}", claims[0]);
    assert_eq!((claims[1].holds, claims[1].confidence), (Some(false), Some(0.0)), "{:?}", claims[1]);
    assert_eq!((claims[2].holds, claims[2].confidence), (Some(true), Some(1.0)), "{:?}", claims[2]);
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
            if record.point.setting["policy"] == "pow" && record.point.setting["dop"] == 8 {
                record.point.valid = false;
            }
        },
    );
    assert_eq!(claims[0].holds, None);
    let is_told = |claim: &ClaimResult, why: &str| {
        assert!(claim.why_not.as_deref().is_some_and(|told| told.ends_with(why)), "{claim:?}");
    };
    is_told(&claims[0], "there is no valid run of alone:oltp at dop=8, policy=\"pow\"");
    assert_eq!((claims[1].holds, claims[1].confidence), (None, None));
    assert_eq!((claims[2].holds, claims[2].confidence), (Some(true), Some(1.0)));
    is_told(&claims[3], "400 requests are too few for a p999");
}

#[test]
fn one_repeat_gives_no_confidence() {
    let claims = judged(&["throughput(pabort, dop=8) > throughput(standard, dop=8)"], 1, |_| {});
    assert_eq!((claims[0].holds, claims[0].confidence), (Some(true), None));
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
    // The text of a claim is not what makes it another one.
    assert!(claims[1].hash.starts_with(&claims[4].hash) && claims[1].hash != claims[2].hash);
}
