//! The databases that experiments can open.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_lab::targets::Targets;
use plimsoll_target::{DEFAULT_URL, Target};
use plimsoll_workload::database::{Database, Room};
use serde_json::Value;

/// Every kind of target that this program has.
#[derive(Debug)]
pub struct AllTargets;

/// The only ones there are.
pub static TARGETS: AllTargets = AllTargets;

fn parse(url: &str, options: &BTreeMap<String, String>) -> Result<Target, String> {
    let options: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Target::parse(url, options.iter().map(String::as_str)).map_err(|error| error.to_string())
}

impl Targets for AllTargets {
    fn check(&self, url: &str, options: &BTreeMap<String, String>) -> Result<(), String> {
        parse(url, options)?;
        match options.get("governor_config").filter(|file| *file != "none") {
            Some(file) => {
                plimsoll_governor::config::read(Path::new(file), &[]).map(drop).map_err(|error| error.to_string())
            }
            None => Ok(()),
        }
    }

    fn check_machine(&self, url: &str, options: &BTreeMap<String, String>) -> Result<(), String> {
        parse(url, options)?.check_machine().map_err(|error| error.to_string())
    }

    fn has_users(&self, url: &str) -> bool {
        Target::has_users(url)
    }

    fn connects(&self, url: &str) -> bool {
        !url.starts_with(DEFAULT_URL)
    }

    fn option_names(&self, url: &str) -> Vec<&'static str> {
        Target::option_names(url)
    }

    fn settings(&self, url: &str, options: &BTreeMap<String, String>) -> BTreeMap<String, Value> {
        parse(url, options).map(|target| target.settings()).unwrap_or_default()
    }

    fn open(&self, url: &str, options: &BTreeMap<String, String>) -> Result<Box<dyn Database>, String> {
        parse(url, options)?.open().map_err(|error| error.to_string())
    }

    fn shown(&self, url: &str) -> String {
        Target::parse(url, []).map_or_else(|_| url.to_owned(), |target| target.url())
    }

    fn room(&self, url: &str, options: &BTreeMap<String, String>) -> Option<Room> {
        parse(url, options).ok()?.room()
    }
}
