//! Access to the tables of a parsed file.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A text as typed, with its place in the file.
#[derive(Debug, Clone)]
pub(super) struct Said<'t> {
    pub(super) text: &'t str,
    pub(super) span: Range<usize>,
}

/// A table with its place in the file.
pub(crate) type Placed<'t> = (&'t DeTable<'t>, Range<usize>);

/// The text of a key. A value of another type is reported where the rows of the table are read.
pub(super) fn said<'t>(table: &'t DeTable<'t>, key: &str) -> Option<Said<'t>> {
    table.get(key).and_then(text_of)
}

fn text_of<'t>(value: &'t Spanned<DeValue<'t>>) -> Option<Said<'t>> {
    value.get_ref().as_str().map(|text| Said { text, span: value.span() })
}

/// Whether a key is `true`.
pub(super) fn is_on(table: &DeTable<'_>, key: &str) -> bool {
    table.get(key).and_then(|value| value.get_ref().as_bool()) == Some(true)
}

/// The texts of a list.
pub(super) fn texts<'t>(table: &'t DeTable<'t>, key: &str) -> impl Iterator<Item = Said<'t>> {
    table.get(key).and_then(|value| value.get_ref().as_array()).into_iter().flatten().filter_map(text_of)
}

/// The table of that name.
pub(super) fn table<'t>(root: &'t DeTable<'t>, key: &str) -> Option<Placed<'t>> {
    let value = root.get(key)?;
    value.get_ref().as_table().map(|table| (table, value.span()))
}

/// The tables of a list.
pub(crate) fn tables<'t>(root: &'t DeTable<'t>, key: &str) -> Vec<Placed<'t>> {
    let items = root.get(key).and_then(|value| value.get_ref().as_array()).into_iter().flatten();
    items.filter_map(|item| item.get_ref().as_table().map(|table| (table, item.span()))).collect()
}

/// The place of a key's value; that of the whole file without it.
pub(super) fn place(table: Option<&DeTable<'_>>, key: &str) -> Range<usize> {
    table.and_then(|table| table.get(key)).map_or(0..0, Spanned::span)
}
