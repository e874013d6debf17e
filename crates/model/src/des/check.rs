//! Checks whether a network can be simulated.

use thiserror::Error;

use super::{Behaviour, Demands, Settings};
use crate::network::{Class, Network};

/// Why a simulation is refused.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A list does not fit the network.
    #[error("{found} {what} in the settings, {expect} in the network")]
    Count {
        /// The list: `behaviours`, `stations by priority`.
        what: &'static str,
        /// How many the settings have.
        found: usize,
        /// How many the network has.
        expect: usize,
    },
    /// Nothing to measure, or no spread.
    #[error("{runs} runs of {requests} requests: at least 2 runs of 1 request are needed")]
    Short {
        /// Runs.
        runs: u32,
        /// Requests of a run.
        requests: u64,
    },
    /// No class has clients.
    #[error("no class has clients")]
    NoClients,
    /// A class has no rounds.
    #[error("class `{0}` has no rounds")]
    NoRounds(String),
    /// Measured demands are missing, of other stations, impossible, or nothing for clients that never think.
    #[error(
        "measured demands of class `{0}` are missing, do not fit the stations, or are nothing for clients that never think"
    )]
    Measured(String),
    /// Locks that do not exist, or are not in the order that prevents deadlocks.
    #[error(
        "locks of class `{0}` are not there, have an impossible share or round, or are not in ascending order of sets and rounds"
    )]
    Locks(String),
}

pub(super) fn check(network: &Network, settings: &Settings) -> Result<(), Invalid> {
    let count = |what, found: usize, expect: usize| {
        if found == expect { Ok(()) } else { Err(Invalid::Count { what, found, expect }) }
    };
    count("behaviours", settings.behaviours.len(), network.classes().len())?;
    count("stations by priority", settings.by_priority.len(), network.stations().len())?;
    if settings.runs < 2 || settings.requests < 1 {
        return Err(Invalid::Short { runs: settings.runs, requests: settings.requests });
    }
    if network.population() == 0 {
        return Err(Invalid::NoClients);
    }
    for (class, behaviour) in network.classes().iter().zip(&settings.behaviours) {
        if behaviour.rounds == 0 {
            return Err(Invalid::NoRounds(class.name.clone()));
        }
        if !are_demands_sound(class, &behaviour.demands) {
            return Err(Invalid::Measured(class.name.clone()));
        }
        if !are_locks_sound(settings, behaviour) {
            return Err(Invalid::Locks(class.name.clone()));
        }
    }
    Ok(())
}

fn are_demands_sound(class: &Class, demands: &Demands) -> bool {
    let Demands::Measured(requests) = demands else { return true };
    let is_sound = |request: &Vec<f64>| {
        request.len() == class.demands_s.len()
            && request.iter().all(|demand_s| demand_s.is_finite() && *demand_s >= 0.0)
            // A client without think time and demands would send infinitely many requests at once.
            && (class.think_s > 0.0 || request.iter().any(|demand_s| *demand_s > 0.0))
    };
    !requests.is_empty() && requests.iter().all(is_sound)
}

fn are_locks_sound(settings: &Settings, behaviour: &Behaviour) -> bool {
    let is_there = settings.lock_sets.iter().all(|locks| *locks > 0)
        && behaviour.locks.iter().all(|lock| {
            lock.set < settings.lock_sets.len() && (0.0..=1.0).contains(&lock.share) && lock.round < behaviour.rounds
        });
    is_there && behaviour.locks.windows(2).all(|pair| pair[0].set < pair[1].set && pair[0].round <= pair[1].round)
}
