//! Which events are counted together, and in which order the groups take their turns.

use std::collections::BTreeSet;

use perf_event::events::{CacheId, CacheResult, Hardware, Software};

use super::source::{Code, Source, core_pmu};
use super::spins::{PERIOD, SPIN_FUNCTIONS, Spins};
use super::trial::Trial;
use super::{CountersUnavailable, Event};
use crate::facts::guest;
use crate::facts::processor::{Identity, Topology};
use crate::host::Host;
use crate::top_down::method::{Lead, MemoryReads, NamedCode};
use crate::top_down::{Family, FrontEndSplit};

/// Groups of events that this machine can count, each as a whole.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub(super) groups: Vec<GroupPlan>,
    pub(super) family: Option<Family>,
    pub(super) slots_per_cycle: Option<u32>,
    pub(super) why_no_top_down: Option<String>,
    /// Samples of spinning, in the turns of one of the groups.
    pub(super) spins: Option<Spins>,
    pub(super) notes: BTreeSet<String>,
}

#[derive(Debug, Clone)]
pub(super) struct GroupPlan {
    pub(super) name: String,
    pub(super) events: Vec<PlannedEvent>,
}

/// An event by the source that works here.
#[derive(Debug, Clone)]
pub(super) struct PlannedEvent {
    pub(super) key: &'static str,
    pub(super) source: Source,
    /// Whether any work at all increases it.
    pub(super) counts_always: bool,
}

/// An event with all sources that can measure it, best first.
#[derive(Debug, Clone)]
pub(super) struct WantedEvent {
    pub(super) key: &'static str,
    pub(super) sources: Vec<Source>,
    pub(super) counts_always: bool,
}

#[derive(Debug, Clone)]
pub(super) struct WantedGroup {
    pub(super) name: String,
    /// Cycles and instructions: in every part if the group must be split.
    pub(super) lead: Vec<WantedEvent>,
    pub(super) own: Vec<WantedEvent>,
    /// Whether one of its own events must be the leader.
    pub(super) own_first: bool,
    /// Whether a part of it is useless.
    pub(super) whole: bool,
}

impl WantedGroup {
    /// Its events, the leader first.
    pub(super) fn events(&self) -> impl Iterator<Item = &WantedEvent> {
        let (first, second) = if self.own_first { (&self.own, &self.lead) } else { (&self.lead, &self.own) };
        first.iter().chain(second)
    }
}

/// The ways to count something, best first; the first that works is taken.
type Wish = Vec<WantedGroup>;

impl Plan {
    /// The known events that this machine can count. Each group is opened on the calling thread and counts a little
    /// work, some milliseconds in all. This finds groups that are too large, events that are not offered and counters
    /// that stand still before they matter. [`notes`](Plan::notes) says which events are missing and why.
    pub(crate) fn of_machine() -> Result<Plan, CountersUnavailable> {
        let host = Host::real();
        let identity = Identity::read(&host);
        let (family, why_unknown) = match Family::of(&identity) {
            Ok(family) => (Some(family), None),
            Err(why) => (None, Some(why)),
        };
        let slots_per_cycle = slots_per_cycle(&host);
        let why_no_top_down =
            why_unknown.or_else(|| why_no_top_down(family?, Topology::read(&host).threads_per_core, slots_per_cycle));
        let processor = Processor { host: &host, family, is_amd: identity.vendor == AMD };
        let wishes = wishes(&processor, why_no_top_down.is_none());
        let mut plan = Plan { family, slots_per_cycle, why_no_top_down, ..Plan::default() };
        if family == Some(Family::Skylake) && guest::hypervisor(&host).is_some() {
            plan.notes.insert(
                "top-down: a guest does not see whether its core is shared by hyper-threads; if it is, shares of slots are \
                 too small by up to half"
                    .to_owned(),
            );
        }
        plan.settle(&host, wishes)?;
        // One more event where there are fewest: a group that is too large is never given counters.
        let smallest = (0..plan.groups.len()).rev().min_by_key(|group| plan.groups[*group].events.len());
        plan.spins = smallest.map(|group| Spins {
            group,
            source: Source::hardware("instructions", Hardware::INSTRUCTIONS),
            period: PERIOD,
            functions: SPIN_FUNCTIONS,
        });
        Ok(plan)
    }

