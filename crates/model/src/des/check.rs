//! Checks whether a network can be simulated.

use thiserror::Error;

use super::{Settings, requests_least};
use crate::network::{Class, Network, Saturated};

/// Why a simulation is refused.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Invalid {
    #[error("{found} {what} in the settings, {expect} in the network")]
    Count { what: &'static str, found: usize, expect: usize },
    #[error("{runs} runs of {requests} requests: at least 2 runs of 1 request are needed")]
    Short { runs: u32, requests: u64 },
    #[error("no class has requests")]
    NoRequests,
    #[error(transparent)]
    Saturated(#[from] Saturated),
    #[error("requests that arrive at a rate keep a station {:.1} % busy: {requests} requests are too few to show its queue", load * 100.0)]
    NearSaturation { load: f64, requests: u64 },
}

pub(super) fn check(network: &Network, settings: &Settings) -> Result<(), Invalid> {
    let count = |what, found: usize, expect: usize| {
        if found == expect { Ok(()) } else { Err(Invalid::Count { what, found, expect }) }
    };
    count("behaviours", settings.behaviours.len(), network.classes().len())?;
    count("stations by priority", settings.by_priority.len(), network.stations().len())?;
    count("stations with constant demands", settings.is_constant.len(), network.stations().len())?;
    if settings.runs < 2 || settings.requests < 1 {
        return Err(Invalid::Short { runs: settings.runs, requests: settings.requests });
    }
    if !network.classes().iter().any(Class::has_requests) {
        return Err(Invalid::NoRequests);
    }
    network.check_open()?;
    // Half as many do for a look that is shorter on purpose.
    if (settings.requests as f64) < 0.5 * requests_least(network) {
        return Err(Invalid::NearSaturation { load: network.open_load(), requests: settings.requests });
    }
    Ok(())
}
