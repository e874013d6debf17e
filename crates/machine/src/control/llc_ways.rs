//! The ways of the last-level cache that a database may fill (SR fig. 2: the same mask for all cores, allocations nested).

use super::resctrl::{Resource, ShareOf, observation};
use super::{Amount, Verdict, Window};
use crate::groups::resctrl::{ByDomain, CacheControl, CacheMask, Capabilities, Group, mebibytes};

/// How experiments name the control of the ways of the last-level cache.
pub const KEY: &str = "llc_ways";

/// Limits the ways of the last-level cache by resctrl: a number of ways, a mask as `0xf0`, or `unlimited`.
pub(crate) static CONTROL: ShareOf<CacheControl> = ShareOf::CONTROL;

impl Resource for CacheControl {
    const KEY: &'static str = KEY;
    const UNIT: &'static str = "ways";
    const MEANING: &'static str = "the ways of the last-level cache that new data may go to, the same in every socket";
    const MISSING: [&'static str; 3] =
        ["cat_l3", "l3cat", "resctrl is mounted without allocation of the level 3 cache (no info/L3)"];
    const COUNTED: &'static str = "occupancy_bytes";

    fn of(capabilities: &Capabilities) -> Option<&CacheControl> {
        capabilities.last_level()
    }

    fn offer(&self) -> String {
        self.describe()
    }

    fn shares(&self, amount: &Amount) -> Result<String, String> {
        mask(self, amount).map(|mask| self.lines(mask))
    }

    fn unlimited(&self) -> String {
        self.lines(self.full)
    }

    fn escape(&self, class: &Group, amount: &Amount) -> Option<String> {
        let allowed = mask(self, amount).ok()?;
        let schemata = match class.schemata() {
            Ok(schemata) => schemata,
            Err(error) => return Some(error.to_string()),
        };
        let beyond = self.masks(&schemata).find(|of_class| of_class.0 & !allowed.0 != 0)?;
        Some(format!("the mask {beyond} of {} has ways outside of {allowed}", class.folder()))
    }

    fn counted(group: &Group, classes: &[Group]) -> Result<ByDomain, String> {
        let mut held = ByDomain::new();
        for group in [group].into_iter().chain(classes) {
            for (domain, bytes) in group.occupancy().map_err(|error| error.to_string())? {
                *held.entry(domain).or_default() += bytes;
            }
        }
        Ok(held)
    }

    /// Setting the mask does not evict older lines. While they remain, the subject has more cache than it should, so the
    /// limit has not taken effect, and this is reported.
    fn judge(&self, group: &Group, held: &ByDomain, window: &Window<'_>) -> Result<Verdict, String> {
        let way_bytes = self.way_bytes.filter(|bytes| *bytes > 0);
        let most = held.values().max().zip(way_bytes).map(|(bytes, way)| *bytes as f64 / way as f64);
        let why_not = group.overfull(held).map(|(domain, why)| {
            let before = window.earlier.get(&observation::<CacheControl>(domain));
            match before.filter(|before| **before >= held[&domain] as f64) {
                Some(before) => format!(
                    "{why}; it was {} at the beginning: lines from before the mask stay until others need their place, so warm up longer",
                    mebibytes(*before)
                ),
                None => why,
            }
        });
        Ok(Verdict { achieved: most.map(|ways| Amount::Number((ways * 100.0).round() / 100.0)), why_not })
    }
}

fn mask(cache: &CacheControl, amount: &Amount) -> Result<CacheMask, String> {
    let mask = match amount {
        Amount::Number(ways) if ways.fract() == 0.0 && (0.0..=f64::from(cache.ways())).contains(ways) => {
            cache.mask(*ways as u32)
        }
        Amount::Number(_) => {
            return Err(format!("it must be a whole number from {} to {}", cache.ways_min, cache.ways()));
        }
        Amount::Text(text) if text == "unlimited" => cache.full,
        Amount::Text(text) => CacheMask::parse(text).ok_or_else(|| {
            format!("it is neither a number of ways, nor a mask such as {}, nor \"unlimited\"", cache.full)
        })?,
    };
    cache.fault(mask).map_or(Ok(mask), Err)
}

#[cfg(test)]
mod tests;
