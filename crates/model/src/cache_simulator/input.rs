//! The input of a simulation: a machine, the workloads on it, and the length. All of it is checked, and its cost
//! estimated, before it runs.

use thiserror::Error;

use super::cache::{LINE_BYTES, Replacement, WAYS_MOST};
use super::trace::Program;

/// The form of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// All of its bytes.
    pub bytes: u64,
    /// Its ways, at most 32.
    pub ways: u32,
}

impl CacheShape {
    /// The mask of all ways.
    pub fn all_ways(&self) -> u32 {
        1_u32.checked_shl(self.ways).map_or(u32::MAX, |bit| bit - 1)
    }

    /// Its sets; `None` if its bytes are not a whole number of sets below 2^32, or its ways are not 1 to 32.
    pub(super) fn sets(&self) -> Option<u32> {
        let set_bytes = LINE_BYTES * u64::from(self.ways);
        let is_whole = (1..=WAYS_MOST).contains(&self.ways) && self.bytes > 0 && self.bytes.is_multiple_of(set_bytes);
        is_whole.then(|| u32::try_from(self.bytes / set_bytes).ok())?
    }
}

/// A processor with its memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// The cache that cores share and to which masks apply.
    pub shared: CacheShape,
    /// The cache that each core has for itself, its largest.
    pub private: CacheShape,
    /// Whether the shared cache has every line of the private ones, so that a line that it evicts leaves these, too.
    pub inclusive: bool,
    /// Which line of the shared cache is replaced. Private caches replace the least recently used one.
    pub replacement: Replacement,
    /// Nanoseconds of a hit in the shared cache.
    pub shared_ns: f64,
    /// Nanoseconds of a read from memory without contention.
    pub memory_ns: f64,
    /// The most bytes per second from memory.
    pub memory_bytes_per_s: f64,
    /// Its cores. Threads beyond them share a core, and its private cache, with another thread.
    pub cores: u32,
    /// How many times as long a thread computes while another thread of its core computes; 1 if threads do not disturb each other.
    pub sibling_slowdown: f64,
}

impl Machine {
    /// The study's machine (NO III.C), an Intel Xeon E5-2699 v4 with an inclusive shared cache. The study does not
    /// state the latency of a hit in the shared cache (18 ns are assumed) or its replacement (of two kinds, the one
    /// that is nearer to single operators, NO fig. 5). Nor does it state what two threads of a core cost each other,
    /// though its pairs of statements have two: a statement has as many threads as there are cores, and the processor
    /// runs twice as many (III.C). Two threads that compute are assumed to do a quarter more than one: other processors
    /// of the kind do 1.2 to 1.7 times as much (SI tab. 4.11 to 4.13), and transactions beside queries 1.28 and 1.46
    /// times (SI tab. 6.20, the sum of both parts).
    pub const STUDY: Machine = Machine {
        shared: CacheShape { bytes: 55 << 20, ways: 20 },
        private: CacheShape { bytes: 256 << 10, ways: 8 },
        inclusive: true,
        replacement: Replacement::Rrip,
        shared_ns: 18.0,
        memory_ns: 80.0,
        memory_bytes_per_s: 64e9,
        cores: 22,
        sibling_slowdown: 1.6,
    };
}

/// An operator with its threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name in results.
    pub name: String,
    /// The program that each of its cores repeats.
    pub program: Program,
    /// How many threads work for it, each on a core of its own as far as there are enough.
    pub cores: u32,
    /// The ways of the shared cache that it may fill.
    pub mask: u32,
}

/// A simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// The processor.
    pub machine: Machine,
    /// The workloads that run at the same time.
    pub workloads: Vec<Workload>,
    /// One set in this many is simulated, the same in all caches; 1 for all. It must divide the sets of both.
    pub sampling: u32,
    /// References, of all cores together, before anything is counted.
    pub warm_up: u64,
    /// References, of all cores together, that are counted.
    pub references: u64,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// The cost of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// References that are made, warm-up included.
    pub references: u64,
    /// Bytes of memory of the simulated caches.
    pub bytes: u64,
}

impl Estimate {
    /// Seconds that it takes one core that simulates `references_per_s`.
    pub fn seconds(&self, references_per_s: f64) -> f64 {
        self.references as f64 / references_per_s
    }
}

/// Why something cannot be simulated.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A cache that is not a whole number of sets.
    #[error(
        "the {cache} cache has {bytes} bytes in {ways} ways; it must be a multiple of {LINE_BYTES} bytes for each of 1 to {WAYS_MOST} ways"
    )]
    Shape {
        /// `shared` or `private`.
        cache: &'static str,
        /// As requested.
        bytes: u64,
        /// As requested.
        ways: u32,
    },
    /// A part of the sets that is not whole.
    #[error(
        "one set in {sampling} cannot be simulated of {sets} sets of the {cache} cache; use a number that divides them"
    )]
    Sampling {
        /// `shared` or `private`.
        cache: &'static str,
        /// Its sets.
        sets: u32,
        /// As requested.
        sampling: u32,
    },
    /// A latency or bandwidth that is not a number above 0.
    #[error("{name} of the machine is {value}; it must be a number above 0")]
    Speed {
        /// `shared_ns`, `memory_ns` or `memory_bytes_per_s`.
        name: &'static str,
        /// As requested.
        value: f64,
    },
    /// Threads that share a core cannot speed each other up.
    #[error("sibling_slowdown of the machine is {0}; it must be a number from 1 to 100")]
    Slowdown(f64),
    /// Nothing to simulate.
    #[error("{0}: there is nothing to simulate")]
    Nothing(&'static str),
    /// A workload without ways.
    #[error("the mask of {workload} has no way; give it 0x3, or {all:#x} for all")]
    EmptyMask {
        /// Its name.
        workload: String,
        /// All ways.
        all: u32,
    },
    /// Ways that the cache does not have.
    #[error("the mask {mask:#x} of {workload} has ways beyond the {ways} of the shared cache ({all:#x})")]
    MaskBeyond {
        /// Its name.
        workload: String,
        /// As requested.
        mask: u32,
        /// Of the shared cache.
        ways: u32,
        /// All ways.
        all: u32,
    },
    /// A program that reads nothing or needs no time.
    #[error("{workload}: {why}")]
    Program {
        /// Its name.
        workload: String,
        /// The mistake.
        why: &'static str,
    },
    /// More lines than line numbers.
    #[error(
        "the structures have {lines} lines, and at most {LINES_MOST} (256 GiB) can be told apart; use smaller data"
    )]
    Lines {
        /// Of all workloads.
        lines: u64,
    },
}

