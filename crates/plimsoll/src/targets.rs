//! The databases that experiments can open.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_lab::targets::{Target, Targets};
use plimsoll_rehearse::workload::Captures;
use plimsoll_target::DEFAULT_URL;
use plimsoll_workload::database::{Database, Room};
use plimsoll_workload::registry::Kinds;
use serde_json::Value;

/// Every kind of target that this program has.
#[derive(Debug)]
pub struct AllTargets;

/// The only ones there are.
pub static TARGETS: AllTargets = AllTargets;

impl Targets for AllTargets {
    fn target(&self, url: &str, options: &BTreeMap<String, String>) -> Result<Box<dyn Target>, String> {
        let target = plimsoll_target::Target::with_options(url, options).map_err(|error| error.to_string())?;
        let governor_config = options.get("governor_config").filter(|file| *file != "none").map(PathBuf::from);
        Ok(Box::new(KnownTarget { target, governor_config }))
    }

    fn option_names(&self, url: &str) -> Vec<&'static str> {
        plimsoll_target::Target::option_names(url)
    }

    fn kinds(&self) -> &'static dyn Kinds {
        &Captures
    }

    fn shown(&self, url: &str) -> String {
        plimsoll_target::Target::parse(url, []).map_or_else(|_| url.to_owned(), |target| target.url())
    }

    fn connects(&self, url: &str) -> bool {
        !url.starts_with(DEFAULT_URL)
    }

    fn has_users(&self, url: &str) -> bool {
        plimsoll_target::Target::has_users(url)
    }
}

/// A target, and the governor's settings before it, if there are any.
struct KnownTarget {
    target: plimsoll_target::Target,
    governor_config: Option<PathBuf>,
}

impl Target for KnownTarget {
    fn check(&self) -> Result<(), String> {
        let Some(file) = &self.governor_config else { return Ok(()) };
        plimsoll_governor::config::read(file, &[]).map(drop).map_err(|error| error.to_string())
    }

    fn check_machine(&self) -> Result<(), String> {
        self.target.check_machine().map_err(|error| error.to_string())
    }

    fn settings(&self) -> BTreeMap<String, Value> {
        self.target.settings()
    }

    fn room(&self) -> Option<Room> {
        self.target.room()
    }

    fn open(&self) -> Result<Box<dyn Database>, String> {
        self.target.open().map_err(|error| error.to_string())
    }
}
