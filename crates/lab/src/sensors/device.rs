//! What the devices did, and how much of the processors this process and a server's processes took.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use plimsoll_machine::cpu_time::process_cpu_time;
use plimsoll_machine::device::{DeviceSample, DeviceUse};
use plimsoll_machine::facts::cores_usable;
use plimsoll_machine::host::Host;
use plimsoll_machine::process_tree::TreeSample;
use plimsoll_machine::processor_time::stolen_note;

use crate::results::Device;

/// What the devices do, lap by lap.
#[derive(Debug)]
pub struct DeviceMeter {
    cores: usize,
    device: DeviceSample,
    processors: ProcessorSample,
    began: Instant,
}

impl DeviceMeter {
    /// Begins the first lap, with a server that consists of these processes and all that they start. This process is none
    /// of them.
    pub fn start(server: &[i32]) -> Self {
        DeviceMeter::with(ProcessorSample::read(server))
    }

    fn with(processors: ProcessorSample) -> Self {
        DeviceMeter { cores: cores_usable(), device: DeviceSample::read(), processors, began: Instant::now() }
    }

    /// Ends a lap, begins the next, and tells what the devices did in it.
    pub fn lap(&mut self) -> Device {
        // Why figures are missing is told of the whole window.
        self.lap_with(&mut BTreeSet::new())
    }

    /// As [`lap`](DeviceMeter::lap), with why figures are missing.
    pub fn lap_with(&mut self, warnings: &mut BTreeSet<String>) -> Device {
        let next = DeviceMeter::with(self.processors.again());
        let ended = std::mem::replace(self, next);
        let window = self.began.saturating_duration_since(ended.began);
        let used = self.processors.since(&ended.processors, window);
        let device = self.device.since(&ended.device, window);
        device_of(device, &used, window, self.cores, warnings)
    }
}

/// The processor time of this process and of a server's, up to one moment.
#[derive(Debug)]
struct ProcessorSample {
    own: Duration,
    server: Vec<TreeSample>,
}

/// What they used between two samples.
#[derive(Debug, Clone, Copy, Default)]
struct ProcessorUse {
    own: Duration,
    /// `None` if there is no server on this machine.
    server: Option<Duration>,
}

impl ProcessorSample {
    fn read(server: &[i32]) -> Self {
        let host = Host::real();
        let own = std::process::id().cast_signed();
        let trees = server.iter().filter(|process| **process != own);
        ProcessorSample {
            server: trees.filter_map(|process| TreeSample::read(&host, *process)).collect(),
            own: process_cpu_time(),
        }
    }

    fn again(&self) -> Self {
        ProcessorSample { server: self.server.iter().map(TreeSample::again).collect(), own: process_cpu_time() }
    }

    fn since(&self, earlier: &ProcessorSample, window: Duration) -> ProcessorUse {
        let used = |(now, then): (&TreeSample, &TreeSample)| {
            let used = now.since(then, window);
            used.run + used.run_ended
        };
        let server = self.server.iter().zip(&earlier.server).map(used).reduce(|sum, more| sum + more);
        ProcessorUse { own: self.own.saturating_sub(earlier.own), server }
    }
}

fn device_of(
    device: DeviceUse,
    used: &ProcessorUse,
    window: Duration,
    cores: usize,
    warnings: &mut BTreeSet<String>,
) -> Device {
    if device.io_busy.is_none() {
        warnings.insert("no disk figures: no whole disk is in both /proc/diskstats and /sys/block".to_owned());
    }
    warnings.extend(device.cpu_stolen.and_then(stolen_note));
    let cpu_time = window.as_secs_f64() * cores as f64;
    // The clocks are not read at one moment, so that a full machine may come out a little above 1.
    let share = |time: Duration| (cpu_time > 0.0).then(|| (time.as_secs_f64() / cpu_time).min(1.0));
    let both = used.own + used.server.unwrap_or_default();
    Device {
        cpu_busy: share(both),
        cpu_busy_clients: used.server.and_then(|_| share(used.own)),
        busy_cores_others: device.busy_cores.map(|busy| (busy - both.as_secs_f64() / window.as_secs_f64()).max(0.0)),
        io_busy: device.io_busy,
        read_mb_s: device.read_mb_s,
        write_mb_s: device.write_mb_s,
        dram_read_gb_s: None,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A process that works until it is dropped.
    struct Busy(Child);

    impl Drop for Busy {
        fn drop(&mut self) {
            self.0.kill().expect("it is ours");
            self.0.wait().expect("it is ours");
        }
    }

    #[test]
    fn the_server_s_part_is_told_apart() {
        let busy = Busy(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("there is a shell"));
        let server = busy.0.id().cast_signed();
        let mut meter = DeviceMeter::start(&[server, std::process::id().cast_signed()]);
        // Until it has had a core for long enough to be seen.
        let began = TreeSample::read(&Host::real(), server).expect("it runs");
        while began.again().since(&began, Duration::from_secs(1)).run < Duration::from_millis(30) {
            std::thread::yield_now();
        }
        let device = meter.lap();
        let (all, clients) = (device.cpu_busy.expect("known"), device.cpu_busy_clients.expect("there is a server"));
        assert!(all > clients && clients > 0.0, "{all} {clients}");
        assert_eq!(DeviceMeter::start(&[]).lap().cpu_busy_clients, None, "without a server all is this process's");
    }
}
