//! Computes time shares from the looks and the scheduler's accounts of a workload's processes, by the rules in [`super`].

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_workload::driver::DrivenWorkload;

use super::tally::{RequestTally, WorkloadTally};
use super::{CHANGED_MAX, SAMPLES_MIN};
use crate::results::{Part, StateCounts, TimeShare, Workers, WorkloadOnServer, WorkloadResult};

/// The parts may differ from the whole by this share without a warning: their sources tick at different moments, and
/// looks are samples.
const EXCESS_MAX: f64 = 0.05;

/// The measurements of a workload whose sessions are served by processes of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServedWorkload<'a> {
    pub seen: &'a WorkloadTally,
    /// Number of looks in all.
    pub looks: u64,
    /// Time of the sessions' processes over the sensors' window; `None` if unknown.
    pub times: Option<ThreadTimes>,
    /// Time of our own clients' threads over the sensors' window; `None` if unknown.
    pub clients: Option<ThreadTimes>,
    /// The sensors' window, which is a little longer than the clients'.
    pub window: Duration,
}

/// Where the time of a workload on a server went, from the intended start of its requests.
#[derive(Debug, Clone, Default)]
pub struct ServerShares {
    /// The shares of all its requests; `None` if no request was in flight.
    pub whole: Option<TimeShare>,
    /// The shares of each class, and the number of looks behind them.
    classes: BTreeMap<String, (Option<TimeShare>, u64)>,
    /// The shares of each kind of transaction, and the number of looks behind them.
    transactions: BTreeMap<String, (Option<TimeShare>, u64)>,
    /// The measurements from which the shares follow.
    pub known: WorkloadOnServer,
}

impl ServerShares {
    pub(crate) fn fill_in(self, result: &mut WorkloadResult) {
        result.all.time_share = self.whole;
        result.classes.iter_mut().for_each(|(class, part)| self.of_class(class, part));
        result.transactions.iter_mut().for_each(|(name, part)| self.of_transaction(name, part));
        result.server = Some(self.known);
    }

    pub fn of_class(&self, class: &str, part: &mut Part) {
        fill_in(&self.classes, class, part);
    }

    /// Fills in the shares of a kind of transaction.
    pub(crate) fn of_transaction(&self, transaction: &str, part: &mut Part) {
        fill_in(&self.transactions, transaction, part);
    }
}

fn fill_in(shares: &BTreeMap<String, (Option<TimeShare>, u64)>, name: &str, part: &mut Part) {
    let (time_share, samples) = shares.get(name).copied().unwrap_or_default();
    part.time_share = time_share;
    part.samples = Some(samples);
}

