//! The parts of sections: headings, tables that scroll by themselves, cells.

use maud::{Markup, html};

use crate::results::Interval;
use crate::units::MISSING;

#[derive(Debug, Clone)]
pub(super) struct Column {
    name: String,
    class: Option<&'static str>,
}

/// A column of words.
pub(super) fn text(name: &str) -> Column {
    Column { name: name.to_owned(), class: None }
}

/// A column of figures, set to the right.
pub(super) fn number(name: &str) -> Column {
    Column { name: name.to_owned(), class: Some("n") }
}

pub(super) fn section(id: &str, heading: &str, body: Markup) -> Markup {
    html! { section id=(id) { h2 { (heading) } (body) } }
}

/// A table in a container that scrolls sideways if the screen is narrow, and down if the table is long.
pub(super) fn table(caption: &str, columns: &[Column], rows: Markup) -> Markup {
    scrolled(caption, html! { table { (head(caption, columns)) tbody { (rows) } } })
}

/// A table whose answer may stand in its last column: on a narrow screen nothing lies beside it, for each row is a list of its
/// cells with their columns' names. Each row has a cell for each column, the first of which is its heading.
pub(super) fn stacked_table(caption: &str, columns: &[Column], rows: impl IntoIterator<Item = Vec<Cell>>) -> Markup {
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
pub(super) struct Cell {
    class: Option<&'static str>,
    content: Markup,
}

impl Cell {
    /// A short text on one line.
    pub(super) fn text(content: Markup) -> Self {
        Cell { class: None, content }
    }

    /// Sentences.
    pub(super) fn words(content: Markup) -> Self {
        Cell { class: Some("words"), content }
    }

    /// A figure.
    pub(super) fn figure(value: Option<String>) -> Self {
        let class = Some(if value.is_some() { "n" } else { "n missing" });
        Cell { class, content: html! { (value.as_deref().unwrap_or(MISSING)) } }
    }

    /// A figure with its interval below.
    pub(super) fn interval(interval: Option<Interval>, write: fn(f64) -> String) -> Self {
        let Some(Interval { value, low, high }) = interval else { return Cell::figure(None) };
        let ends = low.zip(high).map(|(low, high)| range(low, high, write));
        Cell { class: Some("n"), content: html! { (write(value)) @if let Some(ends) = ends { small { (ends) } } } }
    }

    /// It as a cell of any other table.
    fn plain(self) -> Markup {
        html! { td class=[self.class] { (self.content) } }
    }
}

pub(super) fn figure_cell(value: Option<String>) -> Markup {
    Cell::figure(value).plain()
}

/// A cell of a figure with its interval below.
pub(super) fn interval_cell(interval: Option<Interval>, write: fn(f64) -> String) -> Markup {
    Cell::interval(interval, write).plain()
}

/// `1.20–1.40 k/s`: the unit once if it is the same.
pub(super) fn range(low: f64, high: f64, write: fn(f64) -> String) -> String {
    let (low, high) = (write(low), write(high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}–{high}"),
        _ => format!("{low}–{high}"),
    }
}

/// A ratio with two decimals.
pub(super) fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// `n of m nouns`, `m nouns` if it is all of them.
pub(super) fn of(count: usize, all: usize, noun: &str) -> String {
    let plural = if all == 1 { "" } else { "s" };
    if count == all { format!("{all} {noun}{plural}") } else { format!("{count} of {all} {noun}{plural}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{duration_us, rate};

    #[test]
    fn a_range_tells_its_unit_once() {
        assert_eq!(range(2_370.0, 2_450.0, duration_us), "2.37–2.45 ms");
        assert_eq!(range(970.0, 2_450.0, duration_us), "970 µs–2.45 ms");
        assert_eq!(range(1.0, 2.0, rate), "1.00–2.00 /s");
        assert_eq!(range(0.5, 0.75, ratio), "0.50–0.75");
    }

    #[test]
    fn counts_read_well() {
        assert_eq!(of(1, 1, "run"), "1 run");
        assert_eq!(of(3, 3, "run"), "3 runs");
        assert_eq!(of(2, 3, "run"), "2 of 3 runs");
    }
}
