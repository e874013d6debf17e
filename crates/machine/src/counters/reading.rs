//! The result of counting: raw counts by group, and figures, ratios and breakdowns from counts that were taken
//! together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Event;
use crate::top_down::method::{Counts, MemoryReads, NamedCode};
use crate::top_down::{Family, TopDown};

/// The counts of one group of events over all threads of a set, in user mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupCounts {
    /// The group's name.
    pub group: String,
    /// Time that the threads were on cores while this group was the one that counts.
    pub enabled: Duration,
    /// The part of `enabled` in which the kernel had given it counters.
    pub running: Duration,
    /// Events by key.
    pub counts: BTreeMap<String, u64>,
}

/// The counts of one set of threads. Its groups took turns, and all count the same threads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetCounts {
    /// The groups, in the order of the plan.
    pub groups: Vec<GroupCounts>,
    /// Share of the threads' time on cores in which they were in user mode, the only mode in which events are counted;
    /// `None` if it is not known.
    #[serde(default)]
    pub user_share: Option<f64>,
}

impl SetCounts {
    /// Time that the threads were on cores: groups take turns, so that their times add up to it.
    pub fn on_core(&self) -> Duration {
        self.groups.iter().map(|group| group.enabled).sum()
    }
}

/// The counts of several sets of threads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterReading {
    /// Counts of each set; more than one after adding readings.
    pub sets: Vec<SetCounts>,
    /// The processor, if its own events are known.
    pub family: Option<Family>,
    /// Slots per cycle, where the processor reports it.
    pub slots_per_cycle: Option<u32>,
    /// Why there is no top-down breakdown, if it was known before counting.
    pub why_no_top_down: Option<String>,
    /// Why figures are missing, and the substitutes for others.
    pub notes: Vec<String>,
}

/// A count over the whole window, estimated from the part of it in which the event was counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// How often, over the whole window.
    pub count: u64,
    /// Share of the threads' time on cores in which it was counted; 1 is exact.
    pub coverage: f64,
}

/// Events that were counted at the same moments.
#[derive(Debug, Clone, PartialEq)]
pub struct Together {
    /// Estimates over the whole window, in the order in which events were asked for.
    pub counts: Vec<f64>,
    /// Time on cores over the whole window.
    pub on_core: Duration,
    /// Share of it in which all the events were counted.
    pub coverage: f64,
}

/// Lines read from memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryRead {
    /// Bytes: 64 for each line.
    pub bytes: u64,
    /// Share of the threads' time on cores in which it was counted.
    pub coverage: f64,
    /// What the figure includes and excludes.
    pub meaning: String,
}

const LINE_BYTES: f64 = 64.0;

impl CounterReading {
    /// Counts of events that were counted together, scaled to the whole window. `None` if a set of threads that ran has no
    /// group that counted all of them.
    ///
    /// In each set, the counts of all groups that have all these events are added and multiplied by the set's time on cores
    /// over these groups' running time. Time on cores is taken rather than instructions, because every group has it; both
    /// give the same on steady work. Several sets are scaled each by itself and added.
    pub fn together(&self, keys: &[&str]) -> Option<Together> {
        let mut counts = vec![0.0; keys.len()];
        let (mut on_core, mut covered) = (Duration::ZERO, Duration::ZERO);
        let mut is_counted = false;
        for set in &self.sets {
            let has_all = |group: &&GroupCounts| keys.iter().all(|key| group.counts.contains_key(*key));
            let groups: Vec<&GroupCounts> = set.groups.iter().filter(has_all).collect();
            let running: Duration = groups.iter().map(|group| group.running).sum();
            let set_on_core = set.on_core();
            is_counted |= !groups.is_empty();
            if set_on_core.is_zero() {
                continue;
            }
            if running.is_zero() {
                return None;
            }
            // More than one by the moments between two readings of the clock; a count is never scaled down.
            let scale = (set_on_core.as_secs_f64() / running.as_secs_f64()).max(1.0);
            for (sum, key) in counts.iter_mut().zip(keys) {
                *sum += groups.iter().map(|group| group.counts[*key] as f64).sum::<f64>() * scale;
            }
            on_core += set_on_core;
            covered += running;
        }
        // Threads that never ran did nothing, and nothing of it was missed.
        let share = if on_core.is_zero() { 1.0 } else { covered.as_secs_f64() / on_core.as_secs_f64() };
        is_counted.then_some(Together { counts, on_core, coverage: share.min(1.0) })
    }

