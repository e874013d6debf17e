//! What was claimed, what was published, what came out.

use maud::{Markup, html};

use super::layout::{section, table, text};
use super::page::Page;
use crate::claim::shown;
use crate::results::{CHANGED, ClaimResult, NearResult};
use crate::units::{MISSING, percent};

/// The section; nothing where nothing was claimed.
pub(super) fn section_of(page: &Page) -> Markup {
    let claims = &page.results.claims;
    if claims.is_empty() {
        return html! {};
    }
    let columns =
        [text("Claim"), text("Holds"), text("Measured"), text("Published"), text("Confidence"), text("What must hold")];
    section(
        &page.id("claims"),
        "Claims",
        html! {
            p class="lead" {
                "Each claim is an expression over the means. Below what was measured stands the 95 % interval of its left side. Confidence is the share of resampled experiments, with repeats drawn \
                 anew, in which it comes out as here: near 100 % it is clear, near 50 % it is within the noise."
            }
            (table("Claims and whether they hold", &columns, html! { @for claim in claims { (row(claim)) } }))
        },
    )
}

fn row(claim: &ClaimResult) -> Markup {
    html! {
        tr {
            td class="words" {
                strong { (claim.text) }
                @if let Some(why) = &claim.why_not { small { (why) } }
            }
            td { (mark(claim.holds)) }
            td class="words" {
                (claim.value.as_deref().unwrap_or(MISSING))
                @if let Some([low, high]) = claim.interval { small { (shown(low, 3)) " to " (shown(high, 3)) } }
            }
            td class="words" {
                (claim.published.as_deref().unwrap_or(MISSING))
                @if let Some(near) = claim.near.as_ref().map(NearResult::told) { small { (near) } }
                @if claim.is_changed { small { (CHANGED) } }
            }
            td { (confidence(claim)) }
            td class="words" { code { (claim.expression) } }
        }
    }
}

/// How sure the verdict is, whichever it is.
fn confidence(claim: &ClaimResult) -> String {
    let share = claim.confidence.zip(claim.holds).map(|(share, holds)| if holds { share } else { 1.0 - share });
    share.filter(|share| share.is_finite()).map_or_else(|| MISSING.to_owned(), percent)
}

/// Whether something holds, as a word that is also coloured.
pub(super) fn mark(holds: Option<bool>) -> Markup {
    match holds {
        Some(true) => html! { span class="pill good" { "holds" } },
        Some(false) => html! { span class="pill bad" { "does not hold" } },
        None => html! { span class="pill" { "not judged" } },
    }
}
