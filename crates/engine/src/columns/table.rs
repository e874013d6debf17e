//! A table in column form: a list of immutable chunks, and statistics of all of them.
//!
//! A table never changes. The next version of it [shares](ColumnTable::with_chunks) all chunks that have not changed,
//! and exists beside this one as long as a query reads it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::DataFusionError;

use crate::columns::ColumnError;
use crate::columns::chunk::{Chunk, LoadedColumns};
use crate::columns::encode::{ChunkColumn, encode, kept_type};
use crate::columns::file::{ColumnFile, ColumnFiles};
use crate::columns::statistics::{ChunkSummary, ColumnSummary, DistinctCount, TableStatistics, summarize};

/// Rows per chunk: large enough that per-chunk work (pruning, taking a chunk from the queue) is negligible beside the
/// scan, small enough that a million rows still spread evenly over a few threads.
pub const CHUNK_ROWS: usize = 64 * 1024;

/// Rows in the sample on which the optimizer tries conditions.
const SAMPLE_ROWS: usize = 4096;

/// A new sample is taken when the table has grown or shrunk by this factor.
const RESAMPLE_FACTOR: usize = 2;

/// One version of a table in column form.
#[derive(Debug, Clone)]
pub struct ColumnTable {
    name: String,
    schema: SchemaRef,
    unique_keys: Vec<Vec<usize>>,
    chunks: Vec<Arc<Chunk>>,
    statistics: TableStatistics,
    /// The file of the chunks that are not in memory.
    file: Option<Arc<ColumnFile>>,
}

impl ColumnTable {
    /// Builds the table from batches, whose rows keep their order.
    ///
    /// `unique_keys` are sets of columns in which no two rows are equal, the primary key first; they are not checked.
    /// Text columns of every declared type are stored as `Utf8View`, as [`ColumnTable::schema`] shows.
    pub fn build(
        name: impl Into<String>,
        schema: SchemaRef,
        unique_keys: Vec<Vec<usize>>,
        batches: Vec<RecordBatch>,
    ) -> Result<ColumnTable, ColumnError> {
        ColumnTable::build_with_holes(name, schema, unique_keys, batches, None)
    }

    /// Builds the table from batches with a row, or a hole, for each position: `live` marks the positions that hold a
    /// row; `None` means all.
    pub fn build_with_holes(
        name: impl Into<String>,
        schema: SchemaRef,
        unique_keys: Vec<Vec<usize>>,
        batches: Vec<RecordBatch>,
        live: Option<&BooleanBuffer>,
    ) -> Result<ColumnTable, ColumnError> {
        let name = name.into();
        check(&name, &schema, &unique_keys, &batches)?;
        let schema = kept_schema(&schema);
        let positions: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert!(live.is_none_or(|live| live.len() == positions), "there is a live bit for each row of the batches");
        let lengths = (0..positions).step_by(CHUNK_ROWS).map(|start| (start, CHUNK_ROWS.min(positions - start)));
        let holes = |(start, length): (usize, usize)| {
            live.map(|live| live.slice(start, length)).filter(BooleanBuffer::has_false)
        };
        let live: Vec<Option<BooleanBuffer>> = lengths.clone().map(holes).collect();
        let encoded = encode_columns(&name, &schema, &unique_keys, &batches, &live)?;
        drop(batches);
        let mut columns: Vec<Vec<(ChunkColumn, ChunkSummary)>> = live.iter().map(|_| Vec::new()).collect();
        let mut distinct = Vec::new();
        for column in encoded {
            let pieces = column.chunks.into_iter().zip(column.summaries);
            columns.iter_mut().zip(pieces).for_each(|(chunk, piece)| chunk.push(piece));
            distinct.push(column.distinct);
        }
        let chunks = lengths.zip(live).zip(columns);
        let chunks: Vec<_> =
            chunks.map(|(((_, rows), live), columns)| Arc::new(Chunk::new(rows, live, columns))).collect();
        let sample = sample(&schema, &chunks).map_err(|source| ColumnError::Arrow { table: name.clone(), source })?;
        let sampled_rows = live_rows(&chunks);
        let statistics = TableStatistics { rows: 0, sampled_rows, columns: Vec::new(), sample };
        let table = ColumnTable { name, schema, unique_keys, chunks, statistics, file: None };
        table.summarized(&distinct)
    }

    /// The same table with statistics computed from its chunks.
    fn summarized(mut self, distinct: &[DistinctCount]) -> Result<ColumnTable, ColumnError> {
        let column = |(number, field): (usize, &Arc<Field>)| {
            let chunks: Vec<&ChunkSummary> = self.chunks.iter().map(|chunk| chunk.summary(number)).collect();
            ColumnSummary::of(&chunks, field.data_type(), distinct[number])
        };
        let columns = self.schema.fields().iter().enumerate().map(column).collect::<Result<_, _>>();
        self.statistics.columns = columns.map_err(|error| self.statistics_error(&error))?;
        self.statistics.rows = live_rows(&self.chunks);
        Ok(self)
    }

