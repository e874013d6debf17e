//! The threads of processes: their ids, start times and cores.

use std::io;

use procfs::process::Stat;

use super::{ControlContext, ControlError, Undo};
use crate::host::{Host, parse_core_list};
use crate::process_identity::ProcessIdentity;
use crate::process_tree::stat;

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
/// The order is for callers that note each thread. Undoing runs in reverse, so the first thread's setting, which later
/// threads inherited, is restored before each thread's own.
pub(crate) fn threads(host: &Host, process: i32) -> Vec<Thread> {
    let mut ids = thread_ids(host, process);
    ids.sort_by_key(|id| (*id == process, *id));
    ids.into_iter().filter_map(|id| thread(host, process, id)).collect()
}

/// The ids of the threads of a process, including those that are ending.
pub(crate) fn thread_ids(host: &Host, process: i32) -> Vec<i32> {
    host.numbers(format!("/proc/{process}/task"))
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

pub(crate) fn parent(host: &Host, process: i32) -> Option<i32> {
    Some(stat::Stat::read(host, format!("/proc/{process}/stat"))?.parent)
}

pub(crate) fn living(host: &Host, processes: &[i32]) -> Vec<i32> {
    processes.iter().copied().filter(|process| ProcessIdentity::of(host, *process).is_some()).collect()
}

/// The present moment in the unit of threads' start times: clock ticks since boot, 100 per second in user space on every machine.
fn ticks_now(host: &Host) -> Option<u64> {
    let uptime: f64 = host.text("/proc/uptime")?.split_whitespace().next()?.parse().ok()?;
    Some((uptime * 100.0).floor() as u64)
}

/// Sets every thread of the subject. `undo` returns how to undo the setting of a thread, or `None` if the thread is
/// already as wanted. Its second argument is the tick since when other threads have inherited the setting, if the
/// thread passes it on. `what` names the setting.
///
/// Threads that are not set yet may start others in the meantime. So it looks again until all are as wanted.
pub(crate) fn bring_all(
    context: &mut ControlContext<'_>,
    control: &str,
    what: &str,
    undo: impl Fn(&Thread, Option<u64>) -> Option<Undo>,
    set: impl Fn(i32) -> io::Result<()>,
) -> Result<(), ControlError> {
    const ROUNDS_MAX: usize = 20;
    let host = context.host;
    let processes = living(host, &context.subject.processes);
    if processes.is_empty() {
        return Err(ControlError::unavailable(control, "none of the processes to limit is running", None));
    }
    let since = ticks_now(host);
    for _ in 0..ROUNDS_MAX {
        let mut changed = false;
        for process in &processes {
            for thread in threads(host, *process) {
                let Some(undo) = undo(&thread, since.filter(|_| thread.id == *process)) else { continue };
                context.undo.note(undo)?;
                match set(thread.id) {
                    Err(error) if started(host, thread.id).is_some() => {
                        let thread = format!("thread {}", thread.id);
                        return Err(ControlError::refused(format!("set the {what} of"), thread, error));
                    }
                    _ => changed = true,
                }
            }
        }
        if !changed {
            return Ok(());
        }
    }
    let busy = io::Error::other(format!("threads are not as set after {ROUNDS_MAX} tries"));
    Err(ControlError::refused("set the threads of", format!("processes {processes:?}"), busy))
}
