//! Where the time of a process and all its descendants goes: running, waiting for a core, waiting for block I/O.
//!
//! Two [`TreeSample`]s make a [`TreeUse`]. The second is taken with [`again`](TreeSample::again), so that processes whose
//! parent ended in between stay in the tree. Threads and processes may come and go while they are watched:
//! - those that came are counted from their beginning;
//! - of threads that ended, the CPU time is in the total of their process, and of processes that ended and were waited
//!   for, in that of their parent; both totals have a grain of 10 ms, and less than 20 ms per process is not told from
//!   rounding. A process that nobody waited for takes its last CPU time with it;
//! - what they waited after the first sample is lost, for the kernel adds that up for nobody.

mod delay;
pub(crate) mod stat;

use std::collections::BTreeMap;
use std::time::Duration;

use procfs::process::Schedstat;

pub use self::delay::DelayAccounting;
use self::stat::{Stat, from_ticks};
use crate::cpu_time::ThreadTimes;
use crate::host::Host;

/// The times of a process and its descendants up to one moment.
#[derive(Debug, Clone)]
pub struct TreeSample {
    host: Host,
    root: Key,
    /// When it was taken, in clock ticks since boot.
    at: Option<u64>,
    accounting: DelayAccounting,
    processes: BTreeMap<Key, Process>,
}

/// A process or thread. The kernel gives ids away again, so that only the time at which it began makes it certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    id: i32,
    /// In clock ticks since boot.
    began: u64,
}

#[derive(Debug, Clone)]
struct Process {
    parent: i32,
    /// CPU time of all its threads, ended ones included.
    cpu_ticks: u64,
    /// CPU time of children that ended and were waited for, and theirs.
    children_ticks: u64,
    /// Bytes read from and written to storage; `None` if we may not know.
    storage_bytes: Option<u64>,
    threads: BTreeMap<Key, Thread>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    times: ThreadTimes,
    block_io_ticks: u64,
}

/// Where the time of a tree went in a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TreeUse {
    /// Processes alive at the end.
    pub processes: usize,
    /// Their threads alive at the end.
    pub threads: usize,
    /// The time that these threads lived within the window, summed: what the parts below divide.
    pub lived: Duration,
    /// On a core, of threads alive at the end.
    pub run: Duration,
    /// On a core, of threads and processes that ended within the window, as far as their totals tell.
    pub run_ended: Duration,
    /// Runnable, waiting for a core; `None` if the kernel does not keep it.
    pub wait: Option<Duration>,
    /// Waiting for block I/O; `None` if the kernel did not measure it.
    pub block_io: Option<Duration>,
    /// The rest of what they lived: asleep, or waiting for something else. Where a part is `None`, it is in here.
    pub rest: Duration,
    /// Why a part is `None`, and what else a reader must know.
    pub notes: Vec<String>,
}

/// Differences of CPU totals below this are rounding: two figures (user, system) of one tick each.
const GRAIN_TICKS: u64 = 2;

impl TreeSample {
    /// Samples the process with the id `root`, and its descendants. `None` if there is no such process.
    pub fn read(host: &Host, root: i32) -> Option<TreeSample> {
        let at = now(host);
        let stats = all_processes(host);
        let root = Key { id: root, began: stats.get(&root)?.began };
        Some(TreeSample::of(host, root, &[root], at, &stats))
    }

    /// Samples the same tree again: what is left of it, and every descendant that came since. Empty once all have ended.
    pub fn again(&self) -> TreeSample {
        let known: Vec<Key> = self.processes.keys().copied().collect();
        let at = now(&self.host);
        TreeSample::of(&self.host, self.root, &known, at, &all_processes(&self.host))
    }

