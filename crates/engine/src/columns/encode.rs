//! How one column of a chunk is stored in memory: plain, as codes into a dictionary, or as
//! [distances](crate::columns::narrow).
//!
//! Text with few distinct values is kept as codes of one or two bytes. A condition on such a column is evaluated once per
//! dictionary entry and query instead of once per row, and the text itself is only assembled for rows that pass.
//!
//! A table that is built in one go has one dictionary per column. A chunk that is [encoded again](recode) keeps the
//! dictionary of its previous version as long as that has all of its values; then it gets its own longer dictionary, or
//! is stored plain.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder, UInt8Array, UInt16Array, make_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, concat, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;

use crate::columns::narrow::{distances, numbers};

/// A dictionary longer than this is not built: a code must fit two bytes.
const DICTIONARY_ENTRIES_MAX: usize = 1 << 16;

/// A dictionary must be at least this many times shorter than the column, or codes save nothing.
const ROWS_PER_ENTRY_MIN: usize = 8;

/// One column of one chunk.
#[derive(Debug, Clone)]
pub enum ChunkColumn {
    /// The values themselves.
    Plain(ArrayRef),
    /// Positions in a dictionary.
    Codes {
        /// Unsigned integers; null where the value is null.
        codes: ArrayRef,
        /// The distinct values that codes point to. Chunks that share it hold the same array.
        dictionary: ArrayRef,
    },
    /// Numbers as distances from a base.
    Distances {
        /// Unsigned integers; null where the value is null.
        distances: ArrayRef,
        /// The number that distances are measured from, without its scale.
        base: i64,
        /// The type of the values.
        kept: DataType,
    },
}

impl ChunkColumn {
    /// The values of all rows, in the column's kept type.
    pub fn values(&self) -> Result<ArrayRef, ArrowError> {
        match self {
            ChunkColumn::Plain(values) => Ok(Arc::clone(values)),
            ChunkColumn::Codes { codes, dictionary } => take(dictionary, codes, None),
            ChunkColumn::Distances { distances, base, kept } => numbers(&[(distances, *base)], kept),
        }
    }

    /// The same column in less memory, if it is plain and its smallest and largest value allow that.
    #[must_use]
    pub fn narrowed(self, min: &ScalarValue, max: &ScalarValue) -> ChunkColumn {
        let ChunkColumn::Plain(values) = &self else { return self };
        match distances(values, min, max) {
            Some((distances, base)) => ChunkColumn::Distances { distances, base, kept: values.data_type().clone() },
            None => self,
        }
    }

    /// Some rows, without copying.
    pub fn slice(&self, offset: usize, length: usize) -> ChunkColumn {
        self.with_physical(self.physical().slice(offset, length))
    }

    /// The array that is physically stored, with an entry per row.
    pub fn physical(&self) -> &ArrayRef {
        match self {
            ChunkColumn::Plain(array)
            | ChunkColumn::Codes { codes: array, .. }
            | ChunkColumn::Distances { distances: array, .. } => array,
        }
    }

    /// The dictionary, if rows are kept as codes.
    pub fn dictionary(&self) -> Option<&ArrayRef> {
        match self {
            ChunkColumn::Plain(_) | ChunkColumn::Distances { .. } => None,
            ChunkColumn::Codes { dictionary, .. } => Some(dictionary),
        }
    }

    /// The same kind of column over other physical values.
    pub fn with_physical(&self, array: ArrayRef) -> ChunkColumn {
        match self {
            ChunkColumn::Plain(_) => ChunkColumn::Plain(array),
            ChunkColumn::Codes { dictionary, .. } => {
                ChunkColumn::Codes { codes: array, dictionary: Arc::clone(dictionary) }
            }
            ChunkColumn::Distances { base, kept, .. } => {
                ChunkColumn::Distances { distances: array, base: *base, kept: kept.clone() }
            }
        }
    }

