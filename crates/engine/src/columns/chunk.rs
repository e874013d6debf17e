//! A horizontal piece of a table: immutable, shared by all versions of the table that have it.
//!
//! Where the table has a row copy, position p of chunk k is the row with the number k * [`CHUNK_ROWS`] + p. Positions
//! without a row are holes: their bit in [`Chunk::live`] is cleared and their values have no meaning.
//!
//! [`CHUNK_ROWS`]: crate::columns::table::CHUNK_ROWS

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_empty_array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Field, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::DataFusionError;

use crate::columns::encode::{ChunkColumn, recode};
use crate::columns::file::{ColumnFile, ColumnFileWriter, Extent};
use crate::columns::overlay::Images;
use crate::columns::statistics::ChunkSummary;

/// A horizontal piece of a table.
#[derive(Debug)]
pub struct Chunk {
    rows: usize,
    live_rows: usize,
    live: Option<BooleanBuffer>,
    columns: Vec<KeptColumn>,
}

#[derive(Debug, Clone)]
struct KeptColumn {
    place: ColumnLocation,
    summary: ChunkSummary,
}

/// The place of one column of a chunk. Small data stays in memory: summaries and dictionaries.
#[derive(Debug, Clone)]
enum ColumnLocation {
    Memory(ChunkColumn),
    /// `form` is the column without its rows.
    File {
        file: Arc<ColumnFile>,
        extent: Extent,
        form: ChunkColumn,
    },
}

impl Chunk {
    /// Puts columns of equal length together.
    pub(super) fn new(
        rows: usize,
        live: Option<BooleanBuffer>,
        columns: impl IntoIterator<Item = (ChunkColumn, ChunkSummary)>,
    ) -> Self {
        let live = live.filter(BooleanBuffer::has_false);
        let live_rows = live.as_ref().map_or(rows, BooleanBuffer::count_set_bits);
        let kept = |(column, summary)| KeptColumn { place: ColumnLocation::Memory(column), summary };
        Chunk { rows, live_rows, live, columns: columns.into_iter().map(kept).collect() }
    }

    /// A chunk of the columns of a table, one array for each.
    ///
    /// `live` marks the rows that exist; `None` means all. The values at other positions do not matter, but no value of
    /// a column that is declared without nulls may be null. Text is kept as codes into the dictionary of the `previous`
    /// version or of a neighbour, or into a new one where there is no previous version, as long as that saves memory.
    pub fn encode(
        schema: &SchemaRef,
        arrays: &[ArrayRef],
        live: Option<BooleanBuffer>,
        previous: Option<&Chunk>,
    ) -> Result<Chunk, DataFusionError> {
        let rows = arrays.first().map_or(0, |array| array.len());
        if live.as_ref().is_some_and(|live| live.len() != rows) || arrays.len() != schema.fields().len() {
            let reason = "a chunk needs an array for each column, and a live bit for each row";
            return Err(ArrowError::InvalidArgumentError(reason.to_owned()).into());
        }
        let live = live.filter(BooleanBuffer::has_false);
        let column = |(column, (array, field)): (usize, (&ArrayRef, &Arc<Field>))| {
            let seed = match previous {
                Some(chunk) => chunk.dictionary(column).cloned(),
                None => Some(new_empty_array(field.data_type())),
            };
            encode_column(array, field, rows, live.as_ref(), seed.as_ref())
        };
        let columns = arrays.iter().zip(schema.fields()).enumerate().map(column).collect::<Result<Vec<_>, _>>()?;
        Ok(Chunk::new(rows, live, columns))
    }

    /// The next version, with other values in some columns and the same positions live. All other columns are shared.
    pub fn with_columns(&self, schema: &SchemaRef, changed: &[(usize, ArrayRef)]) -> Result<Chunk, DataFusionError> {
        let mut columns = self.columns.clone();
        for (column, array) in changed {
            let (live, seed) = (self.live.as_ref(), self.dictionary(*column));
            let (encoded, summary) = encode_column(array, schema.field(*column), self.rows, live, seed)?;
            columns[*column] = KeptColumn { place: ColumnLocation::Memory(encoded), summary };
        }
        Ok(Chunk { rows: self.rows, live_rows: self.live_rows, live: self.live.clone(), columns })
    }

    /// A chunk without rows.
    pub fn empty(schema: &SchemaRef) -> Result<Chunk, DataFusionError> {
        let arrays: Vec<ArrayRef> = schema.fields().iter().map(|field| new_empty_array(field.data_type())).collect();
        Chunk::encode(schema, &arrays, None, None)
    }

    /// The number of positions, holes included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of rows.
    pub fn live_rows(&self) -> usize {
        self.live_rows
    }

    /// Which positions hold a row; `None` if all of them do.
    pub fn live(&self) -> Option<&BooleanBuffer> {
        self.live.as_ref()
    }

