//! Control groups of version 1 for the bench: they limit the server's memory and disk throughput.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plimsoll_machine::groups::Cgroups;
use plimsoll_machine::host::Host;

/// A group of ours, removed on drop.
#[derive(Debug)]
pub struct Group(pub PathBuf);

impl Group {
    /// Creates a group below our own, with the given controller, or returns why that is impossible.
    pub fn make(controller: &str, name: &str) -> Result<Group, String> {
        let own = Cgroups::read(&Host::real());
        let parent = own.version_1_folder(controller);
        let parent = parent.ok_or_else(|| format!("there is no version 1 of control groups with {controller}"))?;
        let folder = parent.join(format!("plimsoll-slow-disk-{}-{name}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("no group {}: {error}", folder.display()))?;
        Ok(Group(folder))
    }

    pub fn set(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.0.join(file);
        fs::write(&path, text).map_err(|error| format!("{text:?} cannot be written to {}: {error}", path.display()))
    }

    /// Limits reads from a disk, bytes per second.
    pub fn limit_reading(&self, disk: &str, bytes_per_s: u64) -> Result<(), String> {
        self.set("blkio.throttle.read_bps_device", &format!("{disk} {bytes_per_s}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        eprintln!("{} is left; remove it with rmdir", self.0.display());
    }
}

/// The number of the whole disk that a folder lies on, `254:0`.
pub fn disk_below(folder: &Path) -> Result<String, String> {
    let device = fs::metadata(folder).map_err(|error| error.to_string())?.dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let known = fs::canonicalize(format!("/sys/dev/block/{number}"))
        .map_err(|error| format!("the disk {number} is not in /sys/dev/block: {error}"))?;
    if !known.join("partition").exists() {
        return Ok(number);
    }
    let whole = fs::read_to_string(known.with_file_name("").join("dev")).map_err(|error| error.to_string())?;
    Ok(whole.trim().to_owned())
}
