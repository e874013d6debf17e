//! Counts the processes that looks found, by workload and by the requests that clients had in flight.

use std::collections::{BTreeMap, HashMap};

use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_policy::Doing;
use plimsoll_policy::Priority;
use plimsoll_workload::activity::Activity;
use plimsoll_workload::driver::{Board, RunningRequest, WorkloadThreads};

use crate::results::StateCounts;

/// The processes that looks found of one workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkloadTally {
    /// The processes of its clients' sessions, counted at each look, with or without a request in flight.
    pub all: StateCounts,
    /// By kind of transaction, as position in the benchmark's list, and priority of the request in flight.
    pub parts: BTreeMap<(u16, Priority), RequestTally>,
    /// Looks that did not find the process of a session. A count.
    pub absent: u64,
    /// Processes that helped those of its sessions.
    pub workers: WorkerTally,
}

/// The processes of clients with a request of one kind and priority in flight, as looks found them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestTally {
    pub seen: StateCounts,
    /// Of those, how often the client had another request, or none, when the look was over. A count.
    pub changed: u64,
}

/// Parallel workers, as looks found them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerTally {
    /// Each worker, counted at each look.
    pub seen: StateCounts,
    pub different: u64,
    /// Their time, up to the last look at each; `None` if it is unknown for any of them.
    pub times: Option<ThreadTimes>,
}

/// Joins processes with clients, and counts.
pub(super) struct Tally {
    boards: Vec<Board>,
    clients: Vec<Client>,
    /// Positions in `clients`.
    by_process: HashMap<i32, usize>,
    /// The last known time of each worker that exists, by its process.
    workers: HashMap<i32, ThreadTimes>,
    pub(super) workloads: Vec<WorkloadTally>,
    pub(super) looks: u64,
}

struct Client {
    workload: usize,
    number: usize,
    /// The client's request in flight before the look.
    before: Option<RunningRequest>,
    is_present: bool,
}

impl Tally {
    /// For the clients of these workloads, as far as their sessions have processes of their own on this machine.
    pub(super) fn new(threads: &[WorkloadThreads]) -> Self {
        let (mut clients, mut by_process) = (Vec::new(), HashMap::new());
        for (workload, threads) in threads.iter().enumerate() {
            for (number, process) in threads.servers.iter().enumerate() {
                if let Some(process) = process {
                    by_process.insert(*process, clients.len());
                    clients.push(Client { workload, number, before: None, is_present: false });
                }
            }
        }
        let nothing = WorkloadTally {
            workers: WorkerTally { times: Some(ThreadTimes::default()), ..WorkerTally::default() },
            ..WorkloadTally::default()
        };
        Tally {
            boards: threads.iter().map(|threads| threads.board.clone()).collect(),
            clients,
            by_process,
            workers: HashMap::new(),
            workloads: vec![nothing; threads.len()],
            looks: 0,
        }
    }

    /// Notes the clients' requests in flight, just before a look.
    pub(super) fn before(&mut self) {
        for client in &mut self.clients {
            client.before = self.boards[client.workload].under_way(client.number);
            client.is_present = false;
        }
    }

    /// Counts the processes that the look found, just after it.
    pub(super) fn after(&mut self, seen: &[Activity], times_of: &dyn Fn(i32) -> Option<ThreadTimes>) {
        for activity in seen {
            if let Some(client) = self.by_process.get(&activity.process) {
                self.count_client(*client, activity.doing);
            }
        }
        for client in self.clients.iter().filter(|client| !client.is_present) {
            self.workloads[client.workload].absent += 1;
        }
        self.count_workers(seen, times_of);
        self.looks += 1;
    }

    fn count_client(&mut self, client: usize, doing: Doing) {
        let client = &mut self.clients[client];
        client.is_present = true;
        let workload = &mut self.workloads[client.workload];
        add(&mut workload.all, doing);
        let Some(before) = client.before else { return };
        let is_changed = self.boards[client.workload].under_way(client.number) != Some(before);
        if is_changed && doing == Doing::Idle {
            // The request had ended before the look.
            return;
        }
        let part = workload.parts.entry((before.transaction, before.priority)).or_default();
        add(&mut part.seen, doing);
        part.changed += u64::from(is_changed);
    }

    /// The scheduler's account of a worker begins and ends with the worker, so it is read at each look.
    fn count_workers(&mut self, seen: &[Activity], times_of: &dyn Fn(i32) -> Option<ThreadTimes>) {
        let earlier = std::mem::take(&mut self.workers);
        for activity in seen {
            let leader = activity.leader.and_then(|leader| self.by_process.get(&leader));
            let Some(workload) = leader.map(|leader| self.clients[*leader].workload) else { continue };
            let workers = &mut self.workloads[workload].workers;
            add(&mut workers.seen, activity.doing);
            let Some(now) = times_of(activity.process) else {
                workers.times = workers.times.filter(|_| earlier.contains_key(&activity.process));
                continue;
            };
            // Less than before: another process that was given the same id.
            let known = earlier.get(&activity.process).filter(|then| then.run <= now.run && then.wait <= now.wait);
            workers.different += u64::from(known.is_none());
            let used = match known {
                Some(then) => now.since(*then),
                // A worker of the first look had begun before the window.
                None if self.looks == 0 => ThreadTimes::default(),
                None => now,
            };
            workers.times = workers.times.map(|sum| plus(sum, used));
            self.workers.insert(activity.process, now);
        }
    }
}

fn plus(a: ThreadTimes, b: ThreadTimes) -> ThreadTimes {
    ThreadTimes { run: a.run + b.run, wait: a.wait + b.wait }
}

fn add(seen: &mut StateCounts, doing: Doing) {
    let count = match doing {
        Doing::Running => &mut seen.running,
        Doing::Lock => &mut seen.lock,
        Doing::Io => &mut seen.io,
        Doing::IoLatch => &mut seen.io_latch,
        Doing::Client => &mut seen.client,
        Doing::Other => &mut seen.other,
        Doing::Idle => &mut seen.idle,
    };
    *count += 1;
}