    /// The next version: some chunks are replaced, or added beyond the end. Missing ones in between become chunks
    /// without rows. All others are shared with this version. The statistics are those of a table that is built again,
    /// except that numbers of distinct values are estimates.
    pub fn with_chunks(&self, replaced: &[(usize, Arc<Chunk>)]) -> Result<ColumnTable, ColumnError> {
        let mut next = self.clone();
        let count = replaced.iter().map(|(number, _)| number + 1).fold(self.chunks.len(), usize::max);
        if count > self.chunks.len() {
            let empty = Chunk::empty(&self.schema).map_err(|error| self.statistics_error(&error))?;
            next.chunks.resize(count, Arc::new(empty));
        }
        for (number, chunk) in replaced {
            next.chunks[*number] = Arc::clone(chunk);
        }
        let rows = live_rows(&next.chunks);
        let distinct: Vec<_> = (0..self.schema.fields().len()).map(|column| next.distinct(column, rows)).collect();
        let sampled = self.statistics.sampled_rows;
        let is_outdated = rows > sampled * RESAMPLE_FACTOR || rows * RESAMPLE_FACTOR < sampled;
        // With chunks in a file, a sample would have to read all of them.
        if is_outdated && self.file.is_none() {
            next.statistics.sample = sample(&self.schema, &next.chunks)
                .map_err(|source| ColumnError::Arrow { table: self.name.clone(), source })?;
            next.statistics.sampled_rows = rows;
        }
        next.summarized(&distinct)
    }

    /// Estimates the number of distinct values of a column once the table has this many rows. The table's statistics
    /// are still those of its previous version.
    fn distinct(&self, column: usize, rows: usize) -> DistinctCount {
        let nulls: usize = self.chunks.iter().map(|chunk| chunk.summary(column).null_count).sum();
        if self.unique_keys.iter().any(|key| key[..] == [column]) {
            return DistinctCount::Exact(rows - nulls);
        }
        let (before, rows_before) = (self.statistics.columns[column].distinct.value(), self.statistics.rows);
        let filled = self.chunks.iter().filter(|chunk| chunk.live_rows() > 0);
        let entries = filled.map(|chunk| chunk.dictionary(column).map(|entries| entries.len()));
        let known = match entries.collect::<Option<Vec<usize>>>() {
            Some(entries) => entries.into_iter().max().unwrap_or(0),
            // Where most rows have a distinct value, more rows have more values.
            None if before * 2 >= rows_before => before + rows.saturating_sub(rows_before),
            None => before,
        };
        DistinctCount::Estimate(known.min(rows - nulls))
    }

    fn statistics_error(&self, error: &DataFusionError) -> ColumnError {
        ColumnError::Statistics { table: self.name.clone(), message: error.to_string() }
    }

    /// Moves the chunks into a file. Small data stays in memory: dictionaries, statistics, the sample.
    pub fn into_file(mut self, files: &ColumnFiles) -> Result<ColumnTable, ColumnError> {
        let (table, place) = (self.name.clone(), files.place());
        let failed = |reason: String| ColumnError::File { table: table.clone(), folder: place.clone(), reason };
        let mut writer = files.begin(&self.name).map_err(|error| failed(error.to_string()))?;
        let write = |chunk: &Arc<Chunk>| chunk.write(&mut writer);
        let written = self.chunks.iter().map(write).collect::<Result<Vec<_>, _>>();
        let extents = written.map_err(|error| failed(error.to_string()))?;
        let file = Arc::new(writer.finish().map_err(|error| failed(error.to_string()))?);
        let place = |(chunk, extents): (&Arc<Chunk>, _)| Arc::new(chunk.placed(&file, extents));
        self.chunks = self.chunks.iter().zip(extents).map(place).collect();
        self.file = Some(file);
        Ok(self)
    }

    /// The file that chunks are in, if they are not all in memory.
    pub fn file(&self) -> Option<&ColumnFile> {
        self.file.as_deref()
    }

    /// Some columns of a chunk. Blocks if they are in a file.
    pub fn load(&self, chunk: usize, columns: &[usize]) -> Result<LoadedColumns, ArrowError> {
        self.chunks[chunk].load(columns)
    }

    /// Some columns of a chunk if all of them are in memory.
    pub fn find(&self, chunk: usize, columns: &[usize]) -> Option<LoadedColumns> {
        self.chunks[chunk].find(columns)
    }

    /// The bytes that reading some columns of a chunk takes from the disk, if a cache holds none of them.
    pub fn disk_bytes(&self, chunk: usize, columns: &[usize]) -> usize {
        self.chunks[chunk].disk_bytes(columns)
    }

    /// Its SQL name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns as queries see them.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Sets of columns in which no two rows are equal, the primary key first.
    pub fn unique_keys(&self) -> &[Vec<usize>] {
        &self.unique_keys
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.statistics.rows
    }

