//! One group of counters of one thread, or of one control group on one core.

use std::fs::File;
use std::io;

use perf_event::{Builder, Counter, ReadFormat, Sampler};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Event;
use super::plan::PlannedEvent;
use super::reading::GroupCounts;
use super::source::Source;
use super::spins::SpinSampler;

/// The threads to count.
#[derive(Debug, Clone, Copy)]
pub(super) enum CountScope<'a> {
    /// A thread, 0 for the calling one; if `inherit`, with every thread and process that it starts from then on.
    Task {
        /// The kernel's id of the thread.
        tid: i32,
        /// Whether threads and processes that it starts are counted too.
        inherit: bool,
    },
    /// The threads of a control group while they are on one core.
    ControlGroup {
        /// The group's folder, open.
        folder: &'a File,
        core: usize,
    },
}

impl CountScope<'_> {
    /// A builder for an event here. Every member asks for reading as a group, which Intel's shares of slots insist on.
    pub(super) fn builder<'a>(&'a self, source: &Source) -> Builder<'a> {
        let mut builder: Builder<'a> = source.builder();
        match self {
            CountScope::Task { tid, inherit } => builder.observe_pid(*tid).any_cpu().inherit(*inherit),
            CountScope::ControlGroup { folder, core } => builder.observe_cgroup(folder).one_cpu(*core),
        };
        builder.read_format(
            ReadFormat::GROUP | ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
        );
        builder
    }
}

/// A group of counters, the leader first.
pub(super) struct OpenedGroup {
    counters: Vec<Counter>,
    /// Samples that are taken while the group counts.
    pub(super) spins: Option<SpinSampler>,
}

impl OpenedGroup {
    /// Begins a group that counts nothing yet.
    pub(super) fn lead(place: &CountScope<'_>, event: &PlannedEvent) -> io::Result<OpenedGroup> {
        Ok(OpenedGroup { counters: vec![place.builder(&event.source).build()?], spins: None })
    }

    /// Adds an event. A member counts only while its leader does, so that enabling the leader starts all at once.
    pub(super) fn join(&mut self, place: &CountScope<'_>, event: &PlannedEvent) -> io::Result<()> {
        let leader = &mut self.counters[0];
        let member = place.builder(&event.source).enabled(true).build_with_group(leader)?;
        self.counters.push(member);
        Ok(())
    }

    /// Adds an event that is sampled into a buffer instead of read with the others.
    pub(super) fn join_sampled(&mut self, builder: &mut Builder<'_>, buffer_bytes: usize) -> io::Result<Sampler> {
        builder.enabled(true).build_with_group(&mut self.counters[0])?.sampled(buffer_bytes)
    }

    /// A whole group, stopped and at zero.
    pub(super) fn open(place: &CountScope<'_>, events: &[PlannedEvent]) -> io::Result<OpenedGroup> {
        let mut group = OpenedGroup::lead(place, &events[0])?;
        events[1..].iter().try_for_each(|event| group.join(place, event))?;
        Ok(group)
    }

    pub(super) fn enable(&mut self) -> io::Result<()> {
        self.counters[0].enable()
    }

    pub(super) fn disable(&mut self) -> io::Result<()> {
        self.counters[0].disable()?;
        self.spins.iter_mut().for_each(SpinSampler::look);
        Ok(())
    }

    /// Adds the counts to `sum`. `events` are those with which the group was opened.
    pub(super) fn read_into(&mut self, events: &[PlannedEvent], sum: &mut GroupCounts) -> io::Result<()> {
        let data = self.counters[0].read_group()?;
        sum.enabled += data.time_enabled().unwrap_or_default();
        sum.running += data.time_running().unwrap_or_default();
        for (event, counter) in events.iter().zip(&self.counters) {
            let value = data.get(counter).map_or(0, |entry| entry.value());
            *sum.counts.entry(event.key.to_owned()).or_insert(0) += value;
        }
        if let Some(spins) = &mut self.spins {
            spins.look();
            *sum.counts.entry(Event::SpinInstructions.key().to_owned()).or_insert(0) += spins.counted();
        }
        Ok(())
    }
}

/// Raises the soft limit of open files so that `count` more fit, as far as the hard limit lets us. If it does not, opening
/// fails with an error.
pub(super) fn make_room_for_files(count: usize) {
    /// Files that the rest of the process may have open.
    const OTHERS: u64 = 1024;
    let count = count as u64;
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(count + OTHERS, |maximum| maximum.min(count + OTHERS));
    if limit.current.is_some_and(|current| current < wanted) {
        // A failure shows as EMFILE where the files are opened.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}
