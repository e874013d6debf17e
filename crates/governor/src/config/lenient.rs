//! Reads as much of a file as can be understood: one value of a wrong type hides no other fault.

use std::ops::Range;

use plimsoll_notation::Problem;
use toml::de::{DeTable, DeValue};

use super::typed::TypedSettings;

/// A file with more values of a wrong type is not a settings file.
const FAULTS_MAX: usize = 50;

/// What the file says without the values that cannot be read, and the faults of these. `None` if nothing can be read.
///
/// A value that cannot be read is overwritten by spaces, so that the places of all others stay as they are.
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

/// The text without the value at that place, which may be a whole table; `None` if it cannot be taken out by itself.
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

/// The key and the value, which is not a table, that hold the place.
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

/// The table that a value is, or those that it lists.
pub(super) fn tables<'t, 'i>(value: &'t DeValue<'i>) -> impl Iterator<Item = &'t DeTable<'i>> {
    let items = value.as_array().into_iter().flatten();
    value.as_table().into_iter().chain(items.filter_map(|item| item.get_ref().as_table()))
}

/// The table whose head is on the line of the place, up to the next head.
pub(super) fn table(text: &str, place: &Range<usize>) -> Option<Range<usize>> {
    let is_head = |line: &str| line.trim_start().starts_with('[');
    let start = text.get(..place.start)?.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = text[start..].split_inclusive('\n');
    let head = lines.next().filter(|line| is_head(line))?;
    let body: usize = lines.take_while(|line| !is_head(line)).map(str::len).sum();
    Some(start..start + head.len() + body)
}
