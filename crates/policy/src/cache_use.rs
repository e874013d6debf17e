//! Which part of the last-level cache a class of a governor may fill, as an operator sets it, and the resulting masks.
//!
//! A class of [`cache_class`](crate::cache_class) means its share of the ways that the server may fill. A mask names
//! ways itself. A class that may fill all of the server's ways stays in the server's own group, so only masks of fewer
//! ways need a kernel group.

use std::fmt;

use crate::cache_class::{CacheClass, CacheClassError, CacheWays, WayMask};

/// The name, in errors, of the ways that the server may fill.
const SERVER: &str = "the server's group";

/// Which part of the cache may be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheUse {
    /// The share of this class.
    Class(CacheClass),
    /// These ways.
    Ways(WayMask),
}

impl CacheUse {
    /// All ways that the server may fill.
    pub const ALL: CacheUse = CacheUse::Class(CacheClass::Sensitive);

    /// Whether it may be less than all of them.
    pub fn is_confined(self) -> bool {
        self != CacheUse::ALL
    }

    /// Reads `polluting`, `depends`, `sensitive`, or a mask as `0xf0`.
    ///
    /// # Errors
    /// A message with the mistake and the accepted forms.
    pub fn parse(text: &str) -> Result<CacheUse, String> {
        if let Some(class) = CacheClass::ALL.into_iter().find(|class| class.name() == text) {
            return Ok(CacheUse::Class(class));
        }
        let wrong = || {
            let names = CacheClass::ALL.map(|class| format!("`{}`", class.name())).join(", ");
            format!("`{text}` is not a part of the cache; write {names}, or a mask of ways such as `0xf0`")
        };
        let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let mask = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).map(WayMask).ok_or_else(wrong)?;
        match mask.ways() {
            0 => Err(format!("the mask {mask} has no way; give it 2 at least, such as `0x3`")),
            1 => Err(format!("the mask {mask} has 1 way, which slows even scans down; give it 2 at least")),
            _ => Ok(CacheUse::Ways(mask)),
        }
    }
}

impl fmt::Display for CacheUse {
    /// The form that [`CacheUse::parse`] reads.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheUse::Class(class) => class.fmt(out),
            CacheUse::Ways(mask) => mask.fmt(out),
        }
    }
}

/// The masks of the given parts of the server's cache, in their order; each part has a name for errors. A part that
/// covers all of the server's ways gets `None`, for it needs no group.
///
/// # Errors
/// The first [`CacheClassError`], of the server's ways and then of the parts in order; or that there are too few groups.
pub fn masks_of(cache: &CacheWays, parts: &[(String, CacheUse)]) -> Result<Vec<Option<WayMask>>, CacheClassError> {
    let mask = |(name, part): &(String, CacheUse)| {
        let mask = match part {
            CacheUse::Class(class) => cache.share(*class),
            CacheUse::Ways(mask) => *mask,
        };
        cache.check_within(SERVER, name, mask).map(|()| Some(mask).filter(|mask| *mask != cache.allowed))
    };
    let masks: Vec<Option<WayMask>> = parts.iter().map(mask).collect::<Result<_, _>>()?;
    let mut distinct: Vec<WayMask> = masks.iter().flatten().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let needed = distinct.len() as u32;
    if needed > cache.groups_free {
        return Err(CacheClassError::FewGroups { needed, free: cache.groups_free });
    }
    Ok(masks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLLUTING: CacheUse = CacheUse::Class(CacheClass::Polluting);
    const DEPENDS: CacheUse = CacheUse::Class(CacheClass::Depends);

    /// 11 ways; the server may fill the lower six.
    fn cache() -> CacheWays {
        CacheWays { bytes: 11 << 20, ways: 11, allowed: WayMask(0x3f), sparse: false, groups_free: 2 }
    }

    #[test]
    fn parts_are_read_as_they_are_written() {
        for part in [POLLUTING, DEPENDS, CacheUse::ALL, CacheUse::Ways(WayMask(0xf0))] {
            assert_eq!(CacheUse::parse(&part.to_string()), Ok(part));
            assert_eq!(part.is_confined(), part != CacheUse::ALL);
        }
        let check = |text: &str, expect: &str| {
            let error = CacheUse::parse(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check(
            "scan",
            "`scan` is not a part of the cache; write `polluting`, `depends`, `sensitive`, or a mask of ways",
        );
        check("f0", "is not a part of the cache");
        check("0x", "is not a part of the cache");
        check("0x+f", "is not a part of the cache");
        check("0xfffffffff", "is not a part of the cache");
        check("0x0", "the mask 0x0 has no way; give it 2 at least");
        check("0x4", "the mask 0x4 has 1 way, which slows even scans down");
    }

    #[test]
    fn masks_lie_within_the_ways_of_the_server_and_all_of_them_need_no_group() {
        let check = |cache: &CacheWays, parts: &[CacheUse], expect: Result<&[Option<u32>], &str>| {
            let named: Vec<(String, CacheUse)> = parts.iter().map(|part| (format!("class {part}"), *part)).collect();
            match (masks_of(cache, &named), expect) {
                (Ok(masks), Ok(expect)) => {
                    let masks: Vec<Option<u32>> = masks.iter().map(|mask| mask.map(|mask| mask.0)).collect();
                    assert_eq!(masks, expect, "{parts:?}");
                }
                (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{parts:?}: {error}"),
                (found, _) => panic!("{parts:?}: {found:?}"),
            }
        };
        let ways = |mask: u32| CacheUse::Ways(WayMask(mask));
        check(&cache(), &[POLLUTING, DEPENDS, CacheUse::ALL], Ok(&[Some(0x3), Some(0xf), None]));
        check(&cache(), &[ways(0x3f), ways(0x30), ways(0x3), POLLUTING], Ok(&[None, Some(0x30), Some(0x3), Some(0x3)]));
        let outside = "the mask 0xc0 of class 0xc0 has the ways 0xc0 outside of the server's group (0x3f, 6 ways)";
        check(&cache(), &[ways(0xc0)], Err(outside));
        check(&cache(), &[ways(0x33)], Err("the mask 0x33 of class 0x33 has holes"));
        check(&CacheWays { sparse: true, ..cache() }, &[ways(0x33)], Ok(&[Some(0x33)]));
        let few = "3 different masks, and 2 groups (CLOSIDs) are free";
        check(&cache(), &[POLLUTING, DEPENDS, ways(0x30)], Err(few));
        check(&CacheWays { groups_free: 0, ..cache() }, &[CacheUse::ALL], Ok(&[None]));
        let one = CacheWays { allowed: WayMask(0x1), ..cache() };
        check(&one, &[POLLUTING], Err("the mask 0x1 of the server's group has 1 way"));
        check(&CacheWays { allowed: WayMask(0x3), ..cache() }, &[POLLUTING], Ok(&[None]));
    }
}
