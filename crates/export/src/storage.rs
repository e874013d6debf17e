//! Where an export lies: a folder, or a bucket of S3 if the program is built with the feature `s3`.

mod folder;
#[cfg(feature = "s3")]
pub mod s3;

use std::fmt::Debug;
use std::io;
use std::path::Path;

pub use folder::FolderStorage;

/// The beginning of a place in a bucket: `s3://bucket/prefix`.
const S3: &str = "s3://";

/// The place of an export, for writing: a folder, which is made if it does not exist, or `s3://bucket/prefix`. No other
/// process can export to it meanwhile.
pub fn open(place: &Path) -> Result<Box<dyn Storage>, StorageError> {
    match place.to_str().filter(|url| url.starts_with(S3)) {
        Some(url) => open_bucket(url, true),
        None => Ok(Box::new(FolderStorage::open(place)?)),
    }
}

/// The place of an export, for reading.
pub fn open_to_read(place: &Path) -> Result<Box<dyn Storage>, StorageError> {
    match place.to_str().filter(|url| url.starts_with(S3)) {
        Some(url) => open_bucket(url, false),
        None => Ok(Box::new(FolderStorage::open_to_read(place))),
    }
}

#[cfg(feature = "s3")]
fn open_bucket(url: &str, for_writing: bool) -> Result<Box<dyn Storage>, StorageError> {
    let access = s3::Access::of_environment(std::env::vars_os());
    Ok(Box::new(match for_writing {
        true => s3::S3Storage::open(url, &access)?,
        false => s3::S3Storage::open_to_read(url, &access)?,
    }))
}

#[cfg(not(feature = "s3"))]
fn open_bucket(url: &str, _for_writing: bool) -> Result<Box<dyn Storage>, StorageError> {
    let why = Advised {
        why: "this program was built without S3".to_owned(),
        remedy: "build it with the feature: cargo install --path crates/plimsoll --features s3",
    };
    Err(why.at("open", url.to_owned()))
}

/// An error with a remedy of its own.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
struct Advised {
    why: String,
    remedy: &'static str,
}

impl Advised {
    fn at(self, act: &'static str, place: String) -> StorageError {
        StorageError { act, place, error: io::Error::other(self) }
    }
}

/// Why something of an export cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} {place}: {error}; {}", remedy(error))]
pub struct StorageError {
    /// What was tried: `write`.
    pub act: &'static str,
    /// To what.
    pub place: String,
    /// The error of the system, which is part of the message and so not a cause of its own.
    pub error: io::Error,
}

/// What to do about an error.
fn remedy(error: &io::Error) -> &'static str {
    if let Some(advised) = error.get_ref().and_then(|inner| inner.downcast_ref::<Advised>()) {
        return advised.remedy;
    }
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

#[cfg(all(test, not(feature = "s3")))]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_needs_the_feature() {
        let why = open(Path::new("s3://lake/shop")).unwrap_err().to_string();
        assert!(
            why.starts_with("cannot open s3://lake/shop: this program was built without S3; build it with"),
            "{why}"
        );
        assert!(open_to_read(Path::new("s3://lake")).is_err());
    }
}
