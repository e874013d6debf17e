//! What the machine and its devices did within a window, or a second of it.

use plimsoll_machine::group_use::GroupUse;
use plimsoll_machine::pressure::PressureUse;
use plimsoll_machine::resctrl::CacheUse;
use serde::{Deserialize, Serialize};

/// What the machine and its devices did. What was not measured is missing; [`Point::unmeasured`](super::Point::unmeasured)
/// and the warnings say why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// CPU time of this process, of a server's on this machine and of what is between them, over window times the cores that could be used, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// The part of `cpu_busy` that is this process's: of a server, its clients and whoever watches. `None` where the database is
    /// in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy_clients: Option<f64>,
    /// The part of `cpu_busy` that is of the process between clients and a server, such as a governor. `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy_proxy: Option<f64>,
    /// Cores that all others on this machine kept busy, time stolen by its host included.
    #[serde(default)]
    pub busy_cores_others: Option<f64>,
    /// Share of the cores' time that the host of this guest took for others, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<f64>,
    /// Speed of the cores, MHz, on average over cores and seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mhz: Option<f64>,
    /// Share of the window in which the disk was busy.
    pub io_busy: Option<f64>,
    /// Megabytes read from disk per second.
    pub read_mb_s: Option<f64>,
    /// Megabytes written to disk per second.
    pub write_mb_s: Option<f64>,
    /// Reads from disk completed per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_per_s: Option<f64>,
    /// Writes to disk completed per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_per_s: Option<f64>,
    /// Milliseconds that a read took at the disk, on average, waiting in its queue included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ms: Option<f64>,
    /// The same of a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ms: Option<f64>,
    /// Gigabytes (10^9 bytes) that the workloads' threads read from memory per second.
    pub dram_read_gb_s: Option<f64>,
    /// Time in which tasks of the machine stood still for want of a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<PressureUse>,
    /// Last-level cache that was held, and traffic between caches and memory, by everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheUse>,
    /// What the control groups used that the database's process is in, with everybody else in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupUse>,
    /// Time in which tasks of that group stood still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_pressure: Option<PressureUse>,
    /// Last-level cache and memory traffic of the resctrl group that the database's process is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_cache: Option<CacheUse>,
}

impl Device {
    /// The figure of that [name](DEVICE_FIGURES), if there is one and it was measured.
    pub fn figure(&self, key: &str) -> Option<f64> {
        let figure = DEVICE_FIGURES.iter().find(|figure| figure.key == key)?;
        (figure.of)(self)
    }
}

/// A figure of [`Device`].
#[derive(Debug, Clone, Copy)]
pub struct DeviceFigure {
    /// Its name: the column of `samples.parquet`.
    pub key: &'static str,
    /// What it is in; `share` is 0 to 1.
    pub unit: &'static str,
    /// What it is, for the head of a column.
    pub label: &'static str,
    /// Whether it is known of each second, and not only of a whole window.
    pub by_second: bool,
    /// The figure.
    pub of: fn(&Device) -> Option<f64>,
}

const fn figure(
    key: &'static str,
    unit: &'static str,
    label: &'static str,
    of: fn(&Device) -> Option<f64>,
) -> DeviceFigure {
    DeviceFigure { key, unit, label, by_second: true, of }
}

/// Every figure of a [`Device`], in the order of its fields.
pub const DEVICE_FIGURES: &[DeviceFigure] = &[
    figure("cpu_busy", "share", "Cores busy", |d| d.cpu_busy),
    figure("cpu_busy_clients", "share", "Cores busy with clients", |d| d.cpu_busy_clients),
    figure("cpu_busy_proxy", "share", "Cores busy with the proxy", |d| d.cpu_busy_proxy),
    figure("busy_cores_others", "cores", "Cores busy with others", |d| d.busy_cores_others),
    figure("stolen", "share", "Taken by the host", |d| d.stolen),
    figure("mhz", "MHz", "Speed of cores", |d| d.mhz),
    figure("io_busy", "share", "Disk busy", |d| d.io_busy),
    figure("read_mb_s", "MB/s", "Disk read", |d| d.read_mb_s),
    figure("write_mb_s", "MB/s", "Disk write", |d| d.write_mb_s),
    figure("reads_per_s", "per second", "Disk reads", |d| d.reads_per_s),
    figure("writes_per_s", "per second", "Disk writes", |d| d.writes_per_s),
    figure("read_ms", "ms", "A read took", |d| d.read_ms),
    figure("write_ms", "ms", "A write took", |d| d.write_ms),
    // Counted in turns.
    DeviceFigure { by_second: false, ..figure("dram_read_gb_s", "GB/s", "Memory read", |d| d.dram_read_gb_s) },
    figure("pressure_cpu_some", "share", "Some waited for a core", |d| d.pressure?.cpu_some),
    figure("pressure_memory_some", "share", "Some waited for memory", |d| d.pressure?.memory_some),
    figure("pressure_memory_full", "share", "All waited for memory", |d| d.pressure?.memory_full),
    figure("pressure_io_some", "share", "Some waited for I/O", |d| d.pressure?.io_some),
    figure("pressure_io_full", "share", "All waited for I/O", |d| d.pressure?.io_full),
    figure("cache_held_mib", "MiB", "Cache held", |d| d.cache?.held_mib),
    figure("cache_memory_mb_s", "MB/s", "Memory traffic", |d| d.cache?.memory_mb_s),
    figure("group_memory_mib", "MiB", "Group: memory", |d| d.group?.memory_mib),
    figure("group_busy_cores", "cores", "Group: cores busy", |d| d.group?.busy_cores),
    figure("group_throttled", "share", "Group: periods throttled", |d| d.group?.throttled),
    figure("group_read_mb_s", "MB/s", "Group: disk read", |d| d.group?.read_mb_s),
    figure("group_write_mb_s", "MB/s", "Group: disk write", |d| d.group?.write_mb_s),
    figure("group_pressure_cpu_some", "share", "Group: some waited for a core", |d| d.group_pressure?.cpu_some),
    figure("group_pressure_cpu_full", "share", "Group: all waited for a core", |d| d.group_pressure?.cpu_full),
    figure("group_pressure_memory_some", "share", "Group: some waited for memory", |d| d.group_pressure?.memory_some),
    figure("group_pressure_memory_full", "share", "Group: all waited for memory", |d| d.group_pressure?.memory_full),
    figure("group_pressure_io_some", "share", "Group: some waited for I/O", |d| d.group_pressure?.io_some),
    figure("group_pressure_io_full", "share", "Group: all waited for I/O", |d| d.group_pressure?.io_full),
    figure("group_cache_held_mib", "MiB", "Group: cache held", |d| d.group_cache?.held_mib),
    figure("group_cache_memory_mb_s", "MB/s", "Group: memory traffic", |d| d.group_cache?.memory_mb_s),
];

