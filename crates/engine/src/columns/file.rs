//! Column chunks in a file, for databases larger than memory.
//!
//! Each column of each chunk is a piece: one Arrow IPC message, in the encoding that it has in memory, at the start of a
//! disk page. The columns of a chunk lie side by side, the chunks in order. The file has no name and vanishes with its
//! last user. A scan reads pieces through a [`ColumnCache`], which keeps as many of them in memory as its bound allows.
//!
//! Reads bypass the page cache (`O_DIRECT`), so that each one reaches the disk however much memory is free, counts in
//! its statistics and meets its limits. Advice to drop pages after use would not suffice: a page that another scan is
//! about to use would sometimes be cached and sometimes not, so the number of bytes read would vary.
//!
//! Each piece has a checksum, which is kept in memory and compared at every read: a disk that returns other bytes than
//! were written causes an error and not a wrong answer.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message};
use arrow::ipc::{Block, MetadataVersion};
use bytes::Bytes;
use rustix::fs::{Advice, OFlags};

use crate::columns::cache::{ColumnCache, PieceKey, PieceSize, ReadPiece, Reservation};
use crate::columns::folder::{DiskFolder, FileSource, FolderError};

/// Offsets and lengths of direct reads, and the memory that they fill, are multiples of this: the page of today's
/// disks.
const PAGE: usize = 4096;

const WRITE_BYTES: usize = 1 << 20;

/// Where column files are made, and which of their pieces stay in memory.
#[derive(Debug, Clone)]
pub struct ColumnFiles {
    folder: Arc<dyn FileSource>,
    cache: Arc<ColumnCache>,
}

/// A file that holds columns of chunks.
#[derive(Debug)]
pub struct ColumnFile {
    file: File,
    /// The table and the folder, for errors.
    name: String,
    bytes: u64,
    cache: Arc<ColumnCache>,
    /// Its number in the cache.
    number: u64,
}

/// Why a column cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnFileError {
    /// The disk did not return it.
    #[error(
        "cannot read {bytes} bytes at {offset} of the column file of {name}: {source}; check the disk, and load the data again"
    )]
    Unreadable {
        /// The table and the folder.
        name: String,
        /// The place in the file.
        offset: u64,
        /// How much was to be read.
        bytes: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// It is not what was written.
    #[error(
        "{bytes} bytes at {offset} of the column file of {name} are not those that were written, because their checksum differs; \
         check the disk, and load the data again"
    )]
    Damaged {
        /// The table and the folder.
        name: String,
        /// The place in the file.
        offset: u64,
        /// How much was read.
        bytes: usize,
    },
    /// Arrow cannot decode it, though it is what was written.
    #[error("the column at {offset} of the column file of {name} cannot be decoded: {source}")]
    Undecodable {
        /// The table and the folder.
        name: String,
        /// The place in the file.
        offset: u64,
        /// The error of Arrow.
        source: ArrowError,
    },
}

impl From<ColumnFileError> for ArrowError {
    fn from(error: ColumnFileError) -> Self {
        ArrowError::ExternalError(Box::new(error))
    }
}

/// The place of one column of one chunk in the file.
#[derive(Debug, Clone)]
pub struct Extent {
    offset: u64,
    /// Bytes of the message's description, which comes first.
    metadata: usize,
    /// Bytes of the values.
    body: usize,
    /// The CRC-32 of both.
    checksum: u32,
    schema: SchemaRef,
}

impl Extent {
    /// The number of bytes that a read of it takes from the disk.
    pub fn read_bytes(&self) -> usize {
        (self.metadata + self.body).next_multiple_of(PAGE)
    }
}

impl ColumnFiles {
    /// Files in this folder, whose pieces the cache keeps.
    pub fn new(folder: impl FileSource + 'static, cache: Arc<ColumnCache>) -> Self {
        ColumnFiles { folder: Arc::new(folder), cache }
    }

    /// What stays in memory of the files.
    pub fn cache(&self) -> &ColumnCache {
        &self.cache
    }

    /// Begins a file for the columns of a table.
    pub(super) fn begin(&self, table: &str) -> Result<ColumnFileWriter, FolderError> {
        let name = format!("table {table} in {}", self.folder);
        Ok(ColumnFileWriter::new(self.folder.make_file()?, name, Arc::clone(&self.cache)))
    }

    /// The folder, for errors.
    pub(super) fn place(&self) -> String {
        self.folder.to_string()
    }
}

impl From<DiskFolder> for ColumnFiles {
    /// Files in this folder, of which nothing stays in memory.
    fn from(folder: DiskFolder) -> Self {
        ColumnFiles::new(folder, ColumnCache::new(0))
    }
}

/// A column file that is being written.
#[derive(Debug)]
pub struct ColumnFileWriter {
    writer: BufWriter<File>,
    position: u64,
    name: String,
    cache: Arc<ColumnCache>,
}

