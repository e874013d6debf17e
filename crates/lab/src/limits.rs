//! The limits of the machine that an experiment may set or sweep: the machine's controls, the share of the last-level cache in
//! MiB, and the hogs that run beside the workloads.

use std::collections::BTreeMap;

use plimsoll_machine::control::{Amount, CONTROLS, Limits, Verdict};
use plimsoll_machine::hog::HogSpec;
use plimsoll_machine::host::Host;
use plimsoll_workload::database::Footprint;
use serde_json::Value;

use crate::plan::option_text;

/// Limits that cannot be put in force.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LimitsError(pub String);

/// Puts limits in force.
pub trait MachineLimits {
    /// Puts exactly these limits in force for a database's use of this machine, and lifts all others. After an error
    /// the limits are as before, or none.
    fn set(&mut self, footprint: &Footprint, limits: &Limits) -> Result<(), LimitsError>;

    /// Our own processes that run beside the workloads, such as hogs, and belong to none of them.
    fn processes(&self) -> Vec<i32> {
        Vec::new()
    }

    /// A window begins.
    fn open_window(&mut self);

    /// Ends a window and returns the verdict on each limit in force.
    fn close_window(&mut self) -> BTreeMap<String, Verdict>;
}

/// Limits nothing, for runs that are to have all of the machine.
#[derive(Debug, Default)]
pub struct NoLimits;

impl MachineLimits for NoLimits {
    fn set(&mut self, _: &Footprint, limits: &Limits) -> Result<(), LimitsError> {
        match limits.keys().next() {
            None => Ok(()),
            Some(name) => Err(LimitsError(format!("{name} cannot be limited here"))),
        }
    }

    fn open_window(&mut self) {}

    fn close_window(&mut self) -> BTreeMap<String, Verdict> {
        BTreeMap::new()
    }
}

/// The amount that limits nothing.
pub const UNLIMITED: &str = "unlimited";

/// The share of the last-level cache that workloads may use, MiB: by cache allocation if that is possible, else by a
/// hog that holds the rest.
pub(crate) const LLC_MIB: &str = "llc_mib";

/// A hog that runs beside the workloads, in the notation of [`plimsoll_machine::hog`]: `cpu:1`, `bandwidth:4000`.
pub const HOG: &str = "hog";

/// The limit that must be in force while data is loaded, because it would not limit memory allocated earlier.
pub(crate) const MEMORY_MIB: &str = "memory_mib";

/// Every limit there is.
pub fn names() -> impl Iterator<Item = &'static str> {
    CONTROLS.iter().map(|control| control.key()).chain([LLC_MIB, HOG])
}

/// The amount that a value in a file or sweep means.
pub fn amount(value: &Value) -> Amount {
    value.as_f64().map_or_else(|| Amount::Text(option_text(value)), Amount::Number)
}

/// Whether a limit of that name can have such an amount on `host`. Whether it works here at all is checked when it is
/// used.
pub fn check(host: &Host, name: &str, amount: &Amount) -> Result<(), String> {
    if *amount == Amount::Text(UNLIMITED.to_owned()) {
        return Ok(());
    }
    match (name, amount) {
        (LLC_MIB, Amount::Number(mib)) if *mib > 0.0 => Ok(()),
        (LLC_MIB, _) => Err(format!("`{LLC_MIB}` is a number of MiB above 0; this is {amount}")),
        (HOG, Amount::Text(text)) => text.parse::<HogSpec>().map(drop).map_err(|error| error.to_string()),
        (HOG, Amount::Number(_)) => Err(format!("`{HOG}` is a text as \"cpu:1\" or \"none\"; this is {amount}")),
        _ => {
            let control = CONTROLS.iter().find(|control| control.key() == name);
            control.map_or(Ok(()), |control| control.check(host, amount)).map_err(|error| error.to_string())
        }
    }
}

/// Whether the limit is an amount that work is given, so that its smallest sufficient amount is a knee.
pub(crate) fn is_allocation(name: &str) -> bool {
    !matches!(name, HOG | "nice")
}

#[cfg(test)]
mod tests;
