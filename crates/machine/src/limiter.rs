//! Puts limits in force for a database and takes them away again, whatever happens in between.
//!
//! A [`Limiter`] holds the lock of the machine: two that limit at the same time would undo each other's work. It goes from
//! the limits in force to others as one step: either all are in force, or those from before are. Every change is written
//! to the restore journal (`limiter/journal.rs`) before it is made, so that the machine is put back at the end, after an
//! error, in a panic, and, if the process was killed, by the next [`Limiter::begin`] or by
//! [`restore_left_over`].

pub(crate) mod journal;
pub(crate) mod lock;
pub(crate) mod undo;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use crate::control::{
    Amount, CONTROLS, Control, ControlContext, ControlError, Limits, Observation, Subject, Verdict, Window,
};
use crate::host::Host;
use journal::Journal;
use lock::StateLock;

/// Why limits could not be put in force, or taken away.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// Another Plimsoll limits this machine, by its process number, if that could be read.
    #[error(
        "another plimsoll{} limits this machine; wait until it has ended",
        .0.map(|process| format!(" (process {process})")).unwrap_or_default()
    )]
    InUse(Option<i32>),
    /// The state folder cannot be used.
    #[error("cannot use {path}: {error} (set PLIMSOLL_STATE to a folder of your own)", path = path.display())]
    State {
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        error: std::io::Error,
    },
    /// There is no such control.
    #[error("there is no control {control}; there are: {known}")]
    Unknown {
        /// As typed.
        control: String,
        /// Those that there are.
        known: String,
    },
    /// A limit was refused.
    #[error("{source}; {after}")]
    Limit {
        /// Why.
        source: ControlError,
        /// What is in force now.
        after: String,
    },
    /// Something that was changed could not be put back. It remains in the journal.
    #[error(
        "not put back: {}; do it by hand, then remove {journal}",
        failed.join("; "),
        journal = journal.display()
    )]
    NotRestored {
        /// What, and why not.
        failed: Vec<String>,
        /// The journal that has it.
        journal: PathBuf,
    },
}

/// What was put back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// What was undone, in the order in which it was.
    pub undone: Vec<String>,
    /// What could not be undone, and why. It remains in the journal.
    pub failed: Vec<String>,
}

/// The beginning of a window in which limits are watched.
#[derive(Debug, Clone)]
pub struct LimitWindow {
    /// By control, with the moment: looking takes its time, which must not count as part of another control's window.
    observations: BTreeMap<String, (Instant, Observation)>,
}

/// Limits for one subject. Dropping it puts the machine back.
pub struct Limiter {
    host: Host,
    subject: Subject,
    controls: &'static [&'static dyn Control],
    /// What each control was brought to; `None` while that is uncertain.
    in_force: BTreeMap<&'static str, Option<Amount>>,
    journal: Journal,
    left_over: Restored,
    /// Held for as long as the journal is ours.
    _lock: StateLock,
}

/// Where the lock and the restore journal are: the folder that the environment variable `PLIMSOLL_STATE` names, else
/// `/run/plimsoll` for root and `$XDG_RUNTIME_DIR/plimsoll` for others; below the folder for temporary files if there is none.
pub fn default_state_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("PLIMSOLL_STATE").filter(|folder| !folder.is_empty()) {
        return PathBuf::from(folder);
    }
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/plimsoll");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("plimsoll"),
        None => std::env::temp_dir().join(format!("plimsoll-{}", user.as_raw())),
    }
}

/// Undoes what a Plimsoll that was killed left, and says what that was. Does nothing where nothing is left.
pub fn restore_left_over(host: &Host, state: &Path) -> Result<Restored, LimiterError> {
    if !state.exists() {
        return Ok(Restored::default());
    }
    let _lock = StateLock::take(state)?;
    Journal::restore_old(host, state)
}

/// Whether there is anything that is still to be undone, by this process or after one that was killed.
pub fn has_left_over(state: &Path) -> bool {
    Journal::is_in(state)
}

/// Whether every control is known, and every amount makes sense on `host`. Changes nothing.
pub fn check(host: &Host, limits: &Limits) -> Result<(), LimiterError> {
    wanted(host, CONTROLS, limits).map(drop)
}

/// The limits that are limits, in the order of the controls.
fn wanted<'a>(
    host: &Host,
    controls: &'static [&'static dyn Control],
    limits: &'a Limits,
) -> Result<Vec<(&'static dyn Control, &'a Amount)>, LimiterError> {
    let is_known = |key: &&String| controls.iter().any(|control| control.key() == key.as_str());
    if let Some(control) = limits.keys().find(|key| !is_known(key)) {
        let known: Vec<&str> = controls.iter().map(|control| control.key()).collect();
        return Err(LimiterError::Unknown { control: control.clone(), known: known.join(", ") });
    }
    let mut wanted = Vec::new();
    for control in controls {
        let Some(amount) = limits.get(control.key()).filter(|amount| !amount.is_unlimited()) else { continue };
        control
            .check(host, amount)
            .map_err(|source| LimiterError::Limit { source, after: "nothing was changed".to_owned() })?;
        wanted.push((*control, amount));
    }
    Ok(wanted)
}

impl Limiter {
    /// Takes the machine's lock in the folder `state`, puts back what one that was killed has left, and is ready to limit.
    pub fn begin(host: Host, subject: Subject, state: &Path) -> Result<Limiter, LimiterError> {
        Limiter::begin_with(host, subject, state, CONTROLS)
    }

