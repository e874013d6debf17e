//! A control group that limits the disk reads of some processes of a server.
//!
//! It is made as an [`OwnGroup`]. Nothing but that group is limited, with one exception: version 1
//! limits each group separately, so processes in a new group would escape the limit of the server's group. There the
//! limit is divided: the new group gets a part, and the server's group the rest, until the new group is removed.
//!
//! Only reading is limited. A commit writes the log and waits for the disk while it holds a lock that every other commit
//! needs; held back there, the least important transaction would stop the most important one.
//!
//! In version 2 a process is in one group for all controllers, so the group also determines its processes' CPU share
//! ([`DiskGroup::cores`]). By default they get, all together, as much as the server's group.

use std::path::Path;

use super::own::{OwnGroup, OwnGroupError};
use super::{Site, site_of_server};
use crate::control::disk::device::Device;
use crate::control::disk::{Disk, READ_MB_S};
use crate::control::{Undo, UndoNotes};
use crate::disk_watch::{device_of, read_bytes};
use crate::groups::{DISK, write};
use crate::host::Host;
use crate::limiter::Restored;
use crate::process_identity::ProcessIdentity;

/// The limit that is put in force, bytes per second.
const READS: &Disk = &READ_MB_S;

const NAME: &str = "disk";

/// The journal's key for the rest of the server's limit.
const REST: &str = "the rest of the server's limit";

/// The largest part that the group gets of a limit that it divides with the server's own group.
const PART_MAX: f64 = 0.75;

/// The group. Dropping it sends its processes back and removes it.
#[derive(Debug)]
pub struct DiskGroup {
    group: OwnGroup,
    device: Device,
    limit: Option<u64>,
    /// The limit of the server's group as others set it, and the rest that remains in force there.
    divided: Option<Divided>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Divided {
    whole: u64,
    rest: u64,
}

/// Whether such a group can be made for the server whose first process this is: how, or why not. Changes nothing.
pub fn probe(host: &Host, postmaster: i32) -> Result<String, String> {
    let (site, device) = place(host, postmaster)?;
    Ok(format!("{}, for reads from {}", site.describe(), device.name))
}

fn place(host: &Host, postmaster: i32) -> Result<(Site, Device), String> {
    let device = device_of(host, postmaster)?;
    let site = site_of_server(host, postmaster, DISK)?;
    // Without that it is unknown whether a limit is needed.
    if read_bytes(host, postmaster).is_none() {
        let why =
            "what server processes read is not shown to this user (/proc/PID/io): run as root or as the server's user";
        return Err(why.to_owned());
    }
    Ok((site, device))
}

impl DiskGroup {
    /// Makes the group, without members, with a limit in bytes per second.
    pub fn make(
        host: &Host,
        state: &Path,
        postmaster: ProcessIdentity,
        limit: u64,
    ) -> Result<DiskGroup, OwnGroupError> {
        let (site, device) = place(host, postmaster.id).map_err(OwnGroupError::Unavailable)?;
        let group = OwnGroup::make(host, state, postmaster, site, NAME)?;
        let mut group = DiskGroup { group, device, limit: None, divided: None };
        group.limit(limit)?;
        Ok(group)
    }

    /// The CPU share of its processes, in version 2 where the group has the cpu controller; elsewhere processes stay in
    /// their present cpu group.
    pub fn cores(&self) -> Option<&OwnGroup> {
        let has_cores = self.group.host.exists(self.group.folder().join("cpu.weight"));
        (self.group.site.unified && has_cores).then_some(&self.group)
    }

    /// The group, apart from its limit.
    pub fn group(&self) -> &OwnGroup {
        &self.group
    }

    /// The limit in force, bytes per second.
    pub fn in_force(&self) -> Option<u64> {
        self.limit
    }

    /// Whether it divides a limit with the server's own group.
    pub fn is_dividing(&self) -> bool {
        self.divided.is_some()
    }

