//! Hardware counters: of chosen threads, of a process with everything it starts, or of a control group.
//!
//! # Groups
//!
//! Events that are compared with each other must be counted at the same moments. The unit of counting is therefore a
//! *group*: a few events that the kernel schedules together or not at all, led by cycles and instructions. A [`Plan`]
//! is the list of groups that this machine can count. It is found by trying: each group counts the calling thread for a
//! moment, so that a group larger than the processor has counters for (six on AMD, of which a guest may have five; four
//! to eight beside the fixed ones on Intel; six on Arm) is split or dropped, an event that the processor does not offer
//! is left out, and a counter that opens and stands still, as in guests, is not used. [`Plan::notes`] reports each of
//! these.
//!
//! # Rotation
//!
//! There are more groups than fit into the counters. The kernel would multiplex them in turns of milliseconds that
//! begin and end at arbitrary moments, so its figures mix moments. Therefore only one group of a [`CounterSet`] counts
//! at a time, and `CounterSet::rotate`, called about once per second, switches to the next. The first group has cycles,
//! instructions and the misses that are most in demand; a caller that never rotates gets these alone, exactly.
//!
//! # Coverage
//!
//! A [`Figure`] is a count over the whole window, estimated from the turns of the groups that have the event: what they
//! counted, times the threads' time on cores over the groups' own. [`Figure::coverage`] is the share of the threads'
//! time on cores in which the event was really counted: 1 is exact, 0.2 is one turn of five. If other users of the
//! counters force the kernel to multiplex after all, the group's running time is less than its turn, coverage falls,
//! and a note reports it. The estimate is right for work that is the same in all turns; its error grows with the change
//! from turn to turn.
//!
//! Ratios never mix moments: [`CounterReading::ratio`], the top-down breakdown and memory reads use only groups that have
//! all the events they need, and are `None` if there is none.
//!
//! # Limits
//!
//! Events are counted in user mode: `perf_event_paranoid` lets every user count it, and the workload itself runs in it.
//! One group also has instructions in kernel mode, if they may be counted. Threads and children that a process starts
//! are inherited; a process that ends keeps its counts.
//!
//! Main types in reading order: [`Plan`] lists the events that can be counted, and [`Watched`] names the threads to
//! count. [`CounterSet`] opens and reads counters, [`CounterReading`] holds the result, and [`CountersUnavailable`]
//! says why there is none. [`Event`] lists the events of every processor; [`top_down`](crate::top_down) has those of
//! processor families.

mod event;
mod opened;
mod plan;
mod probe;
pub(crate) mod reading;
mod sanity;
pub(crate) mod source;
mod spins;
mod tree;
mod trial;
mod unavailable;
mod user_time;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

pub use event::Event;
pub use plan::Plan;
pub use probe::probe;
pub use reading::{CounterReading, CounterSummary, Figure, MemoryRead};
pub use unavailable::CountersUnavailable;

use crate::host::Host;
use opened::{CountScope, OpenedGroup, make_room_for_files};
use reading::{GroupCounts, SetCounts};
use spins::Programs;
use tree::{ThreadIdentity, threads_of_tree};
use user_time::ModeTimes;

/// The threads to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// These threads, by the kernel's ids. Threads and processes that they start are not counted.
    Threads(Vec<i32>),
    /// A process with all its threads and children, and all that these start.
    ProcessTree(i32),
    /// A control group with all below it: its folder in a version 2 hierarchy, or in version 1's `perf_event`.
    ControlGroup(PathBuf),
}

/// Counters of a set of threads. They count from [`enable`](CounterSet::enable) on and stop when dropped.
pub struct CounterSet {
    plan: Plan,
    targets: Vec<Target>,
    /// The group whose turn it is.
    turn: usize,
    is_enabled: bool,
    tree: Option<Tree>,
    /// The requested threads, if threads were requested, and their CPU time when counting began.
    threads: Vec<i32>,
    began: ModeTimes,
    programs: Programs,
    notes: BTreeSet<String>,
}

/// The groups of one thread, or of one core of a control group, in the order of the plan.
struct Target {
    groups: Vec<OpenedGroup>,
}

/// A process whose threads come and go.
struct Tree {
    process: i32,
    known: BTreeSet<ThreadIdentity>,
    /// Whether the kernel also counts threads that these start. If not, each rotation looks for new ones.
    inherits: bool,
}