    /// `at` is from before the processes were listed, so that what is not in the list and began earlier was never in the
    /// tree.
    fn of(host: &Host, root: Key, known: &[Key], at: Option<u64>, stats: &BTreeMap<i32, Stat>) -> TreeSample {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (id, stat) in stats {
            children.entry(stat.parent).or_default().push(*id);
        }
        let is_there = |key: &&Key| stats.get(&key.id).is_some_and(|stat| stat.began == key.began);
        let mut todo: Vec<i32> = known.iter().filter(is_there).map(|key| key.id).collect();
        let mut processes = BTreeMap::new();
        while let Some(id) = todo.pop() {
            let Some(stat) = stats.get(&id) else { continue };
            let key = Key { id, began: stat.began };
            if processes.contains_key(&key) {
                continue;
            }
            todo.extend(children.get(&id).into_iter().flatten());
            processes.insert(key, Process::read(host, id, stat));
        }
        TreeSample { host: host.clone(), root, at, accounting: DelayAccounting::read(host), processes }
    }

    /// Whether the process at the root is still there.
    pub fn is_alive(&self) -> bool {
        self.processes.contains_key(&self.root)
    }

    /// The ids of the processes.
    pub fn processes(&self) -> Vec<i32> {
        self.processes.keys().map(|key| key.id).collect()
    }

    /// The ids of all threads, by process.
    pub fn threads(&self) -> Vec<i32> {
        self.processes.values().flat_map(|process| process.threads.keys().map(|key| key.id)).collect()
    }

    /// Whether the kernel keeps the times of threads. One that does not writes zeros.
    pub(crate) fn keeps_times(&self) -> bool {
        let mut threads = self.processes.values().flat_map(|process| process.threads.values());
        threads.any(|thread| !thread.times.run.is_zero())
    }

    /// Where time went in the `window` between `earlier` and this sample of the same tree.
    pub fn since(&self, earlier: &TreeSample, window: Duration) -> TreeUse {
        let mut usage = TreeUse { processes: self.processes.len(), ..TreeUse::default() };
        let (mut wait, mut block_io_ticks, mut strangers) = (Duration::ZERO, 0, 0);
        for (key, now) in &self.processes {
            usage.threads += now.threads.len();
            let then = earlier.processes.get(key);
            if then.is_none() && !earlier.is_before(key.began) {
                strangers += 1;
                continue;
            }
            let mut run = Duration::ZERO;
            for (thread, now) in &now.threads {
                let then = match then.and_then(|then| then.threads.get(thread)) {
                    Some(then) => *then,
                    None if earlier.is_before(thread.began) => Thread::default(),
                    // It was there and could not be read, so that its time before is not known.
                    None => continue,
                };
                let times = now.times.since(then.times);
                run += times.run;
                wait += times.wait;
                block_io_ticks += now.block_io_ticks.saturating_sub(then.block_io_ticks);
                usage.lived += self.age(thread.began).map_or(window, |age| age.min(window));
            }
            usage.run += run;
            let total = from_ticks(now.cpu_ticks.saturating_sub(then.map_or(0, |then| then.cpu_ticks)));
            let of_ended = total.saturating_sub(run);
            if of_ended > from_ticks(GRAIN_TICKS) {
                usage.run_ended += of_ended;
            }
        }
        usage.run_ended += self.run_of_ended_processes(earlier);
        if strangers > 0 {
            usage.notes.push(format!(
                "processes that were adopted into the tree, and whose time before that is unknown: {strangers}"
            ));
        }
        self.judge_wait(wait, earlier, &mut usage);
        match delay::block_io(earlier, self, from_ticks(block_io_ticks)) {
            Ok(block_io) => usage.block_io = Some(block_io),
            Err(why) => usage.notes.push(why),
        }
        let told = usage.run + usage.wait.unwrap_or_default() + usage.block_io.unwrap_or_default();
        usage.rest = usage.lived.saturating_sub(told);
        usage
    }

    /// On a kernel that keeps no times of threads, their run time is in the totals of their processes alone.
    fn judge_wait(&self, wait: Duration, earlier: &TreeSample, usage: &mut TreeUse) {
        if self.keeps_times() || earlier.keeps_times() {
            usage.wait = Some(wait);
        } else if usage.threads > 0 {
            usage.run = std::mem::take(&mut usage.run_ended);
            usage.notes.push("the kernel keeps no waiting times of threads (schedstat)".to_owned());
        }
    }

