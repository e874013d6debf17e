//! The time shares of one workload, as text: alone above together; on a server its classes and kinds below.

use crate::results::{Estimate, Results, TimeShare, WorkloadMeasurement, most_urgent_first};
use crate::sections::time_share::{DisplayedPart, PARTS, told};
use crate::summary::Workload;
use plimsoll_display::wrap;
use plimsoll_display::{MISSING, count, duration_us, fine_percent, percent, significant};

/// Characters of a bar.
const BAR: usize = 20;

/// Adds the lines of a workload; none if no share is known.
pub(super) fn lines(out: &mut Vec<String>, workload: &Workload) {
    let arms = workload.arms_run();
    let shares: Vec<TimeShare> = arms.iter().filter_map(|(_, arm)| arm.cell?.measured.all.time_share).collect();
    if shares.is_empty() {
        return;
    }
    let told = told(shares.iter());
    let names: String = told.iter().map(|part| format!("{:>7}", part.short)).collect();
    out.push(format!("  {:<20}{names}", "time share"));
    // A line has room for a bar beside five parts.
    let has_bar = told.len() == PARTS.iter().filter(|part| !part.optional).count();
    for (arm, runs) in arms {
        if let Some(share) = runs.cell.and_then(|cell| cell.measured.all.time_share) {
            let drawn = if has_bar { bar(&told, &share) } else { String::new() };
            let line = format!("  {:<12}{arm:<8}{}  {drawn}", "", cells(&told, &share));
            out.push(line.trim_end().to_owned());
        }
        for (name, share) in runs.cell.into_iter().flat_map(parts) {
            let name: String = name.chars().take(18).collect();
            out.push(format!("    {name:<18}{}", cells(&told, &share)).trim_end().to_owned());
        }
    }
}

fn cells(told: &[&DisplayedPart], share: &TimeShare) -> String {
    let cell = |part: &&DisplayedPart| (part.of)(share).map_or_else(|| MISSING.to_owned(), percent);
    told.iter().map(|part| format!("{:>7}", cell(part))).collect()
}

/// Letters in proportion to the parts; rounding the running sum keeps the length.
fn bar(told: &[&DisplayedPart], share: &TimeShare) -> String {
    let mut sum = 0.0;
    let mut bar = String::new();
    for part in told {
        sum += (part.of)(share).unwrap_or(0.0);
        let end = (sum * BAR as f64).round() as usize;
        bar.extend(std::iter::repeat_n(part.letter, end.min(BAR).saturating_sub(bar.len())));
    }
    bar
}

/// Classes, if there are several, and kinds with enough looks, over all repeats.
fn parts(cell: &Estimate) -> Vec<(&str, TimeShare)> {
    let WorkloadMeasurement { classes, transactions, .. } = &*cell.measured;
    let by_urgency = most_urgent_first(classes.keys()).into_iter().filter(|_| classes.len() > 1);
    let classes = by_urgency.map(|name| (name, &classes[name]));
    let kinds = transactions.iter().map(|(name, part)| (name.as_str(), part));
    let seen = classes.chain(kinds).filter(|(_, part)| part.samples.is_some());
    seen.filter_map(|(name, part)| Some((name, part.time_share?))).collect()
}

/// The cost of looking at a server; nothing if there is none.
pub(super) fn sampler_lines(results: &Results) -> Vec<String> {
    let samplers: Vec<_> = results
        .points
        .iter()
        .filter_map(|point| Some((&point.server.as_ref()?.sampler, point.window_s)))
        .filter(|(sampler, window)| sampler.looks > 0 && *window > 0.0)
        .collect();
    if samplers.is_empty() {
        return Vec::new();
    }
    let looks: u64 = samplers.iter().map(|(sampler, _)| sampler.looks).sum();
    let window: f64 = samplers.iter().map(|(_, window)| window).sum();
    let time_us: f64 = samplers.iter().filter_map(|(one, _)| Some(one.look_mean_us? * one.looks as f64)).sum();
    let cores = |of: fn(&crate::results::Sampler) -> Option<f64>| {
        let used = samplers.iter().map(|(sampler, _)| of(sampler)).sum::<Option<f64>>();
        used.map_or_else(|| MISSING.to_owned(), |used| fine_percent(used / window))
    };
    let left_out: u64 = samplers.iter().map(|(sampler, _)| sampler.left_out).sum();
    let text = format!(
        "Looked at the server {} times, {} a second ({} left out), {} each, {} of the time; that took {} of a core here and {} of one on the server",
        count(looks),
        significant(looks as f64 / window),
        count(left_out),
        duration_us(time_us / looks as f64),
        percent(time_us / 1e6 / window),
        cores(|sampler| sampler.cpu_thread_s),
        cores(|sampler| sampler.cpu_server_s),
    );
    let mut lines = vec![String::new()];
    lines.extend(wrap(&text, "", "  "));
    lines
}
