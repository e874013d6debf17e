//! Why a workload's figures may not be those of a steady state: how the lengths of window and warm-up compare with
//! those of its requests and think times.

use std::fmt;
use std::time::Duration;

use plimsoll_display::seconds;
use serde::{Deserialize, Serialize};

use super::measurement::WorkloadMeasurement;
use super::warm_up::{Verdict, WarmUp, WarmUpMeasurement};
use super::{ClientOptions, DrivenWorkload};

/// How many cycles of think time and response a window should have.
///
/// Up to one cycle of each client is cut off at each end of the window, in part counted and in part not; of 20 that is at
/// most [`DIFFERENCE_MAX`].
const WINDOW_CYCLES: f64 = 20.0;

/// How many cycles a warm-up should have: clients begin together, and after n cycles about `e^-n` of that effect is
/// left, which is 5 % after three.
const WARM_UP_CYCLES: f64 = 3.0;

/// By how much the two sides of Little's law may differ, and by how much requests in the system may grow, relative to those
/// that arrived.
const DIFFERENCE_MAX: f64 = 0.05;

/// Why a workload's figures in one window may not be those of a steady state. Prints as a sentence without its subject, the
/// workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Which doubt it is.
    pub about: DoubtAbout,
    /// The finding and the remedy.
    pub told: String,
}

/// The subject of a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoubtAbout {
    /// Throughput was not steady when the window opened, or that could not be judged.
    Steadiness,
    /// The warm-up had too few cycles of think time and response.
    ShortWarmUp,
    /// The window had too few of them.
    ShortWindow,
    /// Time spent in the window differs from the responses that ended in it: figures per request are not those of the
    /// requests that ran. Claims on response times and time shares are undecided then, except on means that hardly differ.
    LittlesLaw,
    /// In open loop, more requests arrived than ended.
    Overload,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

/// Both sides of Little's law for a window (Little 1961): in a steady state, the time that requests spend in the system per
/// unit of time is the rate at which they end times their mean response. The two differ where a window cuts off requests that
/// are long relative to it, and where requests in the system become more or fewer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LittlesLaw {
    /// Time inside the window that requests spent in the system, from their intended start, summed over all, seconds.
    pub in_system_s: f64,
    /// Response times of the requests that ended in the window, those given up included, summed, seconds.
    pub response_s: f64,
}

impl LittlesLaw {
    /// By how much the first is larger than the second, relative to it; `None` if no request was in the system,
    /// infinite if no request ended.
    pub fn difference(&self) -> Option<f64> {
        (self.in_system_s > 0.0).then(|| self.in_system_s / self.response_s - 1.0)
    }

    /// The same over several windows: errors at the two edges average out, requests that are never counted do not.
    pub fn sum(windows: impl IntoIterator<Item = LittlesLaw>) -> LittlesLaw {
        windows.into_iter().fold(LittlesLaw::default(), |sum, one| LittlesLaw {
            in_system_s: sum.in_system_s + one.in_system_s,
            response_s: sum.response_s + one.response_s,
        })
    }

    /// Why figures of such windows are in doubt; `None` if they are not.
    pub fn doubt(&self) -> Option<Doubt> {
        let difference = self.difference().filter(|difference| difference.abs() > DIFFERENCE_MAX)?;
        let told = if difference.is_infinite() {
            "had requests under way of which none ended within the window; make it longer".to_owned()
        } else {
            let (percent, more) = (difference.abs() * 100.0, if difference > 0.0 { "more" } else { "less" });
            format!(
                "spent {percent:.0} % {more} time within the window than the responses that ended in it took (Little's law), so that its mean response is not that of the requests that ran; make the window longer"
            )
        };
        Some(Doubt { about: DoubtAbout::LittlesLaw, told })
    }
}

/// The doubts about one workload.
pub(super) fn doubts(
    options: &ClientOptions,
    warm_up: (WarmUp, &WarmUpMeasurement, &Verdict),
    driven: &DrivenWorkload,
) -> Vec<Doubt> {
    let (asked, found, verdict) = warm_up;
    let mut doubts: Vec<Doubt> = steadiness(asked, verdict).into_iter().collect();
    let completed = driven.measured.all.completed;
    if completed > 0 {
        let response = driven.response_total.div_f64(completed as f64);
        let cycle = options.think.mean() + response;
        let is_short = |about, what: &str, length: Duration, cycles: f64| {
            let least = cycle.mul_f64(cycles);
            let times = length.as_secs_f64() / cycle.as_secs_f64();
            (length < least).then(|| Doubt {
                about,
                told: format!(
                    "had a {what} of only {times:.1} times its cycle of think time and response, {}; make it {cycles} times, at least {}",
                    seconds(cycle.as_secs_f64()),
                    seconds(least.as_secs_f64())
                ),
            })
        };
        doubts.extend(is_short(DoubtAbout::ShortWarmUp, "warm-up", found.lasted, WARM_UP_CYCLES));
        doubts.extend(is_short(DoubtAbout::ShortWindow, "window", driven.window, WINDOW_CYCLES));
    }
    doubts.extend(driven.measured.window.littles_law.and_then(|law| law.doubt()));
    doubts.extend(overload(driven));
    doubts
}

fn steadiness(asked: WarmUp, verdict: &Verdict) -> Option<Doubt> {
    let told = match (asked, verdict) {
        (_, Verdict::Steady) => return None,
        (WarmUp::UntilSteady { at_most }, verdict) => format!(
            "was not steady after a warm-up of {at_most:?}, the most that was allowed: throughput {verdict}; its beginning may reach into the window, so allow a longer one"
        ),
        (WarmUp::For(length), Verdict::TooShort | Verdict::TooFew(_)) => {
            format!("may not have been steady after its warm-up of {length:?}: throughput {verdict}")
        }
        (WarmUp::For(length), verdict) => format!(
            "was not steady after its warm-up of {length:?}: throughput {verdict}; its beginning may reach into the window, so make the warm-up longer"
        ),
    };
    Some(Doubt { about: DoubtAbout::Steadiness, told })
}

/// That the requests of an open loop become more and more.
fn overload(driven: &DrivenWorkload) -> Option<Doubt> {
    let WorkloadMeasurement { all, window, .. } = &driven.measured;
    let (offered, backlog, in_flight) = (window.offered_per_s?, window.backlog?, all.in_flight?);
    let grown = (in_flight.end as f64 - in_flight.begin as f64) / driven.window.as_secs_f64();
    let ended = offered - grown;
    (backlog > 0 && grown > DIFFERENCE_MAX * offered).then(|| Doubt {
        about: DoubtAbout::Overload,
        told: format!(
            "got {offered:.1} requests per second and ended {ended:.1}: {backlog} waited for a free client when the window closed, and its response times depend on how long that was; lower the rate"
        ),
    })
}

#[cfg(test)]
mod tests;
