//! Tables of counts: lock waits and aborted attempts, hardware counters.

use maud::{Markup, html};

use plimsoll_machine::top_down::{TopDown, Unit};

use super::numbers::{count_cell, key_cells, keyed};
use super::page::Page;
use crate::results::{Aborted, Counters, Estimate, WorkloadResult};
use plimsoll_display::page::{figure_cell, section, table};
use plimsoll_display::{duration_us, percent, significant};

/// Lock waits and aborted attempts; nothing if no run had any.
pub(super) fn locks_and_aborts(page: &Page) -> Markup {
    let rows = all(page, |result| result.lock_wait.is_some() || result.aborted != Aborted::default());
    if rows.is_empty() {
        return html! {};
    }
    let columns = keyed(
        page,
        &[
            "Lock waits",
            "Per 1000 requests",
            "Mean wait",
            "Deadlock victims",
            "Preempted",
            "Conflicts",
            "Rolled back as prescribed",
            "Given up",
        ],
    );
    section(
        &page.id("waits"),
        "Locks and aborted attempts",
        html! {
            (table("Counts over all repeats", &columns, html! {
                @for (estimate, results) in &rows {
                    tr { (key_cells(page, estimate)) (locks(results)) (aborted(results)) (page.run_links(estimate)) }
                }
            }))
        },
    )
}

fn all<'a>(page: &Page<'a>, is_told: fn(&WorkloadResult) -> bool) -> Vec<(&'a Estimate, Vec<&'a WorkloadResult>)> {
    let rows =
        page.all_estimates().into_iter().map(|estimate| (estimate, page.results_of(estimate))).collect::<Vec<_>>();
    if rows.iter().any(|(_, results)| results.iter().any(|result| is_told(result))) { rows } else { Vec::new() }
}

fn locks(results: &[&WorkloadResult]) -> Markup {
    let locks =
        results.iter().map(|result| result.lock_wait).collect::<Option<Vec<_>>>().filter(|locks| !locks.is_empty());
    let waits = locks.as_ref().map(|locks| locks.iter().map(|l| l.waits).sum::<u64>());
    let wait_s = locks.map(|locks| locks.iter().map(|l| l.wait_s).sum::<f64>());
    let completed = results.iter().map(|result| result.all.completed).sum::<u64>();
    let per_thousand =
        waits.filter(|_| completed > 0).map(|waits| significant(waits as f64 * 1000.0 / completed as f64));
    let mean = waits.zip(wait_s).filter(|(waits, _)| *waits > 0).map(|(waits, s)| duration_us(s * 1e6 / waits as f64));
    html! { (count_cell(waits)) (figure_cell(per_thousand)) (figure_cell(mean)) }
}

fn aborted(results: &[&WorkloadResult]) -> Markup {
    let causes: [fn(&Aborted) -> u64; 5] = [|a| a.deadlock, |a| a.preempted, |a| a.conflict, |a| a.user, |a| a.error];
    html! {
        @for cause in causes {
            (count_cell((!results.is_empty()).then(|| results.iter().map(|result| cause(&result.aborted)).sum())))
        }
    }
}

/// Hardware counters; nothing if no run could read any.
pub(super) fn counters(page: &Page) -> Markup {
    let rows = all(page, |result| result.counters.is_some());
    if rows.is_empty() {
        return html! {};
    }
    let columns = keyed(
        page,
        &[
            "Instructions per cycle",
            "L1D load misses",
            "LLC misses",
            "Branch misses",
            "Instructions per request",
            "Counted",
        ],
    );
    section(
        &page.id("counters"),
        "Hardware counters",
        html! {
            p class="lead" { "User mode, threads of the workload alone, all repeats together. Misses are per 1000 instructions." }
            (table("Counters over all repeats", &columns, html! {
                @for (estimate, results) in &rows {
                    tr { (key_cells(page, estimate)) (rates(results)) (page.run_links(estimate)) }
                }
            }))
        },
    )
}

