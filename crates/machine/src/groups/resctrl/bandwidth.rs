//! The valid limits of memory bandwidth.

use std::fmt;

use super::schemata;

/// The unit of a number in the `MB` line of `schemata`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BandwidthUnit {
    /// Per cent of the maximum, enforced by delaying the requests of each core. This is not a rate: with the same
    /// number more cores transfer more, and on some processors a wide range of numbers has the same effect.
    Percent,
    /// MiB (2^20 bytes) per second of each domain, enforced by the kernel, which reads the counters and adjusts a
    /// percentage once per second (mounted with `mba_MBps`).
    MebibytesPerSecond,
    /// Eighths of a GB per second of each domain, enforced by the processor (AMD).
    EighthGigabytes,
}

impl BandwidthUnit {
    /// The largest rate that a limit of 1 allows, bytes per second; `None` for a percentage. The documents of AMD do not say
    /// which GB they mean, so it is the larger one (2^30).
    pub(crate) fn bytes_per_second(self) -> Option<f64> {
        match self {
            BandwidthUnit::Percent => None,
            BandwidthUnit::MebibytesPerSecond => Some(f64::from(1 << 20)),
            BandwidthUnit::EighthGigabytes => Some(f64::from(1 << 27)),
        }
    }
}

impl fmt::Display for BandwidthUnit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            BandwidthUnit::Percent => "%",
            BandwidthUnit::MebibytesPerSecond => "MiB/s",
            BandwidthUnit::EighthGigabytes => "eighths of a GB/s",
        })
    }
}

/// How memory bandwidth can be limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandwidthControl {
    /// The unit of its numbers.
    pub unit: BandwidthUnit,
    /// The smallest limit.
    pub min: u32,
    /// The grain: the kernel rounds a limit up to the next multiple.
    pub step: u32,
    /// How many groups there can be, the default one included.
    pub groups_max: u32,
    /// The ids of the domains that are limited one by one.
    pub domains: Vec<u32>,
    /// The value that means "no limit".
    pub unlimited: u32,
}

impl BandwidthControl {
    /// The limit for an amount as typed, or the error in it. An amount that the kernel would round is an error, because
    /// an experiment must state the limit in force.
    pub fn limit(&self, amount: f64) -> Result<u32, String> {
        if !(amount >= 0.0 && amount <= f64::from(u32::MAX)) || amount.fract() != 0.0 {
            return Err(format!("it is not a whole number of {}", self.unit));
        }
        let limit = amount as u32;
        if self.unit == BandwidthUnit::MebibytesPerSecond {
            // The kernel takes any number here; its loop can go no lower than the smallest percentage.
            return if limit > 0 { Ok(limit) } else { Err("at least 1 MiB/s is needed".to_owned()) };
        }
        if limit < self.min {
            return Err(format!("the smallest limit is {} {}", self.min, self.unit));
        }
        if self.unit == BandwidthUnit::Percent && limit > 100 {
            return Err("more than 100 % cannot be".to_owned());
        }
        match limit.checked_next_multiple_of(self.step.max(1)) {
            Some(rounded) if rounded == limit => Ok(limit),
            Some(rounded) => Err(format!(
                "limits go in steps of {}; the kernel would round it up to {rounded} {}",
                self.step, self.unit
            )),
            None => Err(format!("limits go in steps of {}", self.step)),
        }
    }

    /// The lines of `schemata` that give a group this limit in every domain.
    pub(crate) fn lines(&self, limit: u32) -> String {
        schemata::line("MB", &self.domains, limit)
    }

    /// The available limits as text.
    pub fn describe(&self) -> String {
        let Self { unit, min, step, domains, groups_max, .. } = self;
        let each = format!("for each of {} domains in {groups_max} groups", domains.len());
        match unit {
            BandwidthUnit::Percent => {
                format!("in % (a delay of each core, no rate) from {min} in steps of {step}, {each}")
            }
            BandwidthUnit::MebibytesPerSecond => format!("in MiB/s (mounted with mba_MBps), {each}"),
            BandwidthUnit::EighthGigabytes => format!("in eighths of a GB/s from {min} in steps of {step}, {each}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(unit: BandwidthUnit, min: u32, step: u32) -> BandwidthControl {
        BandwidthControl { unit, min, step, groups_max: 8, domains: vec![0, 1], unlimited: 100 }
    }

    #[test]
    fn limits() {
        let check = |control: &BandwidthControl, amount: f64, expect: Result<u32, &str>| {
            assert_eq!(control.limit(amount), expect.map_err(str::to_owned), "{amount}");
        };
        let percent = control(BandwidthUnit::Percent, 10, 10);
        check(&percent, 10.0, Ok(10));
        check(&percent, 100.0, Ok(100));
        check(&percent, 5.0, Err("the smallest limit is 10 %"));
        check(&percent, 25.0, Err("limits go in steps of 10; the kernel would round it up to 30 %"));
        check(&percent, 110.0, Err("more than 100 % cannot be"));
        check(&percent, 12.5, Err("it is not a whole number of %"));
        check(&percent, f64::NAN, Err("it is not a whole number of %"));
        check(&percent, -10.0, Err("it is not a whole number of %"));
        let megabytes = control(BandwidthUnit::MebibytesPerSecond, 10, 10);
        check(&megabytes, 1001.0, Ok(1001));
        check(&megabytes, 0.0, Err("at least 1 MiB/s is needed"));
        check(&megabytes, 5e9, Err("it is not a whole number of MiB/s"));
        let amd = control(BandwidthUnit::EighthGigabytes, 1, 1);
        check(&amd, 16.0, Ok(16));
        check(&amd, 0.0, Err("the smallest limit is 1 eighths of a GB/s"));
    }
}
