//! The random numbers of one client: separate streams, so that drawing from one does not change the others.

use rand::SeedableRng;
use rand_pcg::Pcg32;

/// The purpose of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Think times.
    Pacing,
    /// Arrivals of a workload in open loop.
    Arrivals,
    /// Priorities.
    Priority,
    /// Round trips between statements.
    RoundTrip,
}

/// The stream for one purpose of client number `client` of a workload. Equal arguments give equal streams, on every
/// machine.
pub(super) fn stream(seed: u64, workload: &str, client: usize, purpose: Purpose) -> Pcg32 {
    let mut hash = Fnv1a::default();
    hash.write(&seed.to_le_bytes());
    hash.write(&(client as u64).to_le_bytes());
    let purpose: &[u8] = match purpose {
        Purpose::Pacing => b"pacing",
        Purpose::Arrivals => b"arrivals",
        Purpose::Priority => b"priority",
        Purpose::RoundTrip => b"round_trip",
    };
    hash.write(purpose);
    // Last, because it is the only part without a fixed length or a fixed set of values.
    hash.write(workload.as_bytes());
    Pcg32::seed_from_u64(hash.0)
}

/// The seed of what the clients of a workload request. Two workloads that run one benchmark have different seeds: with
/// equal requests at equal times they would access the same rows far more often than by chance.
pub(super) fn seed_of_requests(seed: u64, workload: &str) -> u64 {
    let mut hash = Fnv1a::default();
    hash.write(&seed.to_le_bytes());
    hash.write(b"requests");
    hash.write(workload.as_bytes());
    hash.0
}

/// The FNV-1a hash, whose values are fixed by its definition; the standard library's may change between versions.
struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Fnv1a(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn a_stream_is_fixed_by_its_arguments_and_differs_with_each() {
        let first = |seed, workload, client, purpose| stream(seed, workload, client, purpose).next_u64();
        let base = first(7, "oltp", 3, Purpose::Pacing);
        assert_eq!(base, first(7, "oltp", 3, Purpose::Pacing));
        assert_ne!(base, first(8, "oltp", 3, Purpose::Pacing));
        assert_ne!(base, first(7, "olap", 3, Purpose::Pacing));
        assert_ne!(base, first(7, "oltp", 4, Purpose::Pacing));
        assert_ne!(base, first(7, "oltp", 3, Purpose::Arrivals));
        assert_ne!(base, first(7, "oltp", 3, Purpose::Priority));
        assert_ne!(base, first(7, "oltp", 3, Purpose::RoundTrip));
    }

    #[test]
    fn requests_differ_by_seed_and_workload() {
        assert_eq!(seed_of_requests(7, "shop"), seed_of_requests(7, "shop"));
        assert_ne!(seed_of_requests(7, "shop"), seed_of_requests(7, "batch"));
        assert_ne!(seed_of_requests(7, "shop"), seed_of_requests(8, "shop"));
    }
}
