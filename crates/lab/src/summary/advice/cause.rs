//! The part in which a slowed workload lost its time, and a remedy.
//!
//! Parts are compared as time per request, share times mean response time, because a share alone can shrink while its time grows.
//! Without mean response times the shares are compared.

use crate::results::TimeShare;
use crate::summary::{Arm, Workload};
use plimsoll_display::{duration_us, list, percent, significant};

/// A part that grew by less than this much of the response time together is not a cause.
const GROWTH_MIN: f64 = 0.05;

/// Instructions per cycle count as fallen if they are below this share of those alone.
const IPC_FALL: f64 = 0.9;

/// Misses per instruction count as grown if they are beyond this many times those alone.
const MISSES_GROWTH: f64 = 1.2;

/// The cause of a workload's loss of time.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cause {
    Cores(Growth),
    Locks(Growth),
    Disk(Growth),
    /// Fewer instructions per cycle with more cache misses.
    Cache {
        /// Instructions per cycle alone and together.
        ipc: (f64, f64),
        /// Last-level misses per 1000 instructions alone and together.
        misses: (f64, f64),
    },
    /// Fewer instructions per cycle without more cache misses.
    CorePressure {
        /// Instructions per cycle alone and together.
        ipc: (f64, f64),
    },
    MoreWork {
        /// Together over alone.
        times: f64,
    },
    /// More time on cores, without counters to show why.
    Unexplained(Growth),
    /// The server had no work for it.
    Clients(Growth),
    /// None of the measured parts.
    Elsewhere {
        /// The growth of the remainder.
        growth: Growth,
        /// The parts that it includes because they could not be measured.
        unmeasured: Vec<&'static str>,
    },
}

/// How much a part of response time grew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Growth {
    pub alone: f64,
    pub together: f64,
    /// Growth of the part and of the whole, microseconds per request, if mean response times are known and grew.
    pub us: Option<(f64, f64)>,
}

type SharePart = fn(&TimeShare) -> Option<f64>;

/// A part, and the cause if that part has grown the most.
type Candidate = (SharePart, fn(Growth) -> Cause);

impl Cause {
    /// The part of response time that grew the most, made precise by counters. `None` if nothing was measured or
    /// nothing grew.
    pub(super) fn of(workload: &Workload) -> Option<Self> {
        let parts: [Candidate; 6] = [
            (|s| s.cpu_wait, Self::Cores),
            (|s| s.lock, Self::Locks),
            // A process that waits behind one that waits for a device waits for the device (MW 2.6).
            (|s| s.io.map(|io| io + s.io_latch.unwrap_or(0.0)), Self::Disk),
            (|s| s.cpu_run, Self::Unexplained),
            (|s| s.client, Self::Clients),
            (|s| Some(s.other), |growth| Self::Elsewhere { growth, unmeasured: Vec::new() }),
        ];
        let grown = parts.into_iter().filter_map(|(part, cause)| {
            let (growth, weight) = Growth::of(workload, part)?;
            (weight >= GROWTH_MIN).then_some((cause(growth), weight))
        });
        let largest = grown.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(cause, _)| cause);
        match largest {
            Some(Self::Cores(_) | Self::Locks(_) | Self::Disk(_)) => largest,
            // Stalls for memory hide in the time on a core.
            Some(Self::Unexplained(_)) | None => Self::of_counters(workload).or(largest),
            Some(Self::Elsewhere { growth, .. }) => Some(Self::Elsewhere { growth, unmeasured: unmeasured(workload) }),
            other => other,
        }
    }

    fn of_counters(workload: &Workload) -> Option<Self> {
        let pair = |key: &str| Some((workload.alone.figure(key)?, workload.together.figure(key)?));
        let ipc = pair("counters.ipc").filter(|(alone, together)| *together < IPC_FALL * alone);
        let misses = pair("counters.llc_mpki").filter(|(alone, together)| *together > MISSES_GROWTH * alone);
        match (ipc, misses) {
            (Some(ipc), Some(misses)) => Some(Self::Cache { ipc, misses }),
            (Some(ipc), None) => Some(Self::CorePressure { ipc }),
            (None, _) => pair("counters.instructions")
                .map(|(alone, together)| together / alone)
                .filter(|times| *times > MISSES_GROWTH)
                .map(|times| Self::MoreWork { times }),
        }
    }

    /// One sentence that names the cause, its numbers and the remedy.
    pub(super) fn sentence(&self, name: &str, others: &str) -> String {
        let other = if others.is_empty() { "the others" } else { others };
        match self {
            Self::Cores(growth) => format!(
                "{}: cores are what they compete for; give the important one its own cores or limit the degree of parallelism of the other.",
                growth.told(name, "waiting for a core")
            ),
            Self::Locks(growth) => format!(
                "{}: they use the same rows; priority lock scheduling lets the important transactions pass.",
                growth.told(name, "waiting for database locks")
            ),
            Self::Disk(growth) => format!(
                "{}: they compete for the disk; limit the disk bandwidth of {other} or give more memory.",
                growth.told(name, "waiting for a device")
            ),
            Self::Cache { ipc, misses } => format!(
                "{name} retires {:.2} instructions per cycle instead of {:.2} and misses the last-level cache {} times per 1000 instructions instead of {}: they share cache and memory bandwidth; partition the cache.",
                ipc.1,
                ipc.0,
                significant(misses.1),
                significant(misses.0)
            ),
            Self::CorePressure { ipc } => format!(
                "{name} retires {:.2} instructions per cycle instead of {:.2} without more cache misses seen: suspect hyper-threads, clock rate or memory bandwidth; give it whole cores of its own.",
                ipc.1, ipc.0
            ),
            Self::MoreWork { times } => format!(
                "{name} executes {times:.1} times as many instructions per request: look for retries, longer version chains or a different plan before you divide hardware."
            ),
            Self::Unexplained(growth) => format!(
                "{}: no hardware counters say whether that is cache, memory bandwidth or hyper-threads.",
                growth.told(name, "on a core")
            ),
            Self::Clients(growth) => format!(
                "{}: our own clients wait for cores, or the network is slow; give the clients their own cores or machine.",
                growth.told(name, "outside the server")
            ),
            Self::Elsewhere { growth, unmeasured } if !unmeasured.is_empty() => format!(
                "{}; {} could not be measured and may be the cause.",
                growth.told(name, "in none of the parts measured"),
                list(unmeasured)
            ),
            Self::Elsewhere { growth, .. } => format!(
                "{}: look at queues and idle workers inside the database before you divide hardware.",
                growth.told(name, "in none of the parts measured")
            ),
        }
    }
}

