//! How a sweep's figures are laid out: arms side by side, or under each other if other axes give the columns.

use serde_json::Value;

use super::measure::Measure;
use super::{Axis, PANELS_MAX, facets};
use crate::amounts::Amounts;
use crate::report::chart::{CurvePanel, CurvePoint, Figure, Flag, Gap, IntervalPanel, IntervalRow, Series, short};
use crate::report::gaps::{self, gaps};
use crate::report::page::{Page, Setting, arm_label};
use crate::results::{Interval, Knee, KneeLevel, Scalability};
use plimsoll_display::range;
use plimsoll_display::{list, plain, rate, significant, value};

/// The place of a panel: its arm, the values of the other axes, and its names.
#[derive(Debug, Clone)]
struct PanelPlace<'a> {
    arm: &'a str,
    rest: Setting,
    row: String,
    title: String,
}

/// All places of one workload, at most [`PANELS_MAX`], and how many more there would be.
fn places<'a>(page: &Page<'a>, axis: &Axis, workload: &str) -> (Vec<PanelPlace<'a>>, usize) {
    let facets = facets(page, axis);
    let has_others = facets.iter().any(|(_, label)| !label.is_empty());
    let mut places = Vec::new();
    for arm in page.arms(workload) {
        let name = arm_label(arm, workload);
        for (rest, label) in &facets {
            let (row, title) = if has_others { (name.clone(), label.clone()) } else { (String::new(), name.clone()) };
            places.push(PanelPlace { arm, rest: rest.clone(), row, title });
        }
    }
    let left_out = places.len().saturating_sub(PANELS_MAX);
    places.truncate(PANELS_MAX);
    (places, left_out)
}

/// A setting with this value on the axis.
fn with(rest: &Setting, axis: &Axis, set: &Value) -> Setting {
    let mut setting = rest.clone();
    setting.insert(axis.key.to_owned(), set.clone());
    setting
}

/// Curves over a numeric axis.
pub(super) fn curves(page: &Page, axis: &Axis, workload: &str, measures: &[Measure]) -> (Vec<CurvePanel>, usize) {
    let (places, left_out) = places(page, axis, workload);
    let panels = places.into_iter().map(|place| {
        let is_throughput = measures == [Measure::Throughput];
        let mut series = Vec::new();
        if is_throughput && !place.arm.starts_with("alone:") {
            series.extend(alone(page, axis, workload, &place));
        }
        for (position, measure) in measures.iter().enumerate() {
            let colour = colour(page, workload, &place, measures, position);
            series.push(line(page, axis, workload, &place, (measure, colour)));
        }
        let mut panel =
            CurvePanel { row: place.row.clone(), title: place.title.clone(), series, ..CurvePanel::default() };
        if is_throughput {
            panel.gaps = gaps_of(page, axis, workload, &place);
        }
        if is_throughput {
            fitted(page, axis, workload, &place, &mut panel);
        }
        panel
    });
    (panels.filter(|panel| panel.series.iter().any(|series| !series.points.is_empty())).collect(), left_out)
}

/// The values of the axis at which no run of a place is valid.
fn gaps_of(page: &Page, axis: &Axis, workload: &str, place: &PanelPlace) -> Vec<Gap> {
    let of_place = gaps(page, workload).into_iter().filter(|gap| gap.arm == place.arm);
    let gap = |gap: gaps::Gap| {
        let set = gap.setting.get(axis.key)?;
        let is_here = *gap.setting == with(&place.rest, axis, set);
        is_here.then_some(Gap { at: axis.amounts.position(set)?, run: *gap.runs.first()?, why: gap.why })
    };
    of_place.filter_map(gap).collect()
}

/// One measure takes the arm's colour, several take one each.
fn colour(page: &Page, workload: &str, place: &PanelPlace, measures: &[Measure], position: usize) -> usize {
    if measures.len() == 1 {
        page.colour(place.arm, workload)
    } else {
        2 - position.min(1) + position.saturating_sub(1) * 2
    }
}

