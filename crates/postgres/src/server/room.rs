//! How much data a server could hold, determined before it exists.

use std::path::PathBuf;

use plimsoll_workload::database::Room;

use super::disk::{Disk, EMPTY_CLUSTER_BYTES};
use super::home::default_bases;
use super::settings::ServerSettings;

impl ServerSettings {
    /// The disk on which a server with these settings would keep its data, and its free space beyond the server's own
    /// needs. `None` if there is no folder for it; starting the server then returns the reason.
    pub fn room(&self) -> Option<Room> {
        let bases: Vec<PathBuf> = match self.base_folder() {
            Some(folder) => vec![folder.to_owned()],
            None => default_bases(),
        };
        bases.iter().find_map(|base| {
            let disk = Disk::of(base).ok()?;
            disk.check_for_server(base, self.log_bytes(), self.allow_tmpfs()).ok()?;
            let own_bytes = EMPTY_CLUSTER_BYTES + self.log_bytes();
            // A standby has the same data once more.
            let free_bytes = (disk.free_bytes / self.copies()).saturating_sub(own_bytes);
            Some(Room { place: format!("disk ({})", base.display()), free_bytes })
        })
    }
}