/// Parts of response time that an arm could not distinguish from `other`.
fn unmeasured(workload: &Workload) -> Vec<&'static str> {
    let parts: [(&'static str, SharePart); 4] = [
        ("time on a core", |s| s.cpu_run),
        ("waiting for a core", |s| s.cpu_wait),
        ("waiting for a device", |s| s.io),
        ("waiting for locks", |s| s.lock),
    ];
    let shares = workload.arms().into_iter().filter_map(|(_, arm)| share(arm)).collect::<Vec<_>>();
    parts
        .into_iter()
        .filter(|(_, part)| shares.iter().any(|share| part(share).is_none()))
        .map(|(name, _)| name)
        .collect()
}

/// The time shares of an arm's requests.
fn share(arm: &Arm<'_>) -> Option<TimeShare> {
    arm.cell?.measured.all.time_share
}

impl Growth {
    /// How much `part` grew, and that as a part of response time together. `None` unless measured in both arms.
    fn of(workload: &Workload, part: SharePart) -> Option<(Self, f64)> {
        let (alone, together) = (part(&share(&workload.alone)?)?, part(&share(&workload.together)?)?);
        let means = workload.alone.figure("latency_us.mean").zip(workload.together.figure("latency_us.mean"));
        Some(match means {
            Some((mean_alone, mean_together)) if mean_together > mean_alone => {
                let us = together * mean_together - alone * mean_alone;
                (Self { alone, together, us: Some((us, mean_together - mean_alone)) }, us / mean_together)
            }
            _ => (Self { alone, together, us: None }, together - alone),
        })
    }

    fn told(&self, name: &str, doing: &str) -> String {
        let shares = format!("{} of response time, {} alone", percent(self.together), percent(self.alone));
        match self.us {
            // A part can grow by more than the whole if another part shrank.
            Some((part, whole)) if part <= whole => format!(
                "Of the {} that a request of {name} takes longer, {} is spent {doing} ({shares})",
                duration_us(whole),
                duration_us(part)
            ),
            Some((part, _)) => format!("A request of {name} spends {} more {doing} ({shares})", duration_us(part)),
            None => format!("{name} spends more of its time {doing} ({shares})"),
        }
    }
}