    /// How often an event happened.
    pub fn figure(&self, event: Event) -> Option<Figure> {
        let counted = self.together(&[event.key()])?;
        Some(Figure { count: counted.counts[0].round() as u64, coverage: counted.coverage })
    }

    /// Events of one kind per event of another. `None` if they were not counted together, or `to` did not occur.
    pub fn ratio(&self, of: Event, to: Event) -> Option<f64> {
        let counted = self.together(&[of.key(), to.key()])?;
        (counted.counts[1] > 0.0).then(|| counted.counts[0] / counted.counts[1])
    }

    /// Share of the time on cores in which the threads were in user mode, the only mode in which events are counted.
    /// `None` if it is not known for some thread that ran.
    pub(crate) fn user_share(&self) -> Option<f64> {
        let (mut user, mut all) = (0.0, 0.0);
        for set in self.sets.iter().filter(|set| !set.on_core().is_zero()) {
            let on_core = set.on_core().as_secs_f64();
            user += on_core * set.user_share?;
            all += on_core;
        }
        (all > 0.0).then(|| user / all)
    }

    pub(crate) fn instructions_per_cycle(&self) -> Option<f64> {
        self.ratio(Event::Instructions, Event::Cycles)
    }

    pub(crate) fn per_thousand_instructions(&self, event: Event) -> Option<f64> {
        self.ratio(event, Event::Instructions).map(|ratio| ratio * 1000.0)
    }

    /// The smallest coverage of any figure; 1 if there is none.
    pub fn coverage(&self) -> f64 {
        Event::HARDWARE
            .iter()
            .filter_map(|event| self.figure(*event))
            .fold(1.0, |least, figure| least.min(figure.coverage))
    }

    /// Where the slots went, by the best method whose events were counted together, or why that is unknown.
    pub fn top_down(&self) -> Result<TopDown, String> {
        let Some(family) = self.family else {
            return Err(self.why_no_top_down.clone().unwrap_or_else(|| "the processor is not known".to_owned()));
        };
        let cycles = Event::Cycles.key();
        let mut why = self.why_no_top_down.clone();
        for method in family.table().methods {
            let keys: Vec<&'static str> =
                std::iter::once(cycles).chain(method.events.iter().map(|event| event.name)).collect();
            let Some(counted) = self.together(&keys) else { continue };
            let counts: BTreeMap<&'static str, f64> = keys.into_iter().zip(counted.counts).collect();
            let counts = Counts { counts: &counts, slots_per_cycle: f64::from(self.slots_per_cycle.unwrap_or(0)) };
            match TopDown::evaluate(family, method, &counts, counted.coverage) {
                Ok(mut top_down) => {
                    self.split_backend(&mut top_down);
                    self.split_memory(&mut top_down);
                    self.split_frontend(&mut top_down);
                    top_down.note_missing_levels();
                    return Ok(top_down);
                }
                Err(reason) => why = Some(reason),
            }
        }
        Err(why.unwrap_or_else(|| "the events of no method were counted together".to_owned()))
    }

    /// The counts of a group with cycles, by name, and the share of the time in which they were taken.
    fn group(&self, events: &[NamedCode]) -> Option<(BTreeMap<&'static str, f64>, f64)> {
        let names = events.iter().map(|event| event.name);
        let keys: Vec<&'static str> = std::iter::once(Event::Cycles.key()).chain(names).collect();
        let counted = self.together(&keys)?;
        Some((keys.into_iter().zip(counted.counts).collect(), counted.coverage))
    }

    /// Adds level 2 of the backend where a separate group counts it.
    fn split_backend(&self, top_down: &mut TopDown) {
        let Some(split) = &top_down.family.table().memory else { return };
        let Some((counts, coverage)) = self.group(split.events) else { return };
        let retiring = top_down.retiring.unwrap_or(f64::NAN);
        top_down.split_backend((split.evaluate)(&Counts { counts: &counts, slots_per_cycle: 0.0 }, retiring));
        if top_down.memory.is_some() {
            top_down.notes.push(format!(
                "memory and core are split by events of other moments ({:.0} % of the time)",
                coverage * 100.0
            ));
        }
    }

