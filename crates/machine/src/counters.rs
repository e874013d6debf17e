//! Hardware counters of chosen threads, in user mode: where their cycles went.
//!
//! Every thread has one group of events, so that all figures of a thread cover the same moments and ratios of them mean
//! something. There are five events, which fit into the counters of one core of every processor we know (six on AMD Zen,
//! four beside the fixed ones on Intel), so that the kernel does not have to take turns. If it does, figures are scaled up
//! and [`CounterReading::coverage`] says by how much.
//!
//! Main types in reading order: [`ThreadCounters`] opens and reads, [`CounterReading`] is what comes out,
//! [`CountersUnavailable`] is why nothing does. [`event`] says which event of the processor stands for which figure.

pub mod event;
mod probe;
pub mod reading;
mod unavailable;

use std::collections::BTreeSet;
use std::io;

use perf_event::{Counter, ReadFormat};
use rustix::io::Errno;

pub use probe::probe;
pub use reading::CounterReading;
pub use unavailable::CountersUnavailable;

use crate::host::Host;
use event::{Event, Source};
use reading::GroupReading;

/// Counters of a set of threads. They count from [`enable`](ThreadCounters::enable) on and stop when dropped.
pub struct ThreadCounters {
    groups: Vec<ThreadGroup>,
    notes: BTreeSet<String>,
}

/// The events of one thread.
struct ThreadGroup {
    /// Leads the group: cycles.
    leader: Counter,
    /// The other events that this processor offers.
    members: Vec<(Event, Counter)>,
}

impl ThreadCounters {
    /// Opens the counters of the threads, stopped and at zero. A thread that has ended is left out. An event that the
    /// processor does not offer is left out for all threads and a note says so.
    ///
    /// Takes one file descriptor for each thread and event; the soft limit of open files is raised if it is too low.
    pub fn open(tids: &[i32]) -> Result<ThreadCounters, CountersUnavailable> {
        let host = Host::real();
        ThreadCounters::open_events(&host, tids, |event| event.sources(&host))
    }

    /// As [`open`](ThreadCounters::open), for events of choice.
    fn open_events(
        host: &Host,
        tids: &[i32],
        sources: impl Fn(Event) -> Vec<Source>,
    ) -> Result<ThreadCounters, CountersUnavailable> {
        make_room_for_files(tids.len() as u64 * Event::ALL.len() as u64);
        let mut opened = ThreadCounters { groups: Vec::with_capacity(tids.len()), notes: BTreeSet::new() };
        let mut chosen: Option<Chosen> = None;
        for &tid in tids {
            // The first thread finds out what the processor offers; all threads then count the same.
            let group = match &chosen {
                Some(chosen) => chosen.open(tid),
                None => Chosen::find(tid, &sources, &mut opened.notes).map(|(found, group)| {
                    chosen = Some(found);
                    group
                }),
            };
            match group {
                Ok(group) => opened.groups.push(group),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
                Err(error) => return Err(CountersUnavailable::explain(&error, host)),
            }
        }
        if opened.groups.is_empty() {
            return Err(CountersUnavailable::NoThreads { asked: tids.len() });
        }
        Ok(opened)
    }

    /// Starts counting.
    pub fn enable(&mut self) -> Result<(), CountersUnavailable> {
        for group in &mut self.groups {
            group.leader.enable().map_err(|error| CountersUnavailable::explain(&error, &Host::real()))?;
        }
        Ok(())
    }

    /// What was counted since [`enable`](ThreadCounters::enable), summed over the threads, those that ended since included.
    pub fn read(&mut self) -> CounterReading {
        let mut readings = Vec::with_capacity(self.groups.len());
        let mut notes = self.notes.clone();
        for group in &mut self.groups {
            match group.read() {
                Ok(reading) => readings.push(reading),
                Err(error) => {
                    notes.insert(format!("the counters of a thread could not be read: {error}"));
                }
            }
        }
        CounterReading::combine(&readings, notes)
    }

    /// How many threads are counted.
    pub fn thread_count(&self) -> usize {
        self.groups.len()
    }
}

impl std::fmt::Debug for ThreadCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadCounters").field("threads", &self.groups.len()).field("notes", &self.notes).finish()
    }
}

impl ThreadGroup {
    fn read(&mut self) -> io::Result<GroupReading> {
        let data = self.leader.read_group()?;
        let mut reading = GroupReading {
            enabled: data.time_enabled().unwrap_or_default(),
            running: data.time_running().unwrap_or_default(),
            values: Default::default(),
        };
        let counters = std::iter::once((Event::Cycles, &self.leader));
        for (event, counter) in counters.chain(self.members.iter().map(|(event, counter)| (*event, counter))) {
            reading.values[event as usize] = data.get(counter).map(|entry| entry.value());
        }
        Ok(reading)
    }
}

/// The events that this processor offers, each by its best source.
struct Chosen {
    cycles: Source,
    others: Vec<(Event, Source)>,
}