    /// Events that the kernel counts by itself: time on a core, page faults, context switches. Works where there are no
    /// counters in the processor.
    pub fn of_kernel() -> Result<Plan, CountersUnavailable> {
        let event = |event: Event, source: Source| WantedEvent {
            key: event.key(),
            sources: vec![source],
            counts_always: false,
        };
        let clock = || event(Event::TaskClock, Source::software("task-clock", Software::TASK_CLOCK));
        let faults = event(Event::PageFaults, Source::software("page-faults", Software::PAGE_FAULTS));
        let switches = Source::software("context-switches", Software::CONTEXT_SWITCHES).with_kernel();
        let group = |name: &str, own| {
            vec![WantedGroup {
                name: name.to_owned(),
                lead: vec![clock()],
                own: vec![own],
                own_first: false,
                whole: true,
            }]
        };
        let wishes = vec![group("faults", faults), group("switches", event(Event::ContextSwitches, switches))];
        let why_no_top_down = Some("the kernel's own events say nothing of slots".to_owned());
        let mut plan = Plan { why_no_top_down, ..Plan::default() };
        plan.settle(&Host::real(), wishes)?;
        Ok(plan)
    }

    /// The missing events with the reasons, and the substitutes for others.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().map(String::as_str)
    }

    /// The groups: their names and the keys of their events, the leader first.
    pub fn groups(&self) -> impl Iterator<Item = (&str, Vec<&'static str>)> {
        self.groups.iter().map(|group| (group.name.as_str(), group.events.iter().map(|event| event.key).collect()))
    }

    /// Leaves out the later half of the groups, because file descriptors are short.
    pub(super) fn leave_out_last_half(&mut self) {
        let left_out = self.groups.split_off(self.groups.len().div_ceil(2));
        self.spins = self.spins.take().filter(|spins| spins.group < self.groups.len());
        let names: Vec<String> = left_out.into_iter().map(|group| group.name).collect();
        self.notes.insert(format!(
            "too few files may be open for all counters (ulimit -Hn): left out are the groups {}",
            names.join(", ")
        ));
    }

    /// Takes the first way of each wish that works.
    pub(super) fn settle(&mut self, host: &Host, wishes: Vec<Wish>) -> Result<(), CountersUnavailable> {
        let mut trial = Trial::new(host);
        for wish in wishes {
            let mut refusals = Vec::new();
            for group in wish {
                match trial.settle(group)? {
                    Ok(found) => {
                        self.groups.extend(found);
                        refusals.clear();
                        break;
                    }
                    Err(refused) => refusals.push(refused),
                }
            }
            self.notes.extend(refusals);
        }
        self.notes.append(&mut trial.notes);
        if self.groups.is_empty() {
            return Err(CountersUnavailable::NothingCounts(self.notes.iter().cloned().collect()));
        }
        Ok(())
    }
}

/// Why a family has no breakdown on this machine, if that can be known before counting.
fn why_no_top_down(family: Family, threads_per_core: usize, slots_per_cycle: Option<u32>) -> Option<String> {
    match family {
        Family::Skylake if threads_per_core > 1 => Some(
            "this family counts slots of the whole core, and a process cannot count the other hyper-thread's half (switch \
             hyper-threads off: echo off > /sys/devices/system/cpu/smt/control)"
                .to_owned(),
        ),
        Family::Neoverse if slots_per_cycle.is_none() => {
            Some("the kernel does not tell how many slots a cycle has (caps/slots of the core's counters)".to_owned())
        }
        _ => None,
    }
}

/// Slots per cycle as reported by the kernel, on Arm only.
fn slots_per_cycle(host: &Host) -> Option<u32> {
    let text = host.text(format!("{}/caps/slots", core_pmu(host)?))?;
    let slots = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    slots.ok().filter(|slots| *slots > 0)
}

/// The properties of the processor that decide which events exist.
struct Processor<'a> {
    host: &'a Host,
    family: Option<Family>,
    is_amd: bool,
}

const AMD: &str = "AuthenticAMD";

