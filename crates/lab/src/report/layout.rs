//! What sections are made of: headings, tables that scroll by themselves, figures.

use maud::{Markup, html};

use crate::units::MISSING;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column<'a> {
    name: &'a str,
    class: Option<&'static str>,
}

/// A column of words.
pub(super) const fn text(name: &str) -> Column<'_> {
    Column { name, class: None }
}

/// A column of figures, set to the right.
pub(super) const fn number(name: &str) -> Column<'_> {
    Column { name, class: Some("n") }
}

/// A section under a heading.
pub(super) fn section(id: &str, heading: &str, body: Markup) -> Markup {
    html! { section id=(id) { h2 { (heading) } (body) } }
}

/// A table in a container that scrolls sideways where the screen is narrow.
pub(super) fn table(caption: &str, columns: &[Column], rows: Markup) -> Markup {
    html! {
        div class="scroll" role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead { tr { @for column in columns { th scope="col" class=[column.class] { (column.name) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// A figure cell.
pub(super) fn figure_cell(value: Option<String>) -> Markup {
    html! {
        @match value {
            Some(value) => td class="n" { (value) },
            None => td class="n missing" { (MISSING) },
        }
    }
}

/// A figure cell with the range of the repeats below, where there is one.
pub(super) fn range_cell(value: Option<(String, Option<String>)>) -> Markup {
    html! {
        @match value {
            Some((value, None)) => td class="n" { (value) },
            Some((value, Some(range))) => td class="n" { (value) small { (range) } },
            None => td class="n missing" { (MISSING) },
        }
    }
}

/// The coloured mark that stands for an arm in charts and tables.
pub(super) fn arm_mark(arm: &str) -> Markup {
    html! { span class="arm" { span class={ "mark " (arm) } aria-hidden="true" {} (arm) } }
}

/// A chart under the name of its workload.
pub(super) fn chart(name: &str, note: &str, svg: Markup) -> Markup {
    html! {
        figure class="chart" {
            figcaption { strong { (name) } @if !note.is_empty() { span { (note) } } }
            (svg)
        }
    }
}
