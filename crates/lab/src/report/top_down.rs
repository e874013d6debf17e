//! The use of the processor's slots, or cycles: stacked bars over the table of `counts`.

use maud::{Markup, html};
use plimsoll_machine::top_down::{TopDown, Unit};

use super::chart::{Chart, ShareBar, figure, short};
use super::page::{Page, arm_label, setting_label};
use crate::results::Estimate;

/// The number of bars that are drawn.
const BARS_MAX: usize = 40;

/// The parts of a whole in the order of the bars, with their colours. Memory and core are the two halves of the back
/// end; if a processor does not distinguish them, the back end is one part.
const PARTS: [(&str, usize); 7] = [
    ("retiring", 0),
    ("bad speculation", 3),
    ("front end", 2),
    ("back end: memory", 1),
    ("back end: core", 6),
    ("back end", 5),
    ("other hardware thread, or not told", 4),
];

/// The bars of the estimates whose runs have a breakdown; nothing without any.
pub(super) fn bars(page: &Page) -> Markup {
    let estimates = page.all_estimates().into_iter();
    let told: Vec<(&Estimate, &TopDown)> =
        estimates.filter_map(|estimate| Some((estimate, estimate.measured.top_down.as_ref()?))).collect();
    let Some((_, first)) = told.first() else { return html! {} };
    let whole = match first.unit {
        Unit::Slots => "slots",
        Unit::Cycles => "cycles",
    };
    let bars: Vec<ShareBar> = told.iter().filter_map(|(estimate, told)| bar(page, estimate, told)).collect();
    // A part that no bar has is left out of the legend.
    let kept: Vec<usize> = (0..PARTS.len()).filter(|&part| bars.iter().any(|bar| bar.values[part].is_some())).collect();
    let left_out = bars.len().saturating_sub(BARS_MAX);
    let note = if left_out > 0 { format!("{left_out} more bars are in the table only") } else { String::new() };
    let chart = Chart::Shares {
        label: format!("Where the {whole} of the processor went"),
        whole: whole.to_owned(),
        parts: kept.iter().map(|&part| PARTS[part].0.to_owned()).collect(),
        tones: kept.iter().map(|&part| PARTS[part].1).collect(),
        bars: bars
            .into_iter()
            .take(BARS_MAX)
            .map(|bar| ShareBar { values: kept.iter().map(|&part| bar.values[part]).collect(), ..bar })
            .collect(),
    };
    figure(&page.run(), &format!("Where the {whole} went"), &note, &chart, html! {})
}

/// `None` unless the four shares are known.
fn bar(page: &Page, estimate: &Estimate, told: &TopDown) -> Option<ShareBar> {
    let (retiring, bad, frontend, backend) = (told.retiring?, told.bad_speculation?, told.frontend?, told.backend?);
    let halves = told.memory.zip(told.core);
    let rest = (1.0 - retiring - bad - frontend - backend).max(0.0);
    let values = [
        Some(retiring),
        Some(bad),
        Some(frontend),
        halves.map(|(memory, _)| memory),
        halves.map(|(_, core)| core),
        halves.is_none().then_some(backend),
        Some(rest),
    ];
    let (arm, set) =
        (arm_label(&estimate.arm, &estimate.workload), setting_label(&estimate.setting, &page.keys(), None));
    Some(ShareBar {
        group: estimate.workload.clone(),
        name: if set.is_empty() { arm } else { format!("{set}, {arm}") },
        values: values
            .map(|share| share.filter(|share| share.is_finite()).map(|share| short(share.clamp(0.0, 1.0))))
            .into(),
    })
}
