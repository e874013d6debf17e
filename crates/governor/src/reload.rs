//! Changing settings while sessions run. No connection is affected: admitted transactions stay, queued ones wait under
//! the new limits, and later statements use the new settings.

mod governed;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use plimsoll_policy::{ClassIndex, ClassLimits};

use crate::config;
use crate::governor::Governor;
use crate::settings::{Held, Settings};
use crate::statistics::count;
pub(crate) use governed::WINDOW;

/// Why settings were not replaced; the earlier ones stay in force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The file has faults, one per line.
    #[error("{0}")]
    File(#[from] config::ConfigError),
    /// The governor was not started from a file.
    #[error("this governor was not started from a file, so there is no file to read again")]
    NoFile,
    /// The file is for the other mode.
    #[error("`proxy` in [mode] can only be changed by a restart")]
    Mode,
    /// The file is right, and with the statements that are governed from the console it is not.
    #[error("with the statements of SHOW GOVERNED: {0}")]
    Governed(String),
    /// The file has the statement's class or rule.
    #[error("the settings file has lines for this statement: change them there, and RELOAD")]
    GovernedByFile,
    /// The file cannot be read: its name, and why.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, String),
    /// Classes are missing or have moved.
    #[error("class `{0}` is gone or in another place; removing or renaming classes needs a restart")]
    Classes(String),
}

/// The result of replacing settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// The changes, one per line: `preemption.policy: track -> pow`.
    pub changed: Vec<String>,
    /// The changes in the file that take effect only after a restart.
    pub after_restart: Vec<String>,
    /// Settings that are probably not intended.
    pub warnings: Vec<String>,
}

impl Reloaded {
    /// The messages for an operator, one line each.
    pub(crate) fn notices(&self) -> Vec<String> {
        let mut notices: Vec<String> = self.changed.iter().map(|change| format!("changed: {change}")).collect();
        notices.extend(self.after_restart.iter().map(|change| format!("needs a restart: {change}")));
        notices.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        notices
    }
}

impl Governor {
    /// Reads the settings file again, and applies it if it has no faults.
    pub(crate) fn reload_file(&self) -> Result<Reloaded, ReloadError> {
        let outcome = self.read_again();
        count(if outcome.is_ok() { &self.statistics.reloads } else { &self.statistics.reloads_failed });
        match &outcome {
            Ok(reloaded) => {
                let all = reloaded.changed.iter().chain(&reloaded.after_restart);
                tracing::info!(changed = all.count(), "settings were read again");
                reloaded.changed.iter().for_each(|change| tracing::info!("changed: {change}"));
                reloaded.after_restart.iter().for_each(|change| tracing::warn!("needs a restart: {change}"));
                reloaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            }
            Err(error) => tracing::error!("settings stay as they are: {error}"),
        }
        outcome
    }

    /// Applies other settings, all at once.
    pub fn reload(&self, settings: Settings) -> Result<Reloaded, ReloadError> {
        self.replace(|_| settings)
    }

    /// Changes some settings until the next reload.
    pub fn change(&self, change: impl FnOnce(&mut Settings)) -> Result<Reloaded, ReloadError> {
        self.replace(|before| {
            let mut settings = before.clone();
            change(&mut settings);
            settings
        })
    }

    /// Pauses or resumes the transactions of those classes; a reload keeps this.
    pub fn pause(&self, classes: &[ClassIndex], pause: bool) {
        let mut current = self.settings.write();
        let mut settings = Settings::clone(&current);
        for class in classes {
            settings.classes[usize::from(class.0)].is_paused = pause;
        }
        self.put_in_force(&mut current, settings);
    }

    /// Limits classes to the bounds that targets leave them, by [`ClassIndex`]; a reload keeps this.
    pub(crate) fn hold(&self, held: &[Held]) {
        let mut current = self.settings.write();
        if current.classes.iter().zip(held).all(|(class, held)| class.held == *held) {
            return;
        }
        let mut settings = Settings::clone(&current);
        settings.classes.iter_mut().zip(held).for_each(|(class, held)| class.held = *held);
        self.put_in_force(&mut current, settings);
    }

    fn replace(&self, make: impl FnOnce(&Settings) -> Settings) -> Result<Reloaded, ReloadError> {
        // Held throughout, so that concurrent reloads follow one after the other.
        let mut current = self.settings.write();
        let mut settings = make(&current);
        if settings.is_beside != current.is_beside {
            return Err(ReloadError::Mode);
        }
        for (place, class) in current.classes.iter().enumerate() {
            match settings.classes.get_mut(place) {
                Some(other) if other.name == class.name => {
                    (other.is_paused, other.held) = (class.is_paused, class.held);
                }
                _ => return Err(ReloadError::Classes(class.name.clone())),
            }
        }
        let wanted = settings.described();
        settings.keep_until_restart(&current);
        let (before, now) = (current.described(), settings.described());
        let reloaded = Reloaded {
            changed: differences(&before, &now),
            after_restart: differences(&now, &wanted),
            warnings: Vec::new(),
        };
        let capture = settings.capture.clone();
        self.put_in_force(&mut current, settings);
        drop(current);
        self.bell.ring();
        let warnings = self.capture.apply(&capture).err().into_iter().collect();
        Ok(Reloaded { warnings, ..reloaded })
    }

    fn put_in_force(&self, current: &mut Arc<Settings>, settings: Settings) {
        // A thread that sees the new settings must find statistics for all of their classes.
        self.statistics.extend(settings.classes.iter().map(|class| class.name.clone()));
        let limits = settings.classes.iter().map(|class| ClassLimits {
            mpl: if class.is_paused { Some(0) } else { class.mpl_in_force() },
            ..class.limits.clone()
        });
        let now = self.clock(Instant::now());
        let admitted = {
            let mut admission = self.admission.lock();
            let mut admitted = admission.set_limits(settings.total_mpl, limits.collect(), now);
            admission.set_paces(settings.paces());
            admitted.extend(admission.keep_pace(now));
            admitted
        };
        *current = Arc::new(settings);
        self.generation.fetch_add(1, Ordering::Release);
        self.tell_admitted(admitted);
    }
}

/// The differences between two descriptions of settings, in the order of the second.
fn differences(before: &[(String, String)], now: &[(String, String)]) -> Vec<String> {
    let value =
        |of: &[(String, String)], key: &str| of.iter().find(|(other, _)| other == key).map(|(_, value)| value.clone());
    let changed = now.iter().filter_map(|(key, now)| match value(before, key) {
        Some(before) if before == *now => None,
        Some(before) => Some(format!("{key}: {before} -> {now}")),
        None => Some(format!("{key}: {now} (new)")),
    });
    let gone = before.iter().filter(|(key, _)| value(now, key).is_none());
    changed.chain(gone.map(|(key, value)| format!("{key}: {value} (gone)"))).collect()
}

#[cfg(test)]
mod tests;
