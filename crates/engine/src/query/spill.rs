//! Files for data that does not fit a query's memory grant.
//!
//! They have no names, so that the system removes them when the query ends, however it ends. They are written and read
//! through the page cache: while memory is free, spilling costs the copying and not the disk.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};

use crate::columns::DiskFolder;
use crate::query::usage::UsageMeter;

const READ_BYTES: usize = 128 * 1024;

#[derive(Debug)]
pub struct Spills {
    folder: DiskFolder,
    meter: Arc<UsageMeter>,
}

impl Spills {
    pub fn new(folder: DiskFolder, meter: Arc<UsageMeter>) -> Self {
        Spills { folder, meter }
    }
}

impl TempFileFactory for Spills {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        let file = self.folder.make_file().map_err(|error| DataFusionError::IoError(io::Error::other(error)))?;
        self.meter.add(|usage| usage.spill_files += 1);
        let contents = Contents { file, bytes: AtomicU64::new(0), meter: Arc::clone(&self.meter) };
        Ok(Arc::new(Spilled(Arc::new(contents))))
    }
}

struct Spilled(Arc<Contents>);

struct Contents {
    file: File,
    bytes: AtomicU64,
    meter: Arc<UsageMeter>,
}

impl Contents {
    fn read_at(&self, offset: u64) -> io::Result<Bytes> {
        let mut block = vec![0; READ_BYTES];
        let length = self.file.read_at(&mut block, offset)?;
        block.truncate(length);
        Ok(block.into())
    }
}

impl SpillFile for Spilled {
    fn size(&self) -> Option<u64> {
        // Relaxed: the thread that reads a file was notified by its writer that it is complete.
        Some(self.0.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let blocks = stream::try_unfold((Arc::clone(&self.0), 0), |(contents, offset)| async move {
            let reader = Arc::clone(&contents);
            let block = tokio::task::spawn_blocking(move || reader.read_at(offset)).await;
            let block = block.map_err(|error| DataFusionError::External(error.into()))??;
            let next = offset + block.len() as u64;
            Ok((!block.is_empty()).then_some((block, (contents, next))))
        });
        Ok(Box::pin(blocks))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer(Arc::clone(&self.0))))
    }
}

struct Writer(Arc<Contents>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = (&self.0.file).write(bytes)?;
        self.0.bytes.fetch_add(written as u64, Ordering::Relaxed);
        self.0.meter.add(|usage| usage.spilled_bytes += written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
