//! The notation of ways: `all`, a number of the lowest ways, a mask such as `0x3`, or `class` for the mask of the policy.

use std::str::FromStr;

use plimsoll_model::cache_simulator::{Pattern, Program};
use plimsoll_policy::cache_class::{CacheClassError, CacheOperator, CacheWays, WayMask};

/// Ways as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mask {
    /// All that may be used.
    All,
    /// The lowest N of them.
    Lowest(u32),
    Ways(WayMask),
    Class,
}

impl FromStr for Mask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mask = match (text, text.strip_prefix("0x")) {
            ("all", _) => Some(Mask::All),
            ("class", _) => Some(Mask::Class),
            (_, Some(digits)) => u32::from_str_radix(digits, 16).ok().map(|mask| Mask::Ways(WayMask(mask))),
            _ => text.parse().ok().map(Mask::Lowest),
        };
        mask.ok_or_else(|| {
            format!("`{text}` says no ways; write \"all\", a number of ways, a mask such as \"0x3\", or \"class\" for those of the operator's class")
        })
    }
}

impl Mask {
    /// The ways of an operator in this cache, whether or not they can be put in force. An error says why the scheme of
    /// classes has none.
    pub(super) fn resolve(self, operator: &str, program: &Program, cache: &CacheWays) -> Result<WayMask, String> {
        match self {
            Mask::All => Ok(cache.allowed),
            Mask::Lowest(count) => Ok(WayMask::run(cache.allowed.0.trailing_zeros(), count)),
            Mask::Ways(mask) => Ok(mask),
            Mask::Class => {
                let masks = cache.masks().map_err(|error| error.to_string())?;
                let structures = program.accesses.iter().filter(|access| access.pattern != Pattern::Stream);
                let bytes = structures.map(|access| access.bytes).fold(0, u64::saturating_add);
                Ok(masks.of(kind(operator).class(Some(bytes), cache.allowed_bytes())))
            }
        }
    }
}

/// Whether a processor could put a mask in force. A mask of one way is allowed here, although the scheme of classes gives
/// none and the study found it harmful: a simulation may try it.
pub(super) fn check(cache: &CacheWays, of: &str, mask: WayMask) -> Result<(), String> {
    match cache.check_mask(of, mask) {
        Ok(()) | Err(CacheClassError::FewWays { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// The policy's name for an operator of the simulator. One that decodes or groups is an aggregation, even if it also
/// scans: a job has the class of its most sensitive part.
fn kind(operator: &str) -> CacheOperator {
    match operator {
        "packed_scan" => CacheOperator::Scan,
        "key_join" => CacheOperator::Join,
        "aggregation" | "pipeline" => CacheOperator::Aggregation,
        "index_descent" => CacheOperator::Transaction,
        _ => CacheOperator::Other,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::cache_simulator::OPERATORS;

    use super::*;

    #[test]
    fn ways_are_read() {
        let check = |text: &str, expect: Mask| assert_eq!(text.parse(), Ok(expect), "{text}");
        check("all", Mask::All);
        check("class", Mask::Class);
        check("3", Mask::Lowest(3));
        check("0x3", Mask::Ways(WayMask(3)));
        for text in ["", "0x", "-1", "0x1ffffffff", "some", "3.5"] {
            assert!(text.parse::<Mask>().unwrap_err().contains("says no ways"), "{text}");
        }
    }

    #[test]
    fn the_policy_knows_every_operator() {
        let unknown: Vec<_> = OPERATORS.iter().filter(|one| kind(one.name) == CacheOperator::Other).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
