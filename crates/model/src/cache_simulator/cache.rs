//! A set-associative cache, and masks of ways that restrict fills only.
//!
//! As in Intel's Cache Allocation Technology, a core finds a line in any way, and evicts lines of the ways of its mask
//! only.
//!
//! Lines are known by their [`place`], a number that spreads neighbouring lines over the sets. Sampling by places keeps
//! whole sets: if one set in `sampling` is simulated, these sets behave exactly as in the whole cache.

/// Bytes of a line.
pub const LINE_BYTES: u64 = 64;

/// Most ways of a cache: masks have 32 bits.
pub const WAYS_MOST: u32 = 32;

/// The odd number next to 2^32 divided by the golden ratio: multiples of it are spread evenly (Knuth, 6.4).
const SPREAD: u32 = 0x9e37_79b1;

/// Where a line lies: another number for each line, and 0 for line 0 only.
pub fn place(line: u32) -> u32 {
    line.wrapping_mul(SPREAD)
}

/// Whether a place is in one of the sets that are simulated if one in `sampling` is.
pub fn is_sampled(place: u32, sampling: u32) -> bool {
    u64::from(place) * u64::from(sampling) < 1 << 32
}

/// Which line of a set is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// The line that was last used the longest time ago.
    LeastRecentlyUsed,
    /// Re-reference interval prediction with two bits (Jaleel and others, ISCA 2010): a line that was used again stays for
    /// longer than one that was read once, as in a scan. Large caches of processors do something of this kind.
    Rrip,
}

/// Marks of re-reference interval prediction: the smaller, the later the next use is expected. The smallest is evicted.
const FAR: u64 = 1;
const LATER: u64 = 2;
const SOON: u64 = 4;

impl Replacement {
    /// The mark of a line that is read into the cache by the access of that number.
    fn filled(self, access: u64) -> u64 {
        match self {
            Replacement::LeastRecentlyUsed => access,
            Replacement::Rrip => LATER,
        }
    }

    /// The mark of a line that the access of that number has found.
    fn found(self, access: u64) -> u64 {
        match self {
            Replacement::LeastRecentlyUsed => access,
            Replacement::Rrip => SOON,
        }
    }

    /// The way of `mask` with the smallest mark, the first of several; `None` if `mask` has no way. If none is marked
    /// [`FAR`], all marks are lowered until one is.
    fn victim(self, marks: &mut [u64], mask: u32) -> Option<usize> {
        let ways = (0..marks.len()).filter(|way| mask >> way & 1 == 1);
        let victim = ways.clone().min_by_key(|way| marks[*way])?;
        if self == Replacement::Rrip {
            let steps = marks[victim].saturating_sub(FAR);
            ways.for_each(|way| marks[way] -= steps);
        }
        Some(victim)
    }
}

/// The result of a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The place was present.
    Hit,
    /// The place was absent, and fills a way now.
    Miss {
        /// The evicted place; `None` if the way was empty or the mask has none.
        evicted: Option<u32>,
    },
}

/// The simulated sets of a cache. No line 0 is ever put in.
#[derive(Debug, Clone)]
pub struct Cache {
    /// Sets of the whole cache, simulated or not.
    sets: u32,
    ways: usize,
    /// The place of the line in each way, set by set; 0 is an empty way.
    places: Vec<u32>,
    /// The mark of each way for [`Replacement`]; 0 for an empty way, which is therefore filled first.
    marks: Vec<u64>,
    accesses: u64,
    replacement: Replacement,
}

impl Cache {
    /// An empty cache of `sets` sets. The first `sets / sampling` of them are simulated.
    ///
    /// # Panics
    /// If it has no set, a number of ways outside 1 to 32, or sets that `sampling` does not divide.
    pub fn new(sets: u32, ways: u32, sampling: u32, replacement: Replacement) -> Self {
        assert!(sets > 0 && (1..=WAYS_MOST).contains(&ways), "{sets} sets of {ways} ways");
        assert!(sampling > 0 && sets.is_multiple_of(sampling), "one in {sampling} of {sets} sets");
        let slots = (sets / sampling) as usize * ways as usize;
        Cache { sets, ways: ways as usize, places: vec![0; slots], marks: vec![0; slots], accesses: 0, replacement }
    }

