//! Databases that operators have closed to new clients: by `DISABLE`, or by `KILL`.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Why a database takes no clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// `DISABLE`, until `ENABLE`.
    Disabled,
    /// `KILL`, until `RESUME`.
    Killed,
}

/// The closed databases.
#[derive(Debug, Default)]
pub struct Doors(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// `KILL` without a name closes all of them.
    are_all_killed: bool,
    closed: BTreeMap<String, Vec<Closed>>,
}

impl Doors {
    /// Closes a database, or all of them.
    pub(crate) fn close(&self, database: Option<&str>, why: Closed) {
        let mut state = self.0.lock();
        let Some(database) = database else {
            state.are_all_killed = true;
            return;
        };
        let reasons = state.closed.entry(database.to_owned()).or_default();
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }

    /// Opens what was closed for that reason; returns whether something was.
    pub(crate) fn open(&self, database: Option<&str>, why: Closed) -> bool {
        let mut state = self.0.lock();
        let is_one = |name: &String| database.is_none_or(|database| database == name);
        let mut was_closed = database.is_none() && std::mem::take(&mut state.are_all_killed);
        for (_, reasons) in state.closed.iter_mut().filter(|(name, _)| is_one(name)) {
            was_closed |= reasons.contains(&why);
            reasons.retain(|reason| *reason != why);
        }
        state.closed.retain(|_, reasons| !reasons.is_empty());
        was_closed
    }

    /// Whether a database is closed for that reason.
    pub(crate) fn is_closed(&self, database: &str, why: Closed) -> bool {
        let state = self.0.lock();
        let is_killed = state.are_all_killed && why == Closed::Killed;
        is_killed || state.closed.get(database).is_some_and(|reasons| reasons.contains(&why))
    }

    /// The databases that are closed by name.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().closed.keys().cloned().collect()
    }

    /// The error and the hint for a new client of a database that is closed.
    pub(crate) fn refusal(&self, database: &str) -> Option<(String, String)> {
        if self.is_closed(database, Closed::Disabled) {
            let hint = format!("ENABLE \"{database}\" on the governor's console opens it.");
            return Some((format!("database \"{database}\" is disabled at the governor"), hint));
        }
        let hint = || format!("RESUME \"{database}\" on the governor's console lets clients in again.");
        let what = || format!("database \"{database}\" is paused at the governor, whose sessions were ended (KILL)");
        self.is_closed(database, Closed::Killed).then(|| (what(), hint()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_closed_for_each_reason_by_itself() {
        let doors = Doors::default();
        assert_eq!(doors.refusal("shop"), None);
        doors.close(Some("shop"), Closed::Disabled);
        doors.close(Some("shop"), Closed::Killed);
        assert!(doors.refusal("shop").is_some_and(|(what, hint)| what.contains("disabled") && hint.contains("ENABLE")));
        assert_eq!(doors.refusal("orders"), None);
        assert!(doors.open(Some("shop"), Closed::Disabled) && !doors.open(Some("shop"), Closed::Disabled));
        assert!(doors.refusal("shop").is_some_and(|(what, hint)| what.contains("KILL") && hint.contains("RESUME")));
        assert!(doors.open(None, Closed::Killed));
        assert_eq!((doors.refusal("shop"), doors.names()), (None, Vec::new()));
        doors.close(None, Closed::Killed);
        assert!(doors.refusal("orders").is_some() && doors.open(None, Closed::Killed));
        assert!(doors.refusal("orders").is_none());
    }
}
