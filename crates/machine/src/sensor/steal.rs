//! Whether a guest sees the time that its host steals.

use crate::availability::Availability;
use crate::facts::guest;
use crate::host::Host;
use crate::processor_time::{ProcessorTicks, stolen_note};
use crate::sensor::lap::Lap;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor};

/// Time in which a core wanted to run and its host ran something else.
#[derive(Debug)]
pub(super) struct Steal;

impl Sensor for Steal {
    fn name(&self) -> &'static str {
        "steal"
    }

    fn figures(&self) -> &'static str {
        "cores' time taken by the host of this guest (share)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Machine]
    }

    fn probe(&self, host: &Host) -> Availability {
        let Some(ticks) = ProcessorTicks::read(host) else {
            return Availability::no("/proc/stat cannot be read", Some("mount proc on /proc"));
        };
        let Some(stolen) = ticks.stolen_share() else {
            return Availability::no("/proc/stat has no column for it: the kernel is older than 2.6.11", None);
        };
        Availability::yes(match guest::hypervisor(host) {
            None => "/proc/stat; no hypervisor that could take any".to_owned(),
            Some(_) if stolen == 0.0 => "/proc/stat; none since boot, or the host does not tell".to_owned(),
            Some(_) => format!("/proc/stat; {:.1} % since boot", stolen * 100.0),
        })
    }

    fn open(&self, instruments: &Instruments, _: &Observed) -> Result<Box<dyn Reading>, Availability> {
        self.probe(instruments.host()).required()?;
        let (host, mut lap) = (instruments.host().clone(), Lap::new());
        Ok(Box::new(move |figures: &mut Figures| {
            let Some(ticks) = ProcessorTicks::read(&host) else { return };
            let stolen = lap.next(ticks, |now, earlier, _| now.since(earlier).stolen_share()).flatten();
            figures.notes.extend(stolen.and_then(stolen_note));
            figures.stolen = stolen;
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn guests_and_bare_metal() {
        let check = |stat: &str, flags: &str, available: bool, reason: &str| {
            let fake = FakeHost::new(&[("/proc/stat", stat)]);
            fake.write("/proc/cpuinfo", &format!("processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {flags}\n"));
            let found = Steal.probe(&fake.host());
            assert_eq!(found.available, available, "{found:?}");
            assert!(found.reason.contains(reason), "{found:?}");
        };
        check("cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1\n", "hypervisor", true, "10.0 % since boot");
        check("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1\n", "hypervisor", true, "does not tell");
        check("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1\n", "fpu", true, "no hypervisor");
        check("cpu  10 0 10 80\ncpu0 1\n", "fpu", false, "no column");
        check("", "fpu", false, "cannot be read");
    }
}
