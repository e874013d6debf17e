//! The CPU time of processes and all their descendants.
//!
//! Two [`TreeSample`]s make a [`TreeUse`]. The second is taken with [`again`](TreeSample::again), so that processes whose
//! parent ended in between stay in the tree. Threads and processes may come and go while they are watched:
//! - new ones are counted from their beginning;
//! - the CPU time of ended threads is in the total of their process, and that of ended processes in the total of the
//!   parent that waited for them. Both totals have a grain of 10 ms, and less than 20 ms per process counts as
//!   rounding. If no parent waited for an ended process, its last CPU time is lost.

pub(crate) mod stat;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use procfs::process::Schedstat;

use self::stat::{Stat, from_ticks};
use crate::host::Host;
use crate::process_identity::ProcessIdentity;

/// The times of processes and their descendants up to one moment.
#[derive(Debug, Clone)]
pub struct TreeSample {
    host: Host,
    /// When it was taken, in clock ticks since boot.
    at: Option<u64>,
    processes: BTreeMap<ProcessIdentity, Process>,
}

#[derive(Debug, Clone)]
struct Process {
    parent: i32,
    /// CPU time of all its threads, including ended ones.
    cpu_ticks: u64,
    /// CPU time of descendants that ended and were waited for.
    children_ticks: u64,
    /// Time on a core of those of its threads that are alive.
    threads: BTreeMap<ProcessIdentity, Duration>,
}

/// CPU time of a tree between two samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TreeUse {
    /// On a core, of threads alive at the end.
    pub run: Duration,
    /// On a core, of threads and processes that ended within the window, according to the totals.
    pub run_ended: Duration,
    /// Caveats for the reader.
    pub notes: Vec<String>,
}

/// Differences of CPU totals below this are rounding: two figures (user, system) of one tick each.
const GRAIN_TICKS: u64 = 2;

impl TreeSample {
    /// Samples the processes with these ids, and their descendants. `None` if there are no such processes.
    pub fn read(host: &Host, roots: &[i32]) -> Option<TreeSample> {
        let at = now(host);
        let stats = all_processes(host);
        let known = roots.iter().filter_map(|id| Some(ProcessIdentity { id: *id, began: stats.get(id)?.began }));
        let known: Vec<ProcessIdentity> = known.collect();
        (!known.is_empty()).then(|| TreeSample::of(host, &known, at, &stats))
    }

    /// Samples the same tree again: its remaining processes, and all new descendants. Empty once all have ended.
    pub fn again(&self) -> TreeSample {
        let known: Vec<ProcessIdentity> = self.processes.keys().copied().collect();
        let at = now(&self.host);
        TreeSample::of(&self.host, &known, at, &all_processes(&self.host))
    }

    /// `at` precedes the listing, so a process that began earlier and is not in the list was never in the tree.
    fn of(host: &Host, known: &[ProcessIdentity], at: Option<u64>, stats: &BTreeMap<i32, Stat>) -> TreeSample {
        let is_there = |key: &&ProcessIdentity| stats.get(&key.id).is_some_and(|stat| stat.began == key.began);
        let roots: Vec<i32> = known.iter().filter(is_there).map(|key| key.id).collect();
        let process = |id: i32| {
            let stat = stats.get(&id)?;
            Some((ProcessIdentity { id, began: stat.began }, Process::read(host, id, stat)))
        };
        let tree = tree(parents(stats), &roots);
        TreeSample { host: host.clone(), at, processes: tree.into_iter().filter_map(process).collect() }
    }

    /// The ids of the processes.
    pub fn processes(&self) -> Vec<i32> {
        self.processes.keys().map(|key| key.id).collect()
    }

    /// Whether the kernel keeps the times of threads. One that does not writes zeros.
    pub(crate) fn keeps_times(&self) -> bool {
        let mut threads = self.processes.values().flat_map(|process| process.threads.values());
        threads.any(|run| !run.is_zero())
    }

    /// The CPU time between `earlier` and this sample of the same tree.
    pub fn since(&self, earlier: &TreeSample) -> TreeUse {
        let mut usage = TreeUse::default();
        let mut strangers = 0;
        for (key, now) in &self.processes {
            let then = earlier.processes.get(key);
            if then.is_none() && !earlier.is_before(key.began) {
                strangers += 1;
                continue;
            }
            let mut run = Duration::ZERO;
            for (thread, now) in &now.threads {
                let then = match then.and_then(|then| then.threads.get(thread)) {
                    Some(then) => *then,
                    None if earlier.is_before(thread.began) => Duration::ZERO,
                    // It existed but could not be read, so its earlier time is unknown.
                    None => continue,
                };
                run += now.saturating_sub(then);
            }
            usage.run += run;
            let total = from_ticks(now.cpu_ticks.saturating_sub(then.map_or(0, |then| then.cpu_ticks)));
            let of_ended = total.saturating_sub(run);
            if of_ended > from_ticks(GRAIN_TICKS) {
                usage.run_ended += of_ended;
            }
        }
        usage.run_ended += self.run_of_ended_processes(earlier);
        // On a kernel that keeps no times of threads, their run time is in the totals of their processes alone.
        if !self.keeps_times() && !earlier.keeps_times() {
            usage.run = std::mem::take(&mut usage.run_ended);
        }
        if strangers > 0 {
            usage.notes.push(format!(
                "processes that were adopted into the tree, and whose time before that is unknown: {strangers}"
            ));
        }
        usage
    }

