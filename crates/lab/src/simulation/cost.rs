//! The cost of simulating a plan, estimated before it begins.

use std::time::Duration;

use crate::plan::Plan;
use plimsoll_display::bytes;

/// References that one core simulates per second, rounded down. docs/notes/cache-simulator.md has the measurements.
const REFERENCES_PER_S: f64 = 50e6;

/// Longer simulations are done only on demand.
const UNASKED_MAX: Duration = Duration::from_secs(3600);

/// The number of settings that are checked; more would take days anyway.
const SETTINGS_MAX: usize = 10_000;

/// The cost of some runs of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// References that are simulated, warm-ups included.
    pub references: f64,
    /// Bytes of memory of the largest run.
    pub bytes: u64,
}

impl Cost {
    /// The time that it takes one core.
    pub fn time(&self) -> Duration {
        Duration::try_from_secs_f64(self.references / REFERENCES_PER_S).unwrap_or(Duration::MAX)
    }

    /// Why it should not run without a confirmation; `None` if it is neither long nor large. `free` is the available
    /// memory, `None` if that is not known.
    pub fn objection(&self, free: Option<u64>) -> Option<String> {
        if let Some(free) = free.filter(|free| self.bytes > *free) {
            let (needed, free) = (bytes(self.bytes), bytes(free));
            return Some(format!(
                "a run needs {needed} of memory, and {free} are free; raise `sampling`, or say --yes"
            ));
        }
        (self.time() > UNASKED_MAX).then(|| {
            let (references, rate) = (self.references / 1e9, REFERENCES_PER_S / 1e6);
            format!(
                "{references:.0} billion references take longer than an hour at {rate:.0} million per second; sweep fewer values, lower `references` and `warm_up`, or say --yes"
            )
        })
    }
}

/// The cost of `runs` runs of a simulated plan, if they are spread evenly over its settings and arms.
pub fn cost(plan: &Plan, runs: usize) -> Cost {
    let (mut references, mut bytes, mut count) = (0_f64, 0, 0_u32);
    for setting in plan.settings().take(SETTINGS_MAX) {
        for arm in &plan.arms {
            let simulation = super::simulation(&setting, &arm.members, 0);
            let estimate = simulation.ok().and_then(|simulation| simulation.estimate().ok());
            let Some(estimate) = estimate else { continue };
            references += estimate.references as f64;
            bytes = bytes.max(estimate.bytes);
            count += 1;
        }
    }
    Cost { references: references / f64::from(count.max(1)) * runs as f64, bytes }
}