fn rates(results: &[&WorkloadResult]) -> Markup {
    let counted = results.iter().map(|result| result.counters).collect::<Option<Vec<_>>>().unwrap_or_default();
    let sum = |event: fn(&Counters) -> Option<u64>| -> Option<f64> {
        let sum = counted.iter().map(event).sum::<Option<u64>>()?;
        (sum > 0 || !counted.is_empty()).then_some(sum as f64)
    };
    let over =
        |part: Option<f64>, whole: Option<f64>| part.zip(whole.filter(|w| *w > 0.0)).map(|(part, whole)| part / whole);
    let instructions = sum(|c| c.instructions);
    let per_thousand = |event| figure_cell(over(sum(event), instructions).map(|r| significant(r * 1000.0)));
    let completed = results.iter().map(|result| result.all.completed).sum::<u64>() as f64;
    let coverage = counted.iter().map(|c| c.coverage).reduce(f64::min);
    html! {
        (figure_cell(over(instructions, sum(|c| c.cycles)).map(|ipc| format!("{ipc:.2}"))))
        (per_thousand(|c| c.l1d_misses))
        (per_thousand(|c| c.llc_misses))
        (per_thousand(|c| c.branch_misses))
        (figure_cell(over(instructions, Some(completed)).map(large)))
        (figure_cell(coverage.map(percent)))
    }
}

/// Top-down shares of the processor's slots, by workload; nothing if no run has them.
pub(super) fn top_down(page: &Page) -> Markup {
    let rows = all(page, |result| result.top_down.is_some());
    let Some(first) = rows.iter().flat_map(|(_, results)| results).find_map(|result| result.top_down.as_ref()) else {
        return html! {};
    };
    let columns = keyed(
        page,
        &[
            "Retiring",
            "Bad speculation",
            "Front end",
            "Back end",
            "of it memory",
            "of it core",
            "Other hardware thread",
            "Misses × latency",
            "Counted",
        ],
    );
    let unit = match first.unit {
        Unit::Slots => "slots",
        Unit::Cycles => "cycles",
    };
    section(
        &page.id("top-down"),
        "Top-down breakdown",
        html! {
            p class="lead" {
                "Where the " (unit) " went, by " (first.family.to_string()) " " (first.method) "; user mode, threads of the workload alone, mean of all repeats. "
                @if first.approximate { strong { "Approximate, not comparable with other processors. " } }
                "Misses × latency is the older breakdown: the share of time that cache misses would cost one after another."
            }
            (super::top_down::bars(page))
            (table("Shares over all repeats", &columns, html! {
                @for (estimate, results) in &rows {
                    tr { (key_cells(page, estimate)) (slots(results)) (page.run_links(estimate)) }
                }
            }))
        },
    )
}

fn slots(results: &[&WorkloadResult]) -> Markup {
    let told: Vec<&TopDown> = results.iter().filter_map(|result| result.top_down.as_ref()).collect();
    let mean = |part: fn(&TopDown) -> Option<f64>| -> Option<f64> {
        let values = told.iter().map(|breakdown| part(breakdown)).collect::<Option<Vec<f64>>>()?;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let misses: Vec<f64> = results.iter().filter_map(|result| Some(result.cache_misses.as_ref()?.memory)).collect();
    let misses = (!misses.is_empty()).then(|| misses.iter().sum::<f64>() / misses.len() as f64);
    let parts: [fn(&TopDown) -> Option<f64>; 7] = [
        |breakdown| breakdown.retiring,
        |breakdown| breakdown.bad_speculation,
        |breakdown| breakdown.frontend,
        |breakdown| breakdown.backend,
        |breakdown| breakdown.memory,
        |breakdown| breakdown.core,
        |breakdown| breakdown.smt_contention,
    ];
    html! {
        @for part in parts { (figure_cell(mean(part).map(percent))) }
        (figure_cell(misses.map(percent)))
        (figure_cell(told.iter().map(|breakdown| breakdown.coverage).reduce(f64::min).map(percent)))
    }
}

/// A large count as `3.20 M`.
fn large(count: f64) -> String {
    match count {
        c if c < 1e3 => significant(c),
        c if c < 1e6 => format!("{} k", significant(c / 1e3)),
        c if c < 1e9 => format!("{} M", significant(c / 1e6)),
        c => format!("{} G", significant(c / 1e9)),
    }
}