    /// Adds level 3 of the backend where a separate group counts it.
    fn split_memory(&self, top_down: &mut TopDown) {
        let Some(split) = &top_down.family.table().memory_levels else { return };
        let Some((counts, _)) = self.group(split.events) else { return };
        top_down.split_memory((split.evaluate)(&Counts { counts: &counts, slots_per_cycle: 0.0 }));
    }

    /// Adds levels 2 and 3 of the frontend where a separate group counts them.
    fn split_frontend(&self, top_down: &mut TopDown) {
        for split in top_down.family.table().front_end {
            let Some((counts, coverage)) = self.group(split.events) else { continue };
            top_down.split_frontend((split.evaluate)(&Counts { counts: &counts, slots_per_cycle: 0.0 }));
            let share = coverage * 100.0;
            top_down.notes.push(format!("the frontend is split by events of other moments ({share:.0} % of the time)"));
            return;
        }
    }

    /// Bytes that the threads' cores read from memory on their behalf, or why that is unknown.
    pub fn memory_read(&self) -> Result<MemoryRead, String> {
        let family = self.family.ok_or("the processor's events are not known")?;
        match &family.table().memory_reads {
            MemoryReads::Unknown(why) => Err((*why).to_owned()),
            MemoryReads::Events(events, meaning) => {
                let keys: Vec<&str> = events.iter().map(|event| event.name).collect();
                let counted = self.together(&keys).ok_or("lines read from memory were not counted")?;
                Ok(MemoryRead {
                    bytes: (counted.counts.iter().sum::<f64>() * LINE_BYTES).round() as u64,
                    coverage: counted.coverage,
                    meaning: (*meaning).to_owned(),
                })
            }
        }
    }

    /// The reading in the form of a result document.
    pub fn summary(&self) -> CounterSummary {
        let (top_down, no_top_down) = split(self.top_down());
        let (memory_read, no_memory_read) = split(self.memory_read());
        let figures = Event::HARDWARE.iter().filter_map(|event| Some((*event, self.figure(*event)?)));
        let mut notes = self.notes.clone();
        notes.extend(no_top_down.map(|why| format!("no top-down breakdown: {why}")));
        notes.extend(no_memory_read.map(|why| format!("no memory reads: {why}")));
        CounterSummary {
            figures: figures.collect(),
            instructions_per_cycle: self.instructions_per_cycle(),
            llc_misses_per_thousand_instructions: self.per_thousand_instructions(Event::LlcMisses),
            coverage: self.coverage(),
            top_down,
            memory_read,
            notes,
        }
    }
}

impl std::ops::Add for CounterReading {
    type Output = CounterReading;

    /// The reading of both sets of threads together; a thread should be in one only. A figure that one of them lacks is
    /// missing in the sum, because a partial count would be taken for the total.
    fn add(mut self, other: CounterReading) -> CounterReading {
        self.sets.extend(other.sets);
        let notes: BTreeSet<String> = self.notes.drain(..).chain(other.notes).collect();
        self.notes = notes.into_iter().collect();
        self.family = self.family.or(other.family);
        self.slots_per_cycle = self.slots_per_cycle.or(other.slots_per_cycle);
        self.why_no_top_down = self.why_no_top_down.or(other.why_no_top_down);
        self
    }
}

fn split<T>(answer: Result<T, String>) -> (Option<T>, Option<String>) {
    match answer {
        Ok(answer) => (Some(answer), None),
        Err(why) => (None, Some(why)),
    }
}

/// All figures of a reading, for result documents. The notes explain missing ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterSummary {
    /// Counts of the events that were counted.
    pub figures: BTreeMap<Event, Figure>,
    /// Instructions per cycle.
    pub instructions_per_cycle: Option<f64>,
    /// Last-level cache misses per thousand instructions.
    pub llc_misses_per_thousand_instructions: Option<f64>,
    /// The smallest coverage of any figure.
    pub coverage: f64,
    /// Where the slots went.
    pub top_down: Option<TopDown>,
    /// Lines read from memory.
    pub memory_read: Option<MemoryRead>,
    /// Why figures are missing, and the substitutes for others.
    pub notes: Vec<String>,
}

#[cfg(test)]
pub(crate) mod tests;
