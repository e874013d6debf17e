//! What is replayed: each session's units in order, the values that are mapped, and the units that wait for others.
//!
//! # What is kept
//! 1. Units of a session are sent in the recorded order, each after the answer to the one before.
//! 2. A value that the server made up (an identity, a sequence's number, a UUID, a moment) and that was sent later is
//!    replaced by the value that the unit has made in this run. Sources of such values are results of
//!    `RETURNING`, of functions of sequences and other functions whose results differ, and columns of a `SELECT` that an
//!    INSERT into its table had left to their defaults.
//! 3. A unit that uses a value of another session's transaction begins after that transaction has ended, if it did so in
//!    the recording, and after the last earlier transaction that wrote with the same value.
//!
//! Waits lead only to units that had ended before, so no cycle of waits exists. Other orders between sessions, such as
//! that of two changes of a row that existed before, are those of the replay's own timing.

mod commands;
mod links;
mod session;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use plimsoll_capture::event::{Event, Opened, SessionId, Unit};

pub(crate) use links::{Made, Use};
pub use shape::{NotCompared, Probe, Shape};

use crate::skip::Reason;
use links::Links;
use session::SessionState;
use shape::Shapes;

/// The part of a capture that is replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Where it begins, microseconds of the capture.
    pub from_us: u64,
    /// Where it ends.
    pub until_us: u64,
    /// The database whose sessions are replayed; by default the one with most units.
    pub database: Option<String>,
}

impl Selection {
    /// All of it.
    pub const ALL: Selection = Selection { from_us: 0, until_us: u64::MAX, database: None };
}

/// What a replay does.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The sessions, in the order in which they open.
    pub sessions: Vec<Script>,
    /// Kinds of units.
    pub shapes: Vec<Shape>,
    /// Statements to try on a target before the run.
    pub probes: Vec<Probe>,
    /// How many values are mapped.
    pub slot_count: usize,
    /// How many units have others that wait for them.
    pub awaited_count: usize,
    /// What the capture has.
    pub facts: Facts,
}

/// What a capture has, as far as it is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Facts {
    /// Units of the selected part.
    pub units: u64,
    /// Units that the recording has lost.
    pub lost: u64,
    /// Times that went backwards within a session.
    pub clock_jumps: u64,
    /// From the beginning of the part to its last answer, microseconds.
    pub span_us: u64,
    /// The database whose sessions are replayed.
    pub database: Option<String>,
    /// Roles that clients used.
    pub roles: BTreeSet<String>,
    /// Sessions that were open before the capture began.
    pub unopened: u64,
    /// Tables that statements write.
    pub written: BTreeSet<String>,
    /// Tables that statements create.
    pub created: BTreeSet<String>,
}

/// A session as it is replayed.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Its number in the capture.
    pub session: SessionId,
    /// Parameters of its startup message.
    pub parameters: Vec<(String, String)>,
    /// When it opens, microseconds from the beginning of the part.
    pub opens_us: u64,
    /// When it closes, if it was recorded.
    pub closes_us: Option<u64>,
    /// Requests that bring it to the state that it had at the beginning of the part: settings and prepared statements.
    pub prelude: Vec<Vec<u8>>,
    /// Its units.
    pub units: Vec<Planned>,
}

/// A unit as it is replayed.
#[derive(Debug, Clone, Default)]
pub struct Planned {
    /// When it began, microseconds from the beginning of the part.
    pub at_us: u64,
    /// How long its answer took.
    pub took_us: u64,
    /// Its place in [`Plan::shapes`].
    pub shape: usize,
    /// What the client sent.
    pub request: Vec<u8>,
    /// Values in it that are replaced.
    pub(crate) uses: Vec<Use>,
    /// Values of the answer that are used later.
    pub(crate) makes: Vec<Made>,
    /// Units of other sessions that must have ended, by their number as awaited units.
    pub(crate) waits: Vec<usize>,
    /// Its number as an awaited unit.
    pub(crate) awaited: Option<usize>,
    /// Why it is not sent.
    pub skip: Option<Reason>,
    /// The answer.
    pub recorded: Answered,
    /// Whether a transaction is open after it.
    pub leaves_open: bool,
    /// Whether its answer was complete before the connection ended.
    pub is_answered: bool,
}

/// An answer, as far as answers are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    /// The SQLSTATE of its first error.
    pub error: Option<[u8; 5]>,
    /// Rows returned.
    pub rows: u64,
    /// Rows that its statements counted, such as those changed.
    pub counted: u64,
    /// The sum of the hashes of its rows.
    pub checksum: u64,
}