impl ColumnFileWriter {
    /// Begins a file, which must be empty. Errors call it by this name.
    fn new(file: File, name: String, cache: Arc<ColumnCache>) -> Self {
        ColumnFileWriter { writer: BufWriter::with_capacity(WRITE_BYTES, file), position: 0, name, cache }
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
        let mut summed = Summed { writer: &mut self.writer, checksum: crc32fast::Hasher::new() };
        let (metadata, body) = write_message(&mut summed, message, &options)?;
        let checksum = summed.checksum.finalize();
        let extent = Extent { offset: self.position, metadata, body, checksum, schema };
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
        if self.position > 0 {
            // Some file systems accept the flag and refuse the first read.
            Pages::read(&file, 0, PAGE, None)?;
        }
        let number = self.cache.add_file();
        Ok(ColumnFile { file, name: self.name, bytes: self.position, cache: self.cache, number })
    }
}

/// Computes the checksum of all that is written.
struct Summed<'a> {
    writer: &'a mut BufWriter<File>,
    checksum: crc32fast::Hasher,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.checksum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl ColumnFile {
    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One column of one chunk as it was appended, and whether it was read from the disk. Blocks unless the cache holds it.
    pub fn load(&self, extent: &Extent) -> Result<(ArrayRef, bool), ColumnFileError> {
        let size =
            PieceSize { read: extent.read_bytes() as u64, held: Pages::memory_bytes(extent.read_bytes()) as u64 };
        self.cache.load(self.key(extent), size, |reserved| self.read(extent, reserved))
    }

    /// The same if the cache holds it. A caller that uses it counts that by [`count_found`](Self::count_found).
    pub(super) fn find(&self, extent: &Extent) -> Option<ArrayRef> {
        self.cache.find(self.key(extent))
    }

    /// Counts a column that was found.
    pub(super) fn count_found(&self, extent: &Extent) {
        self.cache.count_found(extent.read_bytes() as u64);
    }

    fn key(&self, extent: &Extent) -> PieceKey {
        PieceKey { file: self.number, offset: extent.offset }
    }

    fn read(&self, extent: &Extent, reserved: Reservation) -> Result<ReadPiece, ColumnFileError> {
        let (name, offset, bytes) = (|| self.name.clone(), extent.offset, extent.read_bytes());
        let memory = Pages::read(&self.file, offset, bytes, Some(reserved))
            .map_err(|source| ColumnFileError::Unreadable { name: name(), offset, bytes, source })?;
        let message = memory.slice_with_length(0, extent.metadata + extent.body);
        if crc32fast::hash(&message) != extent.checksum {
            return Err(ColumnFileError::Damaged { name: name(), offset, bytes });
        }
        let values =
            extent.decode(&message).map_err(|source| ColumnFileError::Undecodable { name: name(), offset, source })?;
        drop(message);
        Ok(ReadPiece { values, memory })
    }

    /// Changes a byte of the file, as a faulty disk might.
    #[cfg(test)]
    pub(crate) fn damage(&self, offset: u64) {
        let page = offset / PAGE as u64 * PAGE as u64;
        let read = Pages::read(&self.file, page, PAGE, None).unwrap();
        let mut memory = vec![0; 2 * PAGE];
        let aligned = memory.as_ptr().align_offset(PAGE);
        memory[aligned..aligned + PAGE].copy_from_slice(&read);
        memory[aligned + (offset - page) as usize] ^= 1;
        self.file.write_all_at(&memory[aligned..aligned + PAGE], page).unwrap();
    }

    /// Cuts the file, as a faulty file system might.
    #[cfg(test)]
    pub(crate) fn cut(&self, bytes: u64) {
        self.file.set_len(bytes).unwrap();
    }
}

impl Drop for ColumnFile {
    fn drop(&mut self) {
        self.cache.forget_file(self.number);
    }
}

impl Extent {
    fn decode(&self, message: &Buffer) -> Result<ArrayRef, ArrowError> {
        let decoder = FileDecoder::new(Arc::clone(&self.schema), MetadataVersion::V5);
        let length = i32::try_from(self.metadata).map_err(|error| ArrowError::IpcError(error.to_string()))?;
        let batch = decoder.read_record_batch(&Block::new(0, length, self.body as i64), message)?;
        let batch = batch.ok_or_else(|| ArrowError::IpcError("a column's message holds no values".to_owned()))?;
        Ok(Arc::clone(batch.column(0)))
    }
}

/// Pages of a file in memory.
struct Pages {
    memory: Vec<u8>,
    /// Where the first page begins.
    shift: usize,
    length: usize,
    /// Ends with the memory.
    _reserved: Option<Reservation>,
}

impl Pages {
    /// The memory for pages of this length: the allocator may begin it anywhere in a page.
    fn memory_bytes(length: usize) -> usize {
        length + PAGE
    }

    fn read(file: &File, offset: u64, length: usize, reserved: Option<Reservation>) -> io::Result<Buffer> {
        let mut memory = vec![0; Pages::memory_bytes(length)];
        let shift = memory.as_ptr().align_offset(PAGE);
        file.read_exact_at(&mut memory[shift..shift + length], offset)?;
        let pages = Pages { memory, shift, length, _reserved: reserved };
        Ok(Buffer::from(Bytes::from_owner(pages)))
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        &self.memory[self.shift..self.shift + self.length]
    }
}

#[cfg(test)]
mod tests;
