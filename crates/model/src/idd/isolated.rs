//! Predictions from each workload alone: waits for cores that follow from the kernel's slice, and how far such
//! predictions have been off.
//!
//! The network shares cores evenly at every moment. Over time a fair kernel does so, too (Linux since 6.6): a process that
//! sleeps keeps what it is owed. Where the work of a request is short beside a slice, three things are different:
//! - **Each core has a queue.** Where others keep every core busy, a process that wakes shares one of them with `n / c` of
//!   `n` others. Even sharing of all `c` cores counts `(n + 1) / c - 1`.
//! - **A turn is not interrupted at once.** The running process keeps the core for a slice `s`; what it has of its turn
//!   `t` beyond that, it gives up at once to a process that is owed time. Turns end at ticks of the clock, so that `t` is
//!   `s` rounded up to ticks. A process that wakes at a random moment meets the slice with probability `s / t` and waits
//!   until the turn's end, `t - s / 2` on average: `s - s^2 / 2t` in all. A process that is alone with its core does not
//!   begin turns, so that this takes two or more others per core.
//! - **A request may be several processes.** Parallel workers wait in the queues like others.
//!
//! A process that wakes thus waits for two things: to be owed a turn, and for the running one to have had its own. It has
//! the later of the two. With exponential lengths of means `a` and `b` that takes `a + b - ab / (a + b)`.
//!
//! No number is fitted. Client and server wake each other without a pause between, one at the other's core, so that only a
//! pause counts as a wake-up: the client's own, a round trip, a lock.

use crate::statistics::student;

/// Predicted over measured mean responses of mixes, by predictions from each workload alone: beside reports the shop,
/// TPC-C and ASDB-like transactions, then reports beside each. Means over 2 to 50 reports (`docs/notes/predict.md`).
pub const ISOLATED_RATIOS: [f64; 6] = [0.85, 0.40, 0.56, 0.94, 0.93, 0.94];

/// Half the width of a 95 % interval that contains the error of a prediction from each workload alone, in logarithms.
///
/// The six are taken as draws around a right prediction, although they lie on one side of it: an interval that is moved to
/// the other side would rest on three pairs of one machine.
pub(super) fn half_width() -> f64 {
    half_width_of(&ISOLATED_RATIOS)
}

/// The same by other ratios: Student's t of their logarithms.
pub(super) fn half_width_of(ratios: &[f64]) -> f64 {
    let squares: f64 = ratios.iter().map(|ratio| ratio.ln().powi(2)).sum();
    let figures = ratios.len() as f64;
    student::quantile(0.975, figures) * (squares / figures).sqrt()
}

/// How the kernel cuts the time of a core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoreSlice {
    /// Seconds for which a process that runs is not interrupted.
    pub slice_s: f64,
    /// Seconds between ticks, at which turns end.
    pub tick_s: f64,
}

impl CoreSlice {
    /// A turn of a process beside others.
    fn turn_s(self) -> f64 {
        const ROUNDING: f64 = 1e-9;
        (self.slice_s / self.tick_s - ROUNDING).ceil().max(1.0) * self.tick_s
    }

    /// Mean seconds that a process that wakes waits for the running one, of several that compute at its core.
    fn wake_s(self) -> f64 {
        self.slice_s - self.slice_s.powi(2) / (2.0 * self.turn_s())
    }

    /// The share of requests whose CPU seconds outlast a slice, if they are exponential with this mean.
    fn outlasting(self, cpu_s: f64) -> f64 {
        if cpu_s > 0.0 { (-self.slice_s / cpu_s).exp() } else { 0.0 }
    }
}

/// A class at the cores, by even sharing.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtCores {
    /// CPU seconds of a request.
    pub(super) cpu_s: f64,
    /// Its wake-ups after pauses.
    pub(super) wakes: f64,
    /// Its parallel workers.
    pub(super) workers: f64,
    /// Requests at the cores, on average.
    pub(super) present: f64,
    /// Of these, how many another request of the class meets.
    pub(super) met_by_own: f64,
    /// Seconds at the cores, relative to CPU seconds.
    pub(super) stretch: f64,
}

/// By class, how many seconds longer a request waits for cores than by even sharing. `workers_max` is how many parallel
/// workers there can be.
pub(super) fn waits_s(slice: CoreSlice, classes: &[AtCores], cores: u32, workers_max: Option<u32>) -> Vec<f64> {
    (0..classes.len()).map(|of| wait_s(slice, classes, of, (f64::from(cores), workers_max))).collect()
}

fn wait_s(slice: CoreSlice, classes: &[AtCores], of: usize, (cores, workers_max): (f64, Option<u32>)) -> f64 {
    let own = &classes[of];
    let met = |(at, class): (usize, &AtCores)| if at == of { own.met_by_own } else { class.present };
    let sum = |part: &dyn Fn(&AtCores) -> f64| {
        classes.iter().enumerate().map(|(at, class)| met((at, class)) * part(class)).sum::<f64>()
    };
    let others = sum(&|_| 1.0);
    if others <= 0.0 || own.cpu_s <= 0.0 {
        return 0.0;
    }
    let long = sum(&|class| slice.outlasting(class.cpu_s)) / others;
    let short = 1.0 - slice.outlasting(own.cpu_s);
    let workers = sum(&|class| class.workers).min(workers_max.map_or(f64::INFINITY, f64::from));
    let waiting = |others: f64| (others + 1.0 - cores).max(0.0) / cores;
    // Others per core by even sharing, with workers, and with a queue for each core. Where `n` others keep `c` cores just
    // busy, even sharing counts `1 / c`; below, some core is idle.
    let even = own.stretch - 1.0;
    let all = even + short * (waiting(others + workers) - waiting(others));
    let per_core = all + short * long * (1.0 - 1.0 / cores) * (cores * all).clamp(0.0, 1.0);
    let owed_s = own.cpu_s * per_core;
    let turn_s = own.wakes * slice.wake_s() * (per_core * long - 1.0).clamp(0.0, 1.0);
    let both_s = owed_s + turn_s;
    let later_s = if both_s > 0.0 { both_s - owed_s * turn_s / both_s } else { 0.0 };
    short * (later_s - own.cpu_s * even).max(0.0)
}
