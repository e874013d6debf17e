//! Where an export lies: a folder.

mod folder;

use std::fmt::Debug;
use std::io;

pub use folder::FolderStorage;

/// Why something of an export cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} {place}: {source}; {}", remedy(source))]
pub struct StorageError {
    /// What was tried: `write`.
    pub act: &'static str,
    /// To what.
    pub place: String,
    /// The error of the system.
    pub source: io::Error,
}

/// What to do about an error.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room there or export to another disk; an earlier export there is unchanged"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "export to a folder that you may write to"
        }
        _ => "an earlier export there is unchanged",
    }
}

/// A place for the files of one export. Names are paths below it, with `/` between folders.
pub trait Storage: Debug + Send + Sync {
    /// The path of a file, for people.
    fn place(&self, name: &str) -> String;

    /// The names of all files, sorted.
    fn names(&self) -> Result<Vec<String>, StorageError>;

    /// A file's bytes; `None` if there is no such file.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StorageError>;

    /// Makes or replaces a file. When this returns, the file is durable; until then, also after a crash, readers see
    /// the earlier file or none.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StorageError>;

    /// Removes a file.
    fn remove(&self, name: &str) -> Result<(), StorageError>;
}
