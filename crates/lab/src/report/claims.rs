//! Claims, their published figures, and their results.

use maud::{Markup, html};

use super::page::Page;
use crate::results::{CHANGED, ClaimResult, ClaimVerdict, NearResult};
use crate::table::claims::{interval, more};
use plimsoll_display::MISSING;
use plimsoll_display::page::{Cell, section, stacked_table, text};

/// The section; nothing without claims.
pub(super) fn section_of(page: &Page) -> Markup {
    let claims = &page.results.claims;
    if claims.is_empty() {
        return html! {};
    }
    let columns = [text("Claim"), text("Verdict"), text("Measured"), text("Published"), text("What must hold")];
    section(
        &page.id("claims"),
        "Claims",
        html! {
            p class="lead" {
                "A claim holds if the 95 % interval of what it compares lies wholly on its side of the bound, fails if it lies \
                 wholly on the other, and is undecided if the bound is inside. The interval is Student's t over the blocks; \
                 the numbers above it are of all runs together."
            }
            (stacked_table("Claims and whether they hold", &columns, claims.iter().map(row)))
        },
    )
}

fn row(claim: &ClaimResult) -> Vec<Cell> {
    vec![
        Cell::words(html! { (claim.text) @if let Some(why) = &claim.why_not { small { (why) } } }),
        Cell::text(pill(claim.verdict)),
        Cell::words(html! {
            (claim.value.as_deref().unwrap_or(MISSING))
            @if let Some(interval) = claim.interval.as_ref().and_then(interval) { small { (interval) } }
            @if let Some(more) = more(claim) { small { (more) } }
        }),
        Cell::words(html! {
            (claim.published.as_deref().unwrap_or(MISSING))
            @if let Some(near) = claim.near.as_ref().map(NearResult::told) { small { (near) } }
            @if claim.is_changed { small { (CHANGED) } }
        }),
        Cell::words(html! { code { (claim.expression) } }),
    ]
}

/// A verdict as a word that is also coloured.
fn pill(verdict: ClaimVerdict) -> Markup {
    let class = match verdict {
        ClaimVerdict::Holds => "pill good",
        ClaimVerdict::Fails => "pill bad",
        ClaimVerdict::Undecided | ClaimVerdict::NotJudged => "pill",
    };
    html! { span class=(class) { (verdict.words()) } }
}

/// Whether a check of the data holds, as a word that is also coloured.
pub(super) fn mark(holds: Option<bool>) -> Markup {
    match holds {
        Some(true) => html! { span class="pill good" { "holds" } },
        Some(false) => html! { span class="pill bad" { "does not hold" } },
        None => html! { span class="pill" { "not judged" } },
    }
}