fn line(page: &Page, axis: &Axis, workload: &str, place: &PanelPlace, (measure, colour): (&Measure, usize)) -> Series {
    let point = |set: &&Value| {
        let estimate = page.estimate(&with(&place.rest, axis, set), place.arm, workload)?;
        Some(CurvePoint { at: axis.amounts.position(set)?, figure: measure.of(page, estimate)? })
    };
    let mut points = axis.values.iter().filter_map(point).collect::<Vec<_>>();
    points.sort_by(|a, b| a.at.total_cmp(&b.at));
    let name = if measure.name().is_empty() { arm_label(place.arm, workload) } else { measure.name().to_owned() };
    Series { name, colour, points, ..Series::default() }
}

/// The workload's own curve alone, as context.
fn alone(page: &Page, axis: &Axis, workload: &str, place: &PanelPlace) -> Option<Series> {
    let arm = page.arms(workload).into_iter().find(|arm| arm.starts_with("alone:"))?;
    let place = PanelPlace { arm, ..place.clone() };
    let name = "alone, to compare".to_owned();
    Some(Series { name, faint: true, ..line(page, axis, workload, &place, (&Measure::Throughput, 0)) })
}

/// Puts the fits, their flags and their parameters into a panel of throughput.
fn fitted(page: &Page, axis: &Axis, workload: &str, place: &PanelPlace, panel: &mut CurvePanel) {
    let results = page.results;
    let knee = results.knees.iter().find(|knee| {
        knee.axis == axis.key && knee.arm == place.arm && knee.workload == workload && knee.setting == place.rest
    });
    let law = results.scalability.iter().find(|law| {
        law.axis == axis.key && law.arm == place.arm && law.workload == workload && law.setting == place.rest
    });
    let mut notes = Vec::new();
    if let Some(knee) = knee {
        panel.flags = flags(knee, &axis.amounts);
        notes.push(knee_sentence(knee, axis.key));
    }
    if let Some(law) = law {
        notes.push(law_sentence(law));
    }
    notes.extend(axis.end_told());
    panel.note = notes.join(" ");
    let Some(series) = panel.series.iter_mut().find(|series| !series.faint) else { return };
    let of_knee = |knee: &Knee| {
        let point = |(value, mean): &(Value, f64)| Some((axis.amounts.position(value)?, *mean));
        knee.fit.iter().filter_map(point).collect::<Vec<_>>()
    };
    let fit = match (knee, law) {
        (_, Some(law)) if !law.fit.is_empty() => Some((law.fit.clone(), "universal scalability law")),
        (Some(knee), _) if !knee.fit.is_empty() => Some((of_knee(knee), "monotone fit")),
        _ => None,
    };
    if let Some((fit, name)) = fit {
        let finite = fit.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        series.fit = finite.map(|(x, y)| (short(x), short(y))).collect();
        series.fit_name = name.to_owned();
    }
}

fn flags(knee: &Knee, amounts: &Amounts) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    for level in &knee.levels {
        let position = |value: &Option<Value>| value.as_ref().and_then(|value| amounts.position(value));
        let Some(at) = position(&level.allocation) else { continue };
        let (low, high) = (position(&level.low), position(&level.high));
        let share = format!("{:.0} %", level.share * 100.0);
        match flags.iter_mut().find(|flag| flag.at == at && flag.low == low && flag.high == high) {
            Some(same) => same.label = format!("{}, {share}", same.label),
            None => flags.push(Flag { at, low, high, label: share }),
        }
    }
    flags
}

/// `95 % of full throughput at 6 (4–8); 90 % at 4.`
fn knee_sentence(knee: &Knee, key: &str) -> String {
    let told = knee.levels.iter().map(|level| level_words(level, key)).collect::<Vec<_>>();
    if told.is_empty() { String::new() } else { format!("{}.", told.join("; ")) }
}

