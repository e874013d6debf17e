//! The machine: what its devices did during a run, whoever made them, and what was seen of its limits.

use super::{Asked, Figure, Found, Merge, Of, Read, Reading, Unit, known};
use crate::results::Device;

pub(super) const FIGURES: &[Figure] = &[
    device(
        "device.cpu_busy",
        Unit::Share,
        "cpu_busy",
        "CPU time of Plimsoll's process, of a server on this machine and of what is between them, over time and cores",
        |of| of_device(of, |one| one.cpu_busy),
    ),
    device(
        "device.cpu_busy_clients",
        Unit::Share,
        "cpu_busy_clients",
        "the part of cpu_busy that is Plimsoll's process; null where the database is in that process",
        |of| of_device(of, |one| one.cpu_busy_clients),
    ),
    device(
        "device.cpu_busy_proxy",
        Unit::Share,
        "cpu_busy_proxy",
        "the part of cpu_busy that is of the process between clients and server, such as a governor; null without one",
        |of| of_device(of, |one| one.cpu_busy_proxy),
    ),
    device(
        "device.busy_cores_others",
        Unit::Cores,
        "busy_cores_others",
        "cores that other processes, or the machine's host, kept busy",
        |of| of_device(of, |one| one.busy_cores_others),
    ),
    device("device.io_busy", Unit::Share, "io_busy", "part of the time in which the disk was busy", |of| {
        of_device(of, |one| one.io_busy)
    }),
    device("device.read_mb_s", Unit::MegabytesPerSecond, "read_mb_s", "read from disk", |of| {
        of_device(of, |one| one.read_mb_s)
    }),
    device("device.write_mb_s", Unit::MegabytesPerSecond, "write_mb_s", "written to disk", |of| {
        of_device(of, |one| one.write_mb_s)
    }),
    device(
        "device.dram_read_gb_s",
        Unit::GigabytesPerSecond,
        "dram_read_gb_s",
        "read from memory by the workloads' threads; known of whole windows only",
        |of| of_device(of, |one| one.dram_read_gb_s),
    ),
    Figure {
        key: "achieved",
        unit: Unit::AsLimit,
        meaning: "what was seen of a limit that was in force",
        merge: Merge::Runs,
        of: Of::Run,
        claim: Some(Asked { function: "achieved", subject: None }),
        read: Read::OfLimit(|of, limit| {
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
    read: fn(&Reading<'_>) -> Found,
) -> Figure {
    let claim = Some(Asked { function: "device", subject: Some(subject) });
    Figure { key, unit, meaning, merge: Merge::Runs, of: Of::Run, claim, read: Read::Plain(read) }
}

fn of_device(of: &Reading<'_>, which: fn(&Device) -> Option<f64>) -> Found {
    known(which(of.device), "it was not measured")
}
