//! Keeps idle cores awake: asks the kernel for the idle state from which a core returns at once.
//!
//! A sleeping core takes microseconds to wake on bare metal, and tens of them in a virtual machine, where the host must
//! wake it. A chain of short statements wakes a core several times per statement. The kernel's quality-of-service
//! interface for idle states (Documentation/power/pm_qos_interface.rst) takes a bound on that time: with 0 an idle core
//! polls for work, and runs any process at once. The request ends with the open file, so a process that is killed
//! leaves nothing behind.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use crate::availability::Availability;
use crate::host::Host;

/// The interface: a bound in microseconds, 32 bits.
const FILE: &str = "/dev/cpu_dma_latency";

/// No bound: the kernel's default (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`, 2000 s).
const ANY_US: i32 = 2_000_000_000;

const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// This process's request to the kernel.
#[derive(Debug)]
pub struct IdleLatency {
    file: File,
}

impl IdleLatency {
    /// Opens the interface without requesting anything yet. The error has the reason and a remedy.
    pub fn open(host: &Host) -> Result<IdleLatency, Availability> {
        match host.text(DRIVER).as_deref() {
            None | Some("none" | "") => {
                return Err(Availability::no(
                    "the kernel has no driver for idle states here (cpuidle), so that cores sleep in one way only",
                    Some("in a KVM guest: modprobe cpuidle_haltpoll"),
                ));
            }
            Some(_) => {}
        }
        let opened = OpenOptions::new().write(true).open(host.path(FILE));
        let file = opened.map_err(|error| {
            Availability::no(format!("{FILE}: {error}"), Some("run as root, or let this user write the file"))
        })?;
        let mut latency = IdleLatency { file };
        // The kernel treats an open file as a request without a bound; writing no bound shows whether it accepts
        // requests.
        latency
            .request(ANY_US)
            .map_err(|error| Availability::no(format!("{FILE} cannot be written: {error}"), None))?;
        Ok(latency)
    }

    /// Keeps idle cores awake from now on, or lets them sleep as other requests permit.
    pub fn keep_awake(&mut self, awake: bool) -> io::Result<()> {
        self.request(if awake { 0 } else { ANY_US })
    }

    fn request(&mut self, us: i32) -> io::Result<()> {
        self.file.write_all(&us.to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use plimsoll_testing::{Need, skip};

    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn bounds_are_written_as_the_kernel_reads_them() {
        let fake = FakeHost::new(&[(DRIVER, "intel_idle\n"), (FILE, "")]);
        let mut latency = IdleLatency::open(&fake.host()).unwrap();
        latency.keep_awake(true).unwrap();
        latency.keep_awake(false).unwrap();
        let written = std::fs::read(fake.host().path(FILE)).unwrap();
        let requests: Vec<i32> = written.chunks(4).map(|bytes| i32::from_ne_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!(requests, [2_000_000_000, 0, 2_000_000_000]);
    }

    /// The combined request of all processes. Closing the file ends a request, which the kernel does for a killed
    /// process.
    #[test]
    fn a_request_ends_with_its_file() {
        let mut latency = match IdleLatency::open(&Host::real()) {
            Ok(latency) => latency,
            Err(why) if why.reason.starts_with(FILE) => return skip(Need::Root, why.reason),
            Err(_) => return,
        };
        let asked_for = || {
            let mut bytes = [0; 4];
            File::open(FILE).and_then(|mut file| file.read_exact(&mut bytes)).unwrap();
            i32::from_ne_bytes(bytes)
        };
        let before = asked_for();
        latency.keep_awake(true).unwrap();
        assert_eq!(asked_for(), 0);
        latency.keep_awake(false).unwrap();
        assert_eq!(asked_for(), before);
        latency.keep_awake(true).unwrap();
        drop(latency);
        assert_eq!(asked_for(), before);
    }

    #[test]
    fn what_is_missing_is_told() {
        let why = |files: &[(&str, &str)]| IdleLatency::open(&FakeHost::new(files).host()).unwrap_err();
        assert!(why(&[]).reason.contains("no driver"));
        assert!(why(&[(DRIVER, "none\n"), (FILE, "")]).remedy.unwrap().contains("haltpoll"));
        assert!(why(&[(DRIVER, "haltpoll\n")]).reason.contains(FILE));
    }
}