/// The sufficient amount for one share, or why it is not known.
pub(in crate::report) fn level_words(level: &KneeLevel, key: &str) -> String {
    let share = level.share * 100.0;
    match (&level.allocation, &level.low, &level.high) {
        (Some(at), Some(low), Some(high)) if low != high => {
            format!("{share:.0} % of full throughput at {key} = {} ({} to {})", amount(at), amount(low), amount(high))
        }
        (Some(at), ..) => format!("{share:.0} % of full throughput at {key} = {}", amount(at)),
        (None, ..) => {
            let why = level.why_not.as_deref().map_or_else(String::new, |why| format!(": {why}"));
            format!("{share:.0} % not determined{why}")
        }
    }
}

/// An amount as it was written.
fn amount(written: &Value) -> String {
    written.as_f64().map_or_else(|| value(written), plain)
}

/// The law's parameters, or why there are none.
pub(in crate::report) fn law_sentence(law: &Scalability) -> String {
    let told = |name: &str, interval: Option<Interval>, write: fn(f64) -> String| {
        let interval = interval?;
        let ends = interval.low.zip(interval.high).map(|(low, high)| format!(" ({})", range(low, high, write)));
        Some(format!("{name} {}{}", write(interval.value), ends.unwrap_or_default()))
    };
    let parts = [
        told("throughput of one γ", law.gamma, rate),
        told("contention σ", law.sigma, significant),
        told("coherency κ", law.kappa, small),
        told("most at N =", law.peak_clients, plain),
    ];
    let parts = parts.into_iter().flatten().collect::<Vec<_>>();
    if parts.is_empty() {
        let why = law.why_not.as_deref().unwrap_or("too little was measured");
        return format!("Scalability law not determined: {why}.");
    }
    format!("Scalability law: {}.", list(&parts.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// A number that may be far below 1.
fn small(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:.1e}") } else { significant(value) }
}

/// Rows over an axis without order.
pub(super) fn rows(page: &Page, axis: &Axis, workload: &str, measures: &[Measure]) -> (Vec<IntervalPanel>, usize) {
    let (places, left_out) = places(page, axis, workload);
    let panels = places.into_iter().map(|place| {
        let mut rows = Vec::new();
        for set in &axis.values {
            for (position, measure) in measures.iter().enumerate() {
                let estimate = page.estimate(&with(&place.rest, axis, set), place.arm, workload);
                let figure = estimate.and_then(|estimate| measure.of(page, estimate));
                let colour = colour(page, workload, &place, measures, position);
                let row = |figure| IntervalRow {
                    name: value(set),
                    detail: measure.name().to_owned(),
                    colour,
                    floor: None,
                    figure,
                };
                rows.extend(figure.map(row));
            }
        }
        IntervalPanel { row: place.row, title: place.title, rows }
    });
    (panels.filter(|panel| !panel.rows.is_empty()).collect(), left_out)
}

/// Interference over a numeric axis.
pub(super) fn ratios(page: &Page, axis: &Axis, workload: &str) -> (Vec<CurvePanel>, usize) {
    let (places, left_out) = places(page, axis, workload);
    let panels = places.into_iter().filter(|place| !place.arm.starts_with("alone:")).map(|place| {
        let point = |set: &&Value| {
            let setting = with(&place.rest, axis, set);
            let found = page
                .results
                .interference
                .iter()
                .find(|i| i.arm == place.arm && i.workload == workload && i.setting == setting)?;
            let figure = Figure::new(found.ratio, Vec::new())?;
            Some(CurvePoint { at: axis.amounts.position(set)?, figure })
        };
        let mut points = axis.values.iter().filter_map(point).collect::<Vec<_>>();
        points.sort_by(|a, b| a.at.total_cmp(&b.at));
        let colour = page.colour(place.arm, workload);
        let name = arm_label(place.arm, workload);
        let series = Series { name, colour, points, ..Series::default() };
        CurvePanel { row: place.row, title: place.title, series: vec![series], ..CurvePanel::default() }
    });
    (panels.filter(|panel| !panel.series[0].points.is_empty()).collect(), left_out)
}
