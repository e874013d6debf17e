//! Distribution functions: how long lock requests queued, and how much bandwidth was used in how many seconds.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::chart::{Chart, Line, LinePanel, Scale, Span, Unit, figure, numbers, short};
use super::page::{Page, Setting, arm_label, setting_label};
use crate::histograms::{Latencies, LockHistograms, merged};
use crate::record::RunRecord;
use crate::results::{Device, most_urgent_first};
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::{count, duration_us, joined, significant};

/// The number of settings that are drawn; the tables of other sections have the rest.
const SETTINGS_MAX: usize = 8;

/// Too few waits or seconds for a distribution.
const VALUES_MIN: usize = 20;

/// The shares at which a distribution is drawn.
const SHARES: [f64; 21] = [
    0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.999, 1.0,
];

/// Histograms of one measure by class.
type LengthsOf = fn(&LockHistograms) -> &BTreeMap<String, Latencies>;

/// The title of memory's distributions. Hardware counters of reads take turns of a second, so they give only sums.
const MEMORY: &str = "Memory reads and writes";

/// A device's use in one second.
type BandwidthOf = fn(&Device) -> Option<f64>;

/// A distribution under its names.
struct Distribution {
    measure: &'static str,
    setting: String,
    line: Line,
    count: u64,
    /// At the median, the 90th and the 99th percentile; `None` if fewer than ten values lie beyond it.
    tail: [Option<f64>; 3],
}

impl Distribution {
    /// `at` is the value at a share of all `count` values.
    fn new(
        measure: &'static str,
        setting: String,
        name: String,
        colour: usize,
        count: u64,
        at: impl Fn(f64) -> f64,
    ) -> Self {
        let is_known = |share: f64| share == 1.0 || count as f64 * (1.0 - share) >= 1.0 - 1e-9;
        let points =
            SHARES.into_iter().filter(|share| is_known(*share)).map(|share| (short(at(share)), share)).collect();
        let line = Line { name, colour, points, ..Line::default() };
        let tail = [(0.5, 20), (0.9, 100), (0.99, 1000)].map(|(share, least)| (count >= least).then(|| at(share)));
        Distribution { measure, setting, line, count, tail }
    }
}

/// How lock waits are distributed; nothing if no record has histograms of them.
pub(super) fn lock_waits(page: &Page) -> Markup {
    let measures: [(&str, LengthsOf); 2] =
        [("QueueTime", |locks| &locks.queue_time), ("WaitExcess", |locks| &locks.wait_excess)];
    let mut found = Vec::new();
    for (measure, of) in measures {
        for setting in page.settings().into_iter().take(SETTINGS_MAX) {
            for workload in page.workloads() {
                for arm in page.arms(workload) {
                    found.extend(by_class(page, measure, of, (setting, arm, workload)));
                }
            }
        }
    }
    drawn(
        page,
        ("lock-wait-distribution", "Lock waits distributed", "The share of waits that took no longer"),
        "The share of lock requests that waited no longer, of those that had to wait; all repeats together. QueueTime is the \
         whole wait, WaitExcess the part of it spent on those who held the lock.",
        ("time", Some(Unit::Duration), Span::Log),
        &found,
        duration_us,
    )
}

fn by_class(
    page: &Page,
    measure: &'static str,
    of: LengthsOf,
    (setting, arm, workload): (&Setting, &str, &str),
) -> Vec<Distribution> {
    let Some(estimate) = page.estimate(setting, arm, workload) else { return Vec::new() };
    let histograms = estimate.runs.iter().filter_map(|run| page.record(*run));
    let histograms = histograms.flat_map(|record| &record.histograms).filter(|one| one.workload == workload);
    let histograms: Vec<_> = histograms.collect();
    let classes = most_urgent_first(histograms.iter().flat_map(|one| of(&one.locks).keys()));
    let place = [workload.to_owned(), arm_label(arm, workload), setting_label(setting, &page.keys(), None)];
    let place = joined(place);
    let class = |(number, class): (usize, &str)| {
        let all = merged(histograms.iter().filter_map(|one| of(&one.locks).get(class)))?;
        // A logarithmic axis has no 0; waits are in whole microseconds.
        let at = |share| (all.value_at_quantile(share) as f64).max(1.0);
        let is_enough = all.len() >= VALUES_MIN as u64;
        is_enough.then(|| Distribution::new(measure, place.clone(), class.to_owned(), 1 + number % 6, all.len(), at))
    };
    classes.into_iter().enumerate().filter_map(class).collect()
}

