//! A disk that is too small for two servers, or fills up.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_testing::{Need, skip, until};
use plimsoll_workload::database::Database;
use rustix::process::Signal;

use super::common::{Pair, TABLE, start};

/// A small disk in memory; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(name: &str, megabytes: u32) -> Option<SmallDisk> {
        let folder = std::env::temp_dir().join(format!("plimsoll-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let size = format!("size={megabytes}m,mode=755");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder).output();
        if mounted.as_ref().is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk(folder));
        }
        std::fs::remove_dir(&folder).unwrap();
        skip(Need::Root, format!("a tmpfs cannot be mounted: {mounted:?}"));
        None
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn left(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.0).unwrap().flatten().map(|entry| entry.path()).collect()
    }

    /// Fills the disk except for that many bytes.
    fn fill(&self, but_bytes: u64) -> PathBuf {
        let filler = self.0.join("filler");
        let free = plimsoll_machine::space::free_disk(&self.0).unwrap();
        std::fs::write(&filler, vec![1; free.saturating_sub(but_bytes) as usize]).unwrap();
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn may_enter(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_disk_with_room_for_one_server_takes_none() {
    // 80 MB for an empty cluster and 64 MB for the log: enough once, not twice.
    let Some(disk) = SmallDisk::new("one", 170) else { return };
    may_enter(&disk.0);
    let error = start(&[("folder", disk.path()), ("allow_tmpfs", "on")]).expect_err("there is no room");
    let told = error.to_string();
    assert!(told.starts_with("the standby could not be made: the disk of ") && told.contains("standby=1"), "{told}");
    assert_eq!(disk.left(), Vec::<PathBuf>::new());
}

#[test]
fn a_disk_that_fills_up_is_told_and_nothing_is_left() {
    let Some(disk) = SmallDisk::new("full", 400) else { return };
    may_enter(&disk.0);
    let pair = Pair::new(&[("folder", disk.path()), ("allow_tmpfs", "on")]);
    pair.refresh();
    let filler = disk.fill(4 << 20);
    // Both servers write to that disk. If the primary fails first, its client gets the error; if the standby does, its
    // watch.
    let mut primary = pair.on_primary();
    let grow = format!("insert into {TABLE} select pair_key + g * 10000, 1 from {TABLE}, generate_series(1, 2000) g");
    let told = primary.run(&grow).expect_err("two million rows do not fit").to_string();
    assert!(told.contains("No space left on device") || told.contains("connection"), "{told}");
    std::fs::remove_file(filler).unwrap();
    drop((primary, pair));
    assert_eq!(disk.left(), Vec::<PathBuf>::new());
}

#[test]
fn a_standby_whose_disk_is_full_is_told_by_its_watch() {
    let Some(disk) = SmallDisk::new("standby", 400) else { return };
    may_enter(&disk.0);
    let pair = Pair::new(&[("folder", disk.path()), ("allow_tmpfs", "on")]);
    pair.refresh();
    let mut watch = pair.database.freshness().unwrap().unwrap();
    watch.look().unwrap();
    // The receiver cannot make its next file, but the primary, whose files exist already, continues for a while.
    pair.on_standby().run("select pg_wal_replay_pause()").unwrap();
    let filler = disk.fill(0);
    let mut primary = pair.on_primary();
    let mut written = 0;
    until("somebody to notice the full disk", || {
        written += 1;
        let update = format!("update {TABLE} set pair_value = {written}");
        let is_refused = primary.run(&update).is_err();
        is_refused || watch.look().is_err() || watch_is_behind(&mut *watch)
    });
    std::fs::remove_file(filler).unwrap();
    // However that ended, both servers end and remove everything they had.
    let _ = pair.standby.signal(Signal::QUIT);
    drop((primary, watch, pair));
    assert_eq!(disk.left(), Vec::<PathBuf>::new());
}

/// Whether the standby lacks more log than one segment, which it would have if it could write.
fn watch_is_behind(watch: &mut dyn plimsoll_workload::freshness::CopyWatch) -> bool {
    watch.look().is_ok_and(|state| state.published - state.applied > 32 << 20)
}
