//! Which processes took the cores in a stretch of time.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::process_tree::stat::{Stat, from_ticks};
use crate::process_tree::tree;

/// The CPU time of every process so far.
#[derive(Debug, Clone)]
pub struct ProcessTimes {
    read_at: Instant,
    /// By id, each with its name.
    processes: BTreeMap<i32, (String, Stat)>,
}

/// Processes of one name that took cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusyProcesses {
    /// Their name as the kernel has it, of at most 15 characters.
    pub name: String,
    /// How many they are. A count.
    pub count: usize,
    /// The cores that they kept busy together, on average.
    pub cores: f64,
}

/// Processes that take less of a core are not named.
const CORES_MIN: f64 = 0.02;

impl ProcessTimes {
    /// Reads `/proc`. Takes some tens of microseconds for each process, so it is done outside of windows.
    pub fn read(host: &Host) -> ProcessTimes {
        let numbers = host.numbers("/proc").into_iter();
        let named = |process: i32| Some((process, Stat::read_named(host, format!("/proc/{process}/stat"))?));
        ProcessTimes { read_at: Instant::now(), processes: numbers.filter_map(named).collect() }
    }

    /// The processes that took cores since an earlier reading, the busiest first. Those in `ours` and their descendants are left
    /// out. What began and ended in between is not seen.
    pub fn busiest_since(&self, earlier: &ProcessTimes, ours: &[i32]) -> Vec<BusyProcesses> {
        let length_s = self.read_at.duration_since(earlier.read_at).as_secs_f64();
        self.busiest_within(length_s, earlier, ours)
    }

    /// As [`busiest_since`](Self::busiest_since), and what began and ended in between counts for the process that waited for it: the
    /// compilers of a build count for the build's program.
    pub fn busiest_with_ended_since(&self, earlier: &ProcessTimes, ours: &[i32]) -> Vec<BusyProcesses> {
        let with_ended =
            |times: &ProcessTimes| ProcessTimes { processes: times.with_ended(earlier, self), ..times.clone() };
        let (now, then) = (with_ended(self), with_ended(earlier));
        now.busiest_within(self.read_at.duration_since(earlier.read_at).as_secs_f64(), &then, ours)
    }

    /// The processes with the time of those that ended between two readings. At the earlier reading the latter were there: their time
    /// counts for their parents.
    fn with_ended(&self, earlier: &ProcessTimes, later: &ProcessTimes) -> BTreeMap<i32, (String, Stat)> {
        let mut all = self.processes.clone();
        all.values_mut().for_each(|(_, stat)| stat.cpu_ticks += stat.children_ticks);
        let is_there =
            |process: &i32, stat: &Stat| later.processes.get(process).is_some_and(|(_, now)| now.began == stat.began);
        if std::ptr::eq(self, earlier) {
            for (process, (_, stat)) in self.processes.iter().filter(|(process, (_, stat))| !is_there(process, stat)) {
                // Orphans are waited for by another process, which is not known.
                if let Some((_, parent)) = all.get_mut(&stat.parent).filter(|_| stat.parent != *process) {
                    parent.cpu_ticks += stat.cpu_ticks + stat.children_ticks;
                }
            }
        }
        all
    }

    /// The cores that processes and their descendants kept busy since an earlier reading, those that ended in between included;
    /// `None` if no time has passed.
    pub fn cores_since(&self, earlier: &ProcessTimes, roots: &[i32]) -> Option<f64> {
        let length_s = self.read_at.duration_since(earlier.read_at).as_secs_f64();
        // Time of a process that has ended is in its parent's total: the sum over the tree never falls.
        let ticks = |times: &ProcessTimes| -> u64 {
            let of = tree(times.processes.iter().map(|(process, (_, stat))| (*process, stat.parent)), roots);
            let stats = of.iter().filter_map(|process| times.processes.get(process));
            stats.map(|(_, stat)| stat.cpu_ticks + stat.children_ticks).sum()
        };
        let used = ticks(self).saturating_sub(ticks(earlier));
        (length_s > 0.0).then(|| from_ticks(used).as_secs_f64() / length_s)
    }

    fn busiest_within(&self, length_s: f64, earlier: &ProcessTimes, ours: &[i32]) -> Vec<BusyProcesses> {
        if length_s <= 0.0 {
            return Vec::new();
        }
        let ours = tree(self.processes.iter().map(|(process, (_, stat))| (*process, stat.parent)), ours);
        let mut by_name: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for (process, (name, stat)) in self.processes.iter().filter(|(process, _)| !ours.contains(process)) {
            // The time of its beginning distinguishes it from an earlier process of the same number.
            let before = earlier.processes.get(process).filter(|(_, before)| before.began == stat.began);
            let ticks = stat.cpu_ticks.saturating_sub(before.map_or(0, |(_, before)| before.cpu_ticks));
            if ticks > 0 {
                let (count, sum) = by_name.entry(name).or_default();
                *count += 1;
                *sum += ticks;
            }
        }
        let busy = by_name.into_iter().map(|(name, (count, ticks))| BusyProcesses {
            name: name.to_owned(),
            count,
            cores: from_ticks(ticks).as_secs_f64() / length_s,
        });
        let mut busy: Vec<BusyProcesses> = busy.filter(|busy| busy.cores >= CORES_MIN).collect();
        busy.sort_by(|a, b| b.cores.total_cmp(&a.cores));
        busy
    }
}