/// How bandwidth is distributed over seconds; nothing if no second of it is known.
pub(super) fn bandwidths(page: &Page) -> Markup {
    let measures: [(&str, BandwidthOf); 3] = [
        ("Disk reads", |device| device.read_mb_s),
        ("Disk writes", |device| device.write_mb_s),
        (MEMORY, |device| device.cache?.memory_mb_s),
    ];
    let mut found = Vec::new();
    for (measure, of) in measures {
        for setting in page.settings().into_iter().take(SETTINGS_MAX) {
            found.extend(by_arm(page, measure, of, setting));
        }
    }
    drawn(
        page,
        ("bandwidth-distribution", "Bandwidth distributed", "The share of seconds that used no more"),
        &format!(
            "The share of seconds, of all repeats, in which no more was read or written. {}",
            of_memory(page, &found)
        ),
        ("MB/s", None, Span::Zero),
        &found,
        |mb_s| format!("{} MB/s", significant(mb_s)),
    )
}

/// The subject of memory's distributions, or why there are none.
fn of_memory(page: &Page, found: &[Distribution]) -> String {
    if found.iter().any(|one| one.measure == MEMORY) {
        return "Memory is that of the whole machine, as resctrl tells it: nothing tells reads from writes second by second.".to_owned();
    }
    let mut missing = page.results.points.iter().filter_map(|point| point.unmeasured.get("resctrl monitoring"));
    let why = missing.next().map_or("resctrl told nothing of it", |why| why.reason.as_str());
    format!("Memory is missing: {why}.")
}

fn by_arm(page: &Page, measure: &'static str, of: BandwidthOf, setting: &Setting) -> Vec<Distribution> {
    let arms = page.results.experiment.arms.iter().enumerate();
    let arm = |(number, arm): (usize, &String)| {
        let runs = page.results.points.iter().enumerate();
        let runs = runs.filter(|(_, point)| point.valid && point.arm == *arm && point.setting == *setting);
        let mut values: Vec<f64> =
            runs.filter_map(|(run, _)| page.record(run)).flat_map(|run| seconds(run, of)).collect();
        values.sort_by(f64::total_cmp);
        // A device that is always idle is left to the tables of devices.
        let is_used = values.last().is_some_and(|most| *most > 0.0) && values.len() >= VALUES_MIN;
        let at = |share: f64| values[((values.len() as f64 * share).ceil() as usize).clamp(1, values.len()) - 1];
        let place = setting_label(setting, &page.keys(), None);
        is_used.then(|| Distribution::new(measure, place, arm.clone(), (number + 1) % 7, values.len() as u64, at))
    };
    arms.filter_map(arm).collect()
}

/// The use of a device in each second of a run. Devices belong to the machine, so the rows of every workload have the
/// same values.
fn seconds(record: &RunRecord, of: BandwidthOf) -> Vec<f64> {
    let Some(first) = record.samples.first() else { return Vec::new() };
    let rows = record.samples.iter().filter(|row| row.workload == first.workload);
    rows.filter_map(|row| of(&row.device)).filter(|value| value.is_finite()).collect()
}

fn drawn(
    page: &Page,
    (id, heading, title): (&str, &str, &str),
    lead: &str,
    (x, unit, span): (&str, Option<Unit>, Span),
    found: &[Distribution],
    write: fn(f64) -> String,
) -> Markup {
    if found.is_empty() {
        return html! {};
    }
    let panels =
        found.chunk_by(|one, next| one.measure == next.measure && one.setting == next.setting).map(|group| LinePanel {
            row: group[0].measure.to_owned(),
            title: group[0].setting.clone(),
            lines: group.iter().map(|one| one.line.clone()).collect(),
            ..LinePanel::default()
        });
    let chart = Chart::Lines {
        label: heading.to_owned(),
        x: Scale { name: x.to_owned(), unit, span },
        y: Scale { name: "share".to_owned(), unit: Some(Unit::Share), span: Span::Whole },
        reference: None,
        panels: panels.collect(),
    };
    let left_out = page.settings().len().saturating_sub(SETTINGS_MAX);
    let columns =
        [text("Of"), text("Setting"), text("Who"), number("Values"), number("p50"), number("p90"), number("p99")];
    let table = table(
        heading,
        &columns,
        html! {
            @for one in found {
                tr {
                    th scope="row" { (one.measure) }
                    td { (one.setting) }
                    td { (one.line.name) }
                    td class="n" { (count(one.count)) }
                    @for value in one.tail { (figure_cell(value.map(write))) }
                }
            }
        },
    );
    section(
        &page.id(id),
        heading,
        html! {
            p class="lead" {
                (lead)
                @if left_out > 0 { " Drawn are the first " (SETTINGS_MAX) " settings; " (left_out) " more are not." }
            }
            (figure(&page.run(), title, "", &chart, numbers("The numbers of the distributions", table)))
        },
    )
}
