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

/// The processes of a server on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerProcesses {
    /// Those that do its work; those that they start belong to it too. This process is none of them, also where it is named.
    pub server: Vec<i32>,
    /// The one through which clients come to it, if there is one.
    pub proxy: Option<i32>,
}

/// What the devices do, lap by lap.
#[derive(Debug)]
pub struct DeviceMeter {
    cores: usize,
    device: DeviceSample,
    processors: ProcessorSample,
    began: Instant,
}

impl DeviceMeter {
    /// Begins the first lap, beside these processes.
    pub fn start(processes: &ServerProcesses) -> Self {
        DeviceMeter::with(ProcessorSample::read(processes))
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
    proxy: Option<TreeSample>,
}

/// What they used between two samples.
#[derive(Debug, Clone, Copy, Default)]
struct ProcessorUse {
    own: Duration,
    /// `None` if there is no server on this machine.
    server: Option<Duration>,
    /// `None` if there is nothing between clients and server.
    proxy: Option<Duration>,
}

impl ProcessorSample {
    fn read(processes: &ServerProcesses) -> Self {
        let host = Host::real();
        let own = std::process::id().cast_signed();
        let trees = processes.server.iter().filter(|process| **process != own);
        ProcessorSample {
            server: trees.filter_map(|process| TreeSample::read(&host, *process)).collect(),
            proxy: processes.proxy.and_then(|process| TreeSample::read(&host, process)),
            own: process_cpu_time(),
        }
    }

    fn again(&self) -> Self {
        ProcessorSample {
            server: self.server.iter().map(TreeSample::again).collect(),
            proxy: self.proxy.as_ref().map(TreeSample::again),
            own: process_cpu_time(),
        }
    }

    fn since(&self, earlier: &ProcessorSample, window: Duration) -> ProcessorUse {
        let used = |(now, then): (&TreeSample, &TreeSample)| {
            let used = now.since(then, window);
            used.run + used.run_ended
        };
        let server = self.server.iter().zip(&earlier.server).map(used).reduce(|sum, more| sum + more);
        let proxy = self.proxy.as_ref().zip(earlier.proxy.as_ref()).map(used);
        ProcessorUse { own: self.own.saturating_sub(earlier.own), server, proxy }
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
    let all = used.own + used.server.unwrap_or_default() + used.proxy.unwrap_or_default();
    Device {
        cpu_busy: share(all),
        cpu_busy_clients: used.server.and_then(|_| share(used.own)),
        cpu_busy_proxy: used.proxy.and_then(share),
        busy_cores_others: device.busy_cores.map(|busy| (busy - all.as_secs_f64() / window.as_secs_f64()).max(0.0)),
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

    /// Starts a process and waits until a meter that sees it as `processes` says must see that it has had a core.
    fn lap_beside_a_busy_process(processes: impl FnOnce(i32) -> ServerProcesses) -> Device {
        let busy = Busy(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("there is a shell"));
        let process = busy.0.id().cast_signed();
        let mut meter = DeviceMeter::start(&processes(process));
        let began = TreeSample::read(&Host::real(), process).expect("it runs");
        while began.again().since(&began, Duration::from_secs(1)).run < Duration::from_millis(30) {
            std::thread::yield_now();
        }
        meter.lap()
    }

    #[test]
    fn a_proxy_is_told_apart_and_belongs_to_us() {
        let device = lap_beside_a_busy_process(|proxy| ServerProcesses { server: Vec::new(), proxy: Some(proxy) });
        let (all, proxy) = (device.cpu_busy.expect("known"), device.cpu_busy_proxy.expect("there is one"));
        assert!(all >= proxy && proxy > 0.0, "{all} {proxy}");
        assert_eq!(device.cpu_busy_clients, None, "there is no server");
    }

    #[test]
    fn the_server_s_part_is_told_apart() {
        let own = std::process::id().cast_signed();
        let device = lap_beside_a_busy_process(|server| ServerProcesses { server: vec![server, own], proxy: None });
        let (all, clients) = (device.cpu_busy.expect("known"), device.cpu_busy_clients.expect("there is a server"));
        assert!(all > clients && clients > 0.0, "{all} {clients}");
        assert_eq!(
            DeviceMeter::start(&ServerProcesses::default()).lap().cpu_busy_clients,
            None,
            "without a server all is this process's"
        );
    }
}
