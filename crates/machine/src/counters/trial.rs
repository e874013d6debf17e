//! Finds out by counting the calling thread which groups of events work: the kernel opens groups that can never be
//! scheduled, and guests have counters that open and stand still.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::io::Errno;

use super::opened::{CountScope, OpenedGroup};
use super::plan::{GroupPlan, PlannedEvent, WantedEvent, WantedGroup};
use super::probe::wander;
use super::reading::GroupCounts;
use super::{CountersUnavailable, Event};
use crate::host::Host;

pub(super) struct Trial<'a> {
    host: &'a Host,
    /// Events found missing, and the substitutes used.
    pub(super) notes: BTreeSet<String>,
    /// Sources that opened, by event.
    opened: BTreeMap<&'static str, usize>,
}

enum GroupOutcome {
    Works(GroupPlan),
    /// The kernel has too few counters for the whole group.
    TooLarge,
    /// It cannot be used, and splitting it would not help.
    Refused(String),
}

/// The calling thread, without threads or processes that it starts.
const HERE: CountScope<'static> = CountScope::Task { tid: 0, inherit: false };

/// Loads of the work that is counted: some tenths of a millisecond.
const LOADS: usize = 20_000;

impl<'a> Trial<'a> {
    pub(super) fn new(host: &'a Host) -> Trial<'a> {
        Trial { host, notes: BTreeSet::new(), opened: BTreeMap::new() }
    }

    /// Tries a group, in parts if it is too large and parts are useful. The inner error says why the group cannot be
    /// used; the outer one, that no group can.
    pub(super) fn settle(
        &mut self,
        wanted: WantedGroup,
    ) -> Result<Result<Vec<GroupPlan>, String>, CountersUnavailable> {
        let mut found = Vec::new();
        let mut waiting = vec![wanted];
        while let Some(group) = waiting.pop() {
            match self.attempt(&group)? {
                GroupOutcome::Works(plan) => found.push(plan),
                GroupOutcome::Refused(why) if group.whole => return Ok(Err(why)),
                GroupOutcome::Refused(why) => {
                    self.notes.insert(why);
                }
                GroupOutcome::TooLarge if group.whole || group.own.len() < 2 => {
                    let why = format!("{}: {} events at once are too many here", group.name, group.events().count());
                    if group.whole {
                        return Ok(Err(why));
                    }
                    // The other parts are useful without it.
                    self.notes.insert(why);
                }
                GroupOutcome::TooLarge => waiting.extend(halves(&group).into_iter().rev()),
            }
        }
        Ok(Ok(found))
    }

    fn attempt(&mut self, wanted: &WantedGroup) -> Result<GroupOutcome, CountersUnavailable> {
        let mut events: Vec<PlannedEvent> = Vec::new();
        let mut group: Option<OpenedGroup> = None;
        for event in wanted.events() {
            match self.join(&mut group, event)? {
                Ok(planned) => events.push(planned),
                Err(why) if is_essential(event) && !wanted.whole => {
                    return Err(CountersUnavailable::explain(&why, self.host));
                }
                Err(_) if !events.is_empty() && opens_alone(event) => return Ok(GroupOutcome::TooLarge),
                Err(why) => {
                    let told = format!("{} are not offered here ({why})", name_of(event.key));
                    if wanted.whole {
                        return Ok(GroupOutcome::Refused(format!("{}: {told}", wanted.name)));
                    }
                    self.notes.insert(told);
                }
            }
        }
        let Some(mut group) = group else { return Ok(GroupOutcome::Refused(format!("{}: no events", wanted.name))) };
        if events.len() == wanted.lead.len() && !wanted.own.is_empty() {
            return Ok(GroupOutcome::Refused(format!("{}: none of its events is offered", wanted.name)));
        }
        let counts =
            count_work(&mut group, &events).map_err(|error| CountersUnavailable::explain(&error, self.host))?;
        Ok(self.judge(wanted, events, &counts))
    }

    /// Whether a group that opened also counts.
    fn judge(&mut self, wanted: &WantedGroup, mut events: Vec<PlannedEvent>, counts: &GroupCounts) -> GroupOutcome {
        if counts.running.is_zero() {
            return GroupOutcome::TooLarge;
        }
        let stands = |event: &PlannedEvent| event.counts_always && counts.counts.get(event.key) == Some(&0);
        if let Some(still) = events.iter().find(|event| stands(event)) {
            let told = format!("{} ({}) stand at 0 here and are not used", name_of(still.key), still.source);
            if wanted.whole || is_leading(still.key) {
                return GroupOutcome::Refused(format!("{}: {told}", wanted.name));
            }
            self.notes.insert(told);
        }
        events.retain(|event| !stands(event));
        for event in &events {
            self.notes.extend(event.source.caveat().map(|caveat| format!("{} are {caveat}", name_of(event.key))));
        }
        GroupOutcome::Works(GroupPlan { name: wanted.name.clone(), events })
    }

    /// Adds an event to the group by the first of its sources that opens. The outer error ends the trial.
    fn join(
        &mut self,
        group: &mut Option<OpenedGroup>,
        event: &WantedEvent,
    ) -> Result<io::Result<PlannedEvent>, CountersUnavailable> {
        let mut refusal = io::Error::other("the kernel does not say how to ask for it");
        let first = self.opened.get(event.key).copied().unwrap_or(0);
        for (index, source) in event.sources.iter().enumerate().skip(first) {
            let planned = PlannedEvent { key: event.key, source: source.clone(), counts_always: event.counts_always };
            let joined = match group {
                Some(group) => group.join(&HERE, &planned),
                None => OpenedGroup::lead(&HERE, &planned).map(|opened| *group = Some(opened)),
            };
            match joined {
                Ok(()) => {
                    self.opened.insert(event.key, index);
                    return Ok(Ok(planned));
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::MFILE | Errno::NFILE) => {
                        return Err(CountersUnavailable::explain(&error, self.host));
                    }
                    // A group's leader counts user mode only, the least permission there is; other members may ask for
                    // more.
                    Some(Errno::ACCESS | Errno::PERM | Errno::NOSYS) if group.is_none() => {
                        return Err(CountersUnavailable::explain(&error, self.host));
                    }
                    _ => refusal = error,
                },
            }
        }
        Ok(Err(refusal))
    }
}