impl Chosen {
    /// Opens every event on a thread to see which of its sources works, and notes what the reader must know. There is no
    /// group without cycles.
    fn find(
        tid: i32,
        sources: &impl Fn(Event) -> Vec<Source>,
        notes: &mut BTreeSet<String>,
    ) -> io::Result<(Chosen, ThreadGroup)> {
        let cycles = sources(Event::Cycles).swap_remove(0);
        let mut group = ThreadGroup { leader: open_leader(&cycles, tid)?, members: Vec::new() };
        let mut others = Vec::new();
        for event in Event::ALL.into_iter().filter(|event| *event != Event::Cycles) {
            let mut refused = Vec::new();
            for source in sources(event) {
                match open_member(&source, tid, &mut group.leader) {
                    Ok(counter) => {
                        notes.extend(source.caveat().map(|caveat| format!("{event} are {caveat}")));
                        group.members.push((event, counter));
                        others.push((event, source));
                        refused.clear();
                        break;
                    }
                    Err(error) => match Errno::from_io_error(&error) {
                        Some(Errno::MFILE | Errno::NFILE | Errno::SRCH) => return Err(error),
                        _ => refused.push(format!("{source}: {error}")),
                    },
                }
            }
            if !refused.is_empty() {
                notes.insert(format!("{event} are not offered by this processor ({})", refused.join("; ")));
            }
        }
        Ok((Chosen { cycles, others }, group))
    }

    fn open(&self, tid: i32) -> io::Result<ThreadGroup> {
        let mut leader = open_leader(&self.cycles, tid)?;
        let members = self.others.iter().map(|(event, source)| Ok((*event, open_member(source, tid, &mut leader)?)));
        let members = members.collect::<io::Result<_>>()?;
        Ok(ThreadGroup { leader, members })
    }
}

fn open_leader(source: &Source, tid: i32) -> io::Result<Counter> {
    let format = ReadFormat::GROUP | ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    source.builder(tid).read_format(format).build()
}

fn open_member(source: &Source, tid: i32, leader: &mut Counter) -> io::Result<Counter> {
    // A member of a group counts only while its leader does, so that enabling the leader starts all at once.
    source.builder(tid).enabled(true).build_with_group(leader)
}

/// Raises the soft limit of open files so that `count` more fit, as far as the hard limit lets us. If it does not, opening
/// fails and says so.
fn make_room_for_files(count: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// What the rest of the process may have open.
    const OTHERS: u64 = 1024;
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(count + OTHERS, |maximum| maximum.min(count + OTHERS));
    if limit.current.is_some_and(|current| current < wanted) {
        // A failure shows as EMFILE where the files are opened.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use perf_event::events::Software;

    use super::*;
    use crate::cpu_time::current_thread_id;

    /// Both outcomes are right; which one depends on the machine. Each must be complete.
    #[test]
    fn this_thread_is_counted_or_the_reason_is_told() {
        match ThreadCounters::open(&[current_thread_id(), -7]) {
            Ok(mut counters) => {
                assert_eq!(counters.thread_count(), 1, "there is no thread -7");
                counters.enable().unwrap();
                let reading = counters.read();
                assert!((0.0..=1.0).contains(&reading.coverage), "{reading:?}");
            }
            Err(unavailable) => assert!(unavailable.to_string().len() > 20, "{unavailable}"),
        }
    }

    /// Software events go through the same groups as hardware events, and every kernel has them.
    fn open_software(tids: &[i32]) -> Option<ThreadCounters> {
        let page_faults = || Source::new("page-faults", Software::PAGE_FAULTS);
        let opened = ThreadCounters::open_events(&Host::real(), tids, |event| match event {
            Event::Cycles => vec![Source::new("task-clock", Software::TASK_CLOCK)],
            Event::Instructions => vec![Source::new("nonsense", Software(9999)), page_faults()],
            Event::L1dMisses => vec![page_faults()],
            Event::LlcMisses => vec![Source::new("nonsense", Software(9999))],
            Event::BranchMisses => vec![Source::new("dummy", Software::DUMMY)],
        });
        match opened {
            Ok(counters) => Some(counters),
            // Containers may forbid the call; then there is nothing to test.
            Err(CountersUnavailable::NotPermitted { .. } | CountersUnavailable::Blocked { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Touches memory that comes straight from the kernel, as large allocations do, so that it must fault.
    fn fault(pages: usize) {
        const PAGE: usize = 4096;
        let mut memory = vec![0u8; pages * PAGE];
        memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        std::hint::black_box(&memory);
    }

    #[test]
    fn two_threads_are_summed_and_one_may_end() {
        const PAGES: usize = 1024;
        let (go, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(current_thread_id()).unwrap();
            wait.recv().unwrap();
            fault(PAGES);
        });
        let other = told.recv().unwrap();
        let Some(mut counters) = open_software(&[current_thread_id(), other]) else { return };
        assert_eq!(counters.thread_count(), 2);
        fault(PAGES);
        assert_eq!(counters.read().instructions, Some(0), "nothing is counted before it is enabled");
        counters.enable().unwrap();
        fault(PAGES);
        go.send(()).unwrap();
        thread.join().unwrap();
        let reading = counters.read();
        // Huge pages may cover many small ones with one fault, so that only a few faults are certain.
        assert!(reading.instructions.is_some_and(|faults| faults >= 2), "{reading:?}");
        assert_eq!(reading.instructions, reading.l1d_misses, "two counters of one event in one group");
        assert_eq!((reading.llc_misses, reading.branch_misses), (None, Some(0)));
        assert!(reading.cycles.is_some_and(|nanoseconds| nanoseconds > 0), "{reading:?}");
        assert_eq!(reading.coverage, 1.0, "{reading:?}");
        assert_eq!(reading.notes.len(), 1, "{reading:?}");
        assert!(reading.notes[0].contains("last-level cache misses are not offered"), "{reading:?}");
    }

    #[test]
    fn no_threads_is_an_error() {
        assert!(matches!(ThreadCounters::open(&[]), Err(CountersUnavailable::NoThreads { asked: 0 })));
    }
}
