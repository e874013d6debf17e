//! How busy the machine is, as far as a query that is about to begin can know.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// The weight of the newest look at the load. One look counts threads that are runnable at one moment, which says little.
const NEWEST: f64 = 0.2;

/// Tells how many threads are runnable now on the whole machine, the calling one not included; `None` if that is not known. A value, for
/// the engine does not ask the kernel and tests have no machine.
#[derive(Clone)]
pub struct LoadProbe(Arc<dyn Fn() -> Option<u32> + Send + Sync>);

impl LoadProbe {
    /// Asks like this.
    pub fn new(ask: impl Fn() -> Option<u32> + Send + Sync + 'static) -> Self {
        LoadProbe(Arc::new(ask))
    }

    /// Knows nothing, so that only the engine's own queries count.
    pub fn blind() -> Self {
        LoadProbe::new(|| None)
    }
}

impl fmt::Debug for LoadProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoadProbe")
    }
}

/// The smoothed load.
#[derive(Debug)]
pub(super) struct Load {
    probe: LoadProbe,
    threads: Mutex<Option<f64>>,
}

impl Load {
    pub(super) fn new(probe: LoadProbe) -> Self {
        Load { probe, threads: Mutex::new(None) }
    }

    /// Runnable threads per core: those of the machine, or one for each active query if that is more, because queries of one
    /// engine may wait for its threads where the kernel does not see them.
    pub(super) fn look(&self, active_queries: u32, cores: u32) -> f64 {
        let seen = f64::from((self.probe.0)().unwrap_or(0).max(active_queries));
        let mut threads = self.threads.lock();
        let smoothed = threads.map_or(seen, |before| before + NEWEST * (seen - before));
        *threads = Some(smoothed);
        smoothed / f64::from(cores.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_follows_looks_slowly_and_queries_count_where_the_kernel_sees_nothing() {
        let load = Load::new(LoadProbe::new(|| Some(8)));
        assert_eq!(load.look(1, 2), 4.0);
        assert_eq!(load.look(28, 2), 6.0, "a fifth of the way from 8 to 28 threads");
        assert_eq!(Load::new(LoadProbe::blind()).look(6, 2), 3.0);
    }
}