impl CounterSet {
    /// Opens the counters of a plan, stopped and at zero. A thread that has ended is left out.
    ///
    /// Takes one file descriptor for each event of each thread (each core, of a control group); the soft limit of open files
    /// is raised if it is too low. Where the hard limit is too low as well, the last groups are left out, with a note.
    pub fn open(plan: &Plan, watched: &Watched) -> Result<CounterSet, CountersUnavailable> {
        let mut plan = plan.clone();
        loop {
            match CounterSet::open_all(&plan, watched) {
                Err(CountersUnavailable::NoFiles(_)) if plan.groups.len() > 1 => plan.leave_out_last_half(),
                opened => return opened,
            }
        }
    }

    /// As [`open`](CounterSet::open), all groups or none.
    fn open_all(plan: &Plan, watched: &Watched) -> Result<CounterSet, CountersUnavailable> {
        let mut set = CounterSet {
            plan: plan.clone(),
            targets: Vec::new(),
            turn: 0,
            is_enabled: false,
            tree: None,
            threads: Vec::new(),
            began: ModeTimes::default(),
            programs: Programs::default(),
            notes: plan.notes.clone(),
        };
        match watched {
            Watched::Threads(tids) => {
                set.threads.clone_from(tids);
                set.make_room(tids.len());
                set.open_threads(tids.iter().copied(), false)
                    .map_err(|error| CountersUnavailable::explain(&error, &Host::real()))?;
                set.targets_or(tids.len())?;
            }
            Watched::ProcessTree(process) => set.open_tree(*process, true)?,
            Watched::ControlGroup(folder) => set.open_control_group(folder)?,
        }
        Ok(set)
    }

    /// Starts counting, with the first group.
    pub fn enable(&mut self) -> Result<(), CountersUnavailable> {
        self.is_enabled = true;
        self.began = ModeTimes::read(&Host::real(), &self.threads);
        for target in &mut self.targets {
            target.groups[self.turn].enable().map_err(|error| CountersUnavailable::explain(&error, &Host::real()))?;
        }
        Ok(())
    }

    /// Switches to the next group. To be called about once per second while counting, from any thread; before
    /// [`enable`](CounterSet::enable) it does nothing. With turns of more than a few seconds, Intel's shares of slots
    /// lose precision, because they have eight bits (kernel `tools/perf/Documentation/topdown.txt`).
    pub(crate) fn rotate(&mut self) {
        if !self.is_enabled {
            return;
        }
        self.find_new_threads();
        let next = (self.turn + 1) % self.plan.groups.len();
        if next == self.turn {
            return;
        }
        for target in &mut self.targets {
            let switched = target.groups[self.turn].disable().and_then(|()| target.groups[next].enable());
            if let Err(error) = switched {
                self.notes.insert(format!("a group of counters could not be given its turn: {error}"));
            }
        }
        self.turn = next;
    }

    /// The counts since [`enable`](CounterSet::enable), summed over the threads, including those that have ended.
    /// Counting continues.
    pub fn read(&mut self) -> CounterReading {
        let mut notes = self.notes.clone();
        let mut set = SetCounts::default();
        for (index, group) in self.plan.groups.iter().enumerate() {
            let mut sum = GroupCounts { group: group.name.clone(), ..GroupCounts::default() };
            // Every event is present from the beginning, so that a set without threads has counts of 0.
            sum.counts.extend(group.events.iter().map(|event| (event.key.to_owned(), 0)));
            for target in &mut self.targets {
                if let Err(error) = target.groups[index].read_into(&group.events, &mut sum) {
                    notes.insert(format!("the counters of a thread could not be read: {error}"));
                }
            }
            set.groups.push(sum);
        }
        set.user_share = ModeTimes::read(&Host::real(), &self.threads).user_share_since(&self.began);
        sanity::clean(&mut set, &self.plan, &mut notes);
        CounterReading {
            sets: vec![set],
            family: self.plan.family,
            slots_per_cycle: self.plan.slots_per_cycle,
            why_no_top_down: self.plan.why_no_top_down.clone(),
            notes: notes.into_iter().collect(),
        }
    }

    /// How many threads were found and are counted, not counting those that these started since; of a control group, how
    /// many cores.
    #[cfg(test)]
    fn target_count(&self) -> usize {
        self.targets.len()
    }

    fn make_room(&self, targets: usize) {
        make_room_for_files(targets * self.plan.groups.iter().map(|group| group.events.len()).sum::<usize>());
    }