    /// Whether codes or values of both mean the same.
    fn is_encoded_like(&self, other: &ChunkColumn) -> bool {
        match (self, other) {
            (ChunkColumn::Plain(own), ChunkColumn::Plain(others)) => own.data_type() == others.data_type(),
            (
                ChunkColumn::Codes { codes, dictionary },
                ChunkColumn::Codes { codes: other_codes, dictionary: other_dictionary },
            ) => codes.data_type() == other_codes.data_type() && Arc::ptr_eq(dictionary, other_dictionary),
            _ => false,
        }
    }

    fn distances_from(&self) -> Option<(&ArrayRef, i64)> {
        if let ChunkColumn::Distances { distances, base, .. } = self { Some((distances, *base)) } else { None }
    }
}

/// The values of pieces of a column, one after the other. Pieces that are encoded alike are joined before they are decoded.
pub fn join_values(pieces: &[&ChunkColumn]) -> Result<ArrayRef, ArrowError> {
    match pieces {
        [only] => only.values(),
        [ChunkColumn::Distances { kept, .. }, ..]
            if let Some(pieces) = pieces.iter().map(|piece| piece.distances_from()).collect::<Option<Vec<_>>>() =>
        {
            numbers(&pieces, kept)
        }
        [first, rest @ ..] if rest.iter().all(|piece| piece.is_encoded_like(first)) => {
            let physical: Vec<&dyn Array> = pieces.iter().map(|piece| piece.physical().as_ref()).collect();
            first.with_physical(concat(&physical)?).values()
        }
        _ => join(&pieces.iter().map(|piece| piece.values()).collect::<Result<Vec<_>, _>>()?),
    }
}

/// A whole column in chunks, and its dictionary if it has one.
#[derive(Debug)]
pub struct EncodedColumn {
    /// One entry per chunk.
    pub chunks: Vec<ChunkColumn>,
    /// The distinct values that codes point to.
    pub dictionary: Option<ArrayRef>,
}

/// The type in which a column of type `declared` is kept and returned: all text becomes `Utf8View`.
pub fn kept_type(declared: &DataType) -> DataType {
    match declared {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8View,
        DataType::Dictionary(_, values) => kept_type(values),
        other => other.clone(),
    }
}

/// Cuts a whole column into chunks of `chunk_rows` rows and picks its encoding.
pub fn encode(pieces: &[ArrayRef], kept: &DataType, chunk_rows: usize) -> Result<EncodedColumn, ArrowError> {
    let pieces = pieces.iter().map(|piece| cast(piece, kept)).collect::<Result<Vec<_>, _>>()?;
    if *kept == DataType::Utf8View
        && let Some(encoded) = encode_dictionary(&pieces, chunk_rows)?
    {
        return Ok(encoded);
    }
    let chunks = rechunk(&pieces, chunk_rows)?.into_iter().map(|array| ChunkColumn::Plain(compact(array))).collect();
    Ok(EncodedColumn { chunks, dictionary: None })
}

