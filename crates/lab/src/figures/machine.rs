//! The machine: its activity and that of its devices during a run, for all processes, and the amounts reached under its
//! limits.

use super::{ClaimName, Figure, FigureSource, FigureSubject, Merge, Unit};
use crate::results::Device;

pub(super) const FIGURES: &[Figure] = &[
    device(
        "device.cpu_busy",
        Unit::Share,
        "cpu_busy",
        "CPU time of Plimsoll's process, of a server on this machine and of what is between them, over time and cores",
        |one| one.cpu_busy,
    ),
    device(
        "device.cpu_busy_clients",
        Unit::Share,
        "cpu_busy_clients",
        "the part of cpu_busy that is Plimsoll's process; null where the database is in that process",
        |one| one.cpu_busy_clients,
    ),
    device(
        "device.cpu_busy_proxy",
        Unit::Share,
        "cpu_busy_proxy",
        "the part of cpu_busy that is of the process between clients and server, such as a governor; null without one",
        |one| one.cpu_busy_proxy,
    ),
    device(
        "device.busy_cores_others",
        Unit::Cores,
        "busy_cores_others",
        "cores that other processes, or the machine's host, kept busy",
        |one| one.busy_cores_others,
    ),
    device(
        "device.stolen",
        Unit::Share,
        "stolen",
        "cores' time that the host of this guest took for others; within busy_cores_others",
        |one| one.stolen,
    ),
    device("device.mhz", Unit::Megahertz, "mhz", "speed of the cores, on average over cores and seconds", |one| {
        one.mhz
    }),
    device("device.io_busy", Unit::Share, "io_busy", "part of the time in which the disk was busy", |one| one.io_busy),
    device("device.read_mb_s", Unit::MegabytesPerSecond, "read_mb_s", "read from disk", |one| one.read_mb_s),
    device("device.write_mb_s", Unit::MegabytesPerSecond, "write_mb_s", "written to disk", |one| one.write_mb_s),
    device("device.reads_per_s", Unit::PerSecond, "reads_per_s", "reads that disks completed", |one| one.reads_per_s),
    device("device.writes_per_s", Unit::PerSecond, "writes_per_s", "writes that disks completed", |one| {
        one.writes_per_s
    }),
    device(
        "device.read_ms",
        Unit::Milliseconds,
        "read_ms",
        "how long a read took, its wait in the disk's queue included; null if there was none",
        |one| one.read_ms,
    ),
    device("device.write_ms", Unit::Milliseconds, "write_ms", "the same of a write", |one| one.write_ms),
    device(
        "device.dram_read_gb_s",
        Unit::GigabytesPerSecond,
        "dram_read_gb_s",
        "read from memory by the workloads' threads; known of whole windows only",
        |one| one.dram_read_gb_s,
    ),
    device(
        "device.pressure.cpu_some",
        Unit::Share,
        "pressure_cpu_some",
        "part of the time in which some task of the machine waited for a core",
        |one| one.pressure?.cpu_some,
    ),
    device(
        "device.pressure.memory_some",
        Unit::Share,
        "pressure_memory_some",
        "part in which some task waited for memory to be freed or read back",
        |one| one.pressure?.memory_some,
    ),
    device(
        "device.pressure.memory_full",
        Unit::Share,
        "pressure_memory_full",
        "part in which all tasks waited for memory",
        |one| one.pressure?.memory_full,
    ),
    device(
        "device.pressure.io_some",
        Unit::Share,
        "pressure_io_some",
        "part in which some task waited for I/O",
        |one| one.pressure?.io_some,
    ),
    device(
        "device.pressure.io_full",
        Unit::Share,
        "pressure_io_full",
        "part in which all tasks waited for I/O",
        |one| one.pressure?.io_full,
    ),
    device(
        "device.cache.held_mib",
        Unit::Mebibytes,
        "cache_held_mib",
        "last-level cache held by all processes, at the end, by resctrl",
        |one| one.cache?.held_mib,
    ),
    device(
        "device.cache.memory_mb_s",
        Unit::MegabytesPerSecond,
        "cache_memory_mb_s",
        "moved between caches and memory by all processes, by resctrl",
        |one| one.cache?.memory_mb_s,
    ),
    device(
        "device.group.memory_mib",
        Unit::Mebibytes,
        "group_memory_mib",
        "memory of the control group of the database's process, with all other processes in it, page cache included",
        |one| one.group?.memory_mib,
    ),
    device("device.group.busy_cores", Unit::Cores, "group_busy_cores", "cores that the group kept busy", |one| {
        one.group?.busy_cores
    }),
    device(
        "device.group.throttled",
        Unit::Share,
        "group_throttled",
        "part of the periods of the group's CPU quota in which it had used the quota up; null without one",
        |one| one.group?.throttled,
    ),
    device(
        "device.group.read_mb_s",
        Unit::MegabytesPerSecond,
        "group_read_mb_s",
        "read from disks by the group",
        |one| one.group?.read_mb_s,
    ),
    device(
        "device.group.write_mb_s",
        Unit::MegabytesPerSecond,
        "group_write_mb_s",
        "written to disks by the group",
        |one| one.group?.write_mb_s,
    ),
    device(
        "device.group_pressure.cpu_some",
        Unit::Share,
        "group_pressure_cpu_some",
        "part of the time in which some task of the group waited for a core; groups of version 2",
        |one| one.group_pressure?.cpu_some,
    ),
    device(
        "device.group_pressure.cpu_full",
        Unit::Share,
        "group_pressure_cpu_full",
        "part in which none of its tasks got a core",
        |one| one.group_pressure?.cpu_full,
    ),
    device(
        "device.group_pressure.memory_some",
        Unit::Share,
        "group_pressure_memory_some",
        "part in which some task of the group waited for memory",
        |one| one.group_pressure?.memory_some,
    ),
    device(
        "device.group_pressure.memory_full",
        Unit::Share,
        "group_pressure_memory_full",
        "part in which all its tasks waited for memory",
        |one| one.group_pressure?.memory_full,
    ),
    device(
        "device.group_pressure.io_some",
        Unit::Share,
        "group_pressure_io_some",
        "part in which some task of the group waited for I/O",
        |one| one.group_pressure?.io_some,
    ),
    device(
        "device.group_pressure.io_full",
        Unit::Share,
        "group_pressure_io_full",
        "part in which all its tasks waited for I/O",
        |one| one.group_pressure?.io_full,
    ),
    device(
        "device.group_cache.held_mib",
        Unit::Mebibytes,
        "group_cache_held_mib",
        "last-level cache held by the resctrl group that the database's process is in",
        |one| one.group_cache?.held_mib,
    ),
    device(
        "device.group_cache.memory_mb_s",
        Unit::MegabytesPerSecond,
        "group_cache_memory_mb_s",
        "moved between caches and memory by that group",
        |one| one.group_cache?.memory_mb_s,
    ),
    Figure {
        key: "achieved",
        unit: Unit::AsLimit,
        meaning: "what was seen of a limit that was in force",
        merge: Merge::Runs,
        of: FigureSubject::Run,
        claim: Some(ClaimName { function: "achieved", subject: None }),
        read: FigureSource::OfLimit(|of, limit| {
            let seen = of.achieved.get(limit).and_then(serde_json::Value::as_f64);
            seen.ok_or_else(|| format!("{limit} was not in force, or was not seen"))
        }),
    },
];

const fn device(
    key: &'static str,
    unit: Unit,
    subject: &'static str,
    meaning: &'static str,
    read: fn(&Device) -> Option<f64>,
) -> Figure {
    let claim = Some(ClaimName { function: "device", subject: Some(subject) });
    Figure { key, unit, meaning, merge: Merge::Runs, of: FigureSubject::Run, claim, read: FigureSource::OfDevice(read) }
}
