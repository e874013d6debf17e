//! How the kernel cuts the time of a core among processes.

use std::time::Duration;

use rustix::process::getpid;
use rustix::time::{ClockId, clock_getres};
use serde::{Deserialize, Serialize};

use crate::host::Host;

/// How the kernel cuts the time of a core among processes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoreSlice {
    /// For how long a process keeps a core while others wait for it, microseconds.
    pub slice_us: f64,
    /// Time between two ticks, microseconds. The kernel ends a slice at the next tick.
    pub tick_us: f64,
}

/// The slice of this process, and the kernel's tick, which is the resolution of its coarse clock; `None` if the kernel
/// does not report its slices (Linux before 6.12), or `host` is not this machine.
pub(super) fn read(host: &Host) -> Option<CoreSlice> {
    let slice = host.slice(getpid().as_raw_nonzero().get()).filter(|_| host.is_real())?;
    let tick = Duration::try_from(clock_getres(ClockId::MonotonicCoarse)).ok()?;
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    (!tick.is_zero()).then(|| CoreSlice { slice_us: us(slice), tick_us: us(tick) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn slices_and_ticks_are_of_this_machine_and_plausible() {
        if let Some(found) = read(&Host::real()) {
            assert!((100.0..=100_000.0).contains(&found.slice_us), "{found:?}");
            assert!((500.0..=10_000.0).contains(&found.tick_us), "{found:?}");
        }
        assert_eq!(read(&FakeHost::new(&[]).host()), None);
    }
}