/// Why a sensor told nothing within a window, or not everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unmeasured {
    /// The reason.
    pub reason: String,
    /// What would help; `None` if nothing is known to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Map, Value};

    use super::*;

    /// All of them at once: a figure that is in the document and not in the list would reach no column and no report.
    #[test]
    fn the_list_has_every_figure_of_the_document() {
        let pressure = |from: f64| {
            let [cpu_some, cpu_full, memory_some, memory_full, io_some, io_full] =
                [0.0, 1.0, 2.0, 3.0, 4.0, 5.0].map(|step| Some(from + step));
            Some(PressureUse { cpu_some, cpu_full, memory_some, memory_full, io_some, io_full })
        };
        let cache = |from: f64| Some(CacheUse { held_mib: Some(from), memory_mb_s: Some(from + 1.0) });
        let mut flat: Map<String, Value> = Map::new();
        for (number, figure) in DEVICE_FIGURES.iter().take_while(|figure| figure.key != "pressure_cpu_some").enumerate()
        {
            flat.insert(figure.key.to_owned(), (number as f64).into());
        }
        let device = Device {
            pressure: pressure(100.0).map(|pressure| PressureUse { cpu_full: None, ..pressure }),
            cache: cache(200.0),
            group: Some(GroupUse {
                memory_mib: Some(300.0),
                busy_cores: Some(301.0),
                throttled: Some(302.0),
                read_mb_s: Some(303.0),
                write_mb_s: Some(304.0),
            }),
            group_pressure: pressure(400.0),
            group_cache: cache(500.0),
            ..serde_json::from_value(Value::Object(flat)).expect("plain figures")
        };
        let mut in_document = BTreeSet::new();
        numbers(&serde_json::to_value(device).expect("plain figures"), "", &mut in_document);
        let listed = DEVICE_FIGURES.iter().map(|figure| {
            let value = (figure.of)(&device).unwrap_or_else(|| panic!("{} is not known", figure.key));
            (figure.key.to_owned(), value as u64)
        });
        assert_eq!(listed.collect::<BTreeSet<_>>(), in_document);
    }

    /// Rows of the tables of columns, and names that claims may use.
    #[test]
    fn the_guides_tell_every_figure() {
        let (data, claims) =
            (include_str!("../../../../docs/data.md"), include_str!("../../../../docs/experiments.md"));
        for DeviceFigure { key, unit, by_second, .. } in DEVICE_FIGURES {
            let row = format!("\n| `{key}` | DOUBLE | {unit} | ");
            assert_eq!(data.contains(&row), *by_second, "docs/data.md: {row}");
            assert!(claims.contains(&format!("`{key}`")), "docs/experiments.md: {key}");
        }
        let device = Device { stolen: Some(0.5), ..Device::default() };
        assert_eq!((device.figure("stolen"), device.figure("mhz"), device.figure("no such")), (Some(0.5), None, None));
    }

    /// Each number of a document under the names that lead to it.
    fn numbers(value: &Value, name: &str, found: &mut BTreeSet<(String, u64)>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(field, value)| {
                let name = if name.is_empty() { field.clone() } else { format!("{name}_{field}") };
                numbers(value, &name, found);
            }),
            value => {
                found.insert((name.to_owned(), value.as_f64().expect("a number") as u64));
            }
        }
    }
}