/// All groups we want, the most important first: a caller that never rotates gets the first group only.
fn wishes(processor: &Processor<'_>, with_top_down: bool) -> Vec<Wish> {
    let host = processor.host;
    let table = processor.family.map(Family::table);
    let general = |event: Event| general(processor, event);
    let own = |code: &NamedCode| WantedEvent {
        key: code.name,
        sources: Source::code(host, code.code).into_iter().collect(),
        counts_always: code.counts_always,
    };
    let group = |name: &str, lead: Lead, own: Vec<WantedEvent>, whole: bool| WantedGroup {
        name: name.to_owned(),
        lead: match lead {
            Lead::Cycles => vec![general(Event::Cycles)],
            Lead::CyclesAndInstructions | Lead::Own => vec![general(Event::Cycles), general(Event::Instructions)],
        },
        own,
        own_first: lead == Lead::Own,
        whole,
    };
    let both = Lead::CyclesAndInstructions;
    let plain =
        |name: &str, events: &[Event]| group(name, both, events.iter().map(|event| general(*event)).collect(), false);

    let mut wishes = vec![vec![plain("caches", &[Event::L1dMisses, Event::LlcMisses, Event::BranchMisses])]];
    let methods = table.iter().filter(|_| with_top_down).flat_map(|table| table.methods);
    let top_down: Wish = methods
        .map(|method| {
            let name = format!("top-down by {}", method.name);
            group(&name, method.lead, method.events.iter().map(own).collect(), true)
        })
        .collect();
    wishes.push(top_down);
    let keyed = |codes: &[NamedCode], keys: &[Event]| -> Vec<WantedEvent> {
        codes.iter().zip(keys).map(|(code, event)| WantedEvent { key: event.key(), ..own(code) }).collect()
    };
    if let Some(served) = table.and_then(|table| table.served.as_ref()) {
        let keys = [Event::ServedByL2, Event::ServedByL3, Event::ServedByMemory];
        wishes.push(vec![group("levels", both, keyed(served, &keys), true)]);
    }
    if let Some(code) = table.and_then(|table| table.code.as_ref()) {
        wishes.push(vec![group("code", both, keyed(code, &[Event::CodeFromL2, Event::CodeBeyondL2]), true)]);
    }
    if let Some(MemoryReads::Events(events, _)) = table.map(|table| &table.memory_reads) {
        // Without instructions, so that four events fit into the five counters of some guests.
        wishes.push(vec![group("memory reads", Lead::Cycles, events.iter().map(own).collect(), true)]);
    }
    if let Some(split) = table.and_then(|table| table.memory.as_ref()) {
        wishes.push(vec![group("memory and core", Lead::Cycles, split.events.iter().map(own).collect(), true)]);
    }
    if let Some(split) = table.and_then(|table| table.memory_levels.as_ref()) {
        wishes.push(vec![group("levels of memory", Lead::Cycles, split.events.iter().map(own).collect(), true)]);
    }
    let splits = table.iter().flat_map(|table| table.front_end);
    let by_split =
        |split: &FrontEndSplit| group("front end", Lead::Cycles, split.events.iter().map(own).collect(), true);
    wishes.push(splits.map(by_split).collect());
    wishes.push(vec![plain("loads", &[Event::L1dLoads, Event::L1dMisses, Event::L2Misses])]);
    wishes.push(vec![plain("last level", &[Event::LlcLoads, Event::LlcMisses])]);
    wishes.push(vec![plain(
        "branches and pages",
        &[Event::Branches, Event::BranchMisses, Event::DtlbLoads, Event::DtlbMisses],
    )]);
    wishes.push(vec![plain("kernel mode", &[Event::KernelInstructions])]);
    wishes.retain(|wish| !wish.is_empty());
    wishes
}

