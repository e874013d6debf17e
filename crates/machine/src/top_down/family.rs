//! Which family a processor belongs to, as far as its events are known.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::method::FamilyTable;
use super::{ice_lake, neoverse, sapphire_rapids, skylake, zen2_3, zen4, zen5};
use crate::facts::processor::Identity;

/// Processors whose events have the same numbers and meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Intel Skylake, Kaby Lake, Comet Lake, Cascade Lake, Cooper Lake.
    Skylake,
    /// Intel Ice Lake, Rocket Lake.
    IceLake,
    /// Intel Sapphire, Emerald and Granite Rapids.
    SapphireRapids,
    /// AMD Zen 2.
    Zen2,
    /// AMD Zen 3.
    Zen3,
    /// AMD Zen 4.
    Zen4,
    /// AMD Zen 5.
    Zen5,
    /// Arm Neoverse N1.
    NeoverseN1,
    /// Arm Neoverse N2, V1, V2.
    Neoverse,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 9] = [
        Family::Skylake,
        Family::IceLake,
        Family::SapphireRapids,
        Family::Zen2,
        Family::Zen3,
        Family::Zen4,
        Family::Zen5,
        Family::NeoverseN1,
        Family::Neoverse,
    ];

    /// The family of a processor; if it is none of ours, why not.
    ///
    /// Model numbers: Intel's from the kernel's `tools/perf/pmu-events/arch/x86/mapfile.csv`, AMD's from its
    /// `arch/x86/kernel/cpu/amd.c`, Arm's part numbers from `tools/perf/pmu-events/arch/arm64/mapfile.csv`.
    pub fn of(identity: &Identity) -> Result<Family, String> {
        let unknown = || format!("the events of processor {} are not known to this program", identity.id());
        let model: u32 = match identity.model.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).map_err(|_| unknown())?,
            None => identity.model.parse().map_err(|_| unknown())?,
        };
        let family = match (identity.vendor.as_str(), identity.family, model) {
            ("GenuineIntel", Some(6), 0x55 | 0x4e | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6) => Family::Skylake,
            ("GenuineIntel", Some(6), 0x6a | 0x6c | 0x7d | 0x7e | 0xa7) => Family::IceLake,
            ("GenuineIntel", Some(6), 0x8f | 0xcf | 0xad | 0xae) => Family::SapphireRapids,
            ("AuthenticAMD", Some(0x17), 0x30..=0x4f | 0x60..=0x7f | 0x90..=0x91 | 0xa0..=0xaf) => Family::Zen2,
            ("AuthenticAMD", Some(0x19), 0x00..=0x0f | 0x20..=0x5f) => Family::Zen3,
            ("AuthenticAMD", Some(0x19), 0x10..=0x1f | 0x60..=0xaf) => Family::Zen4,
            ("AuthenticAMD", Some(0x1a), 0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f) => Family::Zen5,
            ("0x41", Some(_), 0xd0c) => Family::NeoverseN1,
            ("0x41", Some(_), 0xd40 | 0xd49 | 0xd4f) => Family::Neoverse,
            _ => return Err(unknown()),
        };
        Ok(family)
    }

    /// Its events and formulas.
    pub fn table(self) -> &'static FamilyTable {
        self.name_and_table().1
    }

    fn name_and_table(self) -> (&'static str, &'static FamilyTable) {
        match self {
            Family::Skylake => ("Intel Skylake", &skylake::TABLE),
            Family::IceLake => ("Intel Ice Lake", &ice_lake::TABLE),
            Family::SapphireRapids => ("Intel Sapphire Rapids", &sapphire_rapids::TABLE),
            Family::Zen2 => ("AMD Zen 2", &zen2_3::ZEN2),
            Family::Zen3 => ("AMD Zen 3", &zen2_3::ZEN3),
            Family::Zen4 => ("AMD Zen 4", &zen4::TABLE),
            Family::Zen5 => ("AMD Zen 5", &zen5::TABLE),
            Family::NeoverseN1 => ("Arm Neoverse N1", &neoverse::N1),
            Family::Neoverse => ("Arm Neoverse", &neoverse::TABLE),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name_and_table().0)
    }
}
