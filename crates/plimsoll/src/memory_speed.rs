//! How fast the memory and a disk of this machine are, kept from `plimsoll machine --probe` to the experiments after it.

use std::path::PathBuf;

use plimsoll_lab::fingerprint::machine_fingerprint;
use plimsoll_machine::MachineFacts;
use plimsoll_machine::disk_speed::DiskSpeed;
use plimsoll_machine::memory_speed::{KeepError, KeptSpeed, MemorySpeed, state_folder};

use crate::provenance::Beginning;

/// The folder for figures kept between runs; `None` if this user has none.
fn folder() -> Option<PathBuf> {
    let variable = std::env::var_os;
    state_folder(variable("XDG_STATE_HOME").as_deref(), variable("HOME").as_deref())
}

/// The figures measured on this machine, if any, and a caveat for the reader.
pub fn kept(machine: &MachineFacts) -> (Option<KeptSpeed>, Option<String>) {
    let Some(folder) = folder() else { return (None, None) };
    match MemorySpeed::load(&folder, &machine_fingerprint(machine)) {
        Ok(kept) => (kept, None),
        Err(error) => (None, Some(format!("the memory's speed was measured, but the record cannot be read: {error}"))),
    }
}

/// Keeps the figures. `None` if there is no folder for them.
pub fn keep(
    speed: &MemorySpeed,
    disk: Option<&DiskSpeed>,
    machine: &MachineFacts,
) -> Result<Option<PathBuf>, KeepError> {
    let provenance = Beginning::now().provenance();
    let (started, version) = (&provenance.started, &provenance.version);
    let keep = |folder: PathBuf| speed.save(disk, &folder, &machine_fingerprint(machine), started, version);
    folder().map(keep).transpose()
}
