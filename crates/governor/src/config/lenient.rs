//! Reads as much of a file as can be parsed: a value of a wrong type does not hide other faults.

use std::ops::Range;

use plimsoll_notation::Problem;
use toml::de::{DeTable, DeValue};

use super::typed::TypedSettings;

/// A file with more values of a wrong type is not a settings file.
const FAULTS_MAX: usize = 50;

/// The file without the values that cannot be read, and the faults of these. `None` if nothing can be read.
///
/// A value that cannot be read is overwritten with spaces, so that the places of all others stay the same.
pub(super) fn read(text: &str) -> (Option<TypedSettings>, Vec<Problem>) {
    let mut text = text.to_owned();
    let mut problems = Vec::new();
    while problems.len() < FAULTS_MAX {
        let error = match toml::from_str::<TypedSettings>(&text) {
            Ok(typed) => return (Some(typed), problems),
            Err(error) => error,
        };
        let place = error.span();
        problems.push(Problem::of_toml(&error));
        let Some(rest) = place.and_then(|place| without(&text, &place)) else { break };
        text = rest;
    }
    (None, problems)
}

/// The text without the value at that place, which may be a whole table; `None` if it cannot be removed separately.
fn without(text: &str, place: &Range<usize>) -> Option<String> {
    let root = DeTable::parse(text).ok()?;
    let range = assignment(root.get_ref(), place).or_else(|| table(text, place))?;
    let blank: String = text[range.clone()]
        .chars()
        .map(|c| if c == '\n' { "\n".to_owned() } else { " ".repeat(c.len_utf8()) })
        .collect();
    let rest = format!("{}{blank}{}", &text[..range.start], &text[range.end..]);
    (rest != text && DeTable::parse(&rest).is_ok()).then_some(rest)
}

/// The assignment that contains the place, if its value is not a table.
fn assignment(table: &DeTable<'_>, place: &Range<usize>) -> Option<Range<usize>> {
    table.iter().find_map(|(key, value)| {
        let mut tables = tables(value.get_ref()).peekable();
        if tables.peek().is_some() {
            return tables.find_map(|table| assignment(table, place));
        }
        let inner = value.span();
        (inner.start <= place.start && place.end <= inner.end).then_some(key.span().start..inner.end)
    })
}

/// The tables of a value: itself, or the items of a list.
pub(super) fn tables<'t, 'i>(value: &'t DeValue<'i>) -> impl Iterator<Item = &'t DeTable<'i>> {
    let items = value.as_array().into_iter().flatten();
    value.as_table().into_iter().chain(items.filter_map(|item| item.get_ref().as_table()))
}

/// The table whose header is on the line of the place, up to the next header.
pub(super) fn table(text: &str, place: &Range<usize>) -> Option<Range<usize>> {
    let is_head = |line: &str| line.trim_start().starts_with('[');
    let start = text.get(..place.start)?.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = text[start..].split_inclusive('\n');
    let head = lines.next().filter(|line| is_head(line))?;
    let body: usize = lines.take_while(|line| !is_head(line)).map(str::len).sum();
    Some(start..start + head.len() + body)
}
