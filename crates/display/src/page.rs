//! Parts of HTML pages: sections, tables that scroll by themselves, cells.

use maud::{Markup, html};

use crate::MISSING;

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    name: String,
    class: Option<&'static str>,
}

/// A column of words.
pub fn text(name: &str) -> Column {
    Column { name: name.to_owned(), class: None }
}

/// A column of figures, set to the right.
pub fn number(name: &str) -> Column {
    Column { name: name.to_owned(), class: Some("n") }
}

/// A part of a page with a heading.
pub fn section(id: &str, heading: &str, body: Markup) -> Markup {
    html! { section id=(id) { h2 { (heading) } (body) } }
}

/// A table in a container that scrolls sideways if the screen is narrow, and down if the table is long.
pub fn table(caption: &str, columns: &[Column], rows: Markup) -> Markup {
    html! {
        div class="scroll tall" role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead { tr { @for column in columns { th scope="col" class=[column.class] { (column.name) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// A cell of a figure; a sign if it is missing.
pub fn figure_cell(value: Option<String>) -> Markup {
    html! {
        @match value {
            Some(value) => td class="n" { (value) },
            None => td class="n missing" { (MISSING) },
        }
    }
}
