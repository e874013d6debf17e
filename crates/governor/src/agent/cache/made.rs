//! The groups of resctrl for the classes of a governor: which ones are needed, and creating them.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_machine::groups::OwnGroupError;
use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::resctrl::CacheMask;
use plimsoll_machine::resctrl::class_groups::{CacheHome, ClassGroups, ClassSubject};
use plimsoll_policy::cache_class::{CacheClassError, CacheWays, WayMask};
use plimsoll_policy::cache_use::{CacheUse, masks_of};

#[derive(Debug)]
pub(super) struct Made {
    pub(super) groups: ClassGroups,
    /// The index of the group of each part of the cache; `None` for the server's own.
    pub(super) places: BTreeMap<CacheUse, Option<usize>>,
    /// The cache and the ways that they divide.
    pub(super) home: CacheHome,
}

/// Why the groups were not created.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unmade {
    #[error(transparent)]
    Groups(#[from] OwnGroupError),
    #[error(transparent)]
    Masks(#[from] CacheClassError),
    #[error("the mask of class `{0}`: {1}")]
    Mask(String, String),
    #[error("the ways of the server have changed just now")]
    Changed,
}

/// The cache in the policy's words.
fn ways(home: &CacheHome) -> CacheWays {
    let ways = home.cache.ways();
    CacheWays {
        // The policy compares only sizes of data structures with it, and none are given here.
        bytes: home.cache.way_bytes.unwrap_or(0) * u64::from(ways),
        ways,
        allowed: WayMask(home.mask.0),
        sparse: home.cache.sparse,
        groups_free: home.groups_free,
    }
}

/// The ways of each class, or why none can be confined.
pub(super) fn describe(home: &CacheHome, wanted: &[(String, CacheUse)]) -> Result<String, String> {
    let masks = masks_of(&ways(home), wanted).map_err(|error| error.to_string())?;
    if masks.iter().all(Option::is_none) {
        return Err(format!("the ways {} of {} are too few to be divided between classes", home.mask, home.folder));
    }
    let bytes = |mask: WayMask| {
        home.cache.way_bytes.map_or(String::new(), |way| {
            format!(" ({:.2} MiB)", (way * u64::from(mask.ways())) as f64 / f64::from(1 << 20))
        })
    };
    let part = |((name, part), mask): (&(String, CacheUse), &Option<WayMask>)| match mask {
        Some(mask) => format!("{name} ({part}) may fill {mask}{}", bytes(*mask)),
        None => format!("{name} ({part}) may fill all"),
    };
    let parts: Vec<String> = wanted.iter().zip(&masks).map(part).collect();
    let all = WayMask(home.mask.0);
    Ok(format!("{}, of the ways {all}{} of {}", parts.join(", "), bytes(all), home.folder))
}

/// Creates a group for each mask that has fewer ways than the server.
pub(super) fn make(
    host: &Host,
    state: &Path,
    postmaster: ProcessIdentity,
    wanted: &[(String, CacheUse)],
) -> Result<Made, Unmade> {
    let subject = ClassSubject::server(postmaster.id);
    let home = CacheHome::of(host, &subject)?;
    let masks = masks_of(&ways(&home), wanted)?;
    let (mut places, mut chosen) = (BTreeMap::new(), Vec::new());
    for ((class, part), mask) in wanted.iter().zip(&masks) {
        if let Some(fault) = mask.and_then(|mask| home.cache.fault(CacheMask(mask.0))) {
            return Err(Unmade::Mask(class.clone(), fault));
        }
        places.entry(*part).or_insert_with(|| {
            mask.map(|mask| {
                chosen.push((part.to_string(), CacheMask(mask.0)));
                chosen.len() - 1
            })
        });
    }
    let names: Vec<&str> = chosen.iter().map(|(name, _)| name.as_str()).collect();
    let groups = ClassGroups::make(host, state, subject, &names, |now| {
        let is_same = (now.mask, &now.folder) == (home.mask, &home.folder);
        if is_same { Ok(chosen.iter().map(|(_, mask)| *mask).collect()) } else { Err(Unmade::Changed) }
    })?;
    Ok(Made { groups, places, home })
}
