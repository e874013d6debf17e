//! Groups of processes and threads: the kernel's control groups, of version 1, 2 or both, and those of [`resctrl`].
//!
//! - Read: [`Cgroups`] are the control groups that a process is in, with their limits. Two [`GroupSample`]s make the
//!   [`GroupUse`] of a group.
//! - Make: `make` finds where a group of ours may lie. An [`OwnGroup`] is for some processes of a server: one kind gets
//!   [`idle`] time of the cores, another limits reads from the [`disk`], and a child of ours gets a [`quota`] of cores.
//! - Move: a [`GroupFolder`] takes single processes, and `members` moves all processes that are to be limited.
//!
//! Groups of ours are known by their names. Plimsoll writes only to these, with one exception ([`disk`]). It reads others, and
//! returns processes to the ones they came from.

mod make;
mod members;
mod read;
pub mod resctrl;

use std::path::{Component, Path, PathBuf};

pub use make::own::{OwnGroup, OwnGroupError, restore_left_over};
pub use make::{disk, idle, quota};
pub(crate) use make::{probe, site};
pub use members::folder::{GroupError, GroupFolder};
pub(crate) use members::{Group, find, join};
pub use read::Cgroups;
pub use read::usage::{GroupSample, GroupUse};
pub(crate) use read::usage::{field, recursive_text};
pub(crate) use read::{CORES, CPU, CPU_TIME, Controller, DISK, MEMORY, quota_of};

use crate::control::ControlError;
use crate::host::Host;

/// The file of a control group that lists its processes, and moves one that is written to it.
pub(crate) const PROCESSES: &str = "cgroup.procs";

/// The beginning of the names of groups that any Plimsoll makes.
pub(crate) const OURS: &str = "plimsoll-";

/// The beginning of the names of groups that a Plimsoll with this process number makes.
pub(crate) fn name_prefix(process: u32) -> String {
    format!("{OURS}{process}-")
}

/// Whether this Plimsoll or another has made the group with this folder.
pub fn is_of_plimsoll(folder: impl AsRef<Path>) -> bool {
    let leads_away = folder.as_ref().components().any(|component| component == Component::ParentDir);
    has_prefix(folder.as_ref(), OURS) && !leads_away
}

/// Whether this process has made the group.
fn is_ours(folder: &Path) -> bool {
    has_prefix(folder, &name_prefix(std::process::id()))
}

/// Whether the name of a folder begins so.
pub(crate) fn has_prefix(folder: &Path, prefix: &str) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}

/// The folders of control groups in a folder that a Plimsoll has made, this one or another.
pub(crate) fn groups_of_ours_in(host: &Host, folder: &Path) -> Vec<PathBuf> {
    let folders = host.names(folder).into_iter().map(|name| folder.join(name));
    folders.filter(|folder| is_of_plimsoll(folder) && host.exists(folder.join(PROCESSES))).collect()
}

/// Writes to a file of a group.
fn write(host: &Host, group: &Path, file: &str, text: &str) -> Result<(), ControlError> {
    let path = group.join(file);
    host.write(&path, text).map_err(|error| ControlError::refused(format!("write {text:?} to"), path.display(), error))
}

/// Makes a group unless it is there.
fn make_folder(host: &Host, group: &Path) -> Result<(), ControlError> {
    if host.exists(group) {
        return Ok(());
    }
    host.make_folder(group).map_err(|error| ControlError::refused("make the control group", group.display(), error))
}
