//! An immutable table in column form: chunks of encoded columns with statistics.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

use crate::columns::ColumnError;
use crate::columns::encode::{ChunkColumn, EncodedColumn, encode, kept_type};
use crate::columns::file::{ColumnFile, ColumnFileWriter, Extent};
use crate::columns::folder::DiskFolder;
use crate::columns::statistics::{ColumnSummary, TableStatistics, summarize};

/// Rows per chunk: large enough that per-chunk work (pruning, taking a chunk from the queue) is nothing beside the scan,
/// small enough that a million rows still spread evenly over a few threads.
pub const CHUNK_ROWS: usize = 64 * 1024;

/// Rows in the sample on which the optimizer tries conditions.
const SAMPLE_ROWS: usize = 4096;

/// An immutable table in column form.
#[derive(Debug)]
pub struct ColumnTable {
    name: String,
    schema: SchemaRef,
    unique_keys: Vec<Vec<usize>>,
    chunks: Vec<Chunk>,
    dictionaries: Vec<Option<ArrayRef>>,
    statistics: TableStatistics,
    /// Where the chunks are if not in memory.
    file: Option<ColumnFile>,
}

/// A horizontal piece of a table.
#[derive(Debug)]
pub struct Chunk {
    rows: usize,
    columns: Vec<Place>,
}

/// Where one column of a chunk is.
#[derive(Debug)]
enum Place {
    Memory(ChunkColumn),
    /// In the table's file.
    File(Extent),
}

impl Chunk {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

/// Some columns of a chunk, at hand.
#[derive(Debug)]
pub struct LoadedColumns {
    /// One entry per column of the table; `None` for those that were not asked for.
    columns: Vec<Option<ChunkColumn>>,
    bytes_read: usize,
}

impl LoadedColumns {
    /// One of the columns that were loaded.
    pub fn column(&self, column: usize) -> &ChunkColumn {
        self.columns[column].as_ref().expect("whoever uses a column has asked for it")
    }

    /// The bytes that were read from the disk for them.
    pub fn bytes_read(&self) -> usize {
        self.bytes_read
    }
}

impl ColumnTable {
    /// Builds the table from batches, whose rows keep their order.
    ///
    /// `unique_keys` are sets of columns no two rows agree on, the primary key first; they are believed, not checked.
    /// Text columns are kept as `Utf8View` whatever their declared type, and [`ColumnTable::schema`] says so.
    pub fn build(
        name: impl Into<String>,
        schema: SchemaRef,
        unique_keys: Vec<Vec<usize>>,
        batches: Vec<RecordBatch>,
    ) -> Result<ColumnTable, ColumnError> {
        let name = name.into();
        check(&name, &schema, &unique_keys, &batches)?;
        let kept = kept_schema(&schema);
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let encoded = encode_columns(&name, &kept, &unique_keys, &batches)?;
        let sample =
            sample(&kept, &batches, rows).map_err(|source| ColumnError::Arrow { table: name.clone(), source })?;
        drop(batches);
        let mut chunks: Vec<Chunk> = (0..rows.div_ceil(CHUNK_ROWS))
            .map(|chunk| Chunk { rows: CHUNK_ROWS.min(rows - chunk * CHUNK_ROWS), columns: Vec::new() })
            .collect();
        let (mut dictionaries, mut summaries) = (Vec::new(), Vec::new());
        for (column, summary) in encoded {
            chunks.iter_mut().zip(column.chunks).for_each(|(chunk, column)| chunk.columns.push(Place::Memory(column)));
            dictionaries.push(column.dictionary);
            summaries.push(summary);
        }
        let statistics = TableStatistics { rows, columns: summaries, sample };
        Ok(ColumnTable { name, schema: kept, unique_keys, chunks, dictionaries, statistics, file: None })
    }

    /// Moves the chunks into a file. What is small stays in memory: dictionaries, statistics, the sample.
    pub fn into_file(mut self, folder: &DiskFolder) -> Result<ColumnTable, ColumnError> {
        let (table, place) = (self.name.clone(), folder.to_string());
        let failed = |reason: String| ColumnError::File { table: table.clone(), folder: place.clone(), reason };
        let mut writer = ColumnFileWriter::new(folder.make_file().map_err(|error| failed(error.to_string()))?);
        for column in self.chunks.iter_mut().flat_map(|chunk| &mut chunk.columns) {
            if let Place::Memory(values) = column {
                *column = Place::File(writer.append(values).map_err(|error| failed(error.to_string()))?);
            }
        }
        self.file = Some(writer.finish().map_err(|error| failed(error.to_string()))?);
        Ok(self)
    }

    /// The file that the chunks are in, if they are not in memory.
    pub fn file(&self) -> Option<&ColumnFile> {
        self.file.as_ref()
    }

    /// Some columns of a chunk. Blocks if they are in a file.
    pub fn load(&self, chunk: usize, columns: &[usize]) -> Result<LoadedColumns, ArrowError> {
        let places = &self.chunks[chunk].columns;
        let mut loaded = LoadedColumns { columns: vec![None; places.len()], bytes_read: 0 };
        for &column in columns {
            loaded.columns[column] = Some(match &places[column] {
                Place::Memory(values) => values.clone(),
                Place::File(extent) => {
                    loaded.bytes_read += extent.read_bytes();
                    self.file.as_ref().expect("extents are made together with their file").read(extent)?
                }
            });
        }
        Ok(loaded)
    }

    /// The bytes that reading some columns of a chunk takes from the disk; nothing if they are in memory.
    pub fn disk_bytes(&self, chunk: usize, columns: &[usize]) -> usize {
        let on_disk = |&column: &usize| match &self.chunks[chunk].columns[column] {
            Place::Memory(_) => 0,
            Place::File(extent) => extent.read_bytes(),
        };
        columns.iter().map(on_disk).sum()
    }

