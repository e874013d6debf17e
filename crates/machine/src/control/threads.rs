//! The threads of processes: which there are, since when, and what they may run on.

use procfs::process::Stat;

use super::ControlError;
use crate::host::{Host, parse_core_list};

/// One thread, as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thread {
    pub id: i32,
    /// Clock ticks since boot.
    pub started: u64,
    pub nice: i32,
    /// Where it may run.
    pub cores: Vec<usize>,
    /// Where it runs, or ran last.
    pub core: Option<usize>,
}

/// The threads of a process that have not ended, the first thread last; none if there is no such process.
///
/// The order is for those who note each thread: undone in reverse, what the first thread passes on to threads that came
/// later is set before what each thread had for itself.
pub(crate) fn threads(host: &Host, process: i32) -> Vec<Thread> {
    let mut ids = thread_ids(host, process);
    ids.sort_by_key(|id| (*id == process, *id));
    ids.into_iter().filter_map(|id| thread(host, process, id)).collect()
}

/// The ids of the threads of a process, those that are ending among them.
pub(crate) fn thread_ids(host: &Host, process: i32) -> Vec<i32> {
    host.names(format!("/proc/{process}/task")).iter().filter_map(|name| name.parse().ok()).collect()
}

fn thread(host: &Host, process: i32, id: i32) -> Option<Thread> {
    let folder = format!("/proc/{process}/task/{id}");
    let stat: Stat = host.parsed(format!("{folder}/stat"))?;
    if matches!(stat.state, 'Z' | 'X' | 'x') {
        return None;
    }
    let status = host.text(format!("{folder}/status"))?;
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(Thread {
        id,
        started: stat.starttime,
        nice: stat.nice as i32,
        cores: parse_core_list(cores.trim())?,
        core: stat.processor.and_then(|core| core.try_into().ok()),
    })
}

/// When a thread or process began, in clock ticks since boot; `None` if it has ended.
pub(crate) fn started(host: &Host, thread: i32) -> Option<u64> {
    let stat: Stat = host.parsed(format!("/proc/{thread}/task/{thread}/stat"))?;
    (!matches!(stat.state, 'X' | 'x')).then_some(stat.starttime)
}

/// The process that began a process. The name in `stat` is in parentheses and may hold anything, so the fields are counted
/// from the last one.
pub(crate) fn parent(host: &Host, process: i32) -> Option<i32> {
    let stat = std::fs::read(host.path(format!("/proc/{process}/stat"))).ok()?;
    String::from_utf8_lossy(&stat).rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Processes that have not ended.
pub(crate) fn living(host: &Host, processes: &[i32]) -> Vec<i32> {
    let lives = |process: &&i32| {
        let stat: Option<Stat> = host.parsed(format!("/proc/{process}/stat"));
        stat.is_some_and(|stat| !matches!(stat.state, 'Z' | 'X' | 'x'))
    };
    processes.iter().filter(lives).copied().collect()
}

/// The children of a process, and theirs, as long as those between have not ended.
pub(crate) fn descendants(host: &Host, process: i32) -> Vec<i32> {
    let numbers = host.names("/proc").into_iter().filter_map(|name| name.parse::<i32>().ok());
    let pairs: Vec<(i32, i32)> = numbers.filter_map(|child| Some((child, parent(host, child)?))).collect();
    let mut found = vec![process];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(pairs.iter().filter(|pair| pair.1 == parent && pair.0 != process).map(|pair| pair.0));
        next += 1;
    }
    found.split_off(1)
}

/// The present moment in the unit of threads' start times: clock ticks since boot, 100 per second in user space on every machine.
pub(crate) fn ticks_now(host: &Host) -> Option<u64> {
    let uptime: f64 = host.text("/proc/uptime")?.split_whitespace().next()?.parse().ok()?;
    Some((uptime * 100.0).floor() as u64)
}

/// Brings every thread of living processes to a state, by `change`, which does nothing to threads that are in it and
/// tells whether it did something.
///
/// Threads may begin while we look, from threads that we have not come to. So it looks again until all are as wanted.
pub(crate) fn bring_all(
    host: &Host,
    processes: &[i32],
    mut change: impl FnMut(i32, &Thread) -> Result<bool, ControlError>,
) -> Result<(), ControlError> {
    const ROUNDS_MAX: usize = 20;
    for _ in 0..ROUNDS_MAX {
        let mut changed = false;
        for process in processes {
            for thread in threads(host, *process) {
                changed |= change(*process, &thread)?;
            }
        }
        if !changed {
            return Ok(());
        }
    }
    let busy = std::io::Error::other(format!("threads are not as set after {ROUNDS_MAX} tries"));
    Err(ControlError::refused("set the threads of", format!("processes {processes:?}"), busy))
}
