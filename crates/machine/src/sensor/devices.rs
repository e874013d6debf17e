//! Whether disks and processors can be watched.

use crate::availability::Availability;
use crate::device::DeviceSample;
use crate::host::Host;
use crate::sensor::lap::Lap;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor};

#[derive(Debug)]
pub(super) struct Devices;

impl Sensor for Devices {
    fn name(&self) -> &'static str {
        "devices"
    }

    fn figures(&self) -> &'static str {
        "busy (share), MB/s, operations/s, latency (ms) of disks; busy cores"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Device, Scope::Machine]
    }

    fn probe(&self, host: &Host) -> Availability {
        let sample = DeviceSample::read_from(host);
        let uncounted = sample.uncounted_disks();
        match (sample.disks().as_slice(), uncounted) {
            ([], []) => Availability::no(
                "no whole disk is in both /proc/diskstats and /sys/block",
                Some("mount /sys in the container"),
            ),
            ([], uncounted) => Availability::no(
                format!("the kernel does not count what {} do", uncounted.join(", ")),
                Some("as root: echo 1 > /sys/block/DISK/queue/iostats"),
            ),
            (disks, []) => Availability::yes(format!("/proc/stat, and /proc/diskstats of {}", disks.join(", "))),
            (disks, uncounted) => Availability::yes(format!(
                "/proc/stat, and /proc/diskstats of {}, but not of {}, whose queue/iostats is 0",
                disks.join(", "),
                uncounted.join(", ")
            )),
        }
    }

    fn open(&self, instruments: &Instruments, _: &Observed) -> Result<Box<dyn Reading>, Availability> {
        // Processors are reported even where there is no disk.
        let why_no_disk = self.probe(instruments.host()).required().err();
        let (host, mut lap) = (instruments.host().clone(), Lap::new());
        Ok(Box::new(move |figures: &mut Figures| {
            figures.devices = lap.next(DeviceSample::read_from(&host), DeviceSample::since).unwrap_or_default();
            if let Some(why) = &why_no_disk {
                figures.miss(Devices.name(), why.clone());
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn disks_that_are_not_counted_are_named() {
        let fake = FakeHost::new(&[
            ("/proc/diskstats", "254 0 vda 1 0 8 1 1 0 8 1 0 1 1\n8 0 sda 0 0 0 0 0 0 0 0 0 0 0\n"),
            ("/sys/block/vda/device/vendor", "x"),
            ("/sys/block/sda/device/vendor", "x"),
            ("/sys/block/sda/queue/iostats", "0\n"),
        ]);
        let some = Devices.probe(&fake.host());
        assert!(some.available && some.reason.contains("of vda, but not of sda"), "{some:?}");
        fake.write("/sys/block/vda/queue/iostats", "0\n");
        let none = Devices.probe(&fake.host());
        assert!(!none.available && none.remedy.is_some_and(|remedy| remedy.contains("iostats")), "{}", none.reason);
    }
}
