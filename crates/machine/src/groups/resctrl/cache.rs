//! The valid masks of cache ways, and the mask for a number of ways.

use std::fmt;

use super::schemata::{self, Schemata};

/// Ways of a cache, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheMask(pub u32);

impl CacheMask {
    /// Reads `0xf0`. Without `0x` a mask could be taken for a number of ways, so it is none.
    pub fn parse(text: &str) -> Option<CacheMask> {
        let digits = text.trim().to_ascii_lowercase();
        let digits = digits.strip_prefix("0x")?;
        // `from_str_radix` would take a sign.
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u32::from_str_radix(digits, 16).ok().map(CacheMask))?
    }

    /// How many ways it has.
    pub fn ways(self) -> u32 {
        self.0.count_ones()
    }

    /// As the kernel writes it, without `0x`.
    fn hex(self) -> String {
        format!("{:x}", self.0)
    }

    fn and(self, other: CacheMask) -> CacheMask {
        CacheMask(self.0 & other.0)
    }

    /// The lowest way and the number of ways that follow each other from there.
    fn first_run(self) -> (u32, u32) {
        let low = self.0.trailing_zeros();
        (low, if self.0 == 0 { 0 } else { (self.0 >> low).trailing_ones() })
    }
}

impl fmt::Display for CacheMask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}

/// How one level of cache can be allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheControl {
    /// 2 or 3.
    pub level: u8,
    /// The resources that make it up: `L3`, or `L3CODE` and `L3DATA` where it is mounted with `cdp`. Each has its own line in
    /// `schemata`, all over the same ways.
    pub resources: Vec<String>,
    /// All ways.
    pub full: CacheMask,
    /// The fewest neighbouring ways that a mask may have.
    pub ways_min: u32,
    /// Whether a mask may have holes.
    pub sparse: bool,
    /// Ways that devices use too (DMA goes through them).
    pub shared: CacheMask,
    /// How many groups there can be, the default one included.
    pub groups_max: u32,
    /// The ids of the caches of this level, in order; usually one per socket.
    pub domains: Vec<u32>,
    /// Bytes of one way in one domain; `None` if the kernel does not report it.
    pub way_bytes: Option<u64>,
}

impl CacheControl {
    /// The error in a mask, with the valid forms; `None` if it is valid. The rules are the kernel's.
    pub fn fault(&self, mask: CacheMask) -> Option<String> {
        let (low, run) = mask.first_run();
        if mask.0 == 0 && self.ways_min > 0 {
            return Some(format!("it has no way, and must have {} at least", self.neighbours()));
        }
        let beyond = CacheMask(mask.0 & !self.full.0);
        if beyond.0 != 0 {
            return Some(format!("the bits {beyond} lie beyond the {} ways of the cache ({})", self.ways(), self.full));
        }
        if !self.sparse && run < mask.ways() {
            let high = u32::BITS - mask.0.leading_zeros();
            let filled = CacheMask(ones(high - low) << low);
            let why = "it has holes, and this processor takes neighbouring ways only";
            return Some(format!("{why}; {filled} would do"));
        }
        if run < self.ways_min {
            return Some(format!("it has {run} side by side, and must have {} at least", self.neighbours()));
        }
        None
    }

    /// The mask for a number of ways, at most all. Masks are nested: each holds those of fewer ways. The lowest ways come
    /// first and those that devices use come last, as far as masks may have holes or the others lie side by side.
    pub fn mask(&self, ways: u32) -> CacheMask {
        CacheMask(self.order().into_iter().take(ways as usize).fold(0, |mask, way| mask | 1 << way))
    }

    /// The lines of `schemata` that give a group this mask in every domain, for code and data alike.
    pub(crate) fn lines(&self, mask: CacheMask) -> String {
        self.resources.iter().map(|name| schemata::line(name, &self.domains, mask.hex())).collect()
    }

    /// The masks of this cache.
    pub(crate) fn masks(&self, schemata: &Schemata) -> impl Iterator<Item = CacheMask> {
        self.resources.iter().flat_map(|resource| schemata.masks(resource).into_values())
    }

    /// How many ways there are.
    pub fn ways(&self) -> u32 {
        self.full.ways()
    }

    pub(crate) fn shared_with_devices(&self, mask: CacheMask) -> CacheMask {
        mask.and(self.shared)
    }

    /// The ways that can be allocated, as text.
    pub fn describe(&self) -> String {
        let size = self.way_bytes.map(|bytes| format!(" of {:.2} MiB", bytes as f64 / (1 << 20) as f64));
        let shared = match self.shared_with_devices(self.full) {
            CacheMask(0) => String::new(),
            shared => format!("; the ways {shared} are used by devices too and are given out last"),
        };
        let code = if self.resources.len() > 1 { "; code and data get the same ways" } else { "" };
        format!(
            "{} ways{} in each of {} L{} caches, at least {}{}, in {} groups{shared}{code}",
            self.ways(),
            size.unwrap_or_default(),
            self.domains.len(),
            self.level,
            self.ways_min,
            if self.sparse { ", with holes if wanted" } else { ", side by side" },
            self.groups_max
        )
    }