    /// Looks a sampled place up and fills a way of `mask` with it if it is absent. Returns whether it was present. An
    /// empty mask fills nothing.
    pub fn access(&mut self, place: u32, mask: u32) -> bool {
        self.look_up(place, mask) == Lookup::Hit
    }

    /// The same, with the evicted line.
    pub(super) fn look_up(&mut self, place: u32, mask: u32) -> Lookup {
        self.accesses += 1;
        let first = self.set_of(place) * self.ways;
        let places = &mut self.places[first..first + self.ways];
        let marks = &mut self.marks[first..first + self.ways];
        if let Some(way) = places.iter().position(|held| *held == place) {
            marks[way] = self.replacement.found(self.accesses);
            return Lookup::Hit;
        }
        let Some(way) = self.replacement.victim(marks, mask) else { return Lookup::Miss { evicted: None } };
        let evicted = Some(places[way]).filter(|place| *place != 0);
        (places[way], marks[way]) = (place, self.replacement.filled(self.accesses));
        Lookup::Miss { evicted }
    }

    /// Empties the way of a sampled place, if it is present.
    pub(super) fn remove(&mut self, place: u32) {
        let first = self.set_of(place) * self.ways;
        if let Some(way) = self.places[first..first + self.ways].iter().position(|held| *held == place) {
            (self.places[first + way], self.marks[first + way]) = (0, 0);
        }
    }

    /// The places that it holds.
    #[cfg(test)]
    pub(super) fn held(&self) -> impl Iterator<Item = u32> {
        self.places.iter().copied().filter(|place| *place != 0)
    }

    /// The number of lines in the ways of `mask`.
    #[cfg(test)]
    fn lines_in(&self, mask: u32) -> usize {
        let is_counted = |(slot, place): (usize, &u32)| *place != 0 && mask >> (slot % self.ways) & 1 == 1;
        self.places.iter().enumerate().filter(|slot| is_counted(*slot)).count()
    }

