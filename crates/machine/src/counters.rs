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

use perf_event::{Builder, Counter, ReadFormat};
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
        let mut counters = ThreadCounters { groups: Vec::with_capacity(tids.len()), notes: BTreeSet::new() };
        make_room_for_files(tids.len() as u64 * Event::ALL.len() as u64);
        let mut sources: Option<Vec<(Event, Source)>> = None;
        for &tid in tids {
            let mut leader = match open_leader(tid) {
                Ok(leader) => leader,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => continue,
                Err(error) => return Err(CountersUnavailable::explain(&error, &host)),
            };
            // The first thread finds out what the processor offers; all threads then count the same.
            let members = match &sources {
                None => {
                    let found = counters.open_what_is_offered(&host, tid, &mut leader)?;
                    sources = Some(found.iter().map(|(event, source, _)| (*event, source.clone())).collect());
                    found.into_iter().map(|(event, _, counter)| (event, counter)).collect()
                }
                Some(sources) => match open_members(sources, tid, &mut leader) {
                    Ok(members) => members,
                    Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => continue,
                    Err(error) => return Err(CountersUnavailable::explain(&error, &host)),
                },
            };
            counters.groups.push(ThreadGroup { leader, members });
        }
        if counters.groups.is_empty() {
            return Err(CountersUnavailable::NoThreads { asked: tids.len() });
        }
        Ok(counters)
    }

    /// Starts counting.
    pub fn enable(&mut self) -> Result<(), CountersUnavailable> {
        for group in &mut self.groups {
            group.leader.enable_group().map_err(|error| CountersUnavailable::explain(&error, &Host::real()))?;
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

    /// Opens every event that has a source which the processor accepts, and notes the others.
    fn open_what_is_offered(
        &mut self,
        host: &Host,
        tid: i32,
        leader: &mut Counter,
    ) -> Result<Vec<(Event, Source, Counter)>, CountersUnavailable> {
        let mut found = Vec::new();
        for event in Event::ALL.into_iter().filter(|event| *event != Event::Cycles) {
            let mut refused = Vec::new();
            let mut opened = None;
            for source in event.sources(host) {
                match open_member(&source, tid, leader) {
                    Ok(counter) => {
                        opened = Some((event, source, counter));
                        break;
                    }
                    Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => {
                        return Err(CountersUnavailable::explain(&error, host));
                    }
                    Err(error) => refused.push(format!("{source}: {error}")),
                }
            }
            match opened {
                Some(opened) => {
                    self.notes.extend(opened.1.caveat().map(|caveat| format!("{event} are {caveat}")));
                    found.push(opened);
                }
                None => {
                    self.notes.insert(format!("{event} are not offered by this processor ({})", refused.join("; ")));
                }
            }
        }
        Ok(found)
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

/// An event of one thread, in user mode: the builder leaves kernel and hypervisor out by itself.
fn builder(source: &Source, tid: i32) -> Builder<'static> {
    let mut builder = source.builder();
    builder.observe_pid(tid).any_cpu();
    builder
}

fn open_leader(tid: i32) -> io::Result<Counter> {
    let format =
        ReadFormat::GROUP | ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    builder(&Source::CYCLES, tid).read_format(format).build()
}

fn open_member(source: &Source, tid: i32, leader: &mut Counter) -> io::Result<Counter> {
    // A member of a group starts with its leader, so it must not wait to be enabled by itself.
    builder(source, tid).enabled(true).build_with_group(leader)
}

fn open_members(sources: &[(Event, Source)], tid: i32, leader: &mut Counter) -> io::Result<Vec<(Event, Counter)>> {
    sources.iter().map(|(event, source)| Ok((*event, open_member(source, tid, leader)?))).collect()
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

    #[test]
    fn no_threads_is_an_error() {
        assert!(matches!(ThreadCounters::open(&[]), Err(CountersUnavailable::NoThreads { asked: 0 })));
    }
}
