//! A figure with its headings and its unit, as terminal and page show it.

use maud::{Markup, html};

use crate::MISSING;
use crate::page::{Column, figure_cell, number};

/// One figure of a subject. The terminal and the page both take it from here, so they cannot disagree on its unit.
#[derive(Debug)]
pub struct Figure<T> {
    /// The heading of its column in the terminal.
    pub short: &'static str,
    /// The heading of its column on a page.
    pub long: &'static str,
    /// The width of its column in the terminal, with the space before it.
    pub width: usize,
    /// The figure with its unit; `None` if it is missing.
    pub tell: fn(&T) -> Option<String>,
}

/// The headings of figures as a line of a terminal.
pub fn heading_line<T>(figures: &[&Figure<T>]) -> String {
    figures.iter().map(|figure| format!("{:>1$}", figure.short, figure.width)).collect()
}

/// The figures of one thing as a line of a terminal.
pub fn figure_line<T>(figures: &[&Figure<T>], of: &T) -> String {
    let told = |figure: &Figure<T>| (figure.tell)(of).unwrap_or_else(|| MISSING.to_owned());
    figures.iter().map(|figure| format!("{:>1$}", told(figure), figure.width)).collect()
}

/// The columns of figures in a table of a page.
pub fn figure_columns<T>(figures: &[&Figure<T>]) -> impl Iterator<Item = Column> {
    figures.iter().map(|figure| number(figure.long))
}

/// The cells of the figures of one thing in a table of a page.
pub fn figure_cells<T>(figures: &[&Figure<T>], of: &T) -> Markup {
    html! { @for figure in figures { (figure_cell((figure.tell)(of))) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_and_page_show_the_same_figures() {
        const HALF: Figure<u32> = Figure {
            short: "half",
            long: "Half of it",
            width: 6,
            tell: |it| it.checked_div(2).map(|it| format!("{it} m")),
        };
        const NONE: Figure<u32> = Figure { short: "", long: "Nothing", width: 3, tell: |_| None };
        let all = [&HALF, &NONE];
        assert_eq!([heading_line(&all), figure_line(&all, &6)], ["  half   ", "   3 m  –"]);
        let columns: Vec<_> = figure_columns(&all).collect();
        let page = crate::page::table("Of six", &columns, html! { tr { (figure_cells(&all, &6)) } }).into_string();
        for there in ["Half of it", "Nothing", r#"<td class="n">3 m</td><td class="n missing">–</td>"#] {
            assert!(page.contains(there), "{there}: {page}");
        }
    }
}
