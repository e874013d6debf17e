//! The weight that guarantees the processes of an idle-time group a floor of the cores ([`CpuFloor`]).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_machine::groups::OwnGroup;
use plimsoll_machine::processor_time::ProcessorTicks;
use plimsoll_policy::{CpuFloor, CpuSeen};

use super::REFUSED_FOR;

/// How long the group's processes are measured before its weight may change.
const WINDOW: Duration = Duration::from_millis(250);

/// How long each process, by its ID, has run on a core, and how long it has waited for one.
type Times = BTreeMap<i32, (Duration, Duration)>;

#[derive(Debug, Default)]
pub(super) struct Floor {
    control: CpuFloor,
    /// Until when no weight is tried, because the kernel has refused one.
    no_weight_until: Option<Instant>,
    window: Option<Window>,
}

/// When a window began, and the times at that point.
#[derive(Debug)]
struct Window {
    began: Instant,
    times: Times,
    processors: Option<ProcessorTicks>,
}

impl Floor {
    /// Sets the group's weight so that its processes get at least `percent` of all cores if they need that much.
    pub(super) fn tend(&mut self, group: &OwnGroup, percent: u32, cores: Option<u32>, now: Instant) {
        let before = self.control.weight();
        let is_barred = self.no_weight_until.is_some_and(|until| now < until);
        if (percent == 0 || is_barred) && before.is_none() {
            self.window = None;
            return;
        }
        if self.window.as_ref().is_some_and(|window| now.saturating_duration_since(window.began) < WINDOW) {
            return;
        }
        let (times, processors) = (group.times(), group.processors());
        let earlier = self.window.replace(Window { began: now, times: times.clone(), processors });
        let weight = match (earlier, cores) {
            _ if percent == 0 => {
                self.control = CpuFloor::default();
                None
            }
            (Some(earlier), Some(cores)) => {
                let window = now.saturating_duration_since(earlier.began);
                let (ran, waited) = spent(&earlier.times, &times, window);
                let busy = processors.zip(earlier.processors).and_then(|(now, then)| {
                    // The server cannot use the idle time of cores that it is not allowed on.
                    let is_all = u32::try_from(now.cores) == Ok(cores);
                    now.since(&then).busy_share().filter(|_| is_all)
                });
                let idle = busy.map(|busy| window.mul_f64((1.0 - busy) * f64::from(cores)));
                self.control.step(f64::from(percent) / 100.0, &CpuSeen { window, cores, ran, waited, idle })
            }
            _ => before,
        };
        if weight == before {
            return;
        }
        match group.give_cores(weight) {
            Ok(()) => tracing::debug!(?weight, "the weight of a group that gets idle time of the cores"),
            Err(error) => {
                tracing::warn!(%error, "processes that get idle time of the cores may get less than their floor");
                // After half a change they could get more than intended.
                if let Err(error) = group.give_cores(None) {
                    tracing::warn!(%error, "their group may not be idle");
                }
                (self.control, self.no_weight_until) = (CpuFloor::default(), Some(now + REFUSED_FOR));
            }
        }
    }
}

/// How long processes ran and waited within a window. A new process counts from its beginning, but at most for the
/// length of the window, because it may have served another class before. The times of a process that has ended since
/// the last look are lost, so the others get a little more than their floor.
fn spent(earlier: &Times, now: &Times, window: Duration) -> (Duration, Duration) {
    now.iter().fold((Duration::ZERO, Duration::ZERO), |(ran, waited), (process, (on, off))| {
        // If another process has the number now, its times are lower.
        let (on_before, off_before) =
            earlier.get(process).filter(|before| before.0 <= *on).copied().unwrap_or_default();
        (ran + (*on - on_before).min(window), waited + off.saturating_sub(off_before).min(window))
    })
}