    fn targets_or(&self, asked: usize) -> Result<(), CountersUnavailable> {
        match self.targets.is_empty() {
            true => Err(CountersUnavailable::NoThreads(asked)),
            false => Ok(()),
        }
    }

    fn open_threads(&mut self, tids: impl Iterator<Item = i32>, inherit: bool) -> io::Result<()> {
        for tid in tids {
            match Target::open(&self.plan, CountScope::Task { tid, inherit }) {
                Ok(mut target) => {
                    self.sample_spins(&mut target, &CountScope::Task { tid, inherit });
                    self.targets.push(target);
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Spinning is sampled for single threads only: the kernel has no sample buffer for inherited threads.
    fn sample_spins(&mut self, target: &mut Target, place: &CountScope<'_>) {
        let Some(spins) = &self.plan.spins else { return };
        let group = &mut target.groups[spins.group];
        match spins.open(place, group, &mut self.programs) {
            None => {}
            Some(Ok(sampler)) => group.spins = Some(sampler),
            Some(Err(error)) => {
                self.notes.insert(format!("{} could not be sampled: {error}", Event::SpinInstructions));
            }
        }
    }

    /// Opens a process tree. Threads that start from then on are inherited if the kernel supports that for groups.
    fn open_tree(&mut self, process: i32, inherit: bool) -> Result<(), CountersUnavailable> {
        let host = Host::real();
        let known = threads_of_tree(&host, process);
        self.make_room(known.len());
        let opened = self.open_threads(known.iter().map(|thread| thread.0), inherit);
        let inherits = match opened {
            Ok(()) => inherit,
            Err(error) if inherit && Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                self.targets.clear();
                self.notes.insert(
                    "the kernel cannot inherit groups of counters: new threads are looked for at each rotation, and shorter \
                     ones are missed"
                        .to_owned(),
                );
                return self.open_tree(process, false);
            }
            Err(error) => return Err(CountersUnavailable::explain(&error, &host)),
        };
        self.targets_or(1)?;
        // A thread that began between looking and opening is counted only if its parent was already counted. That is
        // not known, and opening the thread could count it twice.
        let late = threads_of_tree(&host, process).difference(&known).count();
        if inherits && late > 0 {
            self.notes.insert(format!("{late} threads began while counters were opened; they may not be counted"));
        }
        self.tree = Some(Tree { process, known, inherits });
        Ok(())
    }

    fn open_control_group(&mut self, folder: &PathBuf) -> Result<(), CountersUnavailable> {
        let host = Host::real();
        let failed = |error: &io::Error| CountersUnavailable::explain_control_group(error, &host, folder);
        let opened = File::open(folder).map_err(|error| failed(&error))?;
        let cores = host.cores("/sys/devices/system/cpu/online").unwrap_or_else(|| vec![0]);
        self.make_room(cores.len());
        for core in cores {
            let target = Target::open(&self.plan, CountScope::ControlGroup { folder: &opened, core });
            self.targets.push(target.map_err(|error| failed(&error))?);
        }
        Ok(())
    }

    /// Where nothing is inherited: opens the threads that began since the last look.
    fn find_new_threads(&mut self) {
        let Some(tree) = self.tree.as_mut().filter(|tree| !tree.inherits) else { return };
        let found = threads_of_tree(&Host::real(), tree.process);
        let new: Vec<i32> = found.difference(&tree.known).map(|thread| thread.0).collect();
        tree.known.extend(found);
        let before = self.targets.len();
        self.make_room(before + new.len());
        if let Err(error) = self.open_threads(new.into_iter(), false) {
            self.notes.insert(format!("a new thread could not be counted: {error}"));
        }
        for target in &mut self.targets[before..] {
            if let Err(error) = target.groups[self.turn].enable() {
                self.notes.insert(format!("a new thread could not be counted: {error}"));
            }
        }
    }
}

impl Target {
    fn open(plan: &Plan, place: CountScope<'_>) -> io::Result<Target> {
        let groups = plan.groups.iter().map(|group| OpenedGroup::open(&place, &group.events));
        Ok(Target { groups: groups.collect::<io::Result<_>>()? })
    }
}

impl std::fmt::Debug for CounterSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CounterSet")
            .field("targets", &self.targets.len())
            .field("groups", &self.plan.groups.len())
            .field("notes", &self.notes)
            .finish()
    }
}

#[cfg(test)]
mod tests;
