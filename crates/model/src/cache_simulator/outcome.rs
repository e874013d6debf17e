//! The counts of a simulation.

/// One core.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CoreFigures {
    /// Lines that were read, whether their sets are simulated or not.
    pub references: u64,
    /// The references to simulated sets. The ratios below are based on these.
    pub sampled: u64,
    /// Sampled references found in the core's own cache.
    pub private_hits: u64,
    /// Sampled references found in the shared cache only.
    pub shared_hits: u64,
    /// Sampled references that went to memory.
    pub misses: u64,
    /// Nanoseconds, virtual.
    pub time_ns: f64,
    /// Rows (or requests) that were completed.
    pub rows: f64,
}

impl CoreFigures {
    /// Rows (or requests) per second.
    pub fn rows_per_s(&self) -> f64 {
        self.rows / self.time_ns * 1e9
    }

    /// All counts together, over the same time.
    fn with(self, other: CoreFigures) -> CoreFigures {
        CoreFigures {
            references: self.references + other.references,
            sampled: self.sampled + other.sampled,
            private_hits: self.private_hits + other.private_hits,
            shared_hits: self.shared_hits + other.shared_hits,
            misses: self.misses + other.misses,
            time_ns: self.time_ns.max(other.time_ns),
            rows: self.rows + other.rows,
        }
    }
}

/// A workload.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadFigures {
    /// As in the input.
    pub name: String,
    /// Its cores.
    pub cores: Vec<CoreFigures>,
    /// By how much it was faster in the second half of the measured time than in the first, as a share. Beyond chance,
    /// the caches were not warm; 0 if too little was counted to tell.
    pub drift: f64,
}

impl WorkloadFigures {
    /// All of its cores together.
    pub fn total(&self) -> CoreFigures {
        self.cores.iter().copied().reduce(CoreFigures::with).unwrap_or_default()
    }

    /// Rows (or requests) per second of all cores.
    pub fn rows_per_s(&self) -> f64 {
        self.cores.iter().map(CoreFigures::rows_per_s).sum()
    }

    /// Hits of the shared cache, as a share of the references that reached it. `None` if none did.
    pub fn shared_hit_ratio(&self) -> Option<f64> {
        let CoreFigures { shared_hits, misses, .. } = self.total();
        (shared_hits + misses > 0).then(|| shared_hits as f64 / (shared_hits + misses) as f64)
    }
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// In the order of the input.
    pub workloads: Vec<WorkloadFigures>,
    /// Bytes per second that were read from memory.
    pub memory_bytes_per_s: f64,
    /// Nanoseconds by which a read from memory was delayed on average because others used its bandwidth.
    pub memory_wait_ns: f64,
    /// Nanoseconds, virtual, of the measured part.
    pub time_ns: f64,
    /// Nanoseconds, virtual, of the warm-up.
    pub warm_up_ns: f64,
}
