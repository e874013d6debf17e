//! The lock of the machine: a file that is locked for as long as somebody limits it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::LimiterError;

/// Holds the lock; the kernel takes it back when the process ends, however that comes.
#[derive(Debug)]
pub(super) struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the lock in the folder `state`, which is made if there is none.
    pub fn take(state: &Path) -> Result<StateLock, LimiterError> {
        let path = state.join("lock");
        let failed = |error: std::io::Error| LimiterError::State { path: state.to_owned(), error };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(failed)?;
        // What the journal says is done with all our rights, so that nobody else may have a say in it.
        let owner = std::fs::metadata(state).map_err(failed)?;
        let user = rustix::process::geteuid().as_raw();
        if owner.uid() != user || owner.mode() & 0o022 != 0 {
            return Err(failed(std::io::Error::other("others may write to this folder: chmod go-w")));
        }
        let open = || {
            let flags = OFlags::NOFOLLOW.bits() as i32;
            OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(&path)
        };
        let mut file = open().map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let process = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(LimiterError::InUse { process });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let told = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
        told.map_err(failed)?;
        Ok(StateLock { _file: file })
    }
}
