//! Column chunks in a file, for databases larger than memory: every scan reads it.
//!
//! Each column of each chunk is one Arrow IPC message, in the encoding that it has in memory, at the start of a disk page; the
//! columns of a chunk lie side by side, the chunks in order. The file has no name and vanishes with its last user.
//!
//! Reads bypass the page cache (`O_DIRECT`), so that each one reaches the disk however much memory is free, counts in
//! its statistics and meets its limits. Advice to drop pages after use would not suffice: a page that another scan is
//! about to use would sometimes be cached and sometimes not, so the number of bytes read would vary.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message};
use arrow::ipc::{Block, MetadataVersion};
use rustix::fs::{Advice, OFlags};

/// Offsets and lengths of direct reads, and the memory that they fill, are multiples of this: the page of today's
/// disks.
const PAGE: usize = 4096;

const WRITE_BYTES: usize = 1 << 20;

/// A file that holds columns of chunks.
#[derive(Debug)]
pub struct ColumnFile {
    file: File,
    bytes: u64,
}

/// The place of one column of one chunk in the file.
#[derive(Debug, Clone)]
pub struct Extent {
    offset: u64,
    /// Bytes of the message's description, which comes first.
    metadata: usize,
    /// Bytes of the values.
    body: usize,
    schema: SchemaRef,
}

impl Extent {
    /// The number of bytes that a read of it takes from the disk.
    pub fn read_bytes(&self) -> usize {
        (self.metadata + self.body).next_multiple_of(PAGE)
    }
}

/// A column file that is being written.
#[derive(Debug)]
pub struct ColumnFileWriter {
    writer: BufWriter<File>,
    position: u64,
}

impl ColumnFileWriter {
    /// Begins a file, which must be empty.
    pub fn new(file: File) -> Self {
        ColumnFileWriter { writer: BufWriter::with_capacity(WRITE_BYTES, file), position: 0 }
    }

    /// Appends the stored rows of one column of a chunk.
    pub fn append(&mut self, values: &ArrayRef) -> Result<Extent, ArrowError> {
        let field = Field::new("values", values.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(values)])?;
        let options = IpcWriteOptions::default();
        let mut tracker = DictionaryTracker::new(true);
        let generator = IpcDataGenerator::default();
        let (_, message) = generator.encode(&batch, &mut tracker, &options, &mut IpcWriteContext::default())?;
        let (metadata, body) = write_message(&mut self.writer, message, &options)?;
        let extent = Extent { offset: self.position, metadata, body, schema };
        let padding = extent.read_bytes() - metadata - body;
        self.writer.write_all(&[0; PAGE][..padding])?;
        self.position += extent.read_bytes() as u64;
        Ok(extent)
    }

    /// Ends the file: all of it is on the disk and none of it in the page cache.
    pub fn finish(self) -> io::Result<ColumnFile> {
        let file = self.writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_data()?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        let direct = rustix::fs::fcntl_getfl(&file)? | OFlags::DIRECT;
        rustix::fs::fcntl_setfl(&file, direct)
            .map_err(|error| io::Error::other(format!("its file system cannot read past the page cache ({error})")))?;
        let file = ColumnFile { file, bytes: self.position };
        if file.bytes > 0 {
            // Some file systems accept the flag and refuse the first read.
            file.read_pages(0, PAGE)?;
        }
        Ok(file)
    }
}

impl ColumnFile {
    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads one column of one chunk from the disk, as it was appended. Blocks.
    pub fn read(&self, extent: &Extent) -> Result<ArrayRef, ArrowError> {
        let pages = self.read_pages(extent.offset, extent.read_bytes())?;
        let message = pages.slice_with_length(0, extent.metadata + extent.body);
        let decoder = FileDecoder::new(Arc::clone(&extent.schema), MetadataVersion::V5);
        let length = i32::try_from(extent.metadata).map_err(|error| ArrowError::IpcError(error.to_string()))?;
        let batch = decoder.read_record_batch(&Block::new(0, length, extent.body as i64), &message)?;
        let batch = batch.ok_or_else(|| ArrowError::IpcError("a column's message holds no values".to_owned()))?;
        Ok(Arc::clone(batch.column(0)))
    }

    fn read_pages(&self, offset: u64, length: usize) -> io::Result<Buffer> {
        let mut memory = MutableBuffer::from_len_zeroed(length + PAGE);
        let shift = memory.as_ptr().align_offset(PAGE);
        self.file.read_exact_at(&mut memory.as_slice_mut()[shift..shift + length], offset)?;
        Ok(Buffer::from(memory).slice_with_length(shift, length))
    }
}

#[cfg(test)]
mod tests;
