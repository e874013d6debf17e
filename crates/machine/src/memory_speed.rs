//! The speed of this machine's memory and caches: bandwidth, latency of every level, and latency under load.
//!
//! The methods are those of lmbench (`lat_mem_rd`, `bw_mem`; McVoy and Staelin, 1996) and of Intel's Memory Latency
//! Checker. [`MemorySpeed::measure`] does all of it; [`MemorySpeed::load`] and [`save`](MemorySpeed::save) keep it for
//! a machine. [`level_latencies`](MemorySpeed::level_latencies) are the factors of a breakdown of cycles by cache
//! misses (Ailamaki et al., VLDB 1999).
//!
//! Every figure is the median of several rounds, with the lowest and the highest. On a shared machine, figures describe
//! the remaining capacity, which the notes report.

pub mod bandwidth;
pub(crate) mod buffer;
pub mod caches;
pub(crate) mod capacity;
pub(crate) mod chase;
pub(crate) mod figure;
pub(crate) mod kept;
pub mod latency;
pub mod loaded;
mod probe;
pub(crate) mod search;
pub(crate) mod stream;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::facts::{MachineFacts, usable_cores};
use crate::host::Host;
use bandwidth::Bandwidth;
use caches::CacheSizes;
pub use figure::Figure;
pub use kept::{KeepError, KeptSpeed, disk_probe, state_folder};
use latency::{CurvePoint, Level, LevelLatency};
use loaded::LoadedPoint;
pub(crate) use probe::waiting;

/// The cores and caches to measure, and how thoroughly.
#[derive(Debug, Clone)]
pub struct Options {
    /// Fewer and shorter rounds, coarser steps: 4 seconds rather than 20.
    pub quick: bool,
    /// Logical cores that may be used, at least one; single-core figures are measured on the first.
    pub cores: Vec<usize>,
    /// The cores by socket.
    pub sockets: Vec<(i64, Vec<usize>)>,
    /// The caches.
    pub caches: CacheSizes,
    /// The hypervisor or container that runs this machine; `None` on bare metal.
    pub guest_of: Option<String>,
}

impl Options {
    /// For this machine: the cores that this process may run on, at most the whole cores of its CPU quota.
    pub fn of(facts: &MachineFacts, quick: bool) -> Options {
        let mut cores = usable_cores();
        cores.truncate(facts.cores_usable);
        let host = Host::real();
        let mut sockets: Vec<(i64, Vec<usize>)> = Vec::new();
        for &core in &cores {
            let path = format!("/sys/devices/system/cpu/cpu{core}/topology/physical_package_id");
            let socket = host.value(path).unwrap_or(0);
            match sockets.iter_mut().find(|known| known.0 == socket) {
                Some((_, inside)) => inside.push(core),
                None => sockets.push((socket, vec![core])),
            }
        }
        Options { quick, cores, sockets, caches: CacheSizes::of(facts), guest_of: facts.virtualised.clone() }
    }
}

/// The speed of memory and caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemorySpeed {
    /// Whether this is the quick form.
    pub quick: bool,
    /// The cores that were used.
    pub cores: Vec<usize>,
    /// The caches by which levels were distinguished.
    pub caches: CacheSizes,
    /// The share of the buffer of the chases that lay in huge pages; with small pages, latencies of large working sets
    /// have misses of the TLB in them. `None` if the kernel does not report it.
    pub huge_page_share: Option<f64>,
    /// Bandwidth of one core, of all cores together, and of each socket if there are several.
    pub bandwidth: Vec<Bandwidth>,
    /// Latency by working set.
    pub curve: Vec<CurvePoint>,
    /// Latency of each level that the curve shows.
    pub levels: Vec<LevelLatency>,
    /// How much of the last-level cache one core really had, bytes: between the last working set that fits and the
    /// first that thrashes. It includes the second level where that is additional. From the curve, or else from a chase
    /// of several chains. `None` if neither shows it.
    pub llc_seen_bytes: Option<[u64; 2]>,
    /// Latency of memory while other cores read from it, by traffic.
    pub loaded: Vec<LoadedPoint>,
    /// How long measuring took, seconds.
    pub took_s: f64,
    /// Figures that could not be measured, with the reasons, and caveats for the reader.
    pub notes: Vec<String>,
}

/// Latencies of levels, ns; `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelLatencies {
    /// A load that the second level serves.
    pub l2_ns: Option<f64>,
    /// A load that the last level serves.
    pub llc_ns: Option<f64>,
    /// A load that memory serves.
    pub dram_ns: Option<f64>,
}

impl MemorySpeed {
    /// Measures this machine in at most 20 seconds (4 if quick), plus some ten if it must search for the last level.
    /// `progress` receives the share completed, 0 to 1, and the next step. Figures that cannot be measured are left
    /// out, and a note gives the reason.
    pub fn measure(options: &Options, progress: &mut dyn FnMut(f64, &str)) -> MemorySpeed {
        probe::measure(options, progress)
    }

    /// How much of the last-level cache one core appears to have, MiB, without its second level: from the last size
    /// that fits to the first that thrashes. `None` if unknown.
    pub fn last_level_seen_mib(&self) -> Option<[f64; 2]> {
        let beside = self.caches.beside_llc();
        let [low, high] = self.llc_seen_bytes?.map(|bytes| bytes.saturating_sub(beside) as f64 / f64::from(1 << 20));
        (low > 0.0).then_some([low, high])
    }

    /// The latencies of levels, each the median.
    pub fn level_latencies(&self) -> LevelLatencies {
        let of =
            |wanted: Level| self.levels.iter().find(|level| level.level == wanted).map(|level| level.latency.median);
        LevelLatencies { l2_ns: of(Level::L2), llc_ns: of(Level::Llc), dram_ns: of(Level::Dram) }
    }
}

/// As text, one line per figure.
impl fmt::Display for MemorySpeed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.bandwidth {
            let cores = match (one.cores.len(), one.socket) {
                (1, _) => "one core".to_owned(),
                (count, Some(socket)) => format!("{count} cores of socket {socket}"),
                (count, None) => format!("{count} cores"),
            };
            writeln!(out, "{:<22} {cores:<22} {}", one.pattern.name(), one.rate)?;
        }
        for level in &self.levels {
            let at = format!("{} KiB", level.bytes >> 10);
            writeln!(out, "{:<22} {at:<22} {}", format!("latency of {}", level.level.name()), level.latency)?;
        }
        for point in &self.loaded {
            let at = format!("at {:.1} GB/s", point.traffic_gb_s);
            writeln!(out, "{:<22} {at:<22} {}", "loaded latency", point.latency)?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
