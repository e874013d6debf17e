//! Columns that are kept in files: how much queries read, and how much stayed in memory.

use super::{Figure, Reading, Unit, known, of_run};
use crate::results::ColumnReading;

pub(super) const FIGURES: &[Figure] = &[
    of_run(
        "device.columns.read_mb_s",
        "column_read_mb_s",
        Unit::MegabytesPerSecond,
        "read from the files of columns (`column_store=file`)",
        |of| Ok(reading(of)?.read_mb_s),
    ),
    of_run(
        "device.columns.hit_share",
        "column_hit_share",
        Unit::Share,
        "part of the bytes of columns that queries needed and found in memory; null without `column_memory_mib`",
        |of| {
            known(
                reading(of)?.hit_share,
                "no column may stay in memory, or none was needed; set `column_memory_mib`, or measure longer",
            )
        },
    ),
    of_run(
        "device.columns.held_mib",
        "column_held_mib",
        Unit::Mebibytes,
        "most memory that columns of the files took at a time, what queries had pinned included",
        |of| Ok(reading(of)?.held_mib),
    ),
];

fn reading<'a>(of: &'a Reading<'_>) -> Result<&'a ColumnReading, String> {
    let none = || "the database keeps no columns in files; `embedded:` does with `column_store=file`".to_owned();
    of.device.columns.as_ref().ok_or_else(none)
}
