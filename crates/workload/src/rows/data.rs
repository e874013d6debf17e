//! The initial rows of the table. They follow from the number of rows alone, so that any client and any check can
//! compute them without reading the database.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewBuilder};
use arrow::record_batch::RecordBatch;

use super::Columns;
use super::schema::TEXT_BYTES;
use crate::parts::RowRange;
use crate::random::mix;
use crate::schema::Table;

/// Initial integer values are below this.
pub(super) const VALUES: u64 = 1_000_000;

/// Digits with which a text begins, so that texts sort as their numbers do and differ early, as random strings would.
const TEXT_DIGITS: usize = 11;

/// Rows of a part, in order of key.
pub(super) fn batch(table: &Table, columns: Columns, part: RowRange) -> RecordBatch {
    let keys = || (part.first..part.first + part.rows as u64).map(|row| row as i64 + 1);
    let (keys, values): (ArrayRef, ArrayRef) = match columns {
        Columns::BigInt => (
            Arc::new(Int64Array::from_iter_values(keys())),
            Arc::new(Int64Array::from_iter_values(keys().map(initial_value))),
        ),
        Columns::Text => (texts(part.rows, keys()), texts(part.rows, keys().map(initial_value))),
    };
    RecordBatch::try_new(table.arrow(), vec![keys, values]).expect("the columns are those of the table")
}

fn texts(rows: usize, numbers: impl Iterator<Item = i64>) -> ArrayRef {
    // One block for all texts: blocks that grow by doubling would be half empty on average.
    let block_bytes = u32::try_from(rows * TEXT_BYTES).expect("a part has few rows");
    let mut builder = StringViewBuilder::with_capacity(rows).with_fixed_block_size(block_bytes.max(1));
    let mut text = String::new();
    for number in numbers {
        write_text(number, &mut text);
        builder.append_value(&text);
    }
    Arc::new(builder.finish())
}

/// The integer value with which a key is loaded; the text value is that number's text.
pub(super) fn initial_value(key: i64) -> i64 {
    (mix(key as u64) % VALUES) as i64
}

/// The sum of all initial integer values of a table with `rows` rows.
pub(super) fn initial_sum(rows: u64) -> i64 {
    (1..=rows as i64).map(initial_value).sum()
}

/// The number of a key, from the text in which queries show it.
pub(super) fn number_of(columns: Columns, key: &str) -> Option<u64> {
    let digits = match columns {
        Columns::BigInt => key,
        Columns::Text => key.get(..TEXT_DIGITS)?,
    };
    digits.parse().ok()
}

/// Writes the text of a number that is not negative: its digits, then letters that follow from it. Texts of different
/// numbers differ.
pub(super) fn write_text(number: i64, text: &mut String) {
    text.clear();
    write!(text, "{number:0TEXT_DIGITS$}").expect("a string takes all that is written");
    let mut random = mix(number as u64);
    while text.len() < TEXT_BYTES {
        text.push(char::from(b'a' + (random % 26) as u8));
        random = random.rotate_right(5);
    }
}