fn encode_dictionary(pieces: &[ArrayRef], chunk_rows: usize) -> Result<Option<EncodedColumn>, ArrowError> {
    let rows: usize = pieces.iter().map(|piece| piece.len()).sum();
    let entries_max = (rows / ROWS_PER_ENTRY_MIN).min(DICTIONARY_ENTRIES_MAX);
    let texts: Vec<&StringViewArray> = pieces.iter().map(text).collect();
    let mut codes: Vec<Option<u16>> = Vec::with_capacity(rows);
    let mut entries: HashMap<&str, u16> = HashMap::new();
    for value in texts.iter().flat_map(|array| array.iter()) {
        let Some(value) = value else {
            codes.push(None);
            continue;
        };
        let next = entries.len();
        if let Some(&code) = entries.get(value) {
            codes.push(Some(code));
        } else if next < entries_max {
            entries.insert(value, next as u16);
            codes.push(Some(next as u16));
        } else {
            return Ok(None);
        }
    }
    // Codes in the order of the values keep equal prefixes together and make plans and dumps reproducible.
    let mut sorted: Vec<(&str, u16)> = entries.into_iter().collect();
    sorted.sort_unstable();
    let mut place = vec![0u16; sorted.len()];
    let mut builder = StringViewBuilder::new();
    for (position, (value, code)) in sorted.iter().enumerate() {
        place[usize::from(*code)] = position as u16;
        builder.append_value(value);
    }
    let wide = sorted.len() > usize::from(u8::MAX) + 1;
    let dictionary: ArrayRef = Arc::new(builder.finish());
    let placed = |code: &Option<u16>| code.map(|code| place[usize::from(code)]);
    let chunk = |codes: &[Option<u16>]| {
        let codes = code_array(&codes.iter().map(placed).collect::<Vec<_>>(), wide);
        ChunkColumn::Codes { codes, dictionary: Arc::clone(&dictionary) }
    };
    let chunks = codes.chunks(chunk_rows).map(chunk).collect();
    Ok(Some(EncodedColumn { chunks, dictionary: Some(dictionary) }))
}

/// Encodes one column of one chunk. `live` marks the rows that exist; no codes are spent on values at other positions.
/// Text gets codes into `seed`, or into a copy of it with the new values appended; it stays plain where these are too
/// many.
pub fn recode(
    values: &ArrayRef,
    kept: &DataType,
    live: Option<&BooleanBuffer>,
    seed: Option<&ArrayRef>,
) -> Result<ChunkColumn, ArrowError> {
    let values = cast(values, kept)?;
    let coded = seed.filter(|_| *kept == DataType::Utf8View).and_then(|seed| code_with(text(&values), live, seed));
    Ok(coded.unwrap_or_else(|| ChunkColumn::Plain(compact(values))))
}

fn code_with(texts: &StringViewArray, live: Option<&BooleanBuffer>, seed: &ArrayRef) -> Option<ChunkColumn> {
    let known = seed.as_string_view();
    let mut entries: datafusion::common::HashMap<&str, u16> = known.iter().flatten().zip(0..=u16::MAX).collect();
    let entries_max = (known.len() + texts.len() / ROWS_PER_ENTRY_MIN).min(DICTIONARY_ENTRIES_MAX);
    let mut added: Vec<&str> = Vec::new();
    let mut codes: Vec<Option<u16>> = Vec::with_capacity(texts.len());
    for row in 0..texts.len() {
        if live.is_some_and(|live| !live.value(row)) {
            // Any code will do except null, because the column may be declared without nulls.
            codes.push(Some(0));
            continue;
        }
        if texts.is_null(row) {
            codes.push(None);
            continue;
        }
        let value = texts.value(row);
        let code = match entries.get(value) {
            Some(&code) => code,
            None if entries.len() == entries_max => return None,
            None => {
                let code = entries.len() as u16;
                entries.insert(value, code);
                added.push(value);
                code
            }
        };
        codes.push(Some(code));
    }
    if entries.is_empty() {
        return None;
    }
    let wide = entries.len() > usize::from(u8::MAX) + 1;
    let dictionary = if added.is_empty() { Arc::clone(seed) } else { Arc::new(appended(known, &added)) };
    Some(ChunkColumn::Codes { codes: code_array(&codes, wide), dictionary })
}

fn appended(known: &StringViewArray, added: &[&str]) -> StringViewArray {
    let mut builder = StringViewBuilder::with_capacity(known.len() + added.len());
    known.iter().flatten().chain(added.iter().copied()).for_each(|value| builder.append_value(value));
    builder.finish()
}

fn code_array(codes: &[Option<u16>], wide: bool) -> ArrayRef {
    let nulls = codes.iter().any(Option::is_none);
    let narrow = |code: u16| code as u8;
    match (wide, nulls) {
        (true, true) => Arc::new(UInt16Array::from_iter(codes.iter().copied())),
        (true, false) => Arc::new(UInt16Array::from_iter_values(codes.iter().flatten().copied())),
        (false, true) => Arc::new(UInt8Array::from_iter(codes.iter().map(|code| code.map(narrow)))),
        (false, false) => Arc::new(UInt8Array::from_iter_values(codes.iter().flatten().copied().map(narrow))),
    }
}