/// Line numbers have 32 bits, and 0 is not used.
pub(super) const LINES_MOST: u64 = u32::MAX as u64;

/// Least nanoseconds of a unit.
const COMPUTE_NS_LEAST: f64 = 0.01;

/// Most references of one kind in a unit, so that a unit ends.
const PER_UNIT_MOST: f64 = 1e6;

/// Most cores of a simulation.
pub const CORES_MOST: u32 = 4_096;

impl Simulation {
    /// The cost of [`run`](super::run).
    ///
    /// # Errors
    /// [`SimulationError`] if it cannot run.
    pub fn estimate(&self) -> Result<Estimate, SimulationError> {
        const SLOT_BYTES: u64 = 12;
        self.check()?;
        let slots = |shape: CacheShape| shape.bytes / LINE_BYTES / u64::from(self.sampling);
        let threads: u64 = self.workloads.iter().map(|workload| u64::from(workload.cores)).sum();
        let cores = threads.min(u64::from(self.machine.cores));
        let references = self.warm_up.saturating_add(self.references);
        let slots = slots(self.machine.shared).saturating_add(slots(self.machine.private).saturating_mul(cores));
        Ok(Estimate { references, bytes: slots.saturating_mul(SLOT_BYTES) })
    }

    /// Whether it can run.
    ///
    /// # Errors
    /// The first [`SimulationError`].
    pub fn check(&self) -> Result<(), SimulationError> {
        let Machine { shared, private, shared_ns, memory_ns, memory_bytes_per_s, .. } = self.machine;
        for (cache, shape) in [("shared", shared), ("private", private)] {
            let sets = shape.sets();
            let sets = sets.ok_or(SimulationError::Shape { cache, bytes: shape.bytes, ways: shape.ways })?;
            if self.sampling == 0 || !sets.is_multiple_of(self.sampling) {
                return Err(SimulationError::Sampling { cache, sets, sampling: self.sampling });
            }
        }
        let speeds = [("shared_ns", shared_ns), ("memory_ns", memory_ns), ("memory_bytes_per_s", memory_bytes_per_s)];
        if let Some((name, value)) = speeds.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            return Err(SimulationError::Speed { name, value });
        }
        let slowdown = self.machine.sibling_slowdown;
        if !(1.0..=100.0).contains(&slowdown) {
            return Err(SimulationError::Slowdown(slowdown));
        }
        if self.machine.cores == 0 {
            return Err(SimulationError::Nothing("the machine has no core"));
        }
        if self.references == 0 {
            return Err(SimulationError::Nothing("0 references are counted"));
        }
        let cores = self.workloads.iter().fold(0_u32, |sum, workload| sum.saturating_add(workload.cores));
        if !(1..=CORES_MOST).contains(&cores) {
            return Err(SimulationError::Nothing("the workloads have no core, or more than 4096"));
        }
        self.workloads.iter().try_for_each(|workload| workload.check(&shared))?;
        let lines = |workload: &Workload| workload.program.lines(workload.cores);
        let lines = self.workloads.iter().map(lines).fold(0, u64::saturating_add);
        if lines > LINES_MOST { Err(SimulationError::Lines { lines }) } else { Ok(()) }
    }
}

impl Workload {
    fn check(&self, shared: &CacheShape) -> Result<(), SimulationError> {
        let (workload, all) = (|| self.name.clone(), shared.all_ways());
        if self.mask == 0 {
            return Err(SimulationError::EmptyMask { workload: workload(), all });
        }
        if self.mask & !all != 0 {
            return Err(SimulationError::MaskBeyond { workload: workload(), mask: self.mask, ways: shared.ways, all });
        }
        let Program { rows, compute_ns, accesses } = &self.program;
        let is_number = |value: &f64, least: f64| value.is_finite() && *value >= least;
        let faults = [
            (self.cores == 0, "it has no core"),
            (!is_number(rows, f64::MIN_POSITIVE), "a unit needs rows"),
            // Without it, time would stand still while a core's own cache has everything.
            (!is_number(compute_ns, COMPUTE_NS_LEAST), "a unit must take 0.01 ns or more"),
            (accesses.iter().any(|access| !is_number(&access.per_unit, 0.0)), "references of a unit must be 0 or more"),
            (
                accesses.iter().any(|access| access.per_unit > PER_UNIT_MOST),
                "a unit must have at most 1e6 references of a kind",
            ),
            (
                accesses.iter().any(|access| !is_number(&access.overlap, 1.0)),
                "misses under way at once must be 1 or more",
            ),
            // With less, a trace would look long for its next reference.
            (accesses.iter().all(|access| access.per_unit < 1e-6), "a unit reads nothing"),
        ];
        match faults.into_iter().find(|(is_fault, _)| *is_fault) {
            Some((_, why)) => Err(SimulationError::Program { workload: workload(), why }),
            None => Ok(()),
        }
    }
}
