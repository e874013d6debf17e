//! The clock frequencies of cores, and the settings that determine them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::availability::Availability;
use crate::facts::guest;
use crate::facts::processor::{Identity, online_cores};
use crate::host::Host;

/// The clock frequency of each core at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Frequencies {
    /// Megahertz, by core.
    pub mhz: BTreeMap<usize, f64>,
    /// The source of the frequencies.
    pub source: Source,
    /// The cpufreq governors: `performance`, `schedutil`. More than one if cores differ; empty without a cpufreq
    /// driver.
    pub governors: BTreeSet<String>,
    /// Whether cores may exceed their nominal frequency; `None` if the driver does not report it.
    pub boost: Option<bool>,
}

/// The source of frequencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The cpufreq driver, `scaling_cur_freq`: measured if the processor supports it, else the last requested
    /// frequency.
    Driver,
    /// `/proc/cpuinfo`, measured by the processor's APERF and MPERF registers.
    Measured,
}

const CPU: &str = "/sys/devices/system/cpu";

impl Frequencies {
    /// Reads the frequencies. The error has the reason and the remedy.
    pub fn read(host: &Host) -> Result<Frequencies, Availability> {
        let cores = online_cores(host);
        let kilohertz = |core: &usize| {
            let value: Option<f64> = host.value(format!("{CPU}/cpu{core}/cpufreq/scaling_cur_freq"));
            Some((*core, value.filter(|kilohertz| *kilohertz > 0.0)? / 1000.0))
        };
        let by_driver: BTreeMap<usize, f64> = cores.iter().filter_map(kilohertz).collect();
        let (mhz, source) = match by_driver.is_empty() {
            false => (by_driver, Source::Driver),
            true => (measured(host)?, Source::Measured),
        };
        let governor = |core: &usize| host.text(format!("{CPU}/cpu{core}/cpufreq/scaling_governor"));
        Ok(Frequencies { mhz, source, governors: cores.iter().filter_map(governor).collect(), boost: boost(host) })
    }

    pub(crate) fn mean_mhz(&self) -> f64 {
        self.mhz.values().sum::<f64>() / self.mhz.len() as f64
    }
}

impl fmt::Display for Frequencies {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.source {
            Source::Driver => "cpufreq (scaling_cur_freq)",
            Source::Measured => "/proc/cpuinfo, by APERF and MPERF",
        })?;
        if !self.governors.is_empty() {
            let governors: Vec<&str> = self.governors.iter().map(String::as_str).collect();
            write!(out, "; governor {}", governors.join(", "))?;
        }
        match self.boost {
            None => Ok(()),
            Some(true) => out.write_str("; boost on"),
            Some(false) => out.write_str("; boost off"),
        }
    }
}

/// The frequencies in `/proc/cpuinfo`, if they are measured. Without APERF and MPERF the kernel writes the nominal
/// frequency there, not the actual one.
fn measured(host: &Host) -> Result<BTreeMap<usize, f64>, Availability> {
    if !Identity::read(host).flags.contains("aperfmperf") {
        return Err(match guest::hypervisor(host) {
            Some(_) => Availability::no(
                "a guest without cpufreq and APERF/MPERF; the MHz of its /proc/cpuinfo are nominal",
                Some("run on bare metal; hypervisors rarely pass it on"),
            ),
            None => Availability::no(
                "no cpufreq driver, and the processor shows no APERF/MPERF",
                Some("enable frequency scaling in the firmware, and a cpufreq driver in the kernel"),
            ),
        });
    }
    let mut speeds = BTreeMap::new();
    let mut core: Option<usize> = None;
    for line in host.text("/proc/cpuinfo").unwrap_or_default().lines() {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        match (key.trim(), core) {
            ("processor", _) => core = value.trim().parse().ok(),
            ("cpu MHz", Some(core)) => {
                let megahertz = value.trim().parse().ok().filter(|megahertz: &f64| *megahertz > 0.0);
                speeds.extend(megahertz.map(|megahertz| (core, megahertz)));
            }
            _ => {}
        }
    }
    match speeds.is_empty() {
        true => Err(Availability::no("no cpufreq driver, and no cpu MHz in /proc/cpuinfo", None)),
        false => Ok(speeds),
    }
}

/// Drivers report it in two files, one of which has the opposite sense.
fn boost(host: &Host) -> Option<bool> {
    let flag = |file: &str| host.value::<u8>(format!("{CPU}/{file}")).map(|flag| flag == 1);
    flag("cpufreq/boost").or_else(|| flag("intel_pstate/no_turbo").map(|off| !off))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn a_driver_with_a_governor() {
        let fake = FakeHost::new(&[
            ("/sys/devices/system/cpu/online", "0-1\n"),
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n"),
            ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n"),
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ]);
        let found = Frequencies::read(&fake.host()).expect("a driver");
        assert_eq!(found.mhz, [(0, 2000.0), (1, 3000.0)].into());
        assert_eq!(found.mean_mhz(), 2500.0);
        assert_eq!(found.to_string(), "cpufreq (scaling_cur_freq); governor performance; boost off");
    }

    #[test]
    fn nominal_speeds_are_no_measurement() {
        let check = |flags: &str, expect: Result<&[f64], &str>| {
            let cpuinfo = format!(
                "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu MHz\t\t: 2596.138\nflags\t\t: {flags}\n\n\
                 processor\t: 1\ncpu MHz\t\t: 3100.5\n"
            );
            let found = Frequencies::read(&FakeHost::new(&[("/proc/cpuinfo", &cpuinfo)]).host());
            match (found, expect) {
                (Ok(found), Ok(expect)) => assert_eq!(found.mhz.into_values().collect::<Vec<f64>>(), expect),
                (Err(why), Err(expect)) => assert!(why.reason.contains(expect) && why.remedy.is_some(), "{why:?}"),
                (found, expect) => panic!("{found:?}, not {expect:?}"),
            }
        };
        check("fpu hypervisor", Err("a guest"));
        check("fpu", Err("no cpufreq driver"));
        check("fpu aperfmperf", Ok(&[2596.138, 3100.5]));
        assert!(Frequencies::read(&FakeHost::new(&[]).host()).is_err());
    }

    #[test]
    fn this_machine() {
        match Frequencies::read(&Host::real()) {
            Ok(found) => assert!(found.mean_mhz() > 100.0 && found.mean_mhz() < 20_000.0, "{found:?}"),
            Err(why) => assert!(!why.available && !why.reason.is_empty()),
        }
    }
}
