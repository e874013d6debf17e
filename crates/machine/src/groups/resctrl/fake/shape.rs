//! The machine that the fake represents, and the content of its `info` folder.

use super::schemata::{ResourceKind, Schema};

/// A machine and how resctrl is mounted on it.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The ids of its last-level caches; level 2 caches, if any can be shared out, are as many.
    pub domains: Vec<u32>,
    /// Its level 3 caches; `None` if they cannot be shared out.
    pub l3: Option<CacheShape>,
    /// The same for level 2.
    pub l2: Option<CacheShape>,
    /// The smallest limit, the grain, the largest and the groups.
    pub bandwidth: Option<[u32; 4]>,
    /// The figures that are counted for groups; `None` if none are.
    pub monitoring: Option<MonitoringShape>,
    /// Mounted with `cdp`.
    pub code_and_data: bool,
    /// Mounted with `mba_MBps`.
    pub megabytes: bool,
}

/// A cache that can be shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// All of its ways, a bit each.
    pub full: u32,
    /// The fewest neighbouring ways of a mask.
    pub bits_min: u32,
    /// Whether a mask may have holes.
    pub sparse: bool,
    /// Ways that devices use too.
    pub shareable: u32,
    /// How many groups there can be, the default one included.
    pub closids: u32,
    /// Bytes of one cache.
    pub size: u32,
}

/// The figures that are counted for groups.
#[derive(Debug, Clone)]
pub struct MonitoringShape {
    /// How many groups can be counted apart.
    pub rmids: u32,
    /// Names of the counters.
    pub events: Vec<&'static str>,
    /// Bytes of former users that a fresh group may be said to hold.
    pub threshold: u64,
}

impl Shape {
    /// Two sockets with 11 ways of 1.25 MiB, as in servers of Intel. Devices use two of the ways.
    pub fn intel() -> Shape {
        Shape {
            domains: vec![0, 1],
            l3: Some(CacheShape {
                full: 0x7ff,
                bits_min: 1,
                sparse: false,
                shareable: 0x600,
                closids: 16,
                size: 11 * (5 << 18),
            }),
            l2: None,
            bandwidth: Some([10, 10, 100, 8]),
            monitoring: Some(MonitoringShape {
                rmids: 32,
                events: vec!["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"],
                threshold: 65536,
            }),
            code_and_data: false,
            megabytes: false,
        }
    }

    /// The machine of example 1 in the kernel's documentation: two sockets, four bits.
    #[cfg(test)]
    pub(crate) fn four_bits() -> Shape {
        let mut shape = Shape::intel();
        shape.l3 = Some(CacheShape { full: 0xf, bits_min: 1, sparse: false, shareable: 0, closids: 16, size: 4 << 20 });
        shape
    }

    /// A processor of AMD: masks may have holes and be empty, bandwidth is in eighths of a GB/s.
    pub fn amd() -> Shape {
        let mut shape = Shape::intel();
        shape.l3 =
            Some(CacheShape { full: 0xffff, bits_min: 0, sparse: true, shareable: 0, closids: 16, size: 32 << 20 });
        shape.bandwidth = Some([1, 1, 2048, 16]);
        shape
    }

    pub(super) fn schemas(&self) -> Vec<Schema> {
        let mut schemas = Vec::new();
        let schema = |name: &str, kind, closids| Schema { name: name.to_owned(), kind, closids };
        match self.l3 {
            Some(cache) if self.code_and_data => {
                schemas.push(schema("L3DATA", ResourceKind::Cache(cache), cache.closids / 2));
                schemas.push(schema("L3CODE", ResourceKind::Cache(cache), cache.closids / 2));
            }
            Some(cache) => schemas.push(schema("L3", ResourceKind::Cache(cache), cache.closids)),
            None => {}
        }
        schemas.extend(self.l2.map(|cache| schema("L2", ResourceKind::Cache(cache), cache.closids)));
        schemas.extend(self.bandwidth.map(|[min, step, max, closids]| {
            schema("MB", ResourceKind::Bandwidth { min, step, max, megabytes: self.megabytes }, closids)
        }));
        schemas
    }

    pub(super) fn info_folders(&self) -> Vec<String> {
        let monitoring = self.monitoring.as_ref().map(|_| "L3_MON".to_owned());
        self.schemas().into_iter().map(|schema| schema.name).chain(monitoring).collect()
    }

    /// The text of a file of `info`.
    pub(super) fn info(&self, path: &str) -> Option<String> {
        let (folder, file) = path.split_once('/')?;
        if folder == "L3_MON" {
            let monitoring = self.monitoring.as_ref()?;
            return match file {
                "num_rmids" => Some(format!("{}\n", monitoring.rmids)),
                "mon_features" => Some(monitoring.events.iter().map(|event| format!("{event}\n")).collect()),
                "max_threshold_occupancy" => Some(format!("{}\n", monitoring.threshold)),
                _ => None,
            };
        }
        let schema = self.schemas().into_iter().find(|schema| schema.name == folder)?;
        let text = match (schema.kind, file) {
            (_, "num_closids") => schema.closids.to_string(),
            (ResourceKind::Cache(cache), "cbm_mask") => format!("{:x}", cache.full),
            (ResourceKind::Cache(cache), "min_cbm_bits") => cache.bits_min.to_string(),
            (ResourceKind::Cache(cache), "shareable_bits") => format!("{:x}", cache.shareable),
            (ResourceKind::Cache(cache), "sparse_masks") => u32::from(cache.sparse).to_string(),
            (ResourceKind::Bandwidth { min, .. }, "min_bandwidth") => min.to_string(),
            (ResourceKind::Bandwidth { step, .. }, "bandwidth_gran") => step.to_string(),
            _ => return None,
        };
        Some(format!("{text}\n"))
    }
}
