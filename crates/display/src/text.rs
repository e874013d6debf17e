//! Text that fits a terminal of 80 columns, and that a terminal does not obey.

use crate::is_shown;

/// The widest line, except for words that are wider.
pub const WIDTH: usize = 80;

/// Between the columns of a table.
const GAP: usize = 2;

/// Units that stay on the line of their number.
const UNITS: [&str; 9] = ["µs", "ms", "s", "min", "/s", "k/s", "M/s", "%", "times"];

/// Breaks `text` at spaces; a word longer than a line stays whole, so that paths can be copied.
pub fn wrap(text: &str, first: &str, rest: &str) -> Vec<String> {
    let mut lines = vec![first.to_string()];
    let mut is_empty = true;
    let mut words: Vec<String> = Vec::new();
    // The narrow space within a number is one that does not break.
    let breaks = |character: char| character.is_whitespace() && character != '\u{202f}';
    for word in text.split(breaks).filter(|word| !word.is_empty()) {
        match words.last_mut() {
            Some(number) if UNITS.contains(&word.trim_end_matches([',', '.', ';', ':', ')'])) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_string()),
        }
    }
    for word in &words {
        let line = lines.last_mut().expect("there is always a line");
        if is_empty {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{rest}{word}"));
        }
        is_empty = false;
    }
    lines
}

/// Writes `value` after `lead`, on as many lines as needed; later lines are indented by the width of `lead`'s last line.
pub fn write_item(text: &mut String, lead: &str, value: &str) {
    let (before, lead) =
        lead.rsplit_once('\n').map_or(("", lead), |(_, last)| (&lead[..lead.len() - last.len()], last));
    text.push_str(before);
    for line in wrap(value, lead, &" ".repeat(lead.chars().count())) {
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// Writes a table whose last column takes as many lines as it needs.
pub fn write_table<const COLUMNS: usize>(text: &mut String, head: &[&str; COLUMNS], rows: &Vec<[String; COLUMNS]>) {
    let head = head.map(str::to_owned);
    let width = |column: usize| {
        let cells = std::iter::once(&head).chain(rows).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..COLUMNS - 1).map(width).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut lead = String::from("  ");
        for (cell, width) in row.iter().zip(&widths) {
            lead += cell;
            lead += &" ".repeat(width + GAP - cell.chars().count());
        }
        write_item(text, &lead, &row[COLUMNS - 1]);
    }
}

/// A name that may be empty, on one line.
pub fn named(name: &str, nothing: &str) -> String {
    if name.is_empty() { nothing.to_owned() } else { one_line(name) }
}

/// The text without characters that a terminal would obey.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_shown(c) { c } else { ' ' }).collect()
}

/// At most that many characters, the last of them a sign that the text was cut.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped_and_long_words_are_not_cut() {
        let wide = "w".repeat(100);
        let mut text = String::new();
        write_item(&mut text, "\n  a ", &format!("b {wide} c"));
        assert_eq!(text, format!("\n  a b\n    {wide}\n    c\n"));
        let mut text = String::new();
        write_item(&mut text, "  a ", "");
        assert_eq!(text, "  a\n");
    }

    #[test]
    fn the_last_column_wraps_below_itself() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned);
        let mut text = String::new();
        let long = format!("{} end", "x".repeat(66));
        write_table(&mut text, &["a", "b", "c", "d"], &vec![row(["one", "µ", "", "short"]), row(["i", "", "", &long])]);
        let expect = format!("  a    b  c  d\n  one  µ     short\n  i          {}\n             end\n", "x".repeat(66));
        assert_eq!(text, expect);
    }

    #[test]
    fn texts_fit() {
        assert_eq!((cut("größer", 4).as_str(), cut("abcd", 4).as_str()), ("grö…", "abcd"));
        assert_eq!(named("a\x1b[2J\nb\u{202e}c", "-"), "a [2J b c");
        assert_eq!(
            wrap(&"12 ms ".repeat(14), "- ", "  "),
            ["- ".to_owned() + "12 ms ".repeat(13).trim_end(), "  12 ms".to_owned()]
        );
    }
}