impl Plan {
    /// Plans the replay of a capture's events.
    pub fn of(events: Vec<Event>, selection: &Selection) -> Plan {
        let database = selection.database.clone().or_else(|| busiest_database(&events));
        let mut planner = Planner { selection, database, ..Planner::new(selection) };
        events.into_iter().for_each(|event| planner.take(event));
        planner.finish()
    }

    /// How many units are skipped, by reason.
    pub fn skipped(&self) -> BTreeMap<Reason, u64> {
        let mut counts = BTreeMap::new();
        for reason in self.units().filter_map(|unit| unit.skip) {
            *counts.entry(reason).or_default() += 1;
        }
        counts
    }

    /// Whether a statement that is sent may change data.
    pub fn writes(&self) -> bool {
        self.units().any(|unit| unit.skip.is_none() && self.shapes[unit.shape].writes)
    }

    /// Skips the units of these shapes, which the target cannot run.
    pub fn leave_out(&mut self, shapes: &BTreeSet<usize>) {
        let units = self.sessions.iter_mut().flat_map(|script| &mut script.units);
        for unit in units.filter(|unit| shapes.contains(&unit.shape)) {
            unit.skip.get_or_insert(Reason::CannotRun);
        }
    }

    /// All units.
    pub fn units(&self) -> impl Iterator<Item = &Planned> {
        self.sessions.iter().flat_map(|script| &script.units)
    }

    /// The most sessions that are open at once.
    pub fn sessions_at_once(&self) -> usize {
        let mut changes: Vec<(u64, i64)> = Vec::new();
        for script in &self.sessions {
            changes.push((script.opens_us, 1));
            let last = script.units.last().map_or(0, |unit| unit.at_us + unit.took_us);
            changes.push((script.closes_us.unwrap_or(u64::MAX).max(last), -1));
        }
        changes.sort_unstable_by_key(|(at, change)| (*at, -change));
        let (mut open, mut most) = (0_i64, 0);
        for (_, change) in changes {
            open += change;
            most = most.max(open);
        }
        usize::try_from(most).unwrap_or(0)
    }
}

/// The database with the most units.
fn busiest_database(events: &[Event]) -> Option<String> {
    let mut of_session: BTreeMap<SessionId, &str> = BTreeMap::new();
    let mut units: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events {
        match event {
            Event::Opened(opened) => {
                of_session.insert(opened.session, &opened.database);
                units.entry(&opened.database).or_default();
            }
            Event::Unit(unit) => {
                if let Some(database) = of_session.get(&unit.session) {
                    *units.entry(*database).or_default() += 1;
                }
            }
            Event::Closed(_) | Event::Lost(_) => {}
        }
    }
    units.into_iter().max_by_key(|(name, count)| (*count, std::cmp::Reverse(*name))).map(|(name, _)| name.to_owned())
}

/// A unit by the places of its session and of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UnitRef {
    pub session: usize,
    pub unit: usize,
}

struct Planner<'a> {
    selection: &'a Selection,
    database: Option<String>,
    states: BTreeMap<SessionId, SessionState>,
    scripts: Vec<Script>,
    shapes: Shapes,
    links: Links,
    facts: Facts,
}

impl<'a> Planner<'a> {
    fn new(selection: &'a Selection) -> Self {
        Planner {
            selection,
            database: None,
            states: BTreeMap::new(),
            scripts: Vec::new(),
            shapes: Shapes::default(),
            links: Links::default(),
            facts: Facts::default(),
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Opened(opened) => self.open(opened),
            Event::Unit(unit) => self.unit(unit),
            Event::Closed(closed) => {
                let at_us = self.relative(closed.at_us);
                if let Some(state) = self.states.get(&closed.session) {
                    self.scripts[state.index].closes_us = Some(at_us);
                }
            }
            Event::Lost(lost) => self.facts.lost += lost.units,
        }
    }

    fn relative(&self, at_us: u64) -> u64 {
        at_us.saturating_sub(self.selection.from_us)
    }

    fn open(&mut self, opened: Opened) {
        let is_ours = self.database.as_ref().is_none_or(|database| *database == opened.database);
        let is_replication = opened.parameters.iter().any(|(name, value)| name == "replication" && value != "false");
        let unfit = match () {
            () if is_replication => Some(Reason::Replication),
            () if !is_ours => Some(Reason::OtherDatabase),
            () => None,
        };
        self.facts.roles.insert(opened.user);
        let opens_us = self.relative(opened.at_us);
        self.begin(opened.session, opens_us, opened.parameters, SessionState { unfit, ..Default::default() });
    }