/// A group in two parts, each with the leading events.
fn halves(group: &WantedGroup) -> Vec<WantedGroup> {
    let half = group.own.len().div_ceil(2);
    let part = |(number, own): (usize, &[WantedEvent])| WantedGroup {
        name: format!("{}/{}", group.name, number + 1),
        own: own.to_vec(),
        ..group.clone()
    };
    group.own.chunks(half).enumerate().map(part).collect()
}

/// Whether an event opens by itself, which means that the group was too large.
fn opens_alone(event: &WantedEvent) -> bool {
    event.sources.iter().any(|source| {
        let planned = PlannedEvent { key: event.key, source: source.clone(), counts_always: false };
        OpenedGroup::lead(&HERE, &planned).is_ok()
    })
}

/// Without cycles there are no counters at all.
fn is_essential(event: &WantedEvent) -> bool {
    event.key == Event::Cycles.key() || event.key == Event::TaskClock.key()
}

fn is_leading(key: &str) -> bool {
    [Event::Cycles.key(), Event::Instructions.key()].contains(&key)
}

/// The name of an event for people: that of a general event, or else the vendor's.
fn name_of(key: &str) -> String {
    Event::HARDWARE.iter().find(|event| event.key() == key).map_or_else(|| key.to_owned(), Event::to_string)
}

fn count_work(group: &mut OpenedGroup, events: &[PlannedEvent]) -> io::Result<GroupCounts> {
    let buffer = vec![1u64; 4096];
    group.enable()?;
    std::hint::black_box(wander(&buffer, LOADS));
    group.disable()?;
    let mut counts = GroupCounts::default();
    group.read_into(events, &mut counts)?;
    Ok(counts)
}

#[cfg(test)]
mod tests;
