//! What `plimsoll study` runs when nobody says otherwise.

use std::time::Duration;

use plimsoll_workload::driver::{ClientOptions, Window};

/// The scales, clients and windows of a study.
#[derive(Debug, Clone)]
pub struct StudyDefaults {
    /// The transactional side, as `NAME:SCALE`.
    pub oltp: String,
    /// Its clients.
    pub oltp_clients: ClientOptions,
    /// The analytical side, as `NAME:SCALE`.
    pub olap: String,
    /// Its clients.
    pub olap_clients: ClientOptions,
    /// Warm-up and measurement of each run.
    pub window: Window,
    /// How often each arm runs.
    pub blocks: u32,
}

impl StudyDefaults {
    /// For a machine with so many usable cores and, if known, so many bytes of free memory.
    ///
    /// Each side can use the whole machine: as many transactional clients as cores, without think time, one warehouse
    /// each; and one analytical client whose queries run on all cores. So what sharing costs is not hidden by idle
    /// cores. The data of the quick study, and of one on a small machine, is a tenth.
    pub fn new(cores: usize, free_memory: Option<u64>, quick: bool, seed: u64) -> Self {
        const SMALL: u64 = 6 << 30;
        let clients = cores.clamp(1, 32);
        let warehouses = if quick { clients.min(2) } else { clients };
        let is_small = quick || free_memory.is_some_and(|bytes| bytes < SMALL);
        let seconds = |warmup, measure| Window {
            warmup: Duration::from_secs_f64(warmup),
            measure: Duration::from_secs_f64(measure),
        };
        StudyDefaults {
            oltp: format!("tpcc:{warehouses}"),
            oltp_clients: ClientOptions { clients, seed, ..ClientOptions::default() },
            olap: format!("tpch:{}", if is_small { 0.1 } else { 1.0 }),
            olap_clients: ClientOptions { clients: 1, seed, ..ClientOptions::default() },
            window: if quick { seconds(0.5, 1.8) } else { seconds(2.0, 10.0) },
            blocks: 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::registry::benchmark;

    use super::*;

    #[test]
    fn every_default_is_a_workload_that_can_be_run() {
        for (cores, free, quick) in [(1, None, true), (2, Some(1 << 30), false), (200, Some(1 << 40), false)] {
            let defaults = StudyDefaults::new(cores, free, quick, 7);
            for spec in [&defaults.oltp, &defaults.olap] {
                assert!(benchmark(spec, 7).is_ok(), "{spec}");
            }
            assert!(defaults.blocks >= 2, "one block cannot tell a difference from noise");
            assert!(defaults.oltp_clients.clients >= 1);
        }
    }
}
