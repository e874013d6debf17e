//! Searches on a machine whose response is known.

use super::*;
use crate::analysis::made_up::{self, Noise, WINDOW_S};
use crate::plan::Setting;

const TEXT: &str = "name = \"size\"\n[[workload]]\nname = \"shop\"\nkind = \"tpcc\"\nclients = 8\n\
    [run]\nwarmup = \"0s\"\nmeasure = \"10s\"\nsearch = \"size\"\nbudget = \"2h\"\n\
    [sweep]\ndop = [1, 2, 3, 4, 6, 8, 12, 16]\nmemory = [64, 128, 256, 512, \"unlimited\"]\nclients = [16, 8]\n";

/// Speed grows with dop up to 5, and memory does not matter.
fn truth(setting: &Setting) -> f64 {
    let dop = setting.swept["dop"].as_f64().expect("a number");
    1_000.0 * (dop / 5.0).min(1.0)
}

/// Runs what the search asks for until it is over, or `most` runs are made, beginning with `done`.
pub(super) fn searched(
    plan: &Plan,
    done: Vec<RunRecord>,
    most: usize,
    noise: f64,
    truth: impl Fn(&Setting) -> f64,
) -> Vec<RunRecord> {
    let mut records = done;
    loop {
        let block = next_block(plan, records.iter());
        if block.is_empty() {
            return records;
        }
        for id in block {
            if records.len() == most {
                return records;
            }
            // The noise of a run follows from its identity, so that a continued search sees what it would have seen.
            let mut noise = Noise::new(id.setting as u64 * 1_000 + u64::from(id.repeat), noise);
            let factor = noise.factor();
            let mut record = made_up::record(plan, id, |_| truth(&plan.setting(id.setting)) * factor);
            record.point.at_s = records.len() as f64 * (WINDOW_S + 1.0);
            records.push(record);
        }
    }
}

#[test]
fn each_resource_gets_a_bracket_around_its_knee() {
    let plan = made_up::plan(TEXT);
    let records = searched(&plan, Vec::new(), usize::MAX, 0.01, truth);
    let evidence = Evidence::of(&plan, records.iter());
    let bracket = |key: &str, share: f64| {
        let axis = plan.axes.iter().position(|axis| axis.key == key).expect("it is swept");
        evidence.search(axis, Goal::Share(share)).bracket()
    };
    for share in [0.9, 0.95] {
        assert_eq!(bracket("dop", share), Bracket { low: Some(3), high: Some(4) }, "more than 4 and at most 6");
        assert_eq!(bracket("memory", share), Bracket { low: None, high: Some(0) }, "the least is enough");
    }
    let joint = evidence.joint().expect("both can be spared");
    assert_eq!(evidence.of_setting(joint).count(), BLOCKS, "both limits at once");
    let doubled = evidence.with(&[(plan.axes.iter().position(|axis| axis.key == "clients").expect("it is swept"), 0)]);
    assert_eq!(evidence.ratios(doubled).len(), BLOCKS);
    assert!(records.len() < 70, "{} runs, where a grid of four blocks has {}", records.len(), 8 * 5 * 4);
}

/// Every block has the full run, which all others are compared with.
#[test]
fn a_block_compares_with_its_own_full_run() {
    let plan = made_up::plan(TEXT);
    let records = searched(&plan, Vec::new(), usize::MAX, 0.01, truth);
    let full = Evidence::of(&plan, records.iter()).full();
    let blocks = records.iter().map(|record| record.id.repeat).max().expect("there are some");
    for block in 1..=blocks {
        let of_block = records.iter().filter(|record| record.id.repeat == block).map(|record| record.id.setting);
        assert_eq!(of_block.filter(|setting| *setting == full).count(), 1, "block {block}");
    }
}

#[test]
fn a_search_that_was_killed_continues_as_it_would_have() {
    let plan = made_up::plan(TEXT);
    let whole = searched(&plan, Vec::new(), usize::MAX, 0.02, truth);
    let ids = |records: &[RunRecord]| records.iter().map(|record| record.id).collect::<Vec<_>>();
    for at in [1, 5, whole.len() / 2] {
        // A block that was cut off is asked for again as a whole; the runner leaves out what is done.
        let cut = searched(&plan, Vec::new(), at, 0.02, truth);
        let complete: Vec<RunRecord> = {
            let last = cut.last().map_or(1, |record| record.id.repeat);
            cut.into_iter().filter(|record| record.id.repeat < last).collect()
        };
        assert_eq!(ids(&searched(&plan, complete, usize::MAX, 0.02, truth)), ids(&whole), "killed after {at}");
    }
}