    /// The chunks, in order of rows.
    pub fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// Whether some chunks keep a column as codes.
    pub fn has_codes(&self, column: usize) -> bool {
        self.chunks.iter().any(|chunk| chunk.dictionary(column).is_some())
    }

    /// Facts about the values.
    pub fn statistics(&self) -> &TableStatistics {
        &self.statistics
    }

    /// The bytes that the table takes in memory.
    pub fn memory_bytes(&self) -> usize {
        let columns = 0..self.schema.fields().len();
        let dictionaries =
            self.chunks.iter().flat_map(|chunk| columns.clone().filter_map(move |column| chunk.dictionary(column)));
        // Chunks share dictionaries; each counts once.
        let distinct: HashMap<*const (), usize> = dictionaries
            .map(|dictionary| (Arc::as_ptr(dictionary).cast(), dictionary.get_array_memory_size()))
            .collect();
        self.chunks.iter().map(|chunk| chunk.memory_bytes()).sum::<usize>() + distinct.values().sum::<usize>()
    }

    /// All rows as batches, one per chunk, in order.
    pub fn to_batches(&self) -> Result<Vec<RecordBatch>, ArrowError> {
        self.chunks.iter().map(|chunk| chunk.to_batch(&self.schema)).collect()
    }
}

fn live_rows(chunks: &[Arc<Chunk>]) -> usize {
    chunks.iter().map(|chunk| chunk.live_rows()).sum()
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

/// A column with facts about its chunks.
struct SummarizedColumn {
    chunks: Vec<ChunkColumn>,
    summaries: Vec<ChunkSummary>,
    distinct: DistinctCount,
}

/// Columns are independent of each other, so each core encodes one at a time.
fn encode_columns(
    table: &str,
    schema: &SchemaRef,
    unique_keys: &[Vec<usize>],
    batches: &[RecordBatch],
    live: &[Option<BooleanBuffer>],
) -> Result<Vec<SummarizedColumn>, ColumnError> {
    let encode_one = |column: usize| {
        let pieces: Vec<ArrayRef> = batches.iter().map(|batch| Arc::clone(batch.column(column))).collect();
        let encoded = encode(&pieces, schema.field(column).data_type(), CHUNK_ROWS)
            .map_err(|source| ColumnError::Arrow { table: table.to_string(), source })?;
        let unique = unique_keys.iter().any(|key| key[..] == [column]);
        let (summaries, distinct) = summarize(&encoded, live, unique)
            .map_err(|error| ColumnError::Statistics { table: table.to_string(), message: error.to_string() })?;
        let narrowed =
            encoded.chunks.into_iter().zip(&summaries).map(|(chunk, facts)| chunk.narrowed(&facts.min, &facts.max));
        Ok(SummarizedColumn { chunks: narrowed.collect(), summaries, distinct })
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let columns: Vec<usize> = (0..schema.fields().len()).collect();
    let mut encoded: Vec<(usize, Result<SummarizedColumn, ColumnError>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                // Round robin: wide text columns are often at the end of a table.
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
fn sample(schema: &SchemaRef, chunks: &[Arc<Chunk>]) -> Result<RecordBatch, ArrowError> {
    let positions: usize = chunks.iter().map(|chunk| chunk.rows()).sum();
    let stretch = positions.div_ceil(SAMPLE_ROWS).max(1);
    let places = (0..positions).step_by(stretch);
    let places = places.map(|start| start + (scatter(start as u64) % stretch as u64) as usize);
    let mut places = places.filter(|&row| row < positions).peekable();
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let mut pieces = Vec::new();
    let mut first = 0;
    for chunk in chunks {
        let end = first + chunk.rows();
        let here = std::iter::from_fn(|| places.next_if(|&row| row < end)).map(|row| row - first);
        let here = here.filter(|&row| chunk.live().is_none_or(|live| live.value(row)));
        let indices = UInt64Array::from_iter_values(here.map(|row| row as u64));
        first = end;
        let loaded = chunk.load(&all)?;
        let pick = |&column: &usize| {
            let kept = loaded.column(column);
            kept.with_physical(take(kept.physical(), &indices, None)?).values()
        };
        let options = RecordBatchOptions::new().with_row_count(Some(indices.len()));
        let columns = all.iter().map(pick).collect::<Result<_, ArrowError>>()?;
        pieces.push(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?);
    }
    // Text of a few rows must not keep the buffers of whole chunks alive.
    concat_batches(schema, &pieces).and_then(compacted)
}

fn compacted(sample: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let own = |column: &ArrayRef| match column.as_string_view_opt() {
        Some(texts) => Arc::new(texts.gc()) as ArrayRef,
        None => Arc::clone(column),
    };
    let options = RecordBatchOptions::new().with_row_count(Some(sample.num_rows()));
    RecordBatch::try_new_with_options(sample.schema(), sample.columns().iter().map(own).collect(), &options)
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
