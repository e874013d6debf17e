//! The study as one HTML file that opens from disk, prints, and needs no network and no script.
//!
//! Charts are SVG drawn here, so that they are the same on a screen, on paper and in a test. [`maud`] writes the markup: it
//! escapes every value that is put in and checks at compile time that tags are closed. `results.json` travels inside the
//! file, so that every figure can be traced.
//!
//! In reading order: `findings` is what the reader came for, then one file for each section in the order of the page;
//! `layout` and `svg` are what sections are made of.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::results::Results;
use crate::summary::Summary;

mod counters;
mod findings;
#[cfg(test)]
pub(crate) mod fixture;
mod latency;
mod layout;
mod setup;
mod svg;
#[cfg(test)]
mod tests;
mod throughput;
mod time_share;
mod waits;

const STYLE: &str = include_str!("report/style.css");

/// Where the reader can go.
const CONTENTS: [(&str, &str); 9] = [
    ("throughput", "Throughput"),
    ("latency", "Latency"),
    ("time-share", "Time share"),
    ("waits", "Locks and aborts"),
    ("counters", "Counters"),
    ("devices", "Devices"),
    ("machine", "Machine"),
    ("settings", "Settings"),
    ("points", "Points"),
];

/// The whole file.
pub fn render(results: &Results) -> String {
    let summary = Summary::of(results);
    let title = format!("{}: {}", results.experiment.name, findings::who(&summary));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "plimsoll " (results.plimsoll) };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (findings::header(results, &summary))
                (contents())
                main {
                    (findings::section(results, &summary))
                    (throughput::section(&summary))
                    (latency::section(&summary))
                    (time_share::section(&summary))
                    (waits::section(&summary))
                    (counters::section(results, &summary))
                    (setup::sections(results))
                }
                (footer(results))
                (data(results))
            }
        }
    }
    .into_string()
}

fn contents() -> Markup {
    html! {
        nav aria-label="Sections" {
            @for (id, name) in CONTENTS { a href={ "#" (id) } { (name) } }
        }
    }
}

fn footer(results: &Results) -> Markup {
    html! {
        footer {
            p {
                "Written by Plimsoll " (results.plimsoll)
                @if let Some(commit) = &results.commit { ", commit " code { (commit) } }
                ". Every figure on this page is computed from the results document inside this file, in the element "
                code { "script#results" } "."
            }
        }
    }
}

/// `results.json`, inert. Within JSON `<` and `&` occur in strings only, where they may be written as escapes; without
/// them no text can end the element, open a comment or name an entity.
fn data(results: &Results) -> Markup {
    let json = serde_json::to_string(results).expect("results are maps with string keys, which JSON can write");
    html! {
        script type="application/json" id="results" { (PreEscaped(json.replace('<', "\\u003c").replace('&', "\\u0026"))) }
    }
}
