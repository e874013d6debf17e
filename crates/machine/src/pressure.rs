//! Pressure stall information: the time in which tasks were stalled because they lacked a resource.
//!
//! The kernel keeps it for the machine and for each control group of version 2 (kernel Documentation/accounting/psi.rst).
//! "Some" is time in which at least one task waited, "full" time in which no task that was not idle could run.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::processor_time::share;

/// Stalls up to one moment. Two of them make a [`PressureUse`].
#[derive(Debug, Clone, PartialEq)]
pub struct PressureSample {
    cpu: Option<Stalls>,
    memory: Option<Stalls>,
    io: Option<Stalls>,
}

/// The kernel's figures for one resource: time stalled since boot, or since the group was made.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stalls {
    /// At least one task waited.
    some: Duration,
    /// No task could work; `None` where the kernel does not know: for the processors of a whole machine it always writes
    /// zeros.
    full: Option<Duration>,
}

/// Shares of a window, 0 to 1, in which tasks were stalled. `None` means that the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PressureUse {
    /// Some task waited for a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_some: Option<f64>,
    /// No task of the group got a core, because its quota was used up or others had them. Never known of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_full: Option<f64>,
    /// Some task waited for memory to be freed or read back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_some: Option<f64>,
    /// All tasks did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_full: Option<f64>,
    /// Some task waited for I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_some: Option<f64>,
    /// All tasks did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_full: Option<f64>,
}

impl PressureSample {
    /// Samples the machine. `None` if the kernel keeps no pressure at all.
    pub fn read(host: &Host) -> Option<PressureSample> {
        let stalls = |resource: &str| Stalls::parse(&host.text(format!("/proc/pressure/{resource}"))?);
        let cpu = stalls("cpu").map(|cpu| Stalls { full: None, ..cpu });
        PressureSample { cpu, memory: stalls("memory"), io: stalls("io") }.if_any()
    }

    /// Samples a control group of version 2 by its folder, absolute on the host. `None` if it has no pressure files.
    pub fn of_group(host: &Host, folder: &Path) -> Option<PressureSample> {
        let stalls = |resource: &str| Stalls::parse(&host.text(folder.join(format!("{resource}.pressure")))?);
        PressureSample { cpu: stalls("cpu"), memory: stalls("memory"), io: stalls("io") }.if_any()
    }

    fn if_any(self) -> Option<PressureSample> {
        (self.cpu.is_some() || self.memory.is_some() || self.io.is_some()).then_some(self)
    }

    /// The stalls in the `window` between `earlier` and this sample. The kernel updates its sums every two seconds and
    /// at each reading, so the figures are exact.
    pub fn since(&self, earlier: &PressureSample, window: Duration) -> PressureUse {
        let some = |now: Option<Stalls>, then: Option<Stalls>| Some((now?.some, then?.some));
        let full = |now: Option<Stalls>, then: Option<Stalls>| Some((now?.full?, then?.full?));
        let part = |stalls: Option<(Duration, Duration)>| {
            let (now, then) = stalls?;
            share(now.saturating_sub(then).as_secs_f64(), window.as_secs_f64())
        };
        PressureUse {
            cpu_some: part(some(self.cpu, earlier.cpu)),
            cpu_full: part(full(self.cpu, earlier.cpu)),
            memory_some: part(some(self.memory, earlier.memory)),
            memory_full: part(full(self.memory, earlier.memory)),
            io_some: part(some(self.io, earlier.io)),
            io_full: part(full(self.io, earlier.io)),
        }
    }
}

impl Stalls {
    /// Reads lines as `some avg10=0.13 avg60=0.52 avg300=0.75 total=984742`. Before Linux 5.13 processors have no `full`.
    fn parse(text: &str) -> Option<Stalls> {
        let line = |kind: &str| text.lines().find_map(|line| total(line.strip_prefix(kind)?));
        Some(Stalls { some: line("some ")?, full: line("full ") })
    }
}

fn total(fields: &str) -> Option<Duration> {
    let microseconds = fields.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    Some(Duration::from_micros(microseconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use plimsoll_testing::{Need, skip};

    use super::*;
    use crate::host::fake::FakeHost;

    const SECOND: Duration = Duration::from_secs(1);

    fn stalls(some: u64, full: u64) -> String {
        let line = |kind: &str, total: u64| format!("{kind} avg10=12.50 avg60=0.52 avg300=0.75 total={total}\n");
        line("some", some) + &line("full", full)
    }

    #[test]
    fn the_machine_between_two_samples() {
        let fake = FakeHost::new(&[("/proc/pressure/cpu", &stalls(100, 0)), ("/proc/pressure/io", &stalls(0, 0))]);
        let earlier = PressureSample::read(&fake.host()).expect("pressure files");
        fake.write("/proc/pressure/cpu", &stalls(500_100, 0));
        fake.write("/proc/pressure/io", &stalls(3_000_000, 250_000));
        let later = PressureSample::read(&fake.host()).expect("pressure files");
        assert_eq!(
            later.since(&earlier, SECOND),
            PressureUse { cpu_some: Some(0.5), io_some: Some(1.0), io_full: Some(0.25), ..PressureUse::default() },
            "no file of memory, and the full line of processors is always zero"
        );
        assert_eq!(later.since(&earlier, Duration::ZERO), PressureUse::default());
    }

    #[test]
    fn a_group_and_what_cannot_be_understood() {
        let fake = FakeHost::new(&[("/sys/fs/cgroup/a/cpu.pressure", &stalls(7, 5)), ("/sys/fs/cgroup/b/x", "")]);
        let group = |name: &str| PressureSample::of_group(&fake.host(), Path::new(name));
        let sample = group("/sys/fs/cgroup/a").expect("a pressure file");
        assert_eq!(sample.cpu.and_then(|cpu| cpu.full), Some(Duration::from_micros(5)));
        assert_eq!(group("/sys/fs/cgroup/b"), None);
        for text in
            ["", "some", "some avg10=1 avg60=0 avg300=0 total=x", "some avg10=1 avg60=1 avg300=1", "full total=1"]
        {
            fake.write("/sys/fs/cgroup/b/cpu.pressure", text);
            assert_eq!(group("/sys/fs/cgroup/b"), None, "{text}");
        }
        fake.write("/sys/fs/cgroup/b/cpu.pressure", "some avg10=1.00 avg60=1.00 avg300=1.00 total=1\n");
        let old = group("/sys/fs/cgroup/b").expect("a line of an old kernel");
        assert_eq!(old.cpu.map(|cpu| cpu.full), Some(None));
    }

    #[test]
    fn this_machine() {
        let host = Host::real();
        let Some(earlier) = PressureSample::read(&host) else {
            assert!(Stalls::parse(&host.text("/proc/pressure/cpu").unwrap_or_default()).is_none());
            return skip(Need::Pressure, "this kernel keeps no pressure");
        };
        let usage = PressureSample::read(&host).expect("it was there before").since(&earlier, SECOND);
        assert!(usage.cpu_some.is_some_and(|share| (0.0..=1.0).contains(&share)), "{usage:?}");
        assert_eq!(usage.cpu_full, None);
    }
}
