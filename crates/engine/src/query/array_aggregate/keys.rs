//! Group keys as places in an array.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray, UInt16Array, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::columns::ColumnTable;
use crate::columns::encode::ChunkColumn;
use crate::query::array_aggregate::values::Values;
use crate::query::predicate::integer_span;

/// A column whose values have numbers from 0 to below `span`.
#[derive(Debug)]
pub struct Key {
    pub column: usize,
    pub span: usize,
    kind: KeyValues,
}

#[derive(Debug)]
enum KeyValues {
    /// An integer's number is its distance from the smallest.
    Integers { first: i64, kept: DataType },
    /// A text's number is its place among all texts of the column.
    Texts {
        all: ArrayRef,
        /// The number of each entry of a chunk's dictionary, by the dictionary's address; nothing where all chunks share one. The
        /// table, which the scan holds, keeps the dictionaries alive.
        numbers: HashMap<usize, Vec<u32>>,
        /// The place of each text among all of them, found out when texts come that are not kept as codes.
        places: OnceLock<HashMap<Box<str>, u16>>,
    },
}

/// How many numbers a key of integers has below the smallest and above the largest, for each there is between them and at least, where
/// changes are laid over the table.
const MARGIN: (usize, usize) = (8, 16);

impl Key {
    /// A key without nulls whose values are integers, or texts that all chunks keep as codes. If changes are laid over the table, it has
    /// room for integers beyond the smallest and the largest.
    pub fn new(table: &ColumnTable, column: usize, has_changes: bool) -> Option<Key> {
        if table.statistics().columns[column].null_count > 0 {
            return None;
        }
        match table.schema().field(column).data_type() {
            DataType::Utf8View => Key::of_texts(table, column),
            kept => {
                let (first, span) = integer_span(table, column)?;
                let margin = if has_changes { (span / MARGIN.0).max(MARGIN.1) } else { 0 };
                let (first, span) = (first.checked_sub(i64::try_from(margin).ok()?)?, span.checked_add(2 * margin)?);
                Some(Key { column, span, kind: KeyValues::Integers { first, kept: kept.clone() } })
            }
        }
    }

    fn of_texts(table: &ColumnTable, column: usize) -> Option<Key> {
        let filled = table.chunks().iter().filter(|chunk| chunk.live_rows() > 0);
        let dictionaries = filled.map(|chunk| chunk.dictionary(column)).collect::<Option<Vec<_>>>()?;
        let first = dictionaries.first()?;
        if dictionaries.iter().all(|dictionary| Arc::ptr_eq(dictionary, first)) {
            let kind = KeyValues::Texts { all: Arc::clone(first), numbers: HashMap::new(), places: OnceLock::new() };
            return Some(Key { column, span: first.len(), kind });
        }
        let mut places: HashMap<&str, u32> = HashMap::new();
        let mut all: Vec<&str> = Vec::new();
        let mut numbers = HashMap::new();
        for dictionary in &dictionaries {
            let number = |text| {
                *places.entry(text).or_insert_with(|| {
                    all.push(text);
                    (all.len() - 1) as u32
                })
            };
            let texts = || dictionary.as_string_view().iter().flatten();
            numbers.entry(address(dictionary)).or_insert_with(|| texts().map(number).collect());
        }
        let span = all.len();
        let all = Arc::new(StringViewArray::from(all));
        Some(Key { column, span, kind: KeyValues::Texts { all, numbers, places: OnceLock::new() } })
    }

    /// Whether values have numbers.
    pub fn holds(&self, values: &ArrayRef) -> bool {
        match &self.kind {
            KeyValues::Integers { first, .. } => {
                let bounds = *first..=first.saturating_add(self.span as i64 - 1);
                values.null_count() == 0 && Values::of(values).is_some_and(|values| values.are_within(&bounds))
            }
            KeyValues::Texts { .. } => self.codes(values).is_some(),
        }
    }

    /// Texts as codes into all texts of the column; `None` if one is not among them.
    pub fn codes(&self, texts: &ArrayRef) -> Option<ChunkColumn> {
        let KeyValues::Texts { all, places, .. } = &self.kind else { return None };
        let places = places.get_or_init(|| {
            let texts = all.as_string_view().iter().flatten().map(Box::<str>::from);
            // Values beyond the last code get no code.
            texts.zip(0..=u16::MAX).collect()
        });
        let codes = texts.as_string_view_opt()?.iter().map(|text| places.get(text?).copied());
        let codes: UInt16Array = codes.collect::<Option<Vec<u16>>>()?.into();
        Some(ChunkColumn::Codes { codes: Arc::new(codes), dictionary: Arc::clone(all) })
    }

    /// Takes rows' places among the combinations of the keys so far to those among the combinations with this one as well. Rows
    /// that are not selected may hold any value; their places mean nothing.
    pub fn refine(&self, values: &Values<'_>, dictionary: Option<&ArrayRef>, places: &mut [u32]) {
        let span = self.span as u32;
        match (&self.kind, values) {
            (KeyValues::Integers { first, .. }, Values::Int32(values)) => {
                refine(places, span, values.iter().map(|value| i64::from(*value).wrapping_sub(*first) as u32));
            }
            (KeyValues::Integers { first, .. }, Values::Int64(values)) => {
                refine(places, span, values.iter().map(|value| value.wrapping_sub(*first) as u32));
            }
            (KeyValues::Integers { first, .. }, Values::Near8(values, base)) => {
                let base = base.wrapping_sub(*first) as u32;
                refine(places, span, values.iter().map(|distance| base.wrapping_add(u32::from(*distance))));
            }
            (KeyValues::Integers { first, .. }, Values::Near16(values, base)) => {
                let base = base.wrapping_sub(*first) as u32;
                refine(places, span, values.iter().map(|distance| base.wrapping_add(u32::from(*distance))));
            }
            (KeyValues::Integers { first, .. }, Values::Near32(values, base)) => {
                let base = base.wrapping_sub(*first) as u32;
                refine(places, span, values.iter().map(|distance| base.wrapping_add(*distance)));
            }
            (KeyValues::Texts { numbers, .. }, values) => {
                let numbers = dictionary.and_then(|dictionary| numbers.get(&address(dictionary)));
                let number = |code: u16| match numbers {
                    Some(numbers) => numbers.get(usize::from(code)).copied().unwrap_or(0),
                    None => u32::from(code),
                };
                match values {
                    Values::Code8(codes) => refine(places, span, codes.iter().map(|code| number(u16::from(*code)))),
                    Values::Code16(codes) => refine(places, span, codes.iter().map(|code| number(*code))),
                    _ => unreachable!("text keys are kept as codes"),
                }
            }
            (KeyValues::Integers { .. }, _) => unreachable!("integer keys are kept as integers"),
        }
    }

    /// The values that some numbers stand for.
    pub fn values(&self, numbers: Vec<u32>) -> Result<ArrayRef, ArrowError> {
        match &self.kind {
            KeyValues::Integers { first, kept } => {
                let values = Int64Array::from_iter_values(numbers.into_iter().map(|number| first + i64::from(number)));
                cast(&values, kept)
            }
            KeyValues::Texts { all, .. } => take(all, &UInt32Array::from(numbers), None),
        }
    }
}

fn address(dictionary: &ArrayRef) -> usize {
    Arc::as_ptr(dictionary).cast::<()>() as usize
}

fn refine(places: &mut [u32], span: u32, numbers: impl Iterator<Item = u32>) {
    for (place, number) in places.iter_mut().zip(numbers) {
        *place = place.wrapping_mul(span).wrapping_add(number);
    }
}