    /// CPU time of processes that ended since `earlier`, as the kernel reported it to the ancestors that waited for
    /// them: each ancestor's sum for children has grown by the lifetime use of its ended descendants. The part known at
    /// `earlier` is not of this window.
    fn run_of_ended_processes(&self, earlier: &TreeSample) -> Duration {
        let mut known: BTreeMap<ProcessIdentity, u64> = BTreeMap::new();
        let by_id: BTreeMap<i32, ProcessIdentity> = earlier.processes.keys().map(|key| (key.id, *key)).collect();
        for (key, ended) in earlier.processes.iter().filter(|(key, _)| !self.processes.contains_key(key)) {
            let mut ancestor = by_id.get(&ended.parent);
            // A process is never its own ancestor in one sample, but ids may have been reused while it was read.
            let mut steps = earlier.processes.len();
            while let Some(above) = ancestor.filter(|above| !self.processes.contains_key(above) && steps > 0) {
                ancestor = by_id.get(&earlier.processes[above].parent);
                steps -= 1;
            }
            if let Some(above) = ancestor.filter(|above| *above != key) {
                *known.entry(*above).or_default() += ended.cpu_ticks + ended.children_ticks;
            }
        }
        let of_children = |(key, now): (&ProcessIdentity, &Process)| {
            let then = match earlier.processes.get(key) {
                Some(then) => then.children_ticks,
                None if earlier.is_before(key.began) => 0,
                None => return 0,
            };
            now.children_ticks.saturating_sub(then).saturating_sub(known.get(key).copied().unwrap_or(0))
        };
        from_ticks(self.processes.iter().map(of_children).sum())
    }

    /// Whether the sample was taken before this tick. If the time of the sample is unknown, every process that is new
    /// in the tree counts as newly begun.
    fn is_before(&self, began: u64) -> bool {
        self.at.is_none_or(|at| began >= at)
    }
}

impl Process {
    fn read(host: &Host, id: i32, stat: &Stat) -> Process {
        let thread = |thread: i32| {
            let folder = format!("/proc/{id}/task/{thread}");
            let stat = Stat::read(host, format!("{folder}/stat"))?;
            let kept = host.parsed::<Schedstat>(format!("{folder}/schedstat"));
            let run = Duration::from_nanos(kept.map_or(0, |kept| kept.sum_exec_runtime));
            Some((ProcessIdentity { id: thread, began: stat.began }, run))
        };
        let threads = host.numbers(format!("/proc/{id}/task")).into_iter().filter_map(thread).collect();
        // The total is read after the threads, so that it includes their times.
        let stat = Stat::read(host, format!("/proc/{id}/stat")).filter(|now| now.began == stat.began).unwrap_or(*stat);
        Process { parent: stat.parent, cpu_ticks: stat.cpu_ticks, children_ticks: stat.children_ticks, threads }
    }
}

/// Every process that can be seen, by its id.
fn all_processes(host: &Host) -> BTreeMap<i32, Stat> {
    let process = |id: i32| Some((id, Stat::read(host, format!("/proc/{id}/stat"))?));
    host.numbers("/proc").into_iter().filter_map(process).collect()
}

/// Each process with its parent.
fn parents(stats: &BTreeMap<i32, Stat>) -> impl Iterator<Item = (i32, i32)> {
    stats.iter().map(|(id, stat)| (*id, stat.parent))
}

/// These processes and their descendants among processes that are given with their parents. A descendant whose parent
/// has ended is not found.
pub(crate) fn tree(parents: impl Iterator<Item = (i32, i32)>, roots: &[i32]) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (process, parent) in parents {
        children.entry(parent).or_default().push(process);
    }
    let mut found = BTreeSet::new();
    let mut next = roots.to_vec();
    // Ids that are used again while we read could make a circle: each process is followed once.
    while let Some(process) = next.pop() {
        if found.insert(process) {
            next.extend(children.get(&process).into_iter().flatten());
        }
    }
    found
}

/// These processes and their present descendants.
pub(crate) fn tree_of(host: &Host, roots: &[i32]) -> BTreeSet<i32> {
    tree(parents(&all_processes(host)), roots)
}

/// Clock ticks since boot, of the clock by which the kernel says when a process began.
fn now(host: &Host) -> Option<u64> {
    let uptime: f64 = host.text("/proc/uptime")?.split_whitespace().next()?.parse().ok()?;
    Some((uptime * procfs::ticks_per_second() as f64).round() as u64)
}

#[cfg(test)]
mod tests;