    fn neighbours(&self) -> String {
        if self.ways_min == 1 { "1 way".to_owned() } else { format!("{} neighbouring ways", self.ways_min) }
    }

    /// All ways in the order in which masks grow.
    fn order(&self) -> Vec<u32> {
        let of = |mask: u32| (0..u32::BITS).filter(move |way| mask >> way & 1 == 1);
        let own = self.full.0 & !self.shared.0;
        if self.sparse {
            return of(own).chain(of(self.full.0 & self.shared.0)).collect();
        }
        // Grow from the longest run of ways that devices do not use, to its end, then to the top, then down to the
        // bottom, so that no mask has a hole.
        let start = longest_run(own).unwrap_or(0);
        of(self.full.0 & !ones(start)).chain(of(self.full.0 & ones(start)).rev()).collect()
    }
}

/// A mask of the lowest `count` bits.
fn ones(count: u32) -> u32 {
    1u32.checked_shl(count).map_or(u32::MAX, |bit| bit - 1)
}

/// Where the longest run of ones begins; the lowest of equals.
fn longest_run(mask: u32) -> Option<u32> {
    let run = |start: &u32| (mask >> start).trailing_ones();
    (0..u32::BITS).rev().filter(|start| run(start) > 0).max_by_key(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(full: u32, ways_min: u32, sparse: bool, shared: u32) -> CacheControl {
        CacheControl {
            level: 3,
            resources: vec!["L3".to_owned()],
            full: CacheMask(full),
            ways_min,
            sparse,
            shared: CacheMask(shared),
            groups_max: 16,
            domains: vec![0, 1],
            way_bytes: Some(5 << 18),
        }
    }

    #[test]
    fn masks_as_typed() {
        let check =
            |text: &str, expect: Option<u32>| assert_eq!(CacheMask::parse(text), expect.map(CacheMask), "{text}");
        check("0xf0", Some(0xf0));
        check(" 0XFF ", Some(0xff));
        check("f0", None);
        check("0x", None);
        check("0x+f", None);
        check("0xfffffffff", None);
        check("", None);
    }

    #[test]
    fn faults() {
        let check = |cache: &CacheControl, mask: u32, expect: Option<&str>| {
            assert_eq!(cache.fault(CacheMask(mask)).as_deref(), expect, "{mask:x}");
        };
        let intel = cache(0x7ff, 2, false, 0x600);
        check(&intel, 0x3, None);
        check(&intel, 0x7ff, None);
        check(&intel, 0, Some("it has no way, and must have 2 neighbouring ways at least"));
        check(&intel, 0x1, Some("it has 1 side by side, and must have 2 neighbouring ways at least"));
        check(&intel, 0x5, Some("it has holes, and this processor takes neighbouring ways only; 0x7 would do"));
        check(&intel, 0x1800, Some("the bits 0x1800 lie beyond the 11 ways of the cache (0x7ff)"));
        let amd = cache(0xffff, 0, true, 0);
        check(&amd, 0, None);
        check(&amd, 0x5, None);
        check(&amd, 0x1_0000, Some("the bits 0x10000 lie beyond the 16 ways of the cache (0xffff)"));
    }

    #[test]
    fn masks_grow_from_the_bottom_and_around_devices() {
        let check = |cache: &CacheControl, expect: &[u32]| {
            let masks: Vec<u32> = (1..=cache.ways()).map(|ways| cache.mask(ways).0).collect();
            assert_eq!(masks, expect, "{cache:?}");
        };
        check(&cache(0xf, 1, false, 0), &[0x1, 0x3, 0x7, 0xf]);
        check(&cache(0x3f, 1, false, 0x30), &[0x1, 0x3, 0x7, 0xf, 0x1f, 0x3f]);
        check(&cache(0x3f, 1, false, 0x03), &[0x4, 0xc, 0x1c, 0x3c, 0x3e, 0x3f]);
        check(&cache(0x3f, 1, false, 0x04), &[0x8, 0x18, 0x38, 0x3c, 0x3e, 0x3f]);
        check(&cache(0x3f, 1, true, 0x06), &[0x1, 0x9, 0x19, 0x39, 0x3b, 0x3f]);
        check(&cache(0xf, 1, false, 0xf), &[0x1, 0x3, 0x7, 0xf]);
        assert_eq!(cache(u32::MAX, 1, false, 0).mask(32).0, u32::MAX);
    }

    #[test]
    fn every_number_of_ways_has_a_right_mask() {
        for shared in 0..1 << 8 {
            for sparse in [false, true] {
                let cache = cache(0xff, 1, sparse, shared);
                let mut smaller = CacheMask(0);
                for ways in 1..=8 {
                    let mask = cache.mask(ways);
                    assert_eq!((mask.ways(), cache.fault(mask)), (ways, None), "{cache:?}");
                    assert_eq!(mask.and(smaller), smaller, "nested: {cache:?}");
                    smaller = mask;
                }
            }
        }
    }

    #[test]
    fn told_in_words() {
        assert_eq!(
            cache(0x7ff, 1, false, 0x600).describe(),
            "11 ways of 1.25 MiB in each of 2 L3 caches, at least 1, side by side, in 16 groups; the ways 0x600 are used by \
             devices too and are given out last"
        );
    }
}
