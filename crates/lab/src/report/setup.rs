//! The origin of the numbers: checks of the data, the experiment as written, settings, machine.

use maud::{Markup, html};
use plimsoll_machine::describe;

use super::claims::mark;
use super::memory;
use super::page::Page;
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::{bytes, value};

/// Checks of the data; nothing if none were requested.
pub(super) fn checks(page: &Page) -> Markup {
    let Some(checks) = page.results.checks.as_ref().filter(|checks| !checks.is_empty()) else { return html! {} };
    let columns = [text("What must hold"), text("Holds"), text("Found")];
    section(
        &page.id("checks"),
        "Checks of the data",
        html! {
            (table("What was checked after the runs", &columns, html! {
                @for check in checks {
                    tr { td class="words" { (check.what) } td { (mark(check.holds)) } td class="words" { (check.found) } }
                }
            }))
        },
    )
}

/// The experiment file and every setting.
pub(super) fn settings(page: &Page) -> Markup {
    let experiment = &page.results.experiment;
    section(
        &page.id("settings"),
        "Experiment",
        html! {
            p class="lead" { "Runs with the hash " code { (experiment.settings_hash) } " measured the same thing." }
            @if !experiment.differs.is_empty() {
                p { "In what it differs from the study, beside the machine:" }
                ul { @for differs in &experiment.differs { li { (differs) } } }
            }
            @if let Some(typed) = &experiment.text {
                h3 { "As typed" }
                pre tabindex="0" { code { (typed) } }
            }
            details open[experiment.text.is_none()] {
                summary { "Every setting, defaults included" }
                (table("Settings", &[text("Setting"), text("Value")], html! {
                    @for (name, setting) in &experiment.settings {
                        tr { th scope="row" { code { (name) } } td class="words" { (value(setting)) } }
                    }
                }))
            }
        },
    )
}

pub(super) fn machine(page: &Page) -> Markup {
    let machine = &page.results.machine;
    let cores = format!(
        "{} of {} online; threads per core: {}; sockets: {}",
        describe::usable_cores(machine),
        machine.cores_online,
        machine.threads_per_core,
        machine.sockets
    );
    let facts = [
        ("Processor", format!("{} ({})", machine.cpu_model, machine.cpu_id)),
        ("Cores", cores),
        ("Memory", describe::memory(machine)),
        ("Huge pages", describe::huge_pages(machine)),
        ("Control groups", describe::control_groups(machine)),
        ("Kernel", machine.kernel.clone()),
        ("Virtualised", machine.virtualised.clone().unwrap_or_else(|| "no sign of it".to_owned())),
        ("Fingerprint", page.results.machine_fingerprint.clone()),
    ];
    let facts = facts.into_iter().chain(machine.warnings.iter().map(|warning| ("Warning", warning.clone())));
    section(
        &page.id("machine"),
        "Machine",
        html! {
            dl class="facts" { @for (name, fact) in facts { dt { (name) } dd { (fact) } } }
            (caches(page))
            (capabilities(page))
            (memory::how_to_get_it(page))
        },
    )
}

fn caches(page: &Page) -> Markup {
    let caches = &page.results.machine.caches;
    if caches.is_empty() {
        return html! {};
    }
    let columns = [
        text("Cache"),
        text("Kind"),
        number("Size"),
        number("Ways"),
        number("Cores that share it"),
        number("How many"),
    ];
    table(
        "Caches of core 0",
        &columns,
        html! {
            @for cache in caches {
                tr {
                    th scope="row" { "L" (cache.level) }
                    td { (cache.kind) }
                    (figure_cell(Some(bytes(cache.size_bytes))))
                    (figure_cell(cache.ways.map(|ways| ways.to_string())))
                    (figure_cell(Some(cache.shared_by.to_string())))
                    (figure_cell(Some(cache.count.to_string())))
                }
            }
        },
    )
}

fn capabilities(page: &Page) -> Markup {
    let capabilities = &page.results.machine.capabilities;
    if capabilities.is_empty() {
        return html! {};
    }
    let columns = [text("Capability"), text("Here"), text("How, or why not"), text("Remedy")];
    let here = capabilities.iter().filter(|capability| capability.available).count();
    let rows = html! {
        @for capability in capabilities {
            tr {
                th scope="row" { (capability.name) }
                td { (if capability.available { "yes" } else { "no" }) }
                td class="words" { (capability.reason) }
                td class="words" { (capability.remedy.as_deref().unwrap_or("")) }
            }
        }
    };
    html! {
        details {
            summary { "What this host can measure and limit: " (here) " of " (capabilities.len()) }
            (table("What this host can measure and limit", &columns, rows))
        }
    }
}