    fn begin(&mut self, session: SessionId, opens_us: u64, parameters: Vec<(String, String)>, state: SessionState) {
        let index = self.scripts.len();
        self.scripts.push(Script { session, parameters, opens_us, ..Script::default() });
        self.states.insert(session, SessionState { index, ..state });
    }

    fn unit(&mut self, unit: Unit) {
        if !self.states.contains_key(&unit.session) {
            self.facts.unopened += 1;
            let at_us = self.relative(unit.at_us);
            self.begin(unit.session, at_us, Vec::new(), SessionState::default());
        }
        let state = self.states.get_mut(&unit.session).expect("it was inserted if it was missing");
        if unit.at_us < state.last_us {
            self.facts.clock_jumps += 1;
        }
        let began_us = unit.at_us.max(state.last_us);
        state.last_us = began_us;
        let reading = state.read(&unit);
        let is_selected = (self.selection.from_us..self.selection.until_us).contains(&began_us);
        if !is_selected {
            state.pass(&reading, &unit);
            if began_us < self.selection.from_us {
                state.wait_for_begin();
            }
            return;
        }
        let script = &mut self.scripts[state.index];
        if script.units.is_empty() && state.units_before > 0 {
            script.prelude = state.prelude();
        }
        let at = UnitRef { session: state.index, unit: script.units.len() };
        let span = Span { began_us, ended_us: began_us.saturating_add(unit.took_us) };
        let shape = self.shapes.take(&reading, &unit, at.session, state);
        let (uses, waits) = self.links.uses(&reading, &unit.request, at, span);
        let skip = state.unfit.or(reading.unfit).or_else(|| state.is_cut.then_some(Reason::CutTransaction));
        self.links.finish_unit(&reading, &unit, at, span, &uses);
        state.pass(&reading, &unit);
        script.units.push(Planned {
            at_us: began_us - self.selection.from_us,
            took_us: unit.took_us,
            shape,
            recorded: answered(&unit),
            leaves_open: matches!(unit.answer.state, b'T' | b'E'),
            is_answered: unit.answer.state != 0,
            request: unit.request,
            uses,
            makes: Vec::new(),
            waits,
            awaited: None,
            skip,
        });
        self.facts.units += 1;
        self.facts.span_us = self.facts.span_us.max(span.ended_us - self.selection.from_us);
    }

    fn finish(mut self) -> Plan {
        for (at, made) in self.links.made() {
            self.scripts[at.session].units[at.unit].makes.push(made);
        }
        for (at, number) in self.links.awaited() {
            self.scripts[at.session].units[at.unit].awaited = Some(number);
        }
        let (slot_count, awaited_count) = (self.links.slot_count(), self.links.awaited_count());
        // Places in the list are known to links and probes, so sessions without units stay until here.
        let mut order: Vec<usize> = (0..self.scripts.len()).filter(|at| !self.scripts[*at].units.is_empty()).collect();
        order.sort_by_key(|at| (self.scripts[*at].opens_us, *at));
        let mut all: Vec<Option<Script>> = self.scripts.into_iter().map(Some).collect();
        let parameters: Vec<Vec<(String, String)>> =
            all.iter().flatten().map(|script| script.parameters.clone()).collect();
        let sessions = order.iter().filter_map(|at| all[*at].take()).collect();
        self.facts.database = self.database;
        let (shapes, probes) = self.shapes.finish(&mut self.facts, &parameters);
        Plan { sessions, shapes, probes, slot_count, awaited_count, facts: self.facts }
    }
}

/// When a unit began and was answered, microseconds of the capture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub began_us: u64,
    pub ended_us: u64,
}

fn answered(unit: &Unit) -> Answered {
    let answer = &unit.answer;
    Answered {
        error: answer.error.as_deref().and_then(|code| code.as_bytes().try_into().ok()),
        rows: answer.rows,
        counted: answer.tags.iter().map(|tag| counted(tag)).sum(),
        checksum: answer.checksum,
    }
}

/// The number at the end of a command's tag: `UPDATE 3`, `INSERT 0 1`; 0 without one.
pub(crate) fn counted(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// A range within a longer text, from that of a part which begins at `offset`.
pub(crate) fn shifted(range: &Range<usize>, offset: usize) -> Range<usize> {
    range.start + offset..range.end + offset
}

#[cfg(test)]
mod tests;