    /// Limits the combined reads of its processes, bytes per second, and verifies the limit. A group that divides the
    /// server's limit gets at most three quarters of it, and both groups together never exceed it.
    pub fn limit(&mut self, bytes_per_s: u64) -> Result<(), OwnGroupError> {
        let whole = self.whole();
        self.note_whole(whole)?;
        let limit = match whole {
            Some(whole) => bytes_per_s.min((whole as f64 * PART_MAX) as u64),
            None => bytes_per_s,
        };
        // Lower one limit before raising the other: the sum never exceeds the whole.
        let is_more = self.limit.is_none_or(|before| limit > before);
        if is_more {
            self.leave_rest(whole, limit)?;
        }
        if self.limit != Some(limit) {
            self.set(self.group.folder(), limit)?;
            self.limit = Some(limit);
        }
        if !is_more {
            self.leave_rest(whole, limit)?;
        }
        Ok(())
    }

    /// The limit that others have set for the server's group; `None` if there is none, or if groups within it share it anyway.
    fn whole(&self) -> Option<u64> {
        if self.group.site.unified {
            return None;
        }
        let now = READS.limit_of(&self.group.host, &self.group.site.home, false, &self.device)?;
        match self.divided {
            Some(divided) if divided.rest == now => Some(divided.whole),
            // Another process has changed it since.
            _ => Some(now),
        }
    }

    /// Ensures that the journal has the limit to restore.
    fn note_whole(&mut self, whole: Option<u64>) -> Result<(), OwnGroupError> {
        if self.divided.map(|divided| divided.whole) == whole {
            return Ok(());
        }
        self.group.changes.forget(REST)?;
        self.divided = None;
        let Some(whole) = whole else { return Ok(()) };
        let path = self.group.site.home.join(READS.file(false)).display().to_string();
        let text = READS.order(false, &self.device, Some(whole));
        self.group.changes.notes_of(REST).note(Undo::WriteFile { path, text })?;
        self.divided = Some(Divided { whole, rest: whole });
        Ok(())
    }

    fn leave_rest(&mut self, whole: Option<u64>, part: u64) -> Result<(), OwnGroupError> {
        let Some(whole) = whole else { return Ok(()) };
        let rest = whole.saturating_sub(part).max(1);
        // Another process may have set the whole limit again, as an experiment does when it reapplies its limits.
        if READS.limit_of(&self.group.host, &self.group.site.home, false, &self.device) != Some(rest) {
            self.set(&self.group.site.home, rest)?;
        }
        self.divided = Some(Divided { whole, rest });
        Ok(())
    }

    /// Writes a limit and verifies that it is in force.
    fn set(&self, group: &Path, limit: u64) -> Result<(), OwnGroupError> {
        let unified = self.group.site.unified;
        let order = READS.order(unified, &self.device, Some(limit));
        write(&self.group.host, group, READS.file(unified), &order)?;
        match READS.limit_of(&self.group.host, group, unified, &self.device) {
            Some(now) if now == limit => Ok(()),
            now => {
                let now = now.map_or("none".to_owned(), |now| format!("{now} bytes/s"));
                let why = format!("{} was given a limit of {limit} bytes/s, and has {now}", group.display());
                Err(OwnGroupError::Unavailable(why))
            }
        }
    }

    /// Sends its processes back, lifts its limit and removes it. A second call does nothing.
    pub fn remove(&mut self) -> Result<Restored, OwnGroupError> {
        if self.divided.is_some() && self.whole() != self.divided.map(|divided| divided.whole) {
            // Another process has set another limit, or lifted it: keep that.
            self.group.changes.forget(REST)?;
        }
        let restored = self.group.changes.undo()?;
        (self.limit, self.divided) = (None, None);
        Ok(restored)
    }
}

impl Drop for DiskGroup {
    fn drop(&mut self) {
        // `remove` does not undo later changes by other processes. If it fails, the next start removes the group.
        let _ = self.remove();
    }
}

#[cfg(test)]
mod tests;
