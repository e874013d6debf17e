//! Cache occupancy and memory traffic of resctrl groups, as the processor counts them.
//!
//! Every group's folder (the root, those for control, those for monitoring) has `mon_data` with a folder for each
//! last-level cache (kernel Documentation/filesystems/resctrl.rst). A value may be `Unavailable` while a counter settles,
//! or `Error`; a sum over caches is there only if every cache has its part.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::process::MountInfos;

use crate::host::Host;

/// What the caches count of one group up to one moment. Two of them make a [`MonitorUse`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MonitorSample {
    /// By the name of the cache's folder, `mon_L3_00`.
    caches: BTreeMap<String, CacheCounts>,
}

/// What one cache counts of one group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CacheCounts {
    occupancy_bytes: Option<u64>,
    total_bytes: Option<u64>,
    local_bytes: Option<u64>,
}

/// What a group held and moved. `None` is "not counted here, or not at that moment".
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MonitorUse {
    /// Bytes of all last-level caches that it held at the end.
    pub occupancy_bytes: Option<u64>,
    /// Megabytes (10^6 bytes) per second between these caches and memory.
    pub total_mb_s: Option<f64>,
    /// The part of them to memory of the same socket.
    pub local_mb_s: Option<f64>,
}

impl MonitorSample {
    /// Samples a group by its folder, absolute on the host. Empty if the folder has no monitoring data.
    pub fn read(host: &Host, group: &Path) -> MonitorSample {
        let folder = group.join("mon_data");
        let counts = |cache: String| {
            let value = |file: &str| host.value(folder.join(&cache).join(file));
            let counts = CacheCounts {
                occupancy_bytes: value("llc_occupancy"),
                total_bytes: value("mbm_total_bytes"),
                local_bytes: value("mbm_local_bytes"),
            };
            (cache, counts)
        };
        let caches = host.names(&folder).into_iter().filter(|name| name.starts_with("mon_L3_"));
        MonitorSample { caches: caches.map(counts).collect() }
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.caches.is_empty()
    }

    /// Bytes of all last-level caches that the group holds.
    pub fn occupancy_bytes(&self) -> Option<u64> {
        self.sum(|cache| cache.occupancy_bytes)
    }

    /// What happened in the `window` between `earlier` and this sample of the same group.
    pub fn since(&self, earlier: &MonitorSample, window: Duration) -> MonitorUse {
        let rate = |figure: fn(&CacheCounts) -> Option<u64>| {
            let (now, then) = (self.sum(figure)?, earlier.sum(figure)?);
            // A counter that went back began anew: the group was made again.
            let bytes = now.checked_sub(then)?;
            (!window.is_zero()).then(|| bytes as f64 / 1e6 / window.as_secs_f64())
        };
        MonitorUse {
            occupancy_bytes: self.occupancy_bytes(),
            total_mb_s: rate(|cache| cache.total_bytes),
            local_mb_s: rate(|cache| cache.local_bytes),
        }
    }

    fn sum(&self, figure: impl Fn(&CacheCounts) -> Option<u64>) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        self.caches.values().map(figure).sum()
    }
}

/// Where resctrl is mounted.
pub(crate) fn mounted(host: &Host) -> Option<PathBuf> {
    let mounts = host.parsed::<MountInfos>("/proc/self/mountinfo")?.0;
    mounts.into_iter().find(|mount| mount.fs_type == "resctrl").map(|mount| mount.mount_point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    const SECOND: Duration = Duration::from_secs(1);

    /// A group's figures in two caches.
    fn write(fake: &FakeHost, figures: [[&str; 3]; 2]) {
        for (cache, figures) in ["mon_L3_00", "mon_L3_01"].into_iter().zip(figures) {
            for (file, text) in ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"].into_iter().zip(figures) {
                fake.write(&format!("/sys/fs/resctrl/a/mon_data/{cache}/{file}"), text);
            }
        }
    }

    fn sample(fake: &FakeHost) -> MonitorSample {
        MonitorSample::read(&fake.host(), Path::new("/sys/fs/resctrl/a"))
    }

    #[test]
    fn two_caches_are_added_up() {
        let fake = FakeHost::new(&[]);
        write(&fake, [["100\n", "1000000\n", "5\n"], ["50\n", "0\n", "Unavailable\n"]]);
        let earlier = sample(&fake);
        write(&fake, [["300\n", "3000000\n", "6\n"], ["60\n", "1000000\n", "7\n"]]);
        let later = sample(&fake);
        let expect = MonitorUse { occupancy_bytes: Some(360), total_mb_s: Some(3.0), local_mb_s: None };
        assert_eq!(later.since(&earlier, SECOND), expect);
        assert_eq!(earlier.since(&later, SECOND).total_mb_s, None, "it went back");
        assert_eq!(later.since(&later, Duration::ZERO).total_mb_s, None);
    }

    #[test]
    fn a_value_that_is_unavailable_leaves_no_sum() {
        let fake = FakeHost::new(&[]);
        write(&fake, [["100\n", "1\n", "1\n"], ["Unavailable\n", "Error\n", "1\n"]]);
        assert_eq!(sample(&fake).occupancy_bytes(), None);
        assert_eq!(sample(&fake).since(&sample(&fake), SECOND).local_mb_s, Some(0.0));
        let none = MonitorSample::read(&fake.host(), Path::new("/sys/fs/resctrl/b"));
        assert!(none.is_empty() && none.since(&none, SECOND) == MonitorUse::default());
    }
}