    /// As [`Limiter::begin`], with controls of choice.
    fn begin_with(
        host: Host,
        subject: Subject,
        state: &Path,
        controls: &'static [&'static dyn Control],
    ) -> Result<Limiter, LimiterError> {
        let (lock, journal, left_over) = Journal::begin(&host, state)?;
        Ok(Limiter { host, subject, controls, in_force: BTreeMap::new(), journal, left_over, _lock: lock })
    }

    /// What one that was killed had left, and [`begin`](Limiter::begin) has put back.
    pub fn left_over(&self) -> &Restored {
        &self.left_over
    }

    /// The limits that are in force.
    pub fn in_force(&self) -> Limits {
        self.in_force.iter().filter_map(|(key, amount)| Some(((*key).to_owned(), amount.clone()?))).collect()
    }

    /// Goes from the limits in force to these: those not named are lifted, others are set, again for those that are the
    /// same already, so that threads and processes that came meanwhile are limited too. If any is refused, those from
    /// before are in force again; if even that fails, none is. The error says which.
    pub fn set(&mut self, limits: &Limits) -> Result<(), LimiterError> {
        let wanted = wanted(&self.host, self.controls, limits)?;
        let before = self.in_force();
        let Err(failure) = self.change_to(&wanted) else { return Ok(()) };
        let host = self.host.clone();
        let back = self::wanted(&host, self.controls, &before).ok();
        let after = match back.map(|back| self.change_to(&back)) {
            Some(Ok(())) if before.is_empty() => "no limit is in force".to_owned(),
            Some(Ok(())) => "the limits from before are in force again".to_owned(),
            _ => {
                self.restore()?;
                "the limits from before could not be put in force again, so that none is".to_owned()
            }
        };
        Err(match failure {
            Failure::Control(source) => LimiterError::Limit { source, after },
            Failure::Undo(failed) => LimiterError::NotRestored { failed, journal: self.journal.path().to_owned() },
        })
    }

    fn change_to(&mut self, wanted: &[(&'static dyn Control, &Amount)]) -> Result<(), Failure> {
        let is_wanted = |key: &str| wanted.iter().any(|(control, _)| control.key() == key);
        let dropped: Vec<&'static str> = self.in_force.keys().copied().filter(|key| !is_wanted(key)).collect();
        for key in dropped {
            self.lift(key)?;
        }
        for (control, amount) in wanted {
            self.in_force.insert(control.key(), None);
            let mut notes = self.journal.notes_of(control.key());
            let mut context = ControlContext { host: &self.host, subject: &self.subject, undo: &mut notes };
            control.apply(&mut context, amount).map_err(Failure::Control)?;
            self.in_force.insert(control.key(), Some((*amount).clone()));
        }
        Ok(())
    }

    /// Undoes what one control has done. A group that others use stays, and so do their limits.
    fn lift(&mut self, key: &'static str) -> Result<(), Failure> {
        let alone = self.journal.can_be_lifted_alone(key);
        self.in_force.insert(key, None);
        let failed = match alone {
            true => self.journal.undo_control(&self.host, key),
            // It shares a group and has not noted how to free it of its limit: everything is undone, and the wanted limits
            // are put in force again.
            false => {
                self.in_force.values_mut().for_each(|amount| *amount = None);
                self.journal.undo_all(&self.host)
            }
        }
        .map_err(|error| Failure::Undo(vec![error.to_string()]))?
        .failed;
        if !failed.is_empty() {
            return Err(Failure::Undo(failed));
        }
        self.in_force.remove(key);
        Ok(())
    }

    /// Begins a window in which the limits are watched.
    pub fn observe(&self) -> LimitWindow {
        let observe = |(control, _): (&dyn Control, &Amount)| {
            let began = Instant::now();
            (control.key().to_owned(), (began, control.observe(&self.host, &self.subject)))
        };
        LimitWindow { observations: self.limiting().map(observe).collect() }
    }

    /// Ends a window: for every limit in force, what was reached and whether the limit bit.
    pub fn verify(&self, window: &LimitWindow) -> BTreeMap<String, Verdict> {
        let verify = |(control, amount): (&dyn Control, &Amount)| {
            let verdict = match window.observations.get(control.key()) {
                Some((began, earlier)) => {
                    let (host, subject) = (&self.host, &self.subject);
                    control.verify(&Window { host, subject, amount, earlier, length: began.elapsed() })
                }
                None => Err("it was not in force when the window began".into()),
            };
            (control.key().to_owned(), verdict.unwrap_or_else(Verdict::from))
        };
        self.limiting().map(verify).collect()
    }

    fn limiting(&self) -> impl Iterator<Item = (&'static dyn Control, &Amount)> {
        let amount = |control: &&'static dyn Control| Some((*control, self.in_force.get(control.key())?.as_ref()?));
        self.controls.iter().filter_map(amount)
    }

    /// Lifts every limit and puts the machine back as it was. What was undone already is not undone again.
    pub fn restore(&mut self) -> Result<Restored, LimiterError> {
        self.in_force.clear();
        let restored = self.journal.undo_all(&self.host)?;
        self.journal.all_of(restored)
    }
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Limiter")
            .field("subject", &self.subject)
            .field("in_force", &self.in_force)
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        // What cannot be put back now is in the journal, and the next one to begin will try again and report it.
        let _ = self.restore();
    }
}

enum Failure {
    Control(ControlError),
    Undo(Vec<String>),
}

#[cfg(test)]
mod tests;