    /// The set of a place. Sets grow with places, so that a sampled place is in one of the first.
    fn set_of(&self, place: u32) -> usize {
        ((u64::from(place) * u64::from(self.sets)) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Replacement::{LeastRecentlyUsed, Rrip};
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    const ALL: u32 = u32::MAX;

    /// Hits and misses of lines by `(line, mask)`, `h` and `m`.
    fn run(cache: &mut Cache, accesses: &[(u32, u32)]) -> String {
        accesses.iter().map(|(line, mask)| if cache.access(place(*line), *mask) { 'h' } else { 'm' }).collect()
    }

    #[test]
    fn traces_by_hand() {
        let check = |ways: u32, lines: &[u32], expect: &str| {
            let accesses: Vec<_> = lines.iter().map(|line| (*line, ALL)).collect();
            assert_eq!(
                run(&mut Cache::new(1, ways, 1, LeastRecentlyUsed), &accesses),
                expect,
                "{ways} ways, {lines:?}"
            );
        };
        check(1, &[1, 1, 2, 1], "mhmm");
        check(2, &[1, 2, 1, 3, 1, 2], "mmhmhm");
        check(3, &[1, 2, 3, 4, 1, 2, 3, 4], "mmmmmmmm");
        check(4, &[1, 2, 3, 4, 1, 2, 3, 4], "mmmmhhhh");
        check(3, &[1, 2, 3, 1, 4, 2, 1], "mmmhmmh");
    }

    #[test]
    fn lines_that_were_used_again_outlive_a_scan_and_do_not_stay_for_ever() {
        let run = |replacement, lines: &[u32]| {
            let accesses: Vec<_> = lines.iter().map(|line| (*line, ALL)).collect();
            run(&mut Cache::new(1, 4, 1, replacement), &accesses)
        };
        // Lines 1 and 2 are used again after every four of a scan, which is as many as there are ways.
        let lines = [1, 2, 1, 2, 11, 12, 13, 14, 1, 2, 15, 16, 17, 18, 1, 2];
        assert_eq!(run(Rrip, &lines), "mmhhmmmmhhmmmmhh");
        assert_eq!(run(LeastRecentlyUsed, &lines), "mmhhmmmmmmmmmmmm");
        // From SOON to FAR are three steps, and the scan makes one with every second line.
        let unused: Vec<u32> = [1, 2, 1, 2].into_iter().chain(11..=18).chain([1]).collect();
        assert_eq!(run(Rrip, &unused), "mmhhmmmmmmmmm");
    }

    #[test]
    fn empty_ways_are_filled_first_and_marks_age_in_the_mask_only() {
        let mut cache = Cache::new(1, 3, 1, Rrip);
        // Line 1 in way 0 is as far as can be for the mask of ways 1 and 2, and unchanged for others.
        assert_eq!(
            run(&mut cache, &[(1, 0b001), (1, 0b001), (2, 0b110), (3, 0b110), (4, 0b110), (5, 0b110)]),
            "mhmmmm"
        );
        assert_eq!(cache.marks, [SOON, LATER, LATER]);
        cache.remove(place(1));
        assert_eq!(cache.look_up(place(6), ALL), Lookup::Miss { evicted: None });
    }

    #[test]
    fn sets_do_not_disturb_each_other() {
        let cache = Cache::new(2, 1, 1, LeastRecentlyUsed);
        let of_set = |set: usize| (1..).filter(|line| cache.set_of(place(*line)) == set).take(2).collect::<Vec<u32>>();
        let (low, high) = (of_set(0), of_set(1));
        let accesses = [low[0], high[0], low[0], low[1], high[0], low[0]].map(|line| (line, ALL));
        assert_eq!(run(&mut cache.clone(), &accesses), "mmhmhm");
    }

    #[test]
    fn masks_restrict_fills_and_not_hits() {
        // Line 1 in way 0; line 2 may only replace way 1, in which 3 and 4 follow. An access with an empty mask fills
        // nothing, and hits.
        let mut cache = Cache::new(1, 2, 1, LeastRecentlyUsed);
        let accesses =
            [(1, 0b01), (2, 0b10), (1, 0b10), (3, 0b10), (4, 0b10), (1, 0b10), (4, 0b01), (5, 0), (5, 0), (4, 0)];
        assert_eq!(run(&mut cache, &accesses), "mmhmmhhmmh");
        assert_eq!((cache.lines_in(0b01), cache.lines_in(0b10), cache.lines_in(ALL)), (1, 1, 2));
        // The least recently used way is evicted of those in the mask, though another is older.
        let mut cache = Cache::new(1, 3, 1, LeastRecentlyUsed);
        assert_eq!(
            run(&mut cache, &[(1, 0b001), (2, 0b010), (3, 0b100), (4, 0b110), (1, ALL), (3, ALL), (2, ALL)]),
            "mmmmhhm"
        );
    }

    /// A scan beside a working set that just fits the rest of the ways.
    #[test]
    fn a_scan_in_a_corner_leaves_the_others_alone() {
        let misses = |scan_mask: u32| {
            let mut cache = Cache::new(64, 10, 1, LeastRecentlyUsed);
            let (mut misses, mut scanned) = (0, 1_000_000);
            for round in 0..40 {
                for line in 1..=64 * 6 {
                    misses += usize::from(!cache.access(place(line), ALL) && round >= 20);
                    for _ in 0..3 {
                        scanned += 1;
                        assert!(!cache.access(place(scanned), scan_mask), "a scan never hits");
                    }
                }
            }
            misses
        };
        assert_eq!(misses(0x3), 0);
        assert_eq!(misses(0x3ff), 20 * 64 * 6, "LRU keeps nothing beside a scan of three times the cache");
    }

    /// Distinct lines since the last use of each line of a trace, `None` at its first use: the stack depth of Mattson.
    fn depths(trace: &[u32]) -> Vec<Option<usize>> {
        let mut stack: Vec<u32> = Vec::new();
        let mut depth = |line: &u32| {
            let found = stack.iter().rev().position(|held| held == line);
            stack.retain(|held| held != line);
            stack.push(*line);
            found
        };
        trace.iter().map(&mut depth).collect()
    }

    #[test]
    fn a_fully_associative_cache_hits_where_the_stack_depth_is_below_its_lines() {
        let mut random = Pcg64::seed_from_u64(7);
        // Half of the references go to a tenth of the lines.
        let line = |random: &mut Pcg64| {
            let lines = if random.random() { 6 } else { 60 };
            1 + random.random_range(0..lines)
        };
        let trace: Vec<u32> = (0..4_000).map(|_| line(&mut random)).collect();
        let depths = depths(&trace);
        for ways in 1..=WAYS_MOST {
            let mut cache = Cache::new(1, ways, 1, LeastRecentlyUsed);
            let hits: Vec<bool> = trace.iter().map(|line| cache.access(place(*line), ALL)).collect();
            let expect: Vec<bool> =
                depths.iter().map(|depth| depth.is_some_and(|depth| depth < ways as usize)).collect();
            assert_eq!(hits, expect, "{ways} ways");
        }
    }

    #[test]
    fn uniform_references_hit_as_often_as_the_cache_has_of_their_lines() {
        let mut random = Pcg64::seed_from_u64(3);
        let (lines, mut cache) = (40_000, Cache::new(1_000, 20, 1, LeastRecentlyUsed));
        let mut access = |_| cache.access(place(1 + random.random_range(0..lines)), ALL);
        let [_warm_up, hits] = [(); 2].map(|()| (0..200_000).filter(|at| access(*at)).count());
        assert!((hits as f64 / 200_000.0 - 0.5).abs() < 0.01, "{hits}");
    }

    /// Two structures and a stream share the cache. By Che's approximation a line stays for a time t after each use, the
    /// same for all; t is what fills the cache: sum of n (1 - exp(-r t)) + s t lines.
    #[test]
    fn structures_beside_a_stream_hit_as_often_as_theory_has_it() {
        let (sets, lines) = (1_000_u32, [8_000_u32, 40_000]);
        let capacity = f64::from(sets * 20);
        // Per round: one reference to each structure and half a line of the stream.
        let held = |time: f64| lines.map(|lines| 1.0 - (-time / f64::from(lines)).exp());
        let filled =
            |time: f64| 0.5 * time + held(time).iter().zip(lines).map(|(share, n)| share * f64::from(n)).sum::<f64>();
        let time = (1..200_000).map(f64::from).find(|time| filled(*time) >= capacity).unwrap();
        let mut random = Pcg64::seed_from_u64(8);
        let (mut cache, mut hits, mut streamed) = (Cache::new(sets, 20, 1, LeastRecentlyUsed), [0; 2], 1_000_000);
        for round in 0..300_000 {
            for (at, first) in [(0, 1), (1, 100_000)] {
                let hit = cache.access(place(first + random.random_range(0..lines[at])), ALL);
                hits[at] += u32::from(hit && round >= 150_000);
            }
            if round % 2 == 0 {
                streamed += 1;
                cache.access(place(streamed), ALL);
            }
        }
        for (hits, expect) in hits.iter().zip(held(time)) {
            let found = f64::from(*hits) / 150_000.0;
            assert!((found - expect).abs() < 0.02, "{found} {expect}");
        }
    }

    #[test]
    fn sampled_sets_do_what_they_do_in_the_whole_cache() {
        let mut random = Pcg64::seed_from_u64(5);
        let (mut whole, mut sampled) =
            (Cache::new(512, 8, 1, LeastRecentlyUsed), Cache::new(512, 8, 16, LeastRecentlyUsed));
        let mut seen = 0;
        for _ in 0..100_000 {
            let place = place(1 + random.random_range(0..8_000));
            let hit = whole.access(place, 0x7e);
            if is_sampled(place, 16) {
                seen += 1;
                assert_eq!(sampled.access(place, 0x7e), hit);
            }
        }
        assert!((5_000..7_500).contains(&seen), "about one in 16: {seen}");
    }

    #[test]
    fn neighbouring_lines_are_spread_evenly() {
        for first in [1, 77_777, 3_000_000_000] {
            let cache = Cache::new(1_000, 20, 1, LeastRecentlyUsed);
            let mut count = vec![0; 1_000];
            (first..first + 20_000).for_each(|line| count[cache.set_of(place(line))] += 1);
            assert!(count.iter().all(|count| (18..=22).contains(count)), "{first}: {count:?}");
        }
    }
}
