//! What a capture holds, in a few figures.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::event::{Event, SessionId, Unit, WhyLost};

/// What a capture holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Summary {
    /// The sessions, also those whose opening is missing.
    pub sessions: u64,
    /// The most sessions at once.
    pub sessions_max: u64,
    /// The units.
    pub units: u64,
    /// Their statements by command, as far as the server has completed them: `SELECT`, `CREATE TABLE`.
    pub statements: BTreeMap<String, u64>,
    /// Units that failed, by SQLSTATE.
    pub errors: BTreeMap<String, u64>,
    /// Units whose connection ended before they were answered.
    pub unanswered: u64,
    /// Rows that were returned.
    pub rows: u64,
    /// Bytes of requests.
    pub request_bytes: u64,
    /// Bytes of answers.
    pub answer_bytes: u64,
    /// Units that are missing, by reason.
    pub lost: BTreeMap<&'static str, u64>,
    /// When the first event happened and the last was over, in microseconds since the capture began.
    pub span_us: Option<(u64, u64)>,
    /// Roles, each with the number of its sessions.
    pub users: BTreeMap<String, u64>,
    /// Databases, each with the number of its sessions.
    pub databases: BTreeMap<String, u64>,
    #[serde(skip)]
    open: BTreeSet<SessionId>,
    #[serde(skip)]
    seen: BTreeSet<SessionId>,
}

impl Summary {
    /// The summary of these events.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut summary = Summary::default();
        events.into_iter().for_each(|event| summary.add(event));
        summary
    }

    /// Adds an event.
    pub fn add(&mut self, event: &Event) {
        let mut end_us = event.at_us();
        match event {
            Event::Opened(opened) => {
                self.meet(opened.session);
                *self.users.entry(opened.user.clone()).or_default() += 1;
                *self.databases.entry(opened.database.clone()).or_default() += 1;
            }
            Event::Unit(unit) => {
                end_us = unit.at_us.saturating_add(unit.took_us);
                self.meet(unit.session);
                self.add_unit(unit);
            }
            Event::Closed(closed) => drop(self.open.remove(&closed.session)),
            Event::Lost(lost) => *self.lost.entry(name(lost.why)).or_default() += lost.units,
        }
        let (first, last) = self.span_us.unwrap_or((event.at_us(), end_us));
        self.span_us = Some((first.min(event.at_us()), last.max(end_us)));
    }

    fn meet(&mut self, session: SessionId) {
        if self.seen.insert(session) {
            self.sessions += 1;
            self.open.insert(session);
            self.sessions_max = self.sessions_max.max(self.open.len() as u64);
        }
    }

    fn add_unit(&mut self, unit: &Unit) {
        self.units += 1;
        self.rows += unit.answer.rows;
        self.request_bytes += unit.request.len() as u64;
        self.answer_bytes += unit.answer.bytes;
        self.unanswered += u64::from(unit.answer.state == 0);
        for tag in &unit.answer.tags {
            *self.statements.entry(command(tag).to_owned()).or_default() += 1;
        }
        if let Some(error) = &unit.answer.error {
            *self.errors.entry(error.clone()).or_default() += 1;
        }
    }

    /// The seconds between the first event and the last.
    pub fn seconds(&self) -> f64 {
        self.span_us.map_or(0.0, |(first, last)| (last - first) as f64 / 1e6)
    }

    /// How many units are missing for that reason; `None` if none are.
    pub fn lost_for(&self, why: WhyLost) -> Option<u64> {
        self.lost.get(name(why)).copied()
    }

    /// How many units are missing.
    pub fn lost_units(&self) -> u64 {
        self.lost.values().sum()
    }
}

/// A command's tag without its counts: `INSERT 0 5` is `INSERT`.
fn command(tag: &str) -> &str {
    tag.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ')
}

/// A reason as a key.
fn name(why: WhyLost) -> &'static str {
    match why {
        WhyLost::TooFast => "too_fast",
        WhyLost::Disk => "disk",
        WhyLost::Size => "size",
        WhyLost::TooLarge => "too_large",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Answer, Closed, Lost, Opened};

    #[test]
    fn figures_are_counted_by_command_error_and_session() {
        let opened = |session| {
            let (user, database) = ("shop".to_owned(), "shop".to_owned());
            Event::Opened(Opened { session, at_us: 10, user, database, parameters: Vec::new() })
        };
        let unit = |session, tags: &[&str], error: Option<&str>| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            let answer = Answer { state: b'I', tags, error: error.map(str::to_owned), rows: 2, ..Answer::default() };
            Event::Unit(Unit { session, at_us: 20, took_us: 5, request: vec![b'S'; 5], answer })
        };
        let events = [
            opened(1),
            opened(2),
            unit(1, &["INSERT 0 5", "SELECT 12"], None),
            Event::Closed(Closed { session: 1, at_us: 30 }),
            unit(3, &["CREATE TABLE"], None),
            unit(2, &[], Some("23505")),
            Event::Lost(Lost { at_us: 40, units: 6, why: WhyLost::Disk }),
        ];
        let summary = Summary::of(&events);
        assert_eq!((summary.sessions, summary.sessions_max, summary.units, summary.rows), (3, 2, 3, 6));
        let counted = |name: &str| summary.statements.get(name).copied();
        assert_eq!([counted("INSERT"), counted("SELECT"), counted("CREATE TABLE")], [Some(1); 3]);
        assert_eq!(summary.errors["23505"], 1);
        assert_eq!((summary.lost["disk"], summary.lost_units()), (6, 6));
        assert_eq!(summary.span_us, Some((10, 40)));
        assert_eq!(summary.users["shop"], 2);
        assert_eq!(Summary::of(&[]).seconds(), 0.0);
    }
}
