//! The report of an experiment: one HTML file that opens from disk, prints, and needs no network.
//!
//! Rust writes the skeleton, the sentences and the tables, so the page can be read without scripts and every chart has its
//! numbers beside it. A script from `web/` draws the charts in the browser; its bundle is part of this program, and each chart
//! carries its data as JSON. [`maud`] escapes every value, and a content security policy allows no other script.
//!
//! In reading order: `page` has the common lookups of sections about one document, `layout` and `chart` have the parts
//! of sections; then one file for each section in the order of the page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::page::Page;

pub use self::input::ReportInput;

mod chart;
mod claims;
mod counts;
mod cumulative;
mod devices;
mod drift;
mod failed;
#[cfg(test)]
pub(crate) mod fixture;
mod freshness;
mod frontier;
mod gaps;
mod header;
mod input;
mod interference;
mod latency;
mod layout;
mod levers;
mod line;
mod lock_waiting;
mod memory;
mod noise;
mod numbers;
mod page;
mod plans;
mod policies;
mod predicted;
mod published;
mod roofline;
mod runs;
mod server;
mod setup;
mod several;
mod size;
mod speed_up;
mod sweep;
#[cfg(test)]
mod tests;
mod throughput;
mod time_share;
mod timelines;
mod top_down;
mod undisturbed;
mod verified;

const STYLE: &str = include_str!("../../../web/dist/report.css");
const SCRIPT: &str = include_str!("../../../web/dist/report.js");
/// The hash by which the page's policy recognises its own script.
const SCRIPT_SHA256: &str = include_str!("../../../web/dist/report.sha256");

/// One experiment as a page.
pub fn render<'a>(source: impl Into<ReportInput<'a>>) -> String {
    render_all([source])
}

/// Several experiments on one page, under a table of contents.
pub fn render_all<'a>(all: impl IntoIterator<Item = impl Into<ReportInput<'a>>>) -> String {
    let all: Vec<ReportInput<'a>> = all.into_iter().map(Into::into).collect();
    let title = match all.as_slice() {
        [only] => header::title(&only.results),
        _ => format!("{} experiments", all.len()),
    };
    let pages = match all.as_slice() {
        [only] => vec![Page::new(only, None)],
        _ => all.iter().enumerate().map(|(position, source)| Page::new(source, Some(position + 1))).collect(),
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title))
            body {
                a class="skip" href="#content" { "Skip to the content" }
                div class="page" {
                    @match pages.as_slice() {
                        [only] => (single(only)),
                        _ => (several(&title, &pages)),
                    }
                    (footer(&all))
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

fn head(title: &str) -> Markup {
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        SCRIPT_SHA256.trim()
    );
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content={ "plimsoll " (env!("CARGO_PKG_VERSION")) };
            title { (title) }
            style { (PreEscaped(STYLE)) }
        }
    }
}

fn single(page: &Page) -> Markup {
    let parts = parts(page);
    html! {
        (header::header(page, true))
        (contents(&links(&parts)))
        main id="content" { (no_script()) (body(page, &parts)) }
    }
}

fn several(title: &str, pages: &[Page]) -> Markup {
    let (published, side_by_side) = (published::section_of("published", pages), several::side_by_side(pages));
    let mut links = pages.iter().map(|page| (page.id("top"), header::title(page.results))).collect::<Vec<_>>();
    if !side_by_side.0.is_empty() {
        links.insert(0, ("side-by-side".to_owned(), "Side by side".to_owned()));
    }
    if !published.0.is_empty() {
        links.insert(0, ("published".to_owned(), "Published and ours".to_owned()));
    }
    html! {
        (several::top(title, pages))
        (contents(&links))
        main id="content" {
            (no_script())
            (published)
            (side_by_side)
            @for page in pages { (article(page)) }
        }
    }
}

fn article(page: &Page) -> Markup {
    let parts = parts(page);
    html! {
        article class="document" id=(page.id("top")) {
            (header::header(page, false))
            (contents(&links(&parts)))
            (body(page, &parts))
        }
    }
}

fn no_script() -> Markup {
    html! { noscript { p { "The charts are drawn by a script, which does not run here. The tables hold the numbers." } } }
}

