//! The fake as a folder: changes to the files of a host go to the fake, and the fake's state is written to files. A
//! test thus covers the whole path from a limit to the kernel, and undoing by the restore journal.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::FakeKernel;
use crate::change::Changes;
use crate::groups::resctrl::ResctrlFiles;

/// A folder that shows what a fake kernel has.
pub struct Mirror {
    kernel: Arc<FakeKernel>,
    /// Where it is mounted, on this machine.
    mount: PathBuf,
    /// The text written to each file; `None` for folders.
    written: Mutex<BTreeMap<String, Option<String>>>,
}

impl Mirror {
    /// Shows the kernel at a folder of this machine, which is made if it is not there.
    pub fn of(kernel: Arc<FakeKernel>, mount: impl Into<PathBuf>) -> Mirror {
        let mirror = Mirror { kernel, mount: mount.into(), written: Mutex::default() };
        mirror.show();
        mirror
    }

    /// Whether a path of this machine is in that folder.
    pub fn has(&self, path: &Path) -> bool {
        path.starts_with(&self.mount)
    }

    /// Writes everything that the kernel shows to the folder. Changes through the mirror are shown at once; those that are made to the
    /// kernel itself are not.
    ///
    /// # Panics
    /// If the folder cannot be written to.
    pub fn show(&self) {
        let mut now = BTreeMap::new();
        self.collect("", &mut now);
        let mut written = self.written.lock().expect("no test panics while it holds the lock");
        // The content of a folder follows the folder, so in reverse order it is removed before the folder.
        for (path, text) in written.iter().rev().filter(|(path, _)| !now.contains_key(*path)) {
            let path = self.mount.join(path);
            let removed = if text.is_some() { std::fs::remove_file(&path) } else { std::fs::remove_dir(&path) };
            removed.unwrap_or_else(|error| panic!("cannot remove {}: {error}", path.display()));
        }
        for (path, text) in now.iter().filter(|(path, text)| written.get(*path) != Some(text)) {
            let path = self.mount.join(path);
            let shown = if let Some(text) = text { replace(&path, text) } else { std::fs::create_dir_all(&path) };
            shown.unwrap_or_else(|error| panic!("cannot show {}: {error}", path.display()));
        }
        *written = now;
    }

    fn collect(&self, folder: &str, found: &mut BTreeMap<String, Option<String>>) {
        const FILES: [&str; 14] = [
            "tasks",
            "schemata",
            "size",
            "last_cmd_status",
            "num_closids",
            "cbm_mask",
            "min_cbm_bits",
            "shareable_bits",
            "sparse_masks",
            "min_bandwidth",
            "bandwidth_gran",
            "num_rmids",
            "mon_features",
            "max_threshold_occupancy",
        ];
        const COUNTERS: [&str; 3] = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];
        found.insert(folder.to_owned(), None);
        let below = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        for path in FILES.iter().chain(&COUNTERS).map(|name| below(name)) {
            if let Ok(text) = self.kernel.read(&path) {
                found.insert(path, Some(text));
            }
        }
        // The folders of counters and of `info` have none below, and the fake knows none there.
        for name in self.kernel.folders(folder).unwrap_or_default() {
            self.collect(&below(&name), found);
        }
    }

    fn path<'a>(&self, path: &'a Path) -> io::Result<&'a str> {
        let inside = path.strip_prefix(&self.mount).ok().and_then(Path::to_str);
        inside.ok_or_else(|| io::Error::other(format!("{} is not in resctrl", path.display())))
    }

    fn shown(&self, outcome: io::Result<()>) -> io::Result<()> {
        self.show();
        outcome
    }
}

/// Replaces a file's text atomically, because other threads may be reading it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, path)
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Mirror").field("mount", &self.mount).finish_non_exhaustive()
    }
}

impl Changes for Mirror {
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.shown(self.kernel.write(self.path(path)?, text))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.shown(self.kernel.make_group(self.path(path)?))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.shown(self.kernel.remove_group(self.path(path)?))
    }
}
