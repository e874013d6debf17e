//! How one column is kept in memory: plain, or as codes into a dictionary that all chunks of the table share.
//!
//! Text with few distinct values is kept as codes of one or two bytes. A condition on such a column is evaluated once per
//! dictionary entry and query instead of once per row, and the text itself is only assembled for rows that pass.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder, UInt8Array, UInt16Array, make_array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// A dictionary longer than this is not built: a code must fit two bytes.
const DICTIONARY_ENTRIES_MAX: usize = 1 << 16;

/// A dictionary must be at least this many times shorter than the column, or codes save nothing.
const ROWS_PER_ENTRY_MIN: usize = 8;

/// One column of one chunk.
#[derive(Debug, Clone)]
pub enum ChunkColumn {
    /// The values themselves.
    Plain(ArrayRef),
    /// Unsigned integers that are positions in the column's dictionary; null where the value is null.
    Codes(ArrayRef),
}

impl ChunkColumn {
    /// The values of some rows, in the column's declared type.
    pub fn values(&self, dictionary: Option<&ArrayRef>) -> Result<ArrayRef, ArrowError> {
        match self {
            ChunkColumn::Plain(values) => Ok(Arc::clone(values)),
            ChunkColumn::Codes(codes) => decode(codes, dictionary),
        }
    }

    /// Some rows, without copying.
    pub fn slice(&self, offset: usize, length: usize) -> ChunkColumn {
        match self {
            ChunkColumn::Plain(values) => ChunkColumn::Plain(values.slice(offset, length)),
            ChunkColumn::Codes(codes) => ChunkColumn::Codes(codes.slice(offset, length)),
        }
    }

    /// What is physically kept.
    pub fn physical(&self) -> &ArrayRef {
        match self {
            ChunkColumn::Plain(array) | ChunkColumn::Codes(array) => array,
        }
    }

    /// The same kind of column over other physical values.
    pub fn with_physical(&self, array: ArrayRef) -> ChunkColumn {
        match self {
            ChunkColumn::Plain(_) => ChunkColumn::Plain(array),
            ChunkColumn::Codes(_) => ChunkColumn::Codes(array),
        }
    }
}

fn decode(codes: &ArrayRef, dictionary: Option<&ArrayRef>) -> Result<ArrayRef, ArrowError> {
    let dictionary = dictionary.expect("a column of codes is only made together with its dictionary");
    take(dictionary, codes, None)
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

/// Cuts a column into chunks of `chunk_rows` rows and picks its encoding.
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
    let chunks = codes.chunks(chunk_rows).map(|codes| ChunkColumn::Codes(code_array(codes, &place, wide))).collect();
    Ok(Some(EncodedColumn { chunks, dictionary: Some(Arc::new(builder.finish())) }))
}

fn code_array(codes: &[Option<u16>], place: &[u16], wide: bool) -> ArrayRef {
    let placed = codes.iter().map(|code| code.map(|code| place[usize::from(code)]));
    let nulls = codes.iter().any(Option::is_none);
    match (wide, nulls) {
        (true, true) => Arc::new(UInt16Array::from_iter(placed)),
        (true, false) => Arc::new(UInt16Array::from_iter_values(placed.flatten())),
        (false, true) => Arc::new(UInt8Array::from_iter(placed.map(|code| code.map(|code| code as u8)))),
        (false, false) => Arc::new(UInt8Array::from_iter_values(placed.flatten().map(|code| code as u8))),
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
        let decoded = encoded.chunks[1].values(encoded.dictionary.as_ref()).unwrap();
        assert_eq!(&decoded, &column(&values[64..]));
    }

    #[test]
    fn many_distinct_values_stay_plain() {
        let texts: Vec<String> = (0..100).map(|i| format!("comment {i}")).collect();
        let values: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
        let encoded = encode(&[column(&values)], &DataType::Utf8View, 64).unwrap();
        assert!(encoded.dictionary.is_none());
        assert_eq!(&encoded.chunks[0].values(None).unwrap(), &column(&values[..64]));
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
        assert_eq!(&encoded.chunks[2].values(encoded.dictionary.as_ref()).unwrap(), &column(&values[2000..]));
    }
}
