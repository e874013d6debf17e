//! Pointer chases: every load's address is the result of the previous load, so that no loads overlap and nothing can be
//! prefetched (as in lmbench's `lat_mem_rd` and Intel's Memory Latency Checker).

use super::buffer::LINE;

/// Bytes of a pointer; it lies at the beginning of each line.
const POINTER: usize = size_of::<u64>();

/// A generator of numbers that look random and are the same for the same seed (splitmix64, by S. Vigna).
#[derive(Debug, Clone)]
pub struct Scatter(u64);

impl Scatter {
    /// From a seed.
    pub fn new(seed: u64) -> Scatter {
        Scatter(seed)
    }

    /// The next number below `end`, which is not 0; as good as uniform for the sizes of memory.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * end as u128) >> 64) as usize
    }
}

/// Links the first `lines` lines of `bytes` into one cycle in random order, and returns `N` places that divide the
/// cycle into equal parts (rounded down), each a byte offset to [`follow`] from.
pub fn link<const N: usize>(bytes: &mut [u8], lines: usize, seed: u64) -> [usize; N] {
    assert!(lines > 0 && lines * LINE <= bytes.len(), "{lines} lines in {} bytes", bytes.len());
    let mut order: Vec<u32> =
        (0..u32::try_from(lines).expect("a buffer is smaller than 2^32 lines, 256 GiB")).collect();
    let mut scatter = Scatter::new(seed);
    for last in (1..lines).rev() {
        order.swap(last, scatter.below(last + 1));
    }
    let place = |at: usize| order[at % lines] as usize * LINE;
    for at in 0..lines {
        let from = place(at);
        bytes[from..from + POINTER].copy_from_slice(&(place(at + 1) as u64).to_ne_bytes());
    }
    std::array::from_fn(|part| place(part * (lines / N)))
}

/// Loads the pointer at a byte offset.
#[inline(always)]
pub fn load(bytes: &[u8], at: usize) -> usize {
    let pointer = bytes[at..at + POINTER].try_into().expect("a range of as many bytes");
    u64::from_ne_bytes(pointer) as usize
}

/// Follows `loads` pointers from `at` on, one after the other, and returns the last place.
#[inline(never)]
pub fn follow(bytes: &[u8], mut at: usize, loads: usize) -> usize {
    for _ in 0..loads {
        at = load(bytes, at);
    }
    std::hint::black_box(at)
}

/// Follows several chases at once, `loads` pointers each: independent of each other, so that their loads overlap.
#[inline(never)]
pub(crate) fn follow_all<const N: usize>(bytes: &[u8], places: &mut [usize; N], loads: usize) {
    for _ in 0..loads {
        for at in places.iter_mut() {
            *at = load(bytes, *at);
        }
    }
    std::hint::black_box(places);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cycle_through_every_line() {
        for lines in [1, 2, 3, 64, 1000] {
            let mut bytes = vec![0; lines * LINE];
            let [start] = link(&mut bytes, lines, 7);
            let mut seen = std::collections::BTreeSet::new();
            let mut at = start;
            for _ in 0..lines {
                assert!(seen.insert(at) && at.is_multiple_of(LINE));
                at = follow(&bytes, at, 1);
            }
            assert_eq!(at, start, "a cycle of {lines}");
            assert_eq!(follow(&bytes, start, lines), start);
        }
    }

    #[test]
    fn parts_of_the_cycle_meet() {
        const LINES: usize = 800;
        let mut bytes = vec![0; LINES * LINE];
        let starts: [usize; 8] = link(&mut bytes, LINES, 3);
        let mut places = starts;
        follow_all(&bytes, &mut places, LINES / 8);
        let mut next = starts;
        next.rotate_left(1);
        assert_eq!(places, next, "every part ends where the next begins");
    }

    #[test]
    fn order_is_not_the_order_of_memory() {
        let mut bytes = vec![0; 4096 * LINE];
        link::<1>(&mut bytes, 4096, 1);
        let neighbours = (0..4095).filter(|line| load(&bytes, line * LINE) == (line + 1) * LINE).count();
        assert!(neighbours < 20, "{neighbours} of 4095 lines lead to their neighbour");
    }

    #[test]
    fn scattered_numbers_cover_their_range() {
        let mut scatter = Scatter::new(1);
        let mut counts = [0; 10];
        (0..100_000).for_each(|_| counts[scatter.below(10)] += 1);
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }
}
