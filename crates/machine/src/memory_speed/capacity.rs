//! How much of a cache a core really has, from the latency of a chase through growing working sets. A guest, or a core whose
//! neighbours use the cache too, has less than the size that the kernel reports.

/// From this share of misses on a chase counts as missing. Below lie the few conflicts of a cache that is nearly full.
pub const MISSING: f64 = 0.15;

/// From this share on a chase counts as thrashing: the working set is certainly larger than the cache.
const THRASHING: f64 = 0.5;

/// Loads that hit must be faster than those that miss by this factor, or even the smallest working set did not fit.
const HIT_TIMES: f64 = 2.0;

/// Whether the times of hits and of misses, ns, can be distinguished.
pub(crate) fn is_clear([hit_ns, miss_ns]: [f64; 2]) -> bool {
    miss_ns >= hit_ns * HIT_TIMES
}

/// The share of loads that missed, by their mean time, 0 to 1.
pub fn missed(load_ns: f64, [hit_ns, miss_ns]: [f64; 2]) -> f64 {
    if miss_ns <= hit_ns {
        return 0.0;
    }
    ((load_ns - hit_ns) / (miss_ns - hit_ns)).clamp(0.0, 1.0)
}

/// The capacity from pairs of a working set (rising, in any unit) and its share of misses: from the last set before
/// loads miss to the first that thrashes. `None` if all miss, or none thrashes.
pub fn capacity(points: impl IntoIterator<Item = (f64, f64)>) -> Option<[f64; 2]> {
    let mut fits = None;
    let mut is_full = false;
    for (size, missed) in points {
        is_full |= missed >= MISSING;
        if !is_full {
            fits = Some(size);
        } else if missed >= THRASHING {
            return Some([fits?, size]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_time() {
        let check = |ns, expect: f64| assert!((missed(ns, [15.0, 115.0]) - expect).abs() < 1e-9, "{ns}");
        check(10.0, 0.0);
        check(15.0, 0.0);
        check(65.0, 0.5);
        check(400.0, 1.0);
        assert_eq!(missed(50.0, [100.0, 90.0]), 0.0);
        assert!(is_clear([15.0, 110.0]) && !is_clear([126.7, 181.7]));
    }

    #[test]
    fn capacities() {
        let check = |missed: &[f64], expect: Option<[f64; 2]>| {
            let points = missed.iter().enumerate().map(|(place, missed)| ((place + 1) as f64 * 4.0, *missed));
            assert_eq!(capacity(points), expect, "{missed:?}");
        };
        check(&[0.0, 0.0, 0.9, 1.0], Some([8.0, 12.0]));
        check(&[0.0, 0.1, 0.3, 0.6], Some([8.0, 16.0]));
        check(&[0.0, 0.2, 0.1, 0.6], Some([4.0, 16.0]));
        check(&[0.9, 1.0], None);
        check(&[0.0, 0.0], None);
        check(&[0.0, 0.3], None);
        check(&[], None);
    }
}