#[test]
fn the_time_is_kept_and_noise_leaves_wide_brackets() {
    let plan = made_up::plan(&TEXT.replace("2h", "5min"));
    let records = searched(&plan, Vec::new(), usize::MAX, 0.08, truth);
    let evidence = Evidence::of(&plan, records.iter());
    assert!((200.0..=300.0).contains(&evidence.spent_s), "{} s", evidence.spent_s);
    let Bracket { low, high } = evidence.search(0, Goal::Share(0.9)).bracket();
    assert!(low.is_none_or(|low| low <= 3) && high.is_some_and(|high| high >= 4), "{low:?} {high:?}");
}

#[test]
fn a_promise_that_the_whole_machine_breaks_is_no_search() {
    // Eight clients at 1000 per second: 8 ms on average, 11.6 ms at p95.
    let check =
        |promise: &str, full: plimsoll_model::knee::bracket::Standing, low: Option<usize>, high: Option<usize>| {
            let text = TEXT.replace("search = ", &format!("promise = \"{promise}\"\nsearch = "));
            let plan = made_up::plan(&text);
            let records = searched(&plan, Vec::new(), usize::MAX, 0.01, truth);
            let evidence = Evidence::of(&plan, records.iter());
            let goal = goals(&plan)[2];
            let search = evidence.search(0, goal);
            assert_eq!(search.standing(7), full, "{promise}");
            assert_eq!(search.bracket(), Bracket { low, high }, "{promise}");
        };
    use plimsoll_model::knee::bracket::Standing::{Insufficient, Sufficient};
    check("p95 < 20ms", Sufficient, Some(1), Some(2));
    check("p95 < 5ms", Insufficient, Some(7), None);
}

/// A limit that does not take effect makes runs invalid, and its axis is given up with the reason.
#[test]
fn an_axis_that_cannot_be_limited_is_given_up() {
    let plan = made_up::plan(TEXT);
    let mut records: Vec<RunRecord> = Vec::new();
    let memory = plan.axes.iter().position(|axis| axis.key == "memory").expect("it is swept");
    while let block = next_block(&plan, records.iter())
        && !block.is_empty()
    {
        for id in block {
            let setting = plan.setting(id.setting);
            let mut noise = Noise::new(id.setting as u64 * 1_000 + u64::from(id.repeat), 0.01);
            let factor = noise.factor();
            let mut record = made_up::record(&plan, id, |_| truth(&setting) * factor);
            if setting.swept["memory"] != "unlimited" {
                record.point.valid = false;
                record.point.why_invalid = Some("the limit of memory did not take effect".to_owned());
            }
            records.push(record);
        }
        assert!(records.len() < 1_000, "it goes on for ever");
    }
    let evidence = Evidence::of(&plan, records.iter());
    assert!(evidence.is_mute(memory) && !evidence.is_mute(0));
    assert_eq!(evidence.reasons(memory), ["the limit of memory did not take effect"]);
    assert_eq!(evidence.search(0, Goal::Share(0.9)).bracket(), Bracket { low: Some(3), high: Some(4) });
}

#[test]
fn settings_that_need_another_server_lie_together() {
    let text = TEXT.replace("memory = [64, 128, 256, 512, \"unlimited\"]", "memory_mib = [64, 128, \"unlimited\"]");
    let plan = made_up::plan(&text);
    let records = searched(&plan, Vec::new(), 40, 0.02, truth);
    let needs: Vec<(u32, bool)> =
        records.iter().map(|record| (record.id.repeat, needs_server(&plan, record.id.setting))).collect();
    assert!(needs.iter().any(|(_, needs)| *needs));
    for block in needs.chunk_by(|a, b| a.0 == b.0) {
        let changes = block.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        assert!(changes <= 1, "{block:?}");
    }
}
