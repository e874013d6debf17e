//! How the requests of each class waited for locks, and which were rolled back for others (MW 3.7).

use maud::{Markup, html};

use super::chart::{Chart, ShareBar, figure, numbers, short};
use super::numbers::{key_cells, keyed};
use super::page::{Page, arm_label, setting_label};
use crate::results::{Estimate, Lengths, LockStatistics, most_urgent_first};
use crate::sections::lock_waiting::{HOW_LONG, HOW_OFTEN, LOST};
use plimsoll_display::page::{section, table};
use plimsoll_display::{Figure, figure_cells, joined};

/// The parts of a class's response time, as far as locks are concerned.
const PARTS: [&str; 3] = ["waiting for holders", "waiting for others in the queue", "everything else"];

/// The meaning of the terms in the tables.
const TERMS: [(&str, &str); 5] = [
    ("QueueTime", "from a lock request that has to wait until it is granted or refused; the sum of the next two"),
    ("WaitExcess", "until the first of those who wait for the lock is granted it: time spent on its holders"),
    ("WaitRemainder", "from then on: time spent on others in the queue"),
    (
        "rolled back",
        "attempts that came to nothing for a more important transaction (preempted), a deadlock or a conflict; they run again",
    ),
    (
        "work lost",
        "the age of an attempt when it was preempted; its share is that of the mean length of attempts that got through",
    ),
];

/// Bars that are drawn.
const BARS_MAX: usize = 40;

/// Rows of each table that the page carries.
const ROWS_MAX: usize = 400;

/// A class at one setting in one arm.
type Row<'a> = (&'a Estimate, &'a str, &'a LockStatistics);

/// The section; nothing if no request waited, or no target reports waits.
pub(super) fn section_of(page: &Page) -> Markup {
    let estimates = page.all_estimates().into_iter();
    let rows: Vec<Row<'_>> = estimates
        .flat_map(|estimate| {
            let classes = most_urgent_first(estimate.measured.classes.keys()).into_iter();
            classes.filter_map(move |class| Some((estimate, class, estimate.measured.classes[class].locks.as_ref()?)))
        })
        .collect();
    if !rows.iter().any(|(_, _, locks)| locks.waits() > 0) {
        return html! {};
    }
    let bars = rows.iter().filter_map(|row| bar(page, row)).take(BARS_MAX).collect::<Vec<_>>();
    let left_out = rows.len().saturating_sub(bars.len());
    let note = if left_out > 0 { format!("{left_out} more are in the tables only") } else { String::new() };
    let chart = Chart::Shares {
        label: "Parts of response time that classes spent in lock queues".to_owned(),
        whole: "response time".to_owned(),
        parts: PARTS.map(str::to_owned).into(),
        tones: (0..PARTS.len()).collect(),
        bars,
    };
    let rolled_back = rows.iter().any(|(_, _, locks)| locks.rollbacks > 0);
    section(
        &page.id("lock-waits"),
        "Lock waiting by class",
        html! {
            p class="lead" { "Over all requests of a class that ended, and all of their attempts. Percentiles are over all repeats." }
            (figure(&page.run(), "Response time spent in lock queues", &note, &chart, html! {}))
            (numbers("How often requests waited", tabled(page, "Lock waits of a request, and mean response time by their number", &HOW_OFTEN, &rows)))
            (numbers("How long lock requests waited", tabled(page, "Lock requests that had to wait", &HOW_LONG, &rows)))
            @if rolled_back { (numbers("What was rolled back", tabled(page, "Attempts that were rolled back", &LOST, &rows))) }
            dl class="terms" { @for (name, meaning) in TERMS { dt { (name) } dd { (meaning) } } }
        },
    )
}

fn bar(page: &Page, (estimate, class, locks): &Row<'_>) -> Option<ShareBar> {
    let queued = locks.queue_time_share?;
    let mean = |lengths: &Lengths| lengths.mean.unwrap_or(0.0);
    // Both are means over the same lock requests.
    let of_excess = match mean(&locks.queue_time_us) {
        0.0 => 0.0,
        queue_time => mean(&locks.wait_excess_us) / queue_time,
    };
    let values = [queued * of_excess, queued * (1.0 - of_excess), 1.0 - queued];
    let (arm, set) =
        (arm_label(&estimate.arm, &estimate.workload), setting_label(&estimate.setting, &page.keys(), None));
    let group = [estimate.workload.clone(), arm, set];
    Some(ShareBar {
        group: joined(group),
        name: (*class).to_owned(),
        values: values.map(|share| Some(short(share.clamp(0.0, 1.0)))).into(),
    })
}

fn tabled(page: &Page, caption: &str, figures: &[&Figure<LockStatistics>], rows: &[Row<'_>]) -> Markup {
    let names: Vec<&str> = std::iter::once("Class").chain(figures.iter().map(|figure| figure.long)).collect();
    html! {
        (table(caption, &keyed(page, &names), html! {
            @for (estimate, class, locks) in rows.iter().take(ROWS_MAX) {
                tr {
                    (key_cells(page, estimate))
                    td class="n" { (class) }
                    (figure_cells(figures, locks))
                    (page.run_links(estimate))
                }
            }
        }))
        @if rows.len() > ROWS_MAX { p class="note" { (rows.len() - ROWS_MAX) " more rows are in results.json." } }
    }
}
