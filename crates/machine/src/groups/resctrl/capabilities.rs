//! The resources that a mounted resctrl can allocate and count, read from its `info` folder.

use super::bandwidth::{BandwidthControl, BandwidthUnit};
use super::cache::{CacheControl, CacheMask};
use super::files::ResctrlFiles;
use super::schemata::Schemata;

/// The resources that can be allocated and counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The caches whose ways can be allocated, nearest first.
    pub caches: Vec<CacheControl>,
    /// How memory bandwidth can be limited.
    pub bandwidth: Option<BandwidthControl>,
    /// The figures that are counted.
    pub monitoring: Option<Monitoring>,
}

/// The figures that are counted for each group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitoring {
    /// How many groups can be counted apart, the default one included.
    pub groups_max: u32,
    /// Bytes held in the last-level cache.
    pub occupancy: bool,
    /// Bytes moved from and to memory.
    pub total_bytes: bool,
    /// Those from and to the memory of the own domain.
    pub local_bytes: bool,
    /// Bytes of previous users that may be counted for a new group, in each domain (`max_threshold_occupancy`).
    pub leftover_bytes: u64,
}

impl Capabilities {
    /// Reads `info`, and the default group's `schemata` for the domains.
    pub(super) fn read(files: &dyn ResctrlFiles, unit: BandwidthUnit) -> Capabilities {
        let text = |path: &str| files.read(path).unwrap_or_default();
        let (schemata, size) = (Schemata::parse(&text("schemata")), Schemata::parse(&text("size")));
        Capabilities {
            caches: [2, 3].into_iter().filter_map(|level| cache(files, level, &schemata, &size)).collect(),
            bandwidth: bandwidth(files, unit, &schemata),
            monitoring: monitoring(files),
        }
    }

    /// The last-level cache, if its ways can be allocated. Level 2 alone does not count.
    pub fn last_level(&self) -> Option<&CacheControl> {
        self.caches.iter().find(|cache| cache.level == 3)
    }

    /// How many groups there can be, the default one included: each needs an id of each resource.
    pub fn groups_max(&self) -> Option<u32> {
        let caches = self.caches.iter().map(|cache| cache.groups_max);
        caches.chain(self.bandwidth.iter().map(|bandwidth| bandwidth.groups_max)).min()
    }
}

fn number(files: &dyn ResctrlFiles, path: &str) -> Option<u64> {
    files.read(path).ok()?.trim().parse().ok()
}

fn cache(files: &dyn ResctrlFiles, level: u8, schemata: &Schemata, size: &Schemata) -> Option<CacheControl> {
    let split = [format!("L{level}CODE"), format!("L{level}DATA")];
    let resources = if files.read(&format!("info/{}/cbm_mask", split[0])).is_ok() {
        split.to_vec()
    } else {
        vec![format!("L{level}")]
    };
    let first = &resources[0];
    let mask = |file: &str| {
        let text = files.read(&format!("info/{first}/{file}")).ok()?;
        u32::from_str_radix(text.trim(), 16).ok().map(CacheMask)
    };
    let value = |file: &str| number(files, &format!("info/{first}/{file}"));
    let (masks, sizes) = (schemata.masks(first), size.numbers(first));
    let way_bytes = |id: &u32| sizes.get(id)?.checked_div(u64::from(masks.get(id)?.ways()));
    let domains = schemata.domains(first);
    Some(CacheControl {
        level,
        full: mask("cbm_mask")?,
        ways_min: value("min_cbm_bits")? as u32,
        // Kernels before 6.7 have no such file; then masks with holes are only for AMD, and not counted on.
        sparse: value("sparse_masks") == Some(1),
        shared: mask("shareable_bits").unwrap_or(CacheMask(0)),
        groups_max: value("num_closids")? as u32,
        way_bytes: domains.iter().filter_map(way_bytes).min(),
        domains,
        resources,
    })
}

fn bandwidth(files: &dyn ResctrlFiles, unit: BandwidthUnit, schemata: &Schemata) -> Option<BandwidthControl> {
    let value = |file: &str| number(files, &format!("info/MB/{file}")).map(|value| value as u32);
    /// What AMD's processors start with, 256 GB/s.
    const EIGHTHS_MAX: u32 = 2048;
    Some(BandwidthControl {
        unit,
        min: value("min_bandwidth")?,
        step: value("bandwidth_gran")?,
        groups_max: value("num_closids")?,
        domains: schemata.domains("MB"),
        unlimited: match unit {
            BandwidthUnit::Percent => 100,
            BandwidthUnit::MebibytesPerSecond => u32::MAX,
            BandwidthUnit::EighthGigabytes => EIGHTHS_MAX,
        },
    })
}

fn monitoring(files: &dyn ResctrlFiles) -> Option<Monitoring> {
    let features = files.read("info/L3_MON/mon_features").ok()?;
    let has = |event: &str| features.split_whitespace().any(|feature| feature == event);
    Some(Monitoring {
        groups_max: number(files, "info/L3_MON/num_rmids")? as u32,
        occupancy: has("llc_occupancy"),
        total_bytes: has("mbm_total_bytes"),
        local_bytes: has("mbm_local_bytes"),
        leftover_bytes: number(files, "info/L3_MON/max_threshold_occupancy").unwrap_or(0),
    })
}
