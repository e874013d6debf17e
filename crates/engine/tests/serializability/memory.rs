//! A log's files in memory.

use std::collections::BTreeMap;
use std::io::{self, Cursor, ErrorKind, Read};
use std::sync::{Arc, Mutex, MutexGuard};

use plimsoll_engine::log::storage::{FileName, LogStorage, StorageFile};

/// Clones are the same files.
#[derive(Debug, Clone, Default)]
pub struct MemoryFiles(Arc<Mutex<BTreeMap<FileName, Vec<u8>>>>);

impl MemoryFiles {
    fn files(&self) -> MutexGuard<'_, BTreeMap<FileName, Vec<u8>>> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl LogStorage for MemoryFiles {
    fn create(&self, name: FileName, _bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        self.files().insert(name, Vec::new());
        self.open_to_write(name)
    }

    fn reuse(&self, old: FileName, new: FileName, _bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        self.rename(old, new)?;
        self.open_to_write(new)
    }

    fn open_to_write(&self, name: FileName) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(MemoryFile { files: self.clone(), name }))
    }

    fn rename(&self, old: FileName, new: FileName) -> io::Result<()> {
        let mut files = self.files();
        let bytes = files.remove(&old).ok_or(ErrorKind::NotFound)?;
        files.insert(new, bytes);
        Ok(())
    }

    fn remove(&self, name: FileName) -> io::Result<()> {
        self.files().remove(&name);
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<FileName>> {
        Ok(self.files().keys().copied().collect())
    }

    fn open(&self, name: FileName) -> io::Result<Box<dyn Read>> {
        let bytes = self.files().get(&name).cloned().ok_or(ErrorKind::NotFound)?;
        Ok(Box::new(Cursor::new(bytes)))
    }
}

struct MemoryFile {
    files: MemoryFiles,
    name: FileName,
}

impl StorageFile for MemoryFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut files = self.files.files();
        let file = files.get_mut(&self.name).ok_or(ErrorKind::NotFound)?;
        let end = offset as usize + bytes.len();
        file.resize(file.len().max(end), 0);
        file[offset as usize..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        // A disk takes time, in which other commits gather or, with early lock release, other transactions continue.
        std::thread::yield_now();
        Ok(())
    }
}
