//! The report: one HTML file that opens from disk, prints, and needs neither network nor scripts.
//!
//! It uses the style sheet of the reports of experiments. [`maud`] escapes every value, and a content security policy
//! lets no script run at all.

mod parts;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plimsoll_display::{is_shown, percent, seconds};

use crate::results::{EndReason, Observation};
use parts::{classes, counted, governor, locks, machine, missing, times};

const STYLE: &str = include_str!("../../../web/dist/report.css");

/// Styles that the sheet lacks: bars of shares that need no script, words that wrap, so that a long name does not push
/// figures out of sight, and a shadow where a table continues beyond the edge of a narrow window.
const OWN_STYLE: &str = ".share{display:flex;height:16px;min-width:120px;border-radius:3px;overflow:hidden}\
    .share span{display:block;height:100%}td.words ol{margin:0;padding-left:18px}\
    thead th,tbody th,tbody td:not(.n){white-space:normal;overflow-wrap:break-word}tbody td.n{white-space:nowrap}\
    .scroll{background:linear-gradient(90deg,var(--page),#0000) 0 0/24px 100% no-repeat local,\
    linear-gradient(270deg,var(--page),#0000) 100% 0/24px 100% no-repeat local,\
    linear-gradient(90deg,#0004,#0000) 0 0/8px 100% no-repeat scroll,linear-gradient(270deg,#0004,#0000) 100% 0/8px 100% no-repeat scroll}\
    @media(max-width:560px){th,td{padding-right:10px}.share{min-width:80px}}";

/// The page.
pub fn render(observation: &Observation) -> String {
    let sections: Vec<(&str, &str, Markup)> = vec![
        ("governor", "What a governor would change", governor(observation)),
        ("time", "Where response time goes", times(observation)),
        ("locks", "Who waits behind whom", locks(observation)),
        ("machine", "The machine, and replication", machine(observation)),
        ("counted", "Counted by the server", counted(observation)),
        ("classes", "Classes that a governor could have", classes(observation)),
        ("missing", "What could not be seen", missing(observation)),
    ];
    html! {
        (DOCTYPE)
        html lang="en" {
            (head())
            body {
                a class="skip" href="#content" { "Skip to the content" }
                div class="page" {
                    (header(observation))
                    nav aria-label="Contents" { @for (id, title, _) in &sections { a href={ "#" (id) } { (title) } } }
                    main id="content" {
                        (warnings(observation))
                        @for (id, title, body) in &sections { section id=(id) { h2 { (title) } (body) } }
                    }
                    footer { p class="note" { "Made by Plimsoll " (observation.plimsoll) ". The figures are in results.json." } }
                }
            }
        }
    }
    .into_string()
    // Names may change the direction of the text around them.
    .replace(|letter: char| !is_shown(letter) && letter != '\n', "\u{fffd}")
}

fn head() -> Markup {
    const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content={ "plimsoll " (env!("CARGO_PKG_VERSION")) };
            title { "A live server, observed" }
            style { (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
        }
    }
}

fn header(observation: &Observation) -> Markup {
    let (server, looking) = (&observation.server, &observation.looking);
    let cost = if looking.server_cpu_measured { "" } else { "at most " };
    html! {
        header {
            p class="eyebrow" { "Plimsoll · observation" }
            h1 { "Where time goes on a live server" }
            p class="meta" {
                code { (server.url) } ", PostgreSQL " (server.version)
                @if server.standby { ", a standby" }
                ", as " (server.role) ". " (seconds(observation.seconds)) ", begun "
                time datetime=(observation.started) { (observation.started.replace('T', " ").replace('Z', " UTC")) }
                ". " (looking.looks) " looks at sessions, " (looking.lock_looks) " at locks; looking took " (cost)
                (percent(looking.share_of_a_core)) " of one core (bound: " (percent(looking.bound)) ")."
            }
            ul class="verdict" {
                @match &observation.ended {
                    EndReason::InTime => {},
                    EndReason::Interrupted => { li { "ended early" } },
                    EndReason::ServerLost(_) => { li class="bad" { "the server was lost" } },
                }
                @if let Some(share) = &observation.time.share {
                    li { (percent(share.lock)) " waiting for locks" }
                    @if let Some(core_wait) = share.core_wait { li { (percent(core_wait)) " waiting for a core" } }
                    li { (percent(share.disk)) " waiting for the disk" }
                }
            }
        }
    }
}

fn warnings(observation: &Observation) -> Markup {
    if observation.warnings.is_empty() {
        return html! {};
    }
    html! {
        div class="warnings" { h2 { "Mind this" } ul { @for warning in &observation.warnings { li { (warning) } } } }
    }
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;
    use crate::counted::CounterHistory;
    use crate::ledger::Ledger;
    use crate::testing::{observation_of, rich_observation};

    /// The page as XML, which is stricter than HTML.
    fn check(observation: &Observation) -> String {
        let page = render(observation).replace("<!DOCTYPE html>", "");
        let mut parts = page.split("<meta ");
        let first = parts.next().unwrap_or_default().to_owned();
        let xml = parts.fold(first, |page, part| page + "<meta " + &part.replacen('>', "/>", 1));
        // A terminal's escape is a character that XML does not allow; a browser shows nothing for it.
        let xml = xml.replace('\x1b', "");
        let document = Document::parse(&xml).unwrap_or_else(|error| panic!("{error}"));
        for link in document.descendants().filter_map(|node| node.attribute("href")) {
            let id = link.strip_prefix('#').expect("links stay on the page");
            assert!(document.descendants().any(|node| node.attribute("id") == Some(id)), "{link}");
        }
        assert!(!xml.contains("<script"), "no script, whatever names there are");
        xml
    }

    #[test]
    fn pages_are_whole_whatever_is_in_them() {
        let rich = check(&rich_observation());
        for part in [
            "idle in transaction",
            "plan",
            "waited for its client",
            "public.&lt;t&gt;",
            "GRANT pg_monitor",
            "PostgreSQL 0.60",
            "for snapshot",
        ] {
            assert!(rich.contains(part), "{part}");
        }
        check(&observation_of(&Ledger::default(), &CounterHistory::default()));
    }
}
