//! Which part of the last-level cache an operator may fill, so that scans do not evict data that others reuse.
//!
//! Three classes, each with a mask of cache ways. Masks are nested: they share the lowest ways.
//!
//! | class | mask of 20 ways | share | which operators |
//! |---|---|---|---|
//! | polluting | 0x3 | 10 % | use nothing again: scans; joins whose structure is far smaller or larger than the cache |
//! | depends | 0xfff | 60 % | joins whose structure is comparable with the cache |
//! | sensitive | 0xfffff | 100 % | aggregations, transactions, and everything that was not measured |
//!
//! Where the shares come from (55 MiB in 20 ways, 22 cores):
//! - A scan of packed codes has a hit ratio below 0.08 at every cache size (NO fig. 4): it needs no cache.
//! - An aggregation lost up to 67 % of its throughput in a small cache (fig. 5), most where its tables about fill the
//!   cache.
//! - A join by a bit vector lost 33 % with one of 11.92 MiB (0.22 of the cache), and 5 to 14 % with 0.12, 1.2 and 119 MiB
//!   (0.002, 0.02 and 2.2 of it; fig. 6). With the one of 0.22, 10 % of the ways cost it 15 to 31 %, and 60 % about 2 %
//!   (fig. 10).
//! - One way alone, 0x1, slowed even the scan down. No class gets fewer than two.
//! - Operators that were not measured are sensitive, so that none becomes slower for want of a measurement.
//!
//! The study prints 0xffff beside its 60 % of 20 ways; that mask has 16 ways. The study measured and explains the share
//! (35 of 55 MiB), so the mask here has 12.
//!
//! Source: Noll et al., *Accelerating Concurrent Workloads with CPU Cache Partitioning*, IV and V.B.

pub mod server_plan;

use std::fmt;

use thiserror::Error;

#[cfg(test)]
mod tests;

/// Ways of the polluting class, as a share of those that may be used.
const POLLUTING_SHARE: f64 = 0.1;
/// The same for the class of operators that depend.
const DEPENDS_SHARE: f64 = 0.6;
/// A mask of one way makes even scans slower.
const WAYS_LEAST: u32 = 2;
/// A smaller structure, as a share of the cache, fits the ways of the polluting class and leaves half of them to the
/// rows that stream through. The study's 1.2 MiB lie below (0.02), its 11.92 MiB above (0.22).
const COMPARABLE_LEAST: f64 = 0.05;
/// A larger structure misses nearly always. The study's 119 MiB lie above (2.2). A structure that just exceeds the cache
/// does not: most of it is held, and 10 % of the ways would lose that.
const COMPARABLE_MOST: f64 = 2.0;

/// How an operator uses the last-level cache; the order is that of the ways it may fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheClass {
    /// Reuses nothing, and evicts data that others reuse.
    Polluting,
    /// Reuses a structure that is comparable with the cache, beside a stream of rows.
    Depends,
    /// Is slower with less cache, or was not measured.
    Sensitive,
}

impl CacheClass {
    /// All, from the fewest ways to the most.
    pub const ALL: [CacheClass; 3] = [CacheClass::Polluting, CacheClass::Depends, CacheClass::Sensitive];

    /// The name in results and statistics.
    pub fn name(self) -> &'static str {
        match self {
            CacheClass::Polluting => "polluting",
            CacheClass::Depends => "depends",
            CacheClass::Sensitive => "sensitive",
        }
    }
}

impl fmt::Display for CacheClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Kinds of operators, as far as their use of the cache differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheOperator {
    /// Reads a column or a table once and keeps nothing.
    Scan,
    /// Looks up a bit vector or a hash table for each row of a stream.
    Join,
    /// Looks up dictionaries and a table of groups for each row.
    Aggregation,
    /// Short reads and writes through indexes.
    Transaction,
    /// Everything else: sorts, windows, unknown nodes of a plan.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Always(CacheClass),
    /// The size of the structure that it looks up.
    BySize,
}

/// The one list: operator, name, rule.
const RULES: [(CacheOperator, &str, Rule); 5] = [
    (CacheOperator::Scan, "scan", Rule::Always(CacheClass::Polluting)),
    (CacheOperator::Join, "join", Rule::BySize),
    (CacheOperator::Aggregation, "aggregation", Rule::Always(CacheClass::Sensitive)),
    (CacheOperator::Transaction, "transaction", Rule::Always(CacheClass::Sensitive)),
    (CacheOperator::Other, "other", Rule::Always(CacheClass::Sensitive)),
];

