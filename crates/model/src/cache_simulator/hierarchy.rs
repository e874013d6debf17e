//! The caches of a machine: one for each core, and one that all cores share.
//!
//! An inclusive shared cache has every line that a private cache has. A line that it evicts leaves the private caches,
//! too, even of a core that uses it all the time, because the shared cache does not see hits there. So a scan on other
//! cores costs a core the contents of its own cache, and a small mask of ways limits the contents of private caches as
//! well.

use super::cache::{Cache, Lookup, Replacement};
use super::input::{CacheShape, Machine};

/// Where a line was found. It is in the core's own cache from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// In the core's own cache.
    Private,
    /// In the shared cache.
    Shared,
    /// In memory only.
    Memory,
}

/// All caches of a machine.
#[derive(Debug)]
pub(super) struct Hierarchy {
    private: Vec<Cache>,
    shared: Cache,
    inclusive: bool,
}

impl Hierarchy {
    /// Empty caches with one set in `sampling` simulated. Shapes were checked.
    pub(super) fn new(machine: &Machine, cores: usize, sampling: u32) -> Self {
        let cache = |shape: CacheShape, replacement| {
            Cache::new(shape.sets().expect("the shape was checked"), shape.ways, sampling, replacement)
        };
        Hierarchy {
            private: vec![cache(machine.private, Replacement::LeastRecentlyUsed); cores],
            shared: cache(machine.shared, machine.replacement),
            inclusive: machine.inclusive,
        }
    }

    /// A core that may fill the ways of `mask` reads a sampled place.
    pub(super) fn read(&mut self, core: usize, place: u32, mask: u32) -> Found {
        if self.private[core].access(place, u32::MAX) {
            return Found::Private;
        }
        match self.shared.look_up(place, mask) {
            Lookup::Hit => Found::Shared,
            Lookup::Miss { evicted } => {
                if let Some(evicted) = evicted.filter(|_| self.inclusive) {
                    self.private.iter_mut().for_each(|cache| cache.remove(evicted));
                }
                Found::Memory
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::super::cache::place;
    use super::*;

    /// Two cores; the shared cache has `sets` sets of 4 ways, each private one a quarter of it.
    fn hierarchy(sets: u64, inclusive: bool) -> Hierarchy {
        let shape = |ways| CacheShape { bytes: 64 * sets * u64::from(ways), ways };
        let replacement = Replacement::LeastRecentlyUsed;
        let machine = Machine { shared: shape(4), private: shape(1), inclusive, replacement, ..Machine::STUDY };
        Hierarchy::new(&machine, 2, 1)
    }

    #[test]
    fn a_stream_of_another_core_evicts_what_a_core_uses_if_the_shared_cache_is_inclusive() {
        let after_stream = |inclusive| {
            let mut caches = hierarchy(1, inclusive);
            assert_eq!(caches.read(0, place(1), 0b1111), Found::Memory);
            for line in 2..=5 {
                assert_eq!(caches.read(0, place(1), 0b1111), Found::Private, "beside line {line}");
                assert_eq!(caches.read(1, place(line), 0b1111), Found::Memory);
            }
            caches.read(0, place(1), 0b1111)
        };
        assert_eq!(after_stream(true), Found::Memory);
        assert_eq!(after_stream(false), Found::Private);
    }

    #[test]
    fn a_stream_in_a_corner_leaves_private_caches_alone() {
        let mut caches = hierarchy(1, true);
        caches.read(0, place(1), 0b1100);
        (2..100).for_each(|line| assert_eq!(caches.read(1, place(line), 0b0011), Found::Memory));
        assert_eq!(caches.read(0, place(1), 0b1100), Found::Private);
    }

    #[test]
    fn an_inclusive_cache_has_all_that_private_ones_have() {
        let mut random = Pcg64::seed_from_u64(2);
        let mut caches = hierarchy(16, true);
        for _ in 0..5_000 {
            let (core, line, mask) =
                (random.random_range(0..2), random.random_range(1..200), random.random_range(1..16));
            caches.read(core, place(line), mask);
            for private in caches.private.iter().flat_map(Cache::held) {
                assert!(
                    caches.shared.held().any(|shared| shared == private),
                    "{private:#x} is in a private cache only"
                );
            }
        }
    }
}
