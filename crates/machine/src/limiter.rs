//! Puts limits in force for a database and lifts them again, even after errors, panics and kills.
//!
//! A [`Limiter`] holds the lock of the machine: two that limit at the same time would undo each other's work. It
//! replaces the limits in force in one step: either all are in force, or those from before are. Every change is written
//! to the restore journal (`limiter/journal.rs`) before it is made, so that the machine is put back at the end, after
//! an error, in a panic, and, if the process was killed, by the next [`Limiter::begin`] or by [`restore_left_over`].

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

/// Why limits could not be put in force, or lifted.
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
        /// The system's error.
        error: std::io::Error,
    },
    /// The control does not exist.
    #[error("there is no control {control}; there are: {known}")]
    Unknown {
        /// As typed.
        control: String,
        /// The existing controls.
        known: String,
    },
    /// A limit was refused.
    #[error("{source}; {after}")]
    Limit {
        /// Why.
        source: ControlError,
        /// The limits in force now.
        after: String,
    },
    /// A change could not be undone. It remains in the journal.
    #[error(
        "not put back: {}; do it by hand, then remove {journal}",
        failed.join("; "),
        journal = journal.display()
    )]
    NotRestored {
        /// The changes, and why they could not be undone.
        failed: Vec<String>,
        /// The journal that has it.
        journal: PathBuf,
    },
}

/// The changes that were undone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Changes that were undone, in the order of undoing.
    pub undone: Vec<String>,
    /// Changes that could not be undone, with the reasons. They remain in the journal.
    pub failed: Vec<String>,
}

/// The beginning of a window in which limits are watched.
#[derive(Debug, Clone)]
pub struct LimitWindow {
    /// By control, with the moment: an observation takes time, which must not count as part of another control's
    /// window.
    observations: BTreeMap<String, (Instant, Observation)>,
}

/// Limits for one subject. Dropping it puts the machine back.
pub struct Limiter {
    host: Host,
    subject: Subject,
    controls: &'static [&'static dyn Control],
    /// The amount of each control; `None` while it is uncertain.
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

/// Undoes the changes that a killed Plimsoll left, and returns them. Does nothing if there are none.
pub fn restore_left_over(host: &Host, state: &Path) -> Result<Restored, LimiterError> {
    if !state.exists() {
        return Ok(Restored::default());
    }
    let _lock = StateLock::take(state)?;
    Journal::restore_old(host, state)
}

/// Whether changes remain to be undone, of this process or of a killed one.
pub fn has_left_over(state: &Path) -> bool {
    Journal::is_in(state)
}

/// Whether every control is known, and every amount makes sense on `host`. Changes nothing.
pub fn check(host: &Host, limits: &Limits) -> Result<(), LimiterError> {
    wanted(host, CONTROLS, limits).map(drop)
}

/// The limits other than `unlimited`, in the order of the controls.
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
    /// Takes the machine's lock in the folder `state`, undoes the changes of a killed limiter, and is ready to limit.
    pub fn begin(host: Host, subject: Subject, state: &Path) -> Result<Limiter, LimiterError> {
        Limiter::begin_with(host, subject, state, CONTROLS)
    }

    /// As [`Limiter::begin`], with given controls.
    fn begin_with(
        host: Host,
        subject: Subject,
        state: &Path,
        controls: &'static [&'static dyn Control],
    ) -> Result<Limiter, LimiterError> {
        let (lock, journal, left_over) = Journal::begin(&host, state)?;
        Ok(Limiter { host, subject, controls, in_force: BTreeMap::new(), journal, left_over, _lock: lock })
    }

    /// The changes of a killed limiter that [`begin`](Limiter::begin) has undone.
    pub fn left_over(&self) -> &Restored {
        &self.left_over
    }

    /// The limits that are in force.
    pub fn in_force(&self) -> Limits {
        self.in_force.iter().filter_map(|(key, amount)| Some(((*key).to_owned(), amount.clone()?))).collect()
    }

    /// Replaces the limits in force by these. Limits that are not named are lifted. All others are set, even unchanged
    /// ones, so that new threads and processes are limited too. If any is refused, the previous limits are in force
    /// again; if even that fails, none are. The error says which.
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

    /// Undoes the changes of one control. A group that other controls use stays, and so do their limits.
    fn lift(&mut self, key: &'static str) -> Result<(), Failure> {
        let alone = self.journal.can_be_lifted_alone(key);
        self.in_force.insert(key, None);
        let failed = match alone {
            true => self.journal.undo_control(&self.host, key),
            // It shares a group and has no note on how to lift its own limit there: everything is undone, and the
            // wanted limits are put in force again.
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

    /// Ends a window: for every limit in force, the figure reached and whether the limit took effect.
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

    /// Lifts every limit and restores the machine. Changes already undone are not undone again.
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
        // Changes that cannot be undone now stay in the journal; the next limiter to begin tries again and reports
        // them.
        let _ = self.restore();
    }
}

enum Failure {
    Control(ControlError),
    Undo(Vec<String>),
}

#[cfg(test)]
mod tests;