/// The sources of an event on every processor, best first.
fn general(processor: &Processor<'_>, event: Event) -> WantedEvent {
    let Processor { host, family, is_amd } = *processor;
    let hardware = |name: &str, event| vec![Source::hardware(name, event)];
    let code = |code: Option<&NamedCode>, caveat: &'static str| {
        code.and_then(|code| Some(Source::code(host, code.code)?.with_caveat(caveat)))
    };
    let table = family.map(Family::table);
    let mut counts_always = false;
    let sources = match event {
        Event::Cycles => {
            counts_always = true;
            hardware("cycles", Hardware::CPU_CYCLES)
        }
        Event::Instructions => {
            counts_always = true;
            hardware("instructions", Hardware::INSTRUCTIONS)
        }
        Event::KernelInstructions => {
            vec![Source::hardware("instructions in kernel mode", Hardware::INSTRUCTIONS).in_kernel()]
        }
        Event::Branches => {
            counts_always = true;
            hardware("branches", Hardware::BRANCH_INSTRUCTIONS)
        }
        Event::BranchMisses => hardware("branch-misses", Hardware::BRANCH_MISSES),
        Event::L1dLoads => {
            counts_always = true;
            let own =
                code(table.and_then(|table| table.l1d_loads.as_ref()), "loads dispatched, speculative ones included");
            let any = Source::cache("L1-dcache-loads", CacheId::L1D, CacheResult::ACCESS);
            own.into_iter().chain([any]).collect()
        }
        Event::L1dMisses => {
            let misses = Source::cache("L1-dcache-load-misses", CacheId::L1D, CacheResult::MISS);
            vec![if is_amd {
                misses.with_caveat("requests of the data cache to L2, prefetches included")
            } else {
                misses
            }]
        }
        Event::L2Misses => {
            let caveat = match family {
                Some(Family::Skylake | Family::IceLake | Family::SapphireRapids) => "retired loads that missed it",
                Some(Family::NeoverseN1 | Family::Neoverse) => "refills of it, for instructions too",
                _ => "requests of the data cache that missed it, prefetches included",
            };
            code(table.and_then(|table| table.l2_misses.as_ref()), caveat).into_iter().collect()
        }
        Event::LlcLoads => last_level(processor, CacheResult::ACCESS),
        Event::LlcMisses => last_level(processor, CacheResult::MISS),
        Event::DtlbLoads => {
            let loads = Source::cache("dTLB-loads", CacheId::DTLB, CacheResult::ACCESS);
            vec![if is_amd { loads.with_caveat("lookups that missed the first level of the TLB") } else { loads }]
        }
        Event::DtlbMisses => vec![Source::cache("dTLB-load-misses", CacheId::DTLB, CacheResult::MISS)],
        Event::ServedByL2
        | Event::ServedByL3
        | Event::ServedByMemory
        | Event::CodeFromL2
        | Event::CodeBeyondL2
        | Event::SpinInstructions
        | Event::TaskClock
        | Event::PageFaults
        | Event::ContextSwitches => Vec::new(),
    };
    WantedEvent { key: event.key(), sources, counts_always }
}

/// AMD Zen counts misses of its last level outside of the cores, not by thread. Within the core it distinguishes demand
/// fills by where they came from; a fill from memory means that every cache was missed. The kernel's `cache-misses` are misses
/// of the second level there, so it must not be used instead.
fn last_level(processor: &Processor<'_>, result: CacheResult) -> Vec<Source> {
    /// Demand fills by source; the units of the own node's memory and another's.
    const FROM_MEMORY: Code = Code::new(0x43, 0x08 | 0x40);
    /// The same and those of other caches, the third level among them.
    const BEYOND_L2: Code = Code::new(0x43, 0x02 | 0x04 | 0x08 | 0x10 | 0x40);
    let is_miss = result == CacheResult::MISS;
    let generic = Source::cache(if is_miss { "LLC-load-misses" } else { "LLC-loads" }, CacheId::LL, result);
    match processor.family {
        Some(Family::Zen2 | Family::Zen3 | Family::Zen4 | Family::Zen5) => {
            let (fills, caveat) = if is_miss {
                (FROM_MEMORY, "demand fills from memory on this processor (event 0x43); prefetches are not in it")
            } else {
                (BEYOND_L2, "demand fills from beyond L2 on this processor (event 0x43); prefetches are not in it")
            };
            Source::code(processor.host, fills).map(|source| source.with_caveat(caveat)).into_iter().collect()
        }
        _ if processor.is_amd => vec![generic],
        _ => {
            let (name, event) = match is_miss {
                true => ("cache-misses", Hardware::CACHE_MISSES),
                false => ("cache-references", Hardware::CACHE_REFERENCES),
            };
            vec![generic, Source::hardware(name, event).with_caveat("the kernel's generic event on this processor")]
        }
    }
}

#[cfg(test)]
mod tests;
