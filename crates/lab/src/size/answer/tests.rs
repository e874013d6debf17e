//! Answers from runs of a known machine.

use serde_json::json;

use crate::analysis::made_up::{self, Noise, WINDOW_S};
use crate::plan::Plan;
use crate::record::RunRecord;
use crate::results::{Results, SizeStanding};
use crate::size::search::next_block;

const TEXT: &str = "name = \"size\"\n[[workload]]\nname = \"shop\"\nkind = \"tpcc\"\nclients = 8\n\
    [run]\nwarmup = \"0s\"\nmeasure = \"10s\"\nsearch = \"size\"\nbudget = \"2h\"\npromise = \"p95 < 20ms\"\n\
    [sweep]\ncpu_quota = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, \"unlimited\"]\ndop = [1, 2, 4]\nclients = [16, 8]\n";

fn searched(plan: &Plan, full_per_s: f64, change: impl Fn(&mut RunRecord)) -> Results {
    let mut records: Vec<RunRecord> = Vec::new();
    while let block = next_block(plan, records.iter())
        && !block.is_empty()
    {
        for id in block {
            let cores = plan.setting(id.setting).swept["cpu_quota"].as_f64().unwrap_or(2.0);
            let mut noise = Noise::new(id.setting as u64 * 1_000 + u64::from(id.repeat), 0.01);
            let factor = noise.factor();
            let mut record = made_up::record(plan, id, |_| full_per_s * (cores / 0.6).min(1.0) * factor);
            record.point.at_s = records.len() as f64 * WINDOW_S;
            change(&mut record);
            records.push(record);
        }
    }
    made_up::results(plan, &records)
}

#[test]
fn the_answer_is_in_results_table_and_report() {
    let results = searched(&made_up::plan(TEXT), 1_000.0, |_| {});
    let sizes = results.sizes.as_ref().expect("it is a search for sizes");
    let cores = &sizes.resources[0];
    let level = |at: usize| (cores.levels[at].more_than.clone(), cores.levels[at].at_most.clone());
    assert_eq!(level(0), (Some(json!(0.5)), Some(json!(0.625))), "0.54 cores for 90 %");
    assert_eq!(level(1), (Some(json!(0.5)), Some(json!(0.625))), "0.57 cores for 95 %");
    assert_eq!(cores.full_amount, Some(results.machine.cores_usable as f64));
    assert_eq!(sizes.promise.as_ref().map(|promise| promise.standing), Some(SizeStanding::Kept));
    assert!(!results.has_failed() && !sizes.out_of_time && results.knees.is_empty());
    assert!(sizes.headroom.as_ref().is_some_and(|headroom| headroom.measured_ratio.is_some()));
    let text = crate::table::render(&results, &[]);
    assert!(
        text.contains("0.5 cores") && text.contains("0.625 cores") && text.contains("95 % of full speed"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let page = crate::report::render(crate::report::ReportInput::new(&results, &[]));
    assert!(page.contains("The least that is enough") && page.contains("Speed of shop over cores"));
    let back: Results = serde_json::from_str(&serde_json::to_string(&results).expect("plain data")).expect("the same");
    assert_eq!(back.sizes, results.sizes);
}

#[test]
fn a_machine_that_is_too_small_fails() {
    let results = searched(&made_up::plan(TEXT), 100.0, |_| {});
    let sizes = results.sizes.as_ref().expect("it is a search for sizes");
    assert!(results.has_failed() && sizes.is_short());
    let first = &results.advice[0];
    assert!(first.starts_with("even with everything p95 is ") && first.contains("needs a larger machine"), "{first}");
}

/// Others who take cores make full speed less than it would be, so that fewer cores look sufficient.
#[test]
fn others_raise_the_upper_end_and_are_named() {
    let results = searched(&made_up::plan(TEXT), 1_000.0, |record| {
        record.point.device.busy_cores_others = Some(2.0);
        record.point.window_s = WINDOW_S;
    });
    let sizes = results.sizes.as_ref().expect("it is a search for sizes");
    assert!(sizes.others.as_ref().is_some_and(|others| others.contains("2.00 of")), "{:?}", sizes.others);
    let cores = &sizes.resources[0];
    assert_eq!(cores.levels[0].more_than, Some(json!(0.5)));
    assert_eq!(cores.levels[0].at_most, Some(json!("unlimited")), "0.625 cores, and the two that others had");
    assert!(cores.sentence.contains("others kept 2.00 cores busy"), "{}", cores.sentence);
}
