//! Columns in files: the files that options ask for, how much of them stays in memory, and what was read.

use plimsoll_engine::columns::{ColumnCache, ColumnFiles, DiskFolder, FolderError};
use plimsoll_workload::database::ColumnReads;

use super::EmbeddedOptions;

/// The files of the column copy; `None` if it is in memory.
pub(super) fn files(options: &EmbeddedOptions) -> Result<Option<ColumnFiles>, FolderError> {
    let open = || {
        let cache = ColumnCache::new(memory_bytes(options));
        Ok(ColumnFiles::new(DiskFolder::open(&options.column_folder)?, cache))
    };
    options.columns_in_files.then(open).transpose()
}

/// Puts a changed bound in force.
pub(super) fn set_memory(files: Option<&ColumnFiles>, options: &EmbeddedOptions) {
    if let Some(files) = files {
        files.cache().set_bytes_max(memory_bytes(options));
    }
}

/// What queries have read of the files so far.
pub(super) fn reads(files: &ColumnFiles) -> ColumnReads {
    let reads = files.cache().reads();
    ColumnReads { read_bytes: reads.read_bytes, found_bytes: reads.found_bytes, held_bytes_peak: reads.held_bytes_peak }
}

fn memory_bytes(options: &EmbeddedOptions) -> u64 {
    options.column_memory_mib.unwrap_or(0) << 20
}