    /// CPU time of processes that ended since `earlier`, as their ancestors were told when they waited for them: each
    /// ancestor's sum for children has grown by all that its children, and theirs, had used in their whole life, of which
    /// what was known earlier is not of this window.
    fn run_of_ended_processes(&self, earlier: &TreeSample) -> Duration {
        let mut known: BTreeMap<Key, u64> = BTreeMap::new();
        let by_id: BTreeMap<i32, Key> = earlier.processes.keys().map(|key| (key.id, *key)).collect();
        for (key, ended) in earlier.processes.iter().filter(|(key, _)| !self.processes.contains_key(key)) {
            let mut ancestor = by_id.get(&ended.parent);
            // A process is never its own ancestor in one sample, but ids may have been given anew while it was read.
            let mut steps = earlier.processes.len();
            while let Some(above) = ancestor.filter(|above| !self.processes.contains_key(above) && steps > 0) {
                ancestor = by_id.get(&earlier.processes[above].parent);
                steps -= 1;
            }
            if let Some(above) = ancestor.filter(|above| *above != key) {
                *known.entry(*above).or_default() += ended.cpu_ticks + ended.children_ticks;
            }
        }
        let of_children = |(key, now): (&Key, &Process)| {
            let then = match earlier.processes.get(key) {
                Some(then) => then.children_ticks,
                None if earlier.is_before(key.began) => 0,
                None => return 0,
            };
            now.children_ticks.saturating_sub(then).saturating_sub(known.get(key).copied().unwrap_or(0))
        };
        from_ticks(self.processes.iter().map(of_children).sum())
    }

    /// Whether something that began at this tick began after the sample was taken. Where the time of the sample is not
    /// known, what is new in a tree is taken to be new altogether.
    fn is_before(&self, began: u64) -> bool {
        self.at.is_none_or(|at| began >= at)
    }

    /// How long ago something began.
    fn age(&self, began: u64) -> Option<Duration> {
        Some(from_ticks(self.at?.saturating_sub(began)))
    }
}

impl Process {
    fn read(host: &Host, id: i32, stat: &Stat) -> Process {
        let thread = |name: String| {
            let folder = format!("/proc/{id}/task/{name}");
            let stat = Stat::read(host, format!("{folder}/stat"))?;
            let times = host.parsed::<Schedstat>(format!("{folder}/schedstat")).map(|kept| ThreadTimes {
                run: Duration::from_nanos(kept.sum_exec_runtime),
                wait: Duration::from_nanos(kept.run_delay),
            });
            let times = times.unwrap_or_default();
            let key = Key { id: name.parse().ok()?, began: stat.began };
            Some((key, Thread { times, block_io_ticks: stat.block_io_ticks }))
        };
        let threads = host.names(format!("/proc/{id}/task")).into_iter().filter_map(thread).collect();
        // The total is read after the threads, so that it holds what they were seen to have used.
        let stat = Stat::read(host, format!("/proc/{id}/stat")).filter(|now| now.began == stat.began).unwrap_or(*stat);
        let io = |key: &str| host.line_value(format!("/proc/{id}/io"), key);
        Process {
            parent: stat.parent,
            cpu_ticks: stat.cpu_ticks,
            children_ticks: stat.children_ticks,
            storage_bytes: io("read_bytes").zip(io("write_bytes")).map(|(read, written)| read + written),
            threads,
        }
    }
}

/// Every process that can be seen, by its id.
fn all_processes(host: &Host) -> BTreeMap<i32, Stat> {
    let ids = host.names("/proc").into_iter().filter_map(|name| name.parse::<i32>().ok());
    ids.filter_map(|id| Some((id, Stat::read(host, format!("/proc/{id}/stat"))?))).collect()
}

/// Clock ticks since boot, of the clock by which the kernel says when a process began.
fn now(host: &Host) -> Option<u64> {
    let uptime: f64 = host.text("/proc/uptime")?.split_whitespace().next()?.parse().ok()?;
    Some((uptime * procfs::ticks_per_second() as f64).round() as u64)
}

#[cfg(test)]
mod tests;