    /// The distinct values that the codes of a column point to; `None` if it is plain. Chunks that share a dictionary hold the same
    /// array.
    pub fn dictionary(&self, column: usize) -> Option<&ArrayRef> {
        match &self.columns[column].place {
            ColumnLocation::Memory(values) | ColumnLocation::File { form: values, .. } => values.dictionary(),
        }
    }

    /// Facts about the values of a column.
    pub fn summary(&self, column: usize) -> &ChunkSummary {
        &self.columns[column].summary
    }

    /// Some of its columns. Blocks if they are in a file.
    pub fn load(&self, columns: &[usize]) -> Result<LoadedColumns, ArrowError> {
        let mut loaded = LoadedColumns { columns: vec![None; self.columns.len()], bytes_read: 0 };
        for &column in columns {
            loaded.columns[column] = Some(match &self.columns[column].place {
                ColumnLocation::Memory(values) => values.clone(),
                ColumnLocation::File { file, extent, form } => {
                    let (values, is_read) = file.load(extent)?;
                    loaded.bytes_read += if is_read { extent.read_bytes() } else { 0 };
                    form.with_physical(values)
                }
            });
        }
        Ok(loaded)
    }

    /// Some of its columns if all of them are in memory.
    pub fn find(&self, columns: &[usize]) -> Option<LoadedColumns> {
        let mut loaded = LoadedColumns { columns: vec![None; self.columns.len()], bytes_read: 0 };
        for &column in columns {
            loaded.columns[column] = Some(match &self.columns[column].place {
                ColumnLocation::Memory(values) => values.clone(),
                ColumnLocation::File { file, extent, form } => form.with_physical(file.find(extent)?),
            });
        }
        for &column in columns {
            if let ColumnLocation::File { file, extent, .. } = &self.columns[column].place {
                file.count_found(extent);
            }
        }
        Some(loaded)
    }

    /// The bytes that reading some columns takes from the disk, if a cache holds none of them; nothing for those that are
    /// not in a file.
    pub fn disk_bytes(&self, columns: &[usize]) -> usize {
        let on_disk = |&column: &usize| match &self.columns[column].place {
            ColumnLocation::Memory(_) => 0,
            ColumnLocation::File { extent, .. } => extent.read_bytes(),
        };
        columns.iter().map(on_disk).sum()
    }

    /// Its size in memory in bytes, without dictionaries and without what a cache holds of it.
    pub fn memory_bytes(&self) -> usize {
        let in_memory = |column: &KeptColumn| match &column.place {
            ColumnLocation::Memory(values) => values.physical().get_array_memory_size(),
            ColumnLocation::File { .. } => 0,
        };
        let live = self.live.as_ref().map_or(0, |live| live.inner().len());
        live + self.columns.iter().map(in_memory).sum::<usize>()
    }

    /// The values of all positions of all columns, holes included.
    pub fn to_arrays(&self) -> Result<Vec<ArrayRef>, ArrowError> {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let loaded = self.load(&all)?;
        all.iter().map(|&column| loaded.column(column).values()).collect()
    }

    /// The rows that there are.
    pub fn to_batch(&self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), self.to_arrays()?, &options)?;
        match &self.live {
            Some(live) => arrow::compute::filter_record_batch(&batch, &live.clone().into()),
            None => Ok(batch),
        }
    }

    pub(super) fn write(&self, writer: &mut ColumnFileWriter) -> Result<Vec<Extent>, ArrowError> {
        let append = |column: &KeptColumn| match &column.place {
            ColumnLocation::Memory(values) => writer.append(values.physical()),
            ColumnLocation::File { file, extent, .. } => writer.append(&file.load(extent)?.0),
        };
        self.columns.iter().map(append).collect()
    }

    /// The same chunk with its columns where they were [written](Self::write).
    pub(super) fn placed(&self, file: &Arc<ColumnFile>, extents: Vec<Extent>) -> Chunk {
        let place = |(number, extent): (usize, Extent)| {
            let column = &self.columns[number];
            let (ColumnLocation::Memory(form) | ColumnLocation::File { form, .. }) = &column.place;
            let form = form.with_physical(new_empty_array(form.physical().data_type()));
            KeptColumn {
                place: ColumnLocation::File { file: Arc::clone(file), extent, form },
                summary: column.summary.clone(),
            }
        };
        let columns = extents.into_iter().enumerate().map(place).collect();
        Chunk { rows: self.rows, live_rows: self.live_rows, live: self.live.clone(), columns }
    }
}

fn encode_column(
    array: &ArrayRef,
    field: &Field,
    rows: usize,
    live: Option<&BooleanBuffer>,
    seed: Option<&ArrayRef>,
) -> Result<(ChunkColumn, ChunkSummary), DataFusionError> {
    if array.len() != rows || (!field.is_nullable() && array.null_count() > 0) {
        let reason = format!("column {} of a chunk has another length or unexpected nulls", field.name());
        return Err(ArrowError::InvalidArgumentError(reason).into());
    }
    let encoded = recode(array, field.data_type(), live, seed)?;
    let summary = ChunkSummary::of(&encoded.values()?, live)?;
    Ok((encoded.narrowed(&summary.min, &summary.max), summary))
}