impl CacheOperator {
    /// All operators, in the order of the list.
    pub fn all() -> impl Iterator<Item = CacheOperator> {
        RULES.iter().map(|(operator, ..)| *operator)
    }

    /// The name in results and statistics.
    pub fn name(self) -> &'static str {
        self.rule().0
    }

    /// The class of an operator of this kind in a cache with `cache_bytes` of usable ways. `structure_bytes` is the
    /// size of its structures for random access (bit vector, hash table) in all its threads together, `None` if it is
    /// unknown.
    pub fn class(self, structure_bytes: Option<u64>, cache_bytes: u64) -> CacheClass {
        match self.rule().1 {
            Rule::Always(class) => class,
            Rule::BySize => match structure_bytes {
                Some(bytes) if is_comparable(bytes, cache_bytes) => CacheClass::Depends,
                Some(_) => CacheClass::Polluting,
                None => CacheClass::Sensitive,
            },
        }
    }

    fn rule(self) -> (&'static str, Rule) {
        let (_, name, rule) =
            RULES.iter().find(|(operator, ..)| *operator == self).expect("a test finds each in the list");
        (name, *rule)
    }
}

fn is_comparable(structure_bytes: u64, cache_bytes: u64) -> bool {
    let share = structure_bytes as f64 / cache_bytes as f64;
    (COMPARABLE_LEAST..=COMPARABLE_MOST).contains(&share)
}

/// The class of a job that runs several operators at once, each with the bytes of its structures: the most sensitive of
/// theirs. A job without operators is sensitive.
pub fn job_class(operators: impl IntoIterator<Item = (CacheOperator, Option<u64>)>, cache_bytes: u64) -> CacheClass {
    let classes = operators.into_iter().map(|(operator, bytes)| operator.class(bytes, cache_bytes));
    classes.max().unwrap_or(CacheClass::Sensitive)
}

/// Ways of a cache, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WayMask(pub u32);

impl WayMask {
    /// `count` neighbouring ways from the way `low`, cut off at the way 31.
    pub fn run(low: u32, count: u32) -> WayMask {
        let ones = 1_u32.checked_shl(count).map_or(u32::MAX, |bit| bit - 1);
        WayMask(ones.checked_shl(low).unwrap_or(0))
    }

    /// How many ways it has.
    pub fn ways(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether its ways are adjacent; false if it has none.
    pub(crate) fn is_contiguous(self) -> bool {
        self.0 != 0 && (self.0 >> self.0.trailing_zeros()).trailing_ones() == self.ways()
    }

    /// Whether all of its ways are in `outer`.
    pub fn is_within(self, outer: WayMask) -> bool {
        self.0 & !outer.0 == 0
    }

    /// The mask from its lowest to its highest way, without holes.
    fn filled(self) -> WayMask {
        WayMask::run(self.0.trailing_zeros(), u32::BITS - self.0.leading_zeros() - self.0.trailing_zeros())
    }
}

impl fmt::Display for WayMask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}

/// A mask for each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassMasks {
    /// Of [`CacheClass::Polluting`].
    pub polluting: WayMask,
    /// Of [`CacheClass::Depends`].
    pub depends: WayMask,
    /// Of [`CacheClass::Sensitive`].
    pub sensitive: WayMask,
}

impl ClassMasks {
    /// The mask of a class.
    pub fn of(&self, class: CacheClass) -> WayMask {
        match class {
            CacheClass::Polluting => self.polluting,
            CacheClass::Depends => self.depends,
            CacheClass::Sensitive => self.sensitive,
        }
    }

    /// The number of distinct masks: classes with equal masks can share a kernel group. In a cache of two ways all are
    /// equal.
    pub fn distinct(&self) -> u32 {
        let [first, second, third] = CacheClass::ALL.map(|class| self.of(class));
        1 + u32::from(second != first) + u32::from(third != first && third != second)
    }
}

/// The cache to divide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheWays {
    /// Bytes of all of it.
    pub bytes: u64,
    /// All of its ways, at most 32.
    pub ways: u32,
    /// Those that may be used: an experiment's `llc_ways`.
    pub allowed: WayMask,
    /// Whether the processor accepts masks with holes.
    pub sparse: bool,
    /// Groups that can still be made, one for each mask (the kernel's CLOSIDs less those in use).
    pub groups_free: u32,
}

impl CacheWays {
    /// Bytes of the ways that may be used, to which sizes of structures are compared.
    pub fn allowed_bytes(&self) -> u64 {
        (u128::from(self.bytes) * u128::from(self.allowed.ways()) / u128::from(self.ways.max(1))) as u64
    }

