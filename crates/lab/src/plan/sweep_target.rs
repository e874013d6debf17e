//! The objects that sweep keys change, and how a value is applied to them.

use plimsoll_machine::control::Amount;
use plimsoll_workload::driver::{Delay, PriorityRule};
use serde_json::Value;

use super::{PlannedWorkload, Setting};
use crate::limits;

/// The object that a sweep key changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SweepTarget {
    /// The target itself.
    Target,
    /// An option of the target.
    Option(String),
    /// A limit of the machine.
    Limit(String),
    /// A field (`scale`, `clients`, `think`, `round_trip`, `rate`, `priority`) or a parameter of the workload at this position.
    Workload(usize, String),
    /// Several of the above at once, which get the same value.
    All(Vec<SweepTarget>),
}

impl SweepTarget {
    /// The objects that are changed one by one: this one, or its parts.
    pub fn parts(&self) -> &[SweepTarget] {
        match self {
            SweepTarget::All(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }
}

impl Setting {
    /// Applies a value to its object. The error describes the valid values.
    pub(crate) fn apply(&mut self, place: &SweepTarget, value: &Value) -> Result<(), String> {
        match place {
            SweepTarget::Target => {
                let url = value
                    .as_str()
                    .ok_or_else(|| format!("a target is a text, as in \"postgres:\"; this is {value}"))?;
                self.url = url.to_owned();
                Ok(())
            }
            SweepTarget::Option(name) => {
                self.options.insert(name.clone(), option_text(value));
                Ok(())
            }
            SweepTarget::Limit(name) => {
                self.limit(name, value);
                Ok(())
            }
            SweepTarget::Workload(position, field) => self.workloads[*position].set(field, value),
            SweepTarget::All(parts) => parts.iter().try_for_each(|part| self.apply(part, value)),
        }
    }

    /// Sets a limit of the machine, or lifts it if the value is [`limits::UNLIMITED`]. Does not check whether the limit
    /// and the amount exist.
    pub(crate) fn limit(&mut self, name: &str, value: &Value) {
        let amount = limits::amount(value);
        if amount == Amount::Text(limits::UNLIMITED.to_owned()) {
            self.limits.remove(name);
        } else {
            self.limits.insert(name.to_owned(), amount);
        }
    }
}

/// A value as written on a command line and as targets accept it: a text without quotes.
pub(crate) fn option_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The sweep key of the target itself.
pub const TARGET_KEY: &str = "target";

/// Whether a key is that of the target itself, which is also its `url`.
pub(crate) fn is_target_key(key: &str) -> bool {
    key == TARGET_KEY || key == "target.url"
}

/// The fields of a workload that can be swept; every other name is a parameter of its benchmark.
pub const WORKLOAD_FIELDS: [&str; 6] = ["scale", "clients", "think", "round_trip", "rate", "priority"];

/// No machine runs more threads of clients than this.
const CLIENTS_MAX: u64 = 100_000;

impl PlannedWorkload {
    /// Sets one of [`WORKLOAD_FIELDS`] or a parameter. Does not check whether the benchmark has such a scale or
    /// parameter. The error describes the valid values.
    pub(crate) fn set(&mut self, field: &str, value: &Value) -> Result<(), String> {
        let number = || value.as_f64().filter(|number| number.is_finite());
        let text = |example: &str| {
            value.as_str().ok_or_else(|| format!("`{field}` is a text, as in {example}; this is {value}"))
        };
        // A number of clients, or a pace, takes the place of those of a recording.
        self.clients.recorded &= !["clients", "think", "rate"].contains(&field);
        match field {
            "scale" => self.scale = number().ok_or_else(|| format!("`scale` is a number; this is {value}"))?,
            "clients" => {
                let clients = value.as_u64().filter(|clients| (1..=CLIENTS_MAX).contains(clients));
                let wrong = || format!("`clients` is a whole number from 1 to {CLIENTS_MAX}; this is {value}");
                self.clients.clients = clients.ok_or_else(wrong)? as usize;
            }
            "think" => {
                self.clients.think = text("\"exp 10ms\"")?.parse::<Delay>().map_err(|error| error.to_string())?
            }
            "round_trip" => {
                let round_trip = text("\"exp 1ms\"")?.parse::<Delay>();
                self.clients.round_trip = round_trip.map_err(|error| error.to_string())?;
            }
            "rate" => {
                let rate = number().filter(|rate| *rate > 0.0);
                let wrong = || format!("`rate` is a number of requests per second above 0; this is {value}");
                self.clients.rate = Some(rate.ok_or_else(wrong)?);
            }
            "priority" => {
                let rule = text("\"high:0.1\"")?.parse::<PriorityRule>();
                self.clients.priority = rule.map_err(|error| error.to_string())?;
            }
            parameter => {
                self.parameters.insert(parameter.to_owned(), value.clone());
            }
        }
        Ok(())
    }
}
