//! The lock of the machine: a file that is locked while a process has limits in force.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use procfs::process::Process;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::LimiterError;

/// Holds the lock; the kernel releases it when the process ends, however that happens.
#[derive(Debug)]
pub(crate) struct StateLock {
    file: File,
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // Unlock explicitly: a child that another thread has just forked holds the file open until it executes its
        // program, so closing ours would not release the lock before that.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl StateLock {
    /// Takes the lock in the folder `state`, which is created if missing.
    pub fn take(state: &Path) -> Result<StateLock, LimiterError> {
        let path = state.join("lock");
        let failed = |error: std::io::Error| LimiterError::State { path: state.to_owned(), error };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(failed)?;
        // The journal is executed with all our rights, so no other user may write to it.
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
        let began = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {
                    let process = holder(&mut file);
                    if !process.is_some_and(is_ending) || began.elapsed() > ENDING_MAX {
                        return Err(LimiterError::InUse(process));
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
        let told = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
        told.map_err(failed)?;
        Ok(StateLock { file })
    }
}

/// Longer than the kernel needs to free the memory of a killed process, which it does before it closes the files.
const ENDING_MAX: Duration = Duration::from_secs(10);

/// The process that is recorded as the lock's holder.
fn holder(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether a process is ending or has ended.
fn is_ending(process: i32) -> bool {
    /// `PF_EXITING` (include/linux/sched.h).
    const EXITING: u32 = 0x4;
    match Process::new(process).and_then(|process| process.stat()) {
        Ok(stat) => stat.flags & EXITING != 0,
        Err(_) => true,
    }
}
