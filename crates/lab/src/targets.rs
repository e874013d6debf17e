//! Databases that an experiment can open, as the lab sees them. The program that embeds the lab provides them.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_workload::database::{Database, Room};
use plimsoll_workload::registry::{Kinds, NoKinds};
use serde_json::Value;

use crate::plan::Setting;

/// The options of a setting that its target has; the others are for other swept targets.
pub(crate) fn own_options(targets: &dyn Targets, setting: &Setting) -> BTreeMap<String, String> {
    let known = targets.option_names(&setting.url);
    let own = setting.options.iter().filter(|(name, _)| known.contains(&name.as_str()));
    own.map(|(name, value)| (name.clone(), anchored_option(name, value, &setting.folder))).collect()
}

/// Options whose value is `none` or the path of a file relative to the experiment's folder.
pub(crate) const FILE_OPTIONS: [&str; 1] = ["governor_config"];

/// The target of a setting.
pub(crate) fn target_of<'a>(targets: &'a dyn Targets, setting: &Setting) -> Result<Box<dyn Target + 'a>, String> {
    targets.target(&setting.url, &own_options(targets, setting))
}

/// The value of an option, with a relative path resolved against a folder.
pub(crate) fn anchored_option(name: &str, value: &str, folder: &Path) -> String {
    if !FILE_OPTIONS.contains(&name) || value == "none" {
        return value.to_owned();
    }
    folder.join(value).display().to_string()
}

/// The databases that a program can open.
pub trait Targets: Sync {
    /// A target by its URL and options, which are names with values as text. Refuses those that do not exist, before
    /// anything runs: the error names the fault and what exists.
    fn target<'a>(&'a self, url: &str, options: &BTreeMap<String, String>) -> Result<Box<dyn Target + 'a>, String>;

    /// The names of the options that a target has; empty if there is no such target.
    fn option_names(&self, url: &str) -> Vec<&'static str>;

    /// Workloads that need one of these databases, beyond those that run on any.
    fn kinds(&self) -> &'static dyn Kinds {
        &NoKinds
    }

    /// A URL for people: without the password that it may have.
    fn shown(&self, url: &str) -> String {
        url.to_owned()
    }

    /// Whether each client has a connection, and so a file, of its own.
    fn connects(&self, url: &str) -> bool {
        let _ = url;
        true
    }

    /// Whether clients can log in to a target as different users.
    fn has_users(&self, url: &str) -> bool {
        let _ = url;
        false
    }
}

/// A database that is not open.
pub trait Target {
    /// Refuses options that name something wrong beyond themselves, such as a file with faults.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Refuses options that need more than this machine has, before anything runs.
    fn check_machine(&self) -> Result<(), String> {
        Ok(())
    }

    /// Every setting by name, defaults included, for the record.
    fn settings(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }

    /// The place of its data and the free space there; `None` if that is not known.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Opens it, empty or with data that was left in it.
    fn open(&self) -> Result<Box<dyn Database>, String>;
}
