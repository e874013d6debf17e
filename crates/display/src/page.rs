//! Parts of HTML pages: sections, tables that scroll by themselves, cells.

use maud::{Markup, html};

use crate::{MISSING, range};

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
    scrolled(caption, html! { table { (head(caption, columns)) tbody { (rows) } } })
}

/// A table whose answer may stand in its last column: on a narrow screen nothing lies beside it, for each row is a list of its
/// cells with their columns' names. Each row has a cell for each column, the first of which is its heading.
pub fn stacked_table(caption: &str, columns: &[Column], rows: impl IntoIterator<Item = Vec<Cell>>) -> Markup {
    let row = |cells: Vec<Cell>| {
        let named = columns.iter().zip(cells).enumerate();
        html! {
            tr {
                @for (at, (column, Cell { class, content })) in named {
                    @if at == 0 { th scope="row" class=[class] { (content) } }
                    @else { td class=[class] data-column=(column.name) { (content) } }
                }
            }
        }
    };
    let rows = rows.into_iter().map(row).collect::<Vec<_>>();
    let body = html! { tbody { @for row in rows { (row) } } };
    scrolled(caption, html! { table class="stacked" { (head(caption, columns)) (body) } })
}

fn scrolled(caption: &str, table: Markup) -> Markup {
    html! { div class="scroll tall" role="region" aria-label=(caption) tabindex="0" { (table) } }
}

fn head(caption: &str, columns: &[Column]) -> Markup {
    html! {
        caption { (caption) }
        thead { tr { @for column in columns { th scope="col" class=[column.class] { (column.name) } } } }
    }
}

/// A cell of a [`stacked_table`].
#[derive(Debug)]
pub struct Cell {
    class: Option<&'static str>,
    content: Markup,
}

impl Cell {
    /// A short text on one line.
    pub fn text(content: Markup) -> Self {
        Cell { class: None, content }
    }

    /// Sentences.
    pub fn words(content: Markup) -> Self {
        Cell { class: Some("words"), content }
    }

    /// A figure.
    pub fn figure(value: Option<String>) -> Self {
        let class = Some(if value.is_some() { "n" } else { "n missing" });
        Cell { class, content: html! { (value.as_deref().unwrap_or(MISSING)) } }
    }

    /// A figure, with the ends of its interval below if it has one.
    pub fn ranged(value: Option<f64>, ends: Option<(f64, f64)>, write: fn(f64) -> String) -> Self {
        let Some(value) = value else { return Cell::figure(None) };
        let ends = ends.map(|(low, high)| range(low, high, write));
        Cell { class: Some("n"), content: html! { (write(value)) @if let Some(ends) = ends { small { (ends) } } } }
    }

    /// It as a cell of any other table.
    pub fn plain(self) -> Markup {
        html! { td class=[self.class] { (self.content) } }
    }
}

/// A cell of a figure; a sign if it is missing.
pub fn figure_cell(value: Option<String>) -> Markup {
    Cell::figure(value).plain()
}
