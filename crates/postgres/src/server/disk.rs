//! Whether a folder's disk is suitable.

use std::path::Path;

use plimsoll_machine::space;

use super::error::{ServerError, megabytes};

/// An empty cluster with our database, and its first piece of log.
pub(super) const EMPTY_CLUSTER_BYTES: u64 = 80_000_000;

/// The file system of a folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disk {
    pub free_bytes: u64,
    /// The kind of file system, if that is memory.
    pub in_memory: Option<&'static str>,
    pub read_only: bool,
}

impl Disk {
    /// The disk of an existing folder.
    pub fn of(folder: &Path) -> Result<Disk, ServerError> {
        let failed = |error: std::io::Error| {
            let why = format!("{error}; make it first, or let us in");
            ServerError::Folder { folder: folder.to_owned(), why }
        };
        Ok(Disk {
            free_bytes: space::free_disk(folder).map_err(failed)?,
            in_memory: space::memory_file_system(folder).map_err(failed)?,
            read_only: space::is_read_only(folder).map_err(failed)?,
        })
    }

    /// Whether it can hold a server with that much log.
    pub(crate) fn check_for_server(self, folder: &Path, log_bytes: u64, allow_tmpfs: bool) -> Result<(), ServerError> {
        if self.read_only {
            let why = "its file system is mounted read-only".to_owned();
            return Err(ServerError::Folder { folder: folder.to_owned(), why });
        }
        if let Some(kind) = self.in_memory.filter(|_| !allow_tmpfs) {
            return Err(ServerError::InMemory { folder: folder.to_owned(), kind });
        }
        let for_what = format!(
            "{} for an empty cluster, {} for the log (max_wal_size, which can be lowered)",
            megabytes(EMPTY_CLUSTER_BYTES),
            megabytes(log_bytes)
        );
        let (free_bytes, needed_bytes) = (self.free_bytes, EMPTY_CLUSTER_BYTES.saturating_add(log_bytes));
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        Err(ServerError::DiskTooSmall { folder: folder.to_owned(), free_bytes, needed_bytes, for_what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_will_not_do_is_told_with_figures() {
        let folder = Path::new("/data");
        let good = Disk { free_bytes: 10_000_000_000, in_memory: None, read_only: false };
        let check = |disk: Disk, allow_tmpfs, expect: &[&str]| match disk.check_for_server(
            folder,
            4_000_000_000,
            allow_tmpfs,
        ) {
            Ok(()) => assert!(expect.is_empty(), "{disk:?}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!expect.is_empty() && expect.iter().all(|part| error.contains(part)), "{error}");
            }
        };
        check(good, false, &[]);
        check(Disk { free_bytes: 4_080_000_000, ..good }, false, &[]);
        let told = [
            "the disk of /data has 1.0 GB free, but 4.1 GB are needed: 80 MB for an empty",
            "max_wal_size",
            "folder=FOLDER",
        ];
        check(Disk { free_bytes: 1_000_000_000, ..good }, false, &told);
        check(Disk { free_bytes: 0, ..good }, false, &["has 0 MB free"]);
        check(
            Disk { read_only: true, ..good },
            true,
            &["in /data: its file system is mounted read-only; name another"],
        );
        check(Disk { in_memory: Some("tmpfs"), ..good }, false, &["/data is on a tmpfs", "allow_tmpfs=on"]);
        check(Disk { in_memory: Some("tmpfs"), ..good }, true, &[]);
        let error = Disk::of(Path::new("/no/such/folder")).unwrap_err().to_string();
        assert!(error.contains("in /no/such/folder: No such file"), "{error}");
    }
}