#[cfg(test)]
mod tests {
    use rustix::param::clock_ticks_per_second;

    use super::*;
    use crate::host::fake::FakeHost;

    fn stat(process: i32, name: &str, parent: i32, started: u64, ticks: u64) -> (String, String) {
        let text = format!("{process} ({name}) R {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {started} 0 0");
        (format!("/proc/{process}/stat"), text)
    }

    #[test]
    fn the_busiest_come_first_and_ours_are_left_out() {
        let fake = FakeHost::new(&[]);
        let set = |all: &[(i32, &str, i32, u64, u64)]| {
            for (process, name, parent, started, ticks) in all {
                let (path, text) = stat(*process, name, *parent, *started, *ticks);
                fake.write(&path, &text);
            }
            ProcessTimes::read(&fake.host())
        };
        let per_s = clock_ticks_per_second();
        let before = set(&[
            (10, "plimsoll", 1, 5, 0),
            (11, "hog", 10, 6, 0),
            (20, "yes", 1, 5, 100),
            (21, "yes", 1, 5, 100),
            (30, "a (b) c", 1, 5, 900),
            (40, "idle", 1, 5, 7),
        ]);
        let after = set(&[
            (10, "plimsoll", 1, 5, per_s),
            (11, "hog", 10, 6, per_s),
            (20, "yes", 1, 5, 100 + 2 * per_s),
            (21, "yes", 1, 5, 100 + per_s),
            // The number was given to another process.
            (30, "a (b) c", 1, 9, per_s / 2),
            (40, "idle", 1, 5, 7),
        ]);
        let named = |name: &str, count, cores| BusyProcesses { name: name.to_owned(), count, cores };
        assert_eq!(after.busiest_within(2.0, &before, &[10]), [named("yes", 2, 1.5), named("a (b) c", 1, 0.25)]);
        assert_eq!(after.busiest_within(0.0, &before, &[10]), []);
    }

    #[test]
    fn processes_that_ended_count_for_those_that_waited_for_them() {
        let per_s = clock_ticks_per_second();
        let stat = |process: i32, name: &str, parent: i32, ticks: u64, children: u64| {
            let text =
                format!("{process} ({name}) R {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 {children} 0 20 0 1 0 5 0 0");
            (format!("/proc/{process}/stat"), text)
        };
        let read = |all: &[(i32, &str, i32, u64, u64)], at: Instant| {
            let files: Vec<(String, String)> = all.iter().map(|one| stat(one.0, one.1, one.2, one.3, one.4)).collect();
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
            ProcessTimes { read_at: at, ..ProcessTimes::read(&FakeHost::new(&files).host()) }
        };
        let now = Instant::now();
        // A compiler that had computed for 3 s ends after one more second; another one comes and goes with 2 s.
        let before = read(&[(10, "make", 1, 0, 0), (11, "cc", 10, 3 * per_s, 0), (20, "postgres", 1, 0, 0)], now);
        let after = read(
            &[(10, "make", 1, 0, 6 * per_s), (20, "postgres", 1, per_s, 4 * per_s)],
            now + std::time::Duration::from_secs(2),
        );
        let make = BusyProcesses { name: "make".to_owned(), count: 1, cores: 1.5 };
        assert_eq!(after.busiest_with_ended_since(&before, &[20]), [make]);
        assert_eq!(after.cores_since(&before, &[20]), Some(2.5));
        assert_eq!(after.cores_since(&before, &[10]), Some(1.5));
        assert_eq!(after.cores_since(&after, &[10]), None);
    }

    #[test]
    fn a_busy_process_of_this_machine_is_seen() {
        let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let before = ProcessTimes::read(&Host::real());
        let process = busy.id().cast_signed();
        // Other tests of this process run `sh`, too.
        let is_seen = |later: &ProcessTimes| later.busiest_since(&before, &[]).iter().any(|one| one.name == "sh");
        let seen = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            is_seen(&ProcessTimes::read(&Host::real()))
        });
        let later = ProcessTimes::read(&Host::real());
        let by_us = later.busiest_since(&before, &[process, std::process::id().cast_signed()]);
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(seen, "{later:?}");
        assert!(!by_us.iter().any(|one| one.name == "sh" && one.cores > 0.9), "{by_us:?}");
    }
}