/// Some columns of a chunk, loaded into memory.
#[derive(Debug)]
pub struct LoadedColumns {
    /// One entry per column of the table; `None` for columns that were not requested.
    columns: Vec<Option<ChunkColumn>>,
    bytes_read: usize,
}

impl LoadedColumns {
    /// The columns of images.
    pub fn of_images(images: &Images) -> Self {
        let plain = |column: &Option<ArrayRef>| column.clone().map(ChunkColumn::Plain);
        LoadedColumns { columns: images.columns.iter().map(plain).collect(), bytes_read: 0 }
    }

    /// One of the columns that were loaded.
    pub fn column(&self, column: usize) -> &ChunkColumn {
        self.columns[column].as_ref().expect("a query that uses a column has asked for it")
    }

    /// The bytes that were read from the disk for them.
    pub fn bytes_read(&self) -> usize {
        self.bytes_read
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Schema};
    use datafusion::common::ScalarValue;

    use super::*;

    fn schema() -> SchemaRef {
        let fields = [("id", DataType::Int64, false), ("flag", DataType::Utf8View, true)];
        Arc::new(Schema::new(fields.map(|(name, kind, nullable)| Field::new(name, kind, nullable)).to_vec()))
    }

    fn chunk(ids: &[i64], flag: &str, live: Option<&[bool]>, previous: Option<&Chunk>) -> Chunk {
        let flags = ids.iter().map(|&id| (id % 10 != 0).then_some(flag));
        let arrays: [ArrayRef; 2] =
            [Arc::new(Int64Array::from(ids.to_vec())), Arc::new(StringViewArray::from_iter(flags))];
        let live = live.map(|live| BooleanBuffer::from(live.to_vec()));
        Chunk::encode(&schema(), &arrays, live, previous).unwrap()
    }

    #[test]
    fn holes_count_nowhere() {
        let ids: Vec<i64> = (0..20).rev().collect();
        let live: Vec<bool> = ids.iter().map(|id| (5..10).contains(id)).collect();
        let chunk = chunk(&ids, "malta", Some(&live), None);
        assert_eq!((chunk.rows(), chunk.live_rows()), (20, 5));
        assert_eq!(chunk.summary(0).min, ScalarValue::from(5i64));
        assert_eq!((chunk.summary(0).max.clone(), chunk.summary(0).ascending), (ScalarValue::from(9i64), false));
        assert_eq!(chunk.summary(1).null_count, 0);
        let batch = chunk.to_batch(&schema()).unwrap();
        assert_eq!(batch.column(0).as_ref(), &Int64Array::from(vec![9, 8, 7, 6, 5]));
        assert!(super::Chunk::encode(&schema(), &[], None, None).is_err());
    }

    #[test]
    fn columns_that_have_not_changed_are_shared() {
        let before =
            chunk(&[0, 1, 2, 3, 4, 5, 6, 7], "malta", Some(&[true, true, true, true, true, true, true, false]), None);
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2, 30, 4, 5, 6, 70]));
        let next = before.with_columns(&schema(), &[(0, ids)]).unwrap();
        assert_eq!((next.rows(), next.live_rows()), (8, 7));
        assert_eq!((next.summary(0).max.clone(), next.summary(0).ascending), (ScalarValue::from(30i64), false));
        let codes = |chunk: &Chunk| Arc::clone(chunk.load(&[1]).unwrap().column(1).physical());
        assert!(Arc::ptr_eq(&codes(&before), &codes(&next)));
        assert!(before.with_columns(&schema(), &[(0, Arc::new(Int64Array::from(vec![1])))]).is_err(), "too short");
    }

    #[test]
    fn a_new_version_shares_the_dictionary_of_the_one_before_if_it_can() {
        let ids: Vec<i64> = (0..20).collect();
        let first = chunk(&ids, "malta", None, None);
        let same = chunk(&ids[3..], "malta", None, Some(&first));
        let more = chunk(&ids, "panama", None, Some(&first));
        let dictionary = |chunk: &Chunk| Arc::clone(chunk.dictionary(1).unwrap());
        assert!(Arc::ptr_eq(&dictionary(&first), &dictionary(&same)));
        assert_eq!((dictionary(&first).len(), dictionary(&more).len()), (1, 2));
        assert!(chunk(&ids, "malta", Some(&[true; 20]), None).live().is_none(), "no holes at all");
        assert_eq!(Chunk::empty(&schema()).unwrap().to_batch(&schema()).unwrap().num_rows(), 0);
    }
}