    /// The masks of the scheme: 10 %, 60 % and all of the ways that may be used, from the lowest one, each at least two.
    ///
    /// # Errors
    /// [`CacheClassError`] if the allowed ways are not a valid mask or are only one, or if there are too few groups.
    pub fn masks(&self) -> Result<ClassMasks, CacheClassError> {
        let [polluting, depends, sensitive] = CacheClass::ALL.map(|class| self.share(class));
        self.check(ClassMasks { polluting, depends, sensitive })
    }

    /// Returns the masks if they can be put in force.
    ///
    /// # Errors
    /// The first [`CacheClassError`], of the allowed ways and then of the classes in order.
    pub fn check(&self, masks: ClassMasks) -> Result<ClassMasks, CacheClassError> {
        for class in CacheClass::ALL {
            self.check_mask(class.name(), masks.of(class))?;
        }
        if masks.distinct() > self.groups_free {
            return Err(CacheClassError::FewGroups { needed: masks.distinct(), free: self.groups_free });
        }
        Ok(masks)
    }

    /// Checks whether one mask can be put in force; errors name `of` as its owner.
    ///
    /// # Errors
    /// The first [`CacheClassError`], of the allowed ways and then of the mask.
    pub fn check_mask(&self, of: &str, mask: WayMask) -> Result<(), CacheClassError> {
        self.check_within("llc_ways", of, mask)
    }

    /// The same, where errors call the allowed ways `outer_name`.
    pub(crate) fn check_within(
        &self,
        outer_name: &'static str,
        of: &str,
        mask: WayMask,
    ) -> Result<(), CacheClassError> {
        self.check_one(outer_name, self.allowed, WayMask::run(0, self.ways), "the cache")?;
        self.check_one(of, mask, self.allowed, outer_name)
    }

    /// The mask of a class by the scheme, unchecked.
    pub(crate) fn share(&self, class: CacheClass) -> WayMask {
        let share = |share: f64| self.lowest((share * f64::from(self.allowed.ways())).round() as u32);
        match class {
            CacheClass::Polluting => share(POLLUTING_SHARE),
            CacheClass::Depends => share(DEPENDS_SHARE),
            CacheClass::Sensitive => self.allowed,
        }
    }

    fn check_one(
        &self,
        of: &str,
        mask: WayMask,
        outer: WayMask,
        outer_name: &'static str,
    ) -> Result<(), CacheClassError> {
        let owned = || of.to_owned();
        if mask.0 == 0 {
            return Err(CacheClassError::Empty { of: owned() });
        }
        if !mask.is_within(outer) {
            return Err(CacheClassError::Outside { of: owned(), mask, outer, outer_name });
        }
        if !self.sparse && !mask.is_contiguous() {
            return Err(CacheClassError::Holes { of: owned(), mask });
        }
        if mask.ways() < WAYS_LEAST {
            return Err(CacheClassError::FewWays { of: owned(), mask });
        }
        Ok(())
    }

    /// The `count` lowest of the allowed ways, at least two as far as there are two.
    fn lowest(&self, count: u32) -> WayMask {
        let ways = (0..u32::BITS).filter(|way| self.allowed.0 >> way & 1 == 1);
        WayMask(ways.take(count.max(WAYS_LEAST) as usize).fold(0, |mask, way| mask | 1 << way))
    }
}

/// Why masks cannot be put in force. `of` is a class, the allowed ways, or the owner of the mask.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum CacheClassError {
    #[error("the mask of {of} has no way; give it {WAYS_LEAST} at least, such as 0x3")]
    Empty { of: String },
    #[error("the mask {mask} of {of} has 1 way, which slows even scans down; give it {WAYS_LEAST} at least")]
    FewWays { of: String, mask: WayMask },
    #[error(
        "the mask {mask} of {of} has holes, and this processor takes neighbouring ways only; use {}",
        mask.filled()
    )]
    Holes { of: String, mask: WayMask },
    #[error(
        "the mask {mask} of {of} has the ways {} outside of {outer_name} ({outer}, {} ways); leave them out",
        WayMask(mask.0 & !outer.0),
        outer.ways()
    )]
    Outside { of: String, mask: WayMask, outer: WayMask, outer_name: &'static str },
    #[error(
        "the classes have {needed} different masks, and {free} groups (CLOSIDs) are free; give classes equal masks, or remove \
         groups of others below /sys/fs/resctrl"
    )]
    FewGroups { needed: u32, free: u32 },
}
