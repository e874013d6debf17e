//! Text that fits a terminal of 80 columns.

/// The widest line, except for words that are wider.
pub(super) const WIDTH: usize = 80;
/// Between the columns of a table.
const GAP: usize = 2;

/// Writes `value` after `lead`, on as many lines as needed; later lines are indented by the width of `lead`'s last
/// line.
pub(super) fn write_item(text: &mut String, lead: &str, value: &str) {
    let indent = " ".repeat(lead.chars().rev().take_while(|c| *c != '\n').count());
    let mut line = lead.to_owned();
    let mut width = indent.len();
    let mut is_first_word = true;
    for word in value.split_whitespace() {
        let word_width = word.chars().count();
        if !is_first_word && width + 1 + word_width > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line.clone_from(&indent);
            width = indent.len();
            is_first_word = true;
        }
        if !is_first_word {
            line.push(' ');
            width += 1;
        }
        line.push_str(word);
        width += word_width;
        is_first_word = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Writes a table whose last column takes as many lines as it needs.
pub(super) fn write_table<const COLUMNS: usize>(
    text: &mut String,
    head: &[&str; COLUMNS],
    rows: &Vec<[String; COLUMNS]>,
) {
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

/// `1 socket`, `2 sockets`.
pub(super) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `32 KiB`, `23.5 GiB`: one decimal unless it is 0.
pub(super) fn bytes(bytes: u64) -> String {
    let (unit, name) = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|unit| bytes >= unit.0)
        .unwrap_or((1, "B"));
    if bytes.is_multiple_of(unit) {
        return format!("{} {name}", bytes / unit);
    }
    format!("{:.1} {name}", bytes as f64 / unit as f64)
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
    fn sizes_and_counts() {
        let check = |value, expect: &str| assert_eq!(bytes(value), expect);
        check(0, "0 B");
        check(32 << 10, "32 KiB");
        check(24_684_084 * 1024, "23.5 GiB");
        check(1 << 30, "1 GiB");
        assert_eq!((count(1, "socket"), count(2, "socket")), ("1 socket".into(), "2 sockets".into()));
    }
}