    /// Its SQL name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns as queries see them.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Sets of columns that no two rows agree on, the primary key first.
    pub fn unique_keys(&self) -> &[Vec<usize>] {
        &self.unique_keys
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.statistics.rows
    }

    /// The pieces, in order of rows.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The distinct values of a column that is kept as codes.
    pub fn dictionary(&self, column: usize) -> Option<&ArrayRef> {
        self.dictionaries[column].as_ref()
    }

    /// What is known about the values.
    pub fn statistics(&self) -> &TableStatistics {
        &self.statistics
    }

    /// The bytes that the table takes in memory.
    pub fn memory_bytes(&self) -> usize {
        let in_memory = |place: &Place| match place {
            Place::Memory(column) => column.physical().get_array_memory_size(),
            Place::File(_) => 0,
        };
        let chunks = self.chunks.iter().flat_map(|chunk| &chunk.columns).map(in_memory).sum::<usize>();
        chunks + self.dictionaries.iter().flatten().map(|array| array.get_array_memory_size()).sum::<usize>()
    }

    /// All rows as batches, one per chunk, in order.
    pub fn to_batches(&self) -> Result<Vec<RecordBatch>, ArrowError> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let batch = |chunk: usize| {
            let loaded = self.load(chunk, &all)?;
            let values = |&column: &usize| loaded.column(column).values(self.dictionary(column));
            let options = RecordBatchOptions::new().with_row_count(Some(self.chunks[chunk].rows));
            let columns = all.iter().map(values).collect::<Result<_, _>>()?;
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
        };
        (0..self.chunks.len()).map(batch).collect()
    }
}

fn check(table: &str, schema: &SchemaRef, keys: &[Vec<usize>], batches: &[RecordBatch]) -> Result<(), ColumnError> {
    let types = |schema: &Schema| schema.fields().iter().map(|f| kept_type(f.data_type())).collect::<Vec<_>>();
    let expected = types(schema);
    if let Some(batch) = batches.iter().find(|batch| types(&batch.schema()) != expected) {
        return Err(ColumnError::SchemaMismatch {
            table: table.to_string(),
            found: format!("{:?}", types(&batch.schema())),
            expected: format!("{expected:?}"),
        });
    }
    let columns = schema.fields().len();
    match keys.iter().flatten().find(|&&column| column >= columns) {
        Some(&column) => Err(ColumnError::NoSuchColumn { table: table.to_string(), column, columns }),
        None => Ok(()),
    }
}

fn kept_schema(schema: &Schema) -> SchemaRef {
    let kept = |field: &Arc<Field>| field.as_ref().clone().with_data_type(kept_type(field.data_type()));
    Arc::new(Schema::new(schema.fields().iter().map(kept).collect::<Vec<_>>()))
}

type SummarizedColumn = (EncodedColumn, ColumnSummary);

/// Columns do not depend on each other, so as many are encoded at a time as there are cores.
fn encode_columns(
    table: &str,
    schema: &SchemaRef,
    unique_keys: &[Vec<usize>],
    batches: &[RecordBatch],
) -> Result<Vec<SummarizedColumn>, ColumnError> {
    let encode_one = |column: usize| {
        let pieces: Vec<ArrayRef> = batches.iter().map(|batch| Arc::clone(batch.column(column))).collect();
        let encoded = encode(&pieces, schema.field(column).data_type(), CHUNK_ROWS)
            .map_err(|source| ColumnError::Arrow { table: table.to_string(), source })?;
        let unique = unique_keys.iter().any(|key| key[..] == [column]);
        let summary = summarize(&encoded, schema.field(column).data_type(), unique)
            .map_err(|error| ColumnError::Statistics { table: table.to_string(), message: error.to_string() })?;
        Ok((encoded, summary))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let columns: Vec<usize> = (0..schema.fields().len()).collect();
    let mut encoded: Vec<(usize, Result<SummarizedColumn, ColumnError>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                // Round robin: wide text columns tend to stand at the end of a table.
                let mine: Vec<usize> = columns.iter().copied().skip(worker).step_by(threads).collect();
                scope.spawn(move || mine.into_iter().map(|column| (column, encode_one(column))).collect::<Vec<_>>())
            })
            .collect();
        let joined = workers.into_iter().flat_map(|worker| match worker.join() {
            Ok(columns) => columns,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    encoded.sort_by_key(|(column, _)| *column);
    encoded.into_iter().map(|(_, column)| column).collect()
}

/// One row of each of `SAMPLE_ROWS` stretches of equal length, at a place within it that looks random: rows at equal distances
/// would all be alike where a table repeats itself at that distance.
fn sample(schema: &SchemaRef, batches: &[RecordBatch], rows: usize) -> Result<RecordBatch, ArrowError> {
    let stretch = rows.div_ceil(SAMPLE_ROWS).max(1);
    let places = (0..rows).step_by(stretch).map(|start| start + (scatter(start as u64) % stretch as u64) as usize);
    let mut places = places.filter(|&row| row < rows).peekable();
    let mut pieces = Vec::new();
    let mut first = 0;
    for batch in batches {
        let end = first + batch.num_rows();
        let here = std::iter::from_fn(|| places.next_if(|&row| row < end));
        let indices = UInt64Array::from_iter_values(here.map(|row| (row - first) as u64));
        first = end;
        let picked = take_record_batch(batch, &indices)?;
        let columns = picked.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| arrow::compute::cast(column, field.data_type()));
        pieces.push(RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, _>>()?)?);
    }
    concat_batches(schema, &pieces)
}

/// A well-mixed number for each number, always the same (the finalizer of SplitMix64).
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
