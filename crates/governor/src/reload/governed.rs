//! Statements that an operator governs from the console. They hold until they are taken back or the governor ends; `RELOAD`
//! keeps them, and forgets one whose lines the file has by now.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use plimsoll_settings::governed::{Governed, put_in};
use plimsoll_settings::read::read_edited;

use super::{ReloadError, Reloaded};
use crate::config::{Config, read_for};
use crate::governor::Governor;
use crate::settings::Settings;

/// The time that the counts of transactions cover.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

/// The counts of a governed statement that has a class of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GovernedCounts {
    /// Transactions that ended in the last minute.
    pub transactions: u64,
    /// Transactions beyond its rate, which have waited, or with `warn` would have.
    pub beyond_rate: u64,
    /// Its statements that exceeded a limit, and were ended, or with `warn` would have been.
    pub runaways: u64,
}

impl Governor {
    /// The statements that are governed from the console.
    pub fn governed(&self) -> Vec<Governed> {
        self.governed.lock().iter().filter(|statement| !statement.is_taken_back).cloned().collect()
    }

    /// The text of the settings file.
    pub(crate) fn file_text(&self) -> Result<String, ReloadError> {
        let file = self.config_file.get().ok_or(ReloadError::NoFile)?;
        std::fs::read_to_string(file)
            .map_err(|error| ReloadError::Unreadable(file.display().to_string(), error.to_string()))
    }

    /// Governs a statement, in place of how it was governed before.
    pub(crate) fn govern(&self, statement: Governed) -> Result<Reloaded, ReloadError> {
        let mut governed = self.governed.lock();
        let mut wanted = governed.clone();
        wanted.retain_mut(|other| {
            let is_it = other.fingerprint == statement.fingerprint;
            other.is_taken_back |= is_it;
            !is_it || other.has_own_class() && other.class != statement.class
        });
        wanted.push(statement.clone());
        let (reloaded, kept) = self.read_with(wanted)?;
        *governed = kept;
        match governed.contains(&statement) {
            true => Ok(reloaded),
            false => Err(ReloadError::GovernedByFile),
        }
    }

    /// Governs a statement no longer; `None` if it was not governed.
    pub(crate) fn take_back(&self, fingerprint: u64) -> Result<Option<Reloaded>, ReloadError> {
        let mut governed = self.governed.lock();
        let is_it = |other: &Governed| other.fingerprint == fingerprint && !other.is_taken_back;
        if !governed.iter().any(is_it) {
            return Ok(None);
        }
        let mut wanted = governed.clone();
        wanted.retain_mut(|other| {
            other.is_taken_back |= other.fingerprint == fingerprint;
            other.has_own_class() || !other.is_taken_back
        });
        let (reloaded, kept) = self.read_with(wanted)?;
        *governed = kept;
        Ok(Some(reloaded))
    }

    /// Reads the settings file again with the statements that are governed.
    pub(super) fn read_again(&self) -> Result<Reloaded, ReloadError> {
        let mut governed = self.governed.lock();
        let (reloaded, kept) = self.read_with(governed.clone())?;
        *governed = kept;
        Ok(reloaded)
    }

    /// Puts the file in force, with the lines of those statements that it does not have; returns these.
    fn read_with(&self, statements: Vec<Governed>) -> Result<(Reloaded, Vec<Governed>), ReloadError> {
        let file = self.config_file.get().ok_or(ReloadError::NoFile)?;
        let names: Vec<String> = self.settings().classes.iter().map(|class| class.name.clone()).collect();
        // A governor started with `--beside` stays there, regardless of the file.
        let is_beside = self.is_beside_asked.get().copied().unwrap_or(false);
        let ours = |name: &String| statements.iter().any(|own| own.has_own_class() && own.class == *name);
        let of_file: Vec<String> = names.iter().filter(|name| !ours(name)).cloned().collect();
        // By itself first, so that its faults have their places in the file.
        let plain = read_for(file, &of_file, is_beside)?;
        let kept: Vec<Governed> = statements.iter().filter(|own| !own.is_in(&plain.settings)).cloned().collect();
        let Config { settings, warnings } = match statements.is_empty() {
            true => plain,
            false => read_edited(file, &names, is_beside, &|text| put_in(text, &kept)).map_err(|error| {
                let faults = error.faults.into_iter().map(|fault| fault.message);
                ReloadError::Governed(faults.collect::<Vec<_>>().join("; "))
            })?,
        };
        let mut reloaded = self.reload(settings)?;
        reloaded.warnings.extend(warnings);
        Ok((reloaded, kept))
    }

    /// The counts of a governed statement; `None` if its class is not its own.
    pub(crate) fn counts_of(&self, statement: &Governed, settings: &Settings) -> Option<GovernedCounts> {
        let class = settings.class_named(&statement.class).filter(|_| statement.has_own_class())?;
        let window = self.history.lock().window(class.0.into(), WINDOW);
        let statistics = self.statistics.class(class);
        Some(GovernedCounts {
            transactions: window.map_or(0, |window| window.counts.transactions),
            beyond_rate: statistics.beyond_rate.load(Relaxed),
            runaways: statistics.runaways.load(Relaxed),
        })
    }
}