impl ServedWorkload<'_> {
    /// The shares of the workload's time. Each missing share has a warning that explains it.
    pub fn shares(&self, driven: &DrivenWorkload, warnings: &mut Vec<String>) -> ServerShares {
        let names: Vec<&str> = driven.transactions.iter().map(|(name, _)| name.as_str()).collect();
        let (mut classes, mut transactions) = (BTreeMap::new(), BTreeMap::new());
        for ((transaction, priority), part) in &self.seen.parts {
            add(classes.entry(priority.to_string()).or_default(), part);
            if let Some(name) = names.get(usize::from(*transaction)) {
                add(transactions.entry((*name).to_owned()).or_default(), part);
            }
        }
        let mut all = RequestTally::default();
        self.seen.parts.values().for_each(|part| add(&mut all, part));
        if all.changed as f64 > CHANGED_MAX * all.seen.sum() as f64 {
            warnings.push(format!(
                "{}: most requests are shorter than a look at the server, so there are no time shares by class and kind",
                driven.measured.name
            ));
        }
        if self.seen.absent > 0 {
            warnings.push(format!(
                "{}: the processes of its sessions were not listed {} times in {} looks; what they did then is unknown",
                driven.measured.name, self.seen.absent, self.looks
            ));
        }
        let (whole, scale) = self.whole(driven, warnings);
        let shares = |parts: BTreeMap<String, RequestTally>, served: BTreeMap<String, f64>| {
            let share = |(name, part): (String, RequestTally)| {
                let served = served.get(&name).copied().unwrap_or(1.0);
                let share = self.of_part(&part, scale).map(|share| share.within(served));
                (name, (share, part.seen.sum()))
            };
            parts.into_iter().map(share).collect()
        };
        let served_classes =
            driven.classes.iter().map(|(class, part)| (class.to_string(), part.times.served_share())).collect();
        let served_transactions =
            driven.transactions.iter().map(|(name, part)| (name.clone(), part.times.served_share())).collect();
        let throughput_by_second = driven.samples.iter().map(|second| second.throughput_per_s).collect();
        ServerShares {
            whole: whole.map(|share| share.within(driven.all.times.served_share())),
            classes: shares(classes, served_classes),
            transactions: shares(transactions, served_transactions),
            known: WorkloadOnServer { throughput_by_second, waits_scaled: scale, ..self.known(&all) },
        }
    }

    /// The shares of the time in which any request was in flight, and the factor by which the waits that looks saw were
    /// scaled to fit beside the scheduler's accounts.
    fn whole(&self, driven: &DrivenWorkload, warnings: &mut Vec<String>) -> (Option<TimeShare>, Option<f64>) {
        let name = &driven.measured.name;
        let whole = driven.all.times.occupied.as_secs_f64();
        if whole <= 0.0 {
            warnings.push(format!("{name}: no time shares, because no request was in flight"));
            return (None, None);
        }
        let window = driven.window.as_secs_f64();
        let scale = window / self.window.max(driven.window).as_secs_f64();
        let of_times =
            |of: fn(ThreadTimes) -> Duration| self.times.map(|times| of(times).as_secs_f64() * scale / whole);
        let times = [of_times(|times| times.run), of_times(|times| times.wait)];
        let ([run, wait], excess) = fit(times, 1.0);
        if excess > EXCESS_MAX {
            warnings.push(format!(
                "{name}: the server's processes were on cores, or waiting for one, for {:.1} % more than requests were under way; the shares are scaled to fit",
                excess * 100.0
            ));
        }
        if run.is_none() {
            warnings.push(format!("{name}: time on cores is unknown and within `other`"));
        }
        if (self.looks as f64 * whole / window) < SAMPLES_MIN as f64 {
            warnings.push(format!(
                "{name}: {} looks at the server are too few to tell waits for devices, locks and clients, which are within `other`",
                self.looks
            ));
            return (Some(TimeShare::with_rest([run, wait, None, None, None, None])), None);
        }
        let on_cores = run.unwrap_or(0.0) + wait.unwrap_or(0.0);
        let of_looks = |count: u64| count as f64 / self.looks as f64 * window / whole;
        let StateCounts { running, lock, io, io_latch, client, other, idle: _ } = self.seen.all;
        let waits = [lock, io, io_latch, client, other].map(|count| Some(of_looks(count)));
        let seen: f64 = waits.iter().flatten().sum();
        let ([lock, io, io_latch, client, other], excess) = fit(waits, 1.0 - on_cores);
        if excess > EXCESS_MAX {
            warnings.push(format!(
                "{name}: time on cores, waiting for cores and waits seen by looking add up to {:.1} % more than response time, for who was woken and has no core yet is still seen waiting; the waits seen are scaled to fit",
                excess * 100.0
            ));
        }
        let rest = 1.0 - on_cores - [lock, io, io_latch, client, other].iter().flatten().sum::<f64>();
        // Processes that looks found running without time on a core by the scheduler's accounts; all of them if the
        // scheduler reports none.
        let unexplained = (of_looks(running) - on_cores).clamp(0.0, rest.max(0.0));
        let client = client.map(|client| client + (rest - unexplained).max(0.0));
        let scale = (excess > 0.0).then(|| (seen - excess) / seen);
        (Some(TimeShare::with_rest([run, wait, io, io_latch, lock, client])), scale)
    }

    /// The shares of a class or kind; `None` if too few looks saw it. If the waits of the whole were scaled, the
    /// remainder is time on cores or waiting for one, which looks underestimate.
    fn of_part(&self, part: &RequestTally, scale: Option<f64>) -> Option<TimeShare> {
        let StateCounts { running, lock, io, io_latch, client, other, idle } = part.seen;
        let scale = scale.unwrap_or(1.0);
        let count = part.seen.sum();
        if count < SAMPLES_MIN || part.changed as f64 > CHANGED_MAX * count as f64 {
            return None;
        }
        let share = |seen: u64| Some(scale * seen as f64 / count as f64);
        let waits = (lock + io + io_latch + client + other + idle) as f64;
        let running = (running as f64 + (1.0 - scale) * waits) / count as f64;
        let on_cores = self.times.map(|times| (times.run.as_secs_f64(), times.wait.as_secs_f64()));
        let running_of = |part: fn((f64, f64)) -> f64| {
            let (run, wait) = on_cores.filter(|(run, wait)| run + wait > 0.0)?;
            Some(running * part((run, wait)) / (run + wait))
        };
        let (run, wait) = (running_of(|(run, _)| run), running_of(|(_, wait)| wait));
        Some(TimeShare::with_rest([run, wait, share(io), share(io_latch), share(lock), share(client + idle)]))
    }

    fn known(&self, under_way: &RequestTally) -> WorkloadOnServer {
        let seconds =
            |times: Option<ThreadTimes>, of: fn(ThreadTimes) -> Duration| times.map(|times| of(times).as_secs_f64());
        let workers = &self.seen.workers;
        WorkloadOnServer {
            seen: self.seen.all,
            under_way: under_way.seen.sum(),
            changed: under_way.changed,
            absent: self.seen.absent,
            cpu_run_s: seconds(self.times, |times| times.run),
            cpu_wait_s: seconds(self.times, |times| times.wait),
            clients_cpu_run_s: seconds(self.clients, |times| times.run),
            clients_cpu_wait_s: seconds(self.clients, |times| times.wait),
            workers: (workers.seen.sum() > 0).then(|| Workers {
                seen: workers.seen,
                mean: workers.seen.sum() as f64 / self.looks as f64,
                different: workers.different,
                cpu_run_s: seconds(workers.times, |times| times.run),
                cpu_wait_s: seconds(workers.times, |times| times.wait),
            }),
            waits_scaled: None,
            throughput_by_second: Vec::new(),
        }
    }
}

/// Scales parts whose sum exceeds `room`, and returns the excess.
fn fit<const N: usize>(parts: [Option<f64>; N], room: f64) -> ([Option<f64>; N], f64) {
    let sum: f64 = parts.iter().flatten().sum();
    if sum <= room {
        return (parts, 0.0);
    }
    (parts.map(|part| part.map(|part| part * room.max(0.0) / sum)), sum - room.max(0.0))
}

fn add(sum: &mut RequestTally, part: &RequestTally) {
    let StateCounts { running, lock, io, io_latch, client, other, idle } = part.seen;
    sum.seen.running += running;
    sum.seen.lock += lock;
    sum.seen.io += io;
    sum.seen.io_latch += io_latch;
    sum.seen.client += client;
    sum.seen.other += other;
    sum.seen.idle += idle;
    sum.changed += part.changed;
}