fn text(piece: &ArrayRef) -> &StringViewArray {
    piece.as_any().downcast_ref().expect("the column was cast to Utf8View")
}

/// The same rows in arrays of `chunk_rows`, the last one shorter.
fn rechunk(pieces: &[ArrayRef], chunk_rows: usize) -> Result<Vec<ArrayRef>, ArrowError> {
    let mut chunks = Vec::new();
    let mut waiting: Vec<ArrayRef> = Vec::new();
    let mut waiting_rows = 0;
    for piece in pieces {
        let mut offset = 0;
        while offset < piece.len() {
            let length = (piece.len() - offset).min(chunk_rows - waiting_rows);
            waiting.push(piece.slice(offset, length));
            waiting_rows += length;
            offset += length;
            if waiting_rows == chunk_rows {
                chunks.push(join(&waiting)?);
                waiting.clear();
                waiting_rows = 0;
            }
        }
    }
    if waiting_rows > 0 {
        chunks.push(join(&waiting)?);
    }
    Ok(chunks)
}

fn join(arrays: &[ArrayRef]) -> Result<ArrayRef, ArrowError> {
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
    concat(&arrays)
}

/// Text views point into the buffers of the batches they came from; one buffer per chunk keeps a scan's memory together and
/// lets the batches go.
fn compact(array: ArrayRef) -> ArrayRef {
    match array.as_any().downcast_ref::<StringViewArray>() {
        Some(views) => Arc::new(views.gc()),
        None => make_array(array.to_data()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringViewArray::from(values.to_vec()))
    }

    #[test]
    fn few_distinct_values_become_codes_that_decode_to_the_same_text() {
        let values: Vec<Option<&str>> = (0..100).map(|i| [Some("rail"), Some("air"), None][i % 3]).collect();
        let encoded = encode(&[column(&values[..30]), column(&values[30..])], &DataType::Utf8View, 64).unwrap();
        assert_eq!(encoded.dictionary.as_ref().unwrap().len(), 2);
        assert_eq!(encoded.chunks.iter().map(|chunk| chunk.physical().len()).collect::<Vec<_>>(), [64, 36]);
        assert_eq!(encoded.chunks[0].physical().data_type(), &DataType::UInt8);
        let decoded = encoded.chunks[1].values().unwrap();
        assert_eq!(&decoded, &column(&values[64..]));
    }

    #[test]
    fn numbers_of_chunks_with_different_smallest_values_are_joined() {
        let chunk = |values: &[i64]| {
            let [min, max] = [values.iter().min(), values.iter().max()].map(|value| ScalarValue::Int64(value.copied()));
            ChunkColumn::Plain(Arc::new(arrow::array::Int64Array::from(values.to_vec()))).narrowed(&min, &max)
        };
        let (low, high) = (chunk(&[5, 7, 300]), chunk(&[1 << 40, (1 << 40) + 2]));
        assert_eq!(low.physical().data_type(), &DataType::UInt16);
        assert_eq!(high.physical().data_type(), &DataType::UInt8);
        let joined = join_values(&[&low.slice(1, 2), &high]).unwrap();
        assert_eq!(joined.as_ref(), &arrow::array::Int64Array::from(vec![7, 300, 1 << 40, (1 << 40) + 2]));
        let plain = ChunkColumn::Plain(Arc::new(arrow::array::Int64Array::from(vec![i64::MIN])));
        let joined = join_values(&[&low, &plain]).unwrap();
        assert_eq!(joined.as_ref(), &arrow::array::Int64Array::from(vec![5, 7, 300, i64::MIN]));
    }

    #[test]
    fn many_distinct_values_stay_plain() {
        let texts: Vec<String> = (0..100).map(|i| format!("comment {i}")).collect();
        let values: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
        let encoded = encode(&[column(&values)], &DataType::Utf8View, 64).unwrap();
        assert!(encoded.dictionary.is_none());
        assert_eq!(&encoded.chunks[0].values().unwrap(), &column(&values[..64]));
    }

    #[test]
    fn more_than_256_entries_take_two_bytes() {
        let texts: Vec<String> = (0..300 * 8).map(|i| format!("{}", i % 300)).collect();
        let values: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
        let encoded = encode(&[column(&values)], &DataType::Utf8, 1000);
        // A column is cast to the type asked for; only Utf8View is coded.
        assert!(encoded.unwrap().dictionary.is_none());
        let encoded = encode(&[column(&values)], &DataType::Utf8View, 1000).unwrap();
        assert_eq!(encoded.chunks[2].physical().data_type(), &DataType::UInt16);
        assert_eq!(&encoded.chunks[2].values().unwrap(), &column(&values[2000..]));
    }

    /// The result of encoding a chunk with the dictionary `seed`: the dictionary's length, and whether it is the seed
    /// itself.
    fn recoded(values: &[Option<&str>], live: Option<&[bool]>, seed: &[&str]) -> Option<(usize, bool)> {
        let seed = column(&seed.iter().copied().map(Some).collect::<Vec<_>>());
        let values = column(values);
        let live = live.map(|live| BooleanBuffer::from(live.to_vec()));
        let encoded = recode(&values, &DataType::Utf8View, live.as_ref(), Some(&seed)).unwrap();
        let decoded = encoded.values().unwrap();
        let shown = (0..values.len()).filter(|&row| live.as_ref().is_none_or(|live| live.value(row)));
        shown.for_each(|row| assert_eq!(decoded.slice(row, 1).as_ref(), values.slice(row, 1).as_ref()));
        encoded.dictionary().map(|dictionary| (dictionary.len(), Arc::ptr_eq(dictionary, &seed)))
    }

    #[test]
    fn a_chunk_keeps_its_dictionary_or_appends_to_it_or_goes_plain() {
        let mut values = vec![Some("rail"); 16];
        values[3] = None;
        assert_eq!(recoded(&values, None, &["air", "rail"]), Some((2, true)));
        values[4] = Some("sea");
        values[5] = Some("road");
        assert_eq!(recoded(&values, None, &["air", "rail"]), Some((4, false)));
        assert_eq!(recoded(&values, None, &[]), None, "three entries are too many for sixteen rows");
        let mut live = [true; 16];
        live[4] = false;
        assert_eq!(recoded(&values, Some(&live), &[]), Some((2, false)), "holes need no entries");
        assert_eq!(recoded(&values, Some(&[false; 16]), &[]), None, "there is nothing to code");
    }

    #[test]
    fn pieces_of_different_dictionaries_are_joined_by_their_values() {
        let (few, all) = (column(&[Some("air"), Some("sea")]), column(&[Some("sea"), None, Some("air")]));
        let coded = |dictionary: &ArrayRef, codes: Vec<u8>| ChunkColumn::Codes {
            codes: Arc::new(UInt8Array::from(codes)),
            dictionary: Arc::clone(dictionary),
        };
        let other = column(&[Some("sea"), Some("rail")]);
        let pieces = [coded(&few, vec![0, 1]), coded(&other, vec![1, 0]), ChunkColumn::Plain(all)];
        let joined = join_values(&pieces.iter().collect::<Vec<_>>()).unwrap();
        let expect = ["air", "sea", "rail", "sea", "sea"].map(Some).into_iter().chain([None, Some("air")]);
        assert_eq!(&joined, &column(&expect.collect::<Vec<_>>()));
        let alike = [coded(&few, vec![0]), coded(&few, vec![1])];
        let joined = join_values(&alike.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(&joined, &column(&[Some("air"), Some("sea")]));
    }
}