fn body(page: &Page, parts: &[PageSection]) -> Markup {
    html! {
        (header::warnings(page))
        (undisturbed::section_of(page))
        (header::advice(page))
        @for part in parts { (part.section) }
    }
}

/// Ids and names, for links to the parts.
fn links(parts: &[PageSection]) -> Vec<(String, String)> {
    parts.iter().map(|part| (part.id.clone(), part.name.clone())).collect()
}

/// A section with its name in the table of contents.
struct PageSection {
    id: String,
    name: String,
    section: Markup,
}

/// Every section that has something to show, in order.
fn parts(page: &Page) -> Vec<PageSection> {
    let part = |id: &str, name: &str, section: Markup| PageSection { id: page.id(id), name: name.to_owned(), section };
    let mut parts = vec![
        part("failed", "What failed", failed::section_of(page)),
        part("claims", "Claims", claims::section_of(page)),
        part(
            "published",
            "Published and ours",
            published::section_of(&page.id("published"), std::slice::from_ref(page)),
        ),
    ];
    parts.push(part("line", "The line", line::section_of(page)));
    parts.push(part("advice", "Advice, measured", verified::section_of(page)));
    parts.push(part("sizes", "The least that is enough", size::section_of(page)));
    // The runs of a search for sizes lie on no whole curve.
    let swept = if page.results.sizes.is_some() { Vec::new() } else { sweep::sections(page) };
    parts.extend(swept.into_iter().map(|(id, name, section)| PageSection { id, name, section }));
    parts.extend([
        part("policies", "Who gains, who pays", policies::section_of(page)),
        part("levers", "Which lever took it", levers::section_of(page)),
        part("interference", "Interference", interference::section_of(page)),
        part("frontier", "Frontier", frontier::section_of(page)),
        part("predicted", "Mixes, predicted from each alone", predicted::section_of(page)),
        part("throughput", "Throughput", throughput::section_of(page)),
        part("speed-up", "Speed-up", speed_up::section_of(page)),
        part("latency", "Latency", latency::section_of(page)),
        part("time-share", "Where time goes", time_share::section_of(page)),
        part("plans", "Plans", plans::section_of(page)),
        part("server", "The server's own view", server::section_of(page)),
        part("lock-waits", "Lock waiting by class", lock_waiting::section_of(page)),
        part("lock-wait-distribution", "Lock waits distributed", cumulative::lock_waits(page)),
        part("waits", "Locks and aborts", counts::locks_and_aborts(page)),
        part("counters", "Counters", counts::counters(page)),
        part("top-down", "Top-down", counts::top_down(page)),
        part("roofline", "Roofline", roofline::section_of(page)),
        part("bandwidth-distribution", "Bandwidth", cumulative::bandwidths(page)),
        part("freshness", "Freshness", freshness::section_of(page)),
        part("timelines", "Second by second", timelines::section_of(page)),
        part("drift", "Drift", drift::section_of(page)),
        part("noise", "Noise floor", noise::section_of(page)),
        part("checks", "Checks", setup::checks(page)),
        part("runs", "Every run", runs::section_of(page)),
        part("settings", "Experiment", setup::settings(page)),
        part("machine", "Machine", setup::machine(page)),
        part("memory", "Memory", memory::section_of(page)),
    ]);
    parts.retain(|part| !part.section.0.is_empty());
    parts
}

fn contents(links: &[(String, String)]) -> Markup {
    html! {
        nav aria-label="Contents" { @for (id, name) in links { a href={ "#" (id) } { (name) } } }
    }
}

fn footer(all: &[ReportInput]) -> Markup {
    let hashes = all.iter().map(|source| source.results.experiment.settings_hash.as_str()).collect::<Vec<_>>();
    html! {
        footer {
            p {
                "Written by Plimsoll " (env!("CARGO_PKG_VERSION")) ". Every figure comes from results.json of the run directory"
                @if let [only] = hashes.as_slice() { " (settings " code { (only) } ")" }
                "; seconds and distributions come from journal.jsonl beside it. Each links to the runs it rests on."
            }
        }
    }
}
