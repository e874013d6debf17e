//! How fast the memory and a disk of this machine are, kept from `plimsoll machine --probe` to the experiments after it.

use std::path::{Path, PathBuf};

use plimsoll_machine::MachineFacts;
use plimsoll_machine::disk_speed::DiskSpeed;
use plimsoll_machine::memory_speed::{KeepError, KeptSpeed, MemorySpeed};

use crate::execution::Beginning;
use crate::fingerprint::machine_fingerprint;
use crate::program::Build;

/// The figures measured on this machine, if any are in the folder, and a warning for the reader.
pub(crate) fn load(folder: Option<&Path>, machine: &MachineFacts) -> (Option<KeptSpeed>, Option<String>) {
    let Some(folder) = folder else { return (None, None) };
    match MemorySpeed::load(folder, &machine_fingerprint(machine)) {
        Ok(kept) => (kept, None),
        Err(error) => (None, Some(format!("the memory's speed was measured, but the record cannot be read: {error}"))),
    }
}

/// Keeps the figures, which were measured just now, in the folder, and returns their file.
pub fn save(
    speed: &MemorySpeed,
    disk: Option<&DiskSpeed>,
    folder: &Path,
    machine: &MachineFacts,
    build: Build,
) -> Result<PathBuf, KeepError> {
    speed.save(disk, folder, &machine_fingerprint(machine), &Beginning::now().started(), build.version)
}
