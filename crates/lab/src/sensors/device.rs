//! The activity of the machine and its devices, and the share of the processors that this process and a server's
//! processes took.

use std::time::{Duration, Instant};

use plimsoll_machine::cpu_time::process_cpu_time;
use plimsoll_machine::facts::cores_usable;
use plimsoll_machine::sensor::{Figures, Instruments, Observed, Sensors};

use super::{Reasons, steady};
use crate::results::Device;

/// The processes of a database on this machine, and our own beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerProcesses {
    /// The processes that do its work; their descendants belong to it too. A database in this process names this
    /// process, which is not a server.
    pub server: Vec<i32>,
    /// The process through which clients connect to it, if there is one.
    pub proxy: Option<i32>,
    /// The processes that we run beside the workloads, such as hogs: they belong neither to the database nor to others.
    pub beside: Vec<i32>,
}

impl ServerProcesses {
    /// All of them and this process.
    pub(crate) fn all(&self) -> Vec<i32> {
        let own = std::process::id().cast_signed();
        self.server.iter().chain(&self.proxy).chain(&self.beside).copied().chain([own]).collect()
    }
}

/// The activity of the machine, lap by lap.
#[derive(Debug)]
pub struct DeviceMeter {
    cores: usize,
    machine: Sensors,
    /// The control group of the database, if it is on this machine.
    group: Option<Sensors>,
    server: Option<Sensors>,
    proxy: Option<Sensors>,
    beside: Option<Sensors>,
    own: Duration,
    began: Instant,
}

/// Suffix of the sensor's name for reasons about the database's group.
const OF_GROUP: &str = " of the group";

/// Suffix of the sensor's name for reasons about our processes beside the workloads.
const BESIDE: &str = " of hogs";

impl DeviceMeter {
    /// Begins the first lap, beside these processes.
    pub fn start(instruments: &Instruments, processes: &ServerProcesses) -> Self {
        let open = |observed: Observed| Sensors::open(instruments, &observed, steady);
        let own = std::process::id().cast_signed();
        let server: Vec<i32> = processes.server.iter().copied().filter(|process| *process != own).collect();
        let mut meter = DeviceMeter {
            cores: cores_usable(),
            machine: open(Observed::Machine),
            group: processes.server.first().map(|process| open(Observed::ControlGroup(*process))),
            server: (!server.is_empty()).then(|| open(Observed::Processes(server))),
            proxy: processes.proxy.map(|process| open(Observed::Processes(vec![process]))),
            beside: (!processes.beside.is_empty()).then(|| open(Observed::Processes(processes.beside.clone()))),
            own: Duration::ZERO,
            began: Instant::now(),
        };
        // The reasons for missing figures are reported at the end.
        meter.lap(&mut Reasons::default());
        meter
    }

    /// Must be called about once per second within a lap that is longer.
    pub fn second(&mut self) {
        self.machine.second();
    }

    /// Ends a lap, begins the next, and returns the activity of the machine in it. Adds reasons for missing figures.
    pub fn lap(&mut self, reasons: &mut Reasons) -> Device {
        let machine = self.machine.read();
        let group = self.group.as_mut().map(Sensors::read);
        let cpu_time = |sensors: &mut Option<Sensors>, of: &str, reasons: &mut Reasons| {
            let figures = sensors.as_mut()?.read();
            reasons.add(of, &figures);
            figures.cpu_time
        };
        let server = cpu_time(&mut self.server, "", reasons);
        let proxy = cpu_time(&mut self.proxy, "", reasons);
        let beside = match self.beside {
            Some(_) => cpu_time(&mut self.beside, BESIDE, reasons),
            None => Some(Duration::ZERO),
        };
        let (own, ended) = (process_cpu_time(), Instant::now());
        let used = CpuUse { own: own.saturating_sub(self.own), server, proxy, beside, window: ended - self.began };
        (self.own, self.began) = (own, ended);
        reasons.add("", &machine);
        if let Some(group) = &group {
            reasons.add(OF_GROUP, group);
        }
        if let Some(why) = machine.missing.get("devices") {
            reasons.warnings.insert(format!("no disk figures: {}", why.reason));
        }
        device_of(&machine, &group.unwrap_or_default(), &used, self.cores)
    }
}

/// CPU time in a lap.
#[derive(Debug, Clone, Copy)]
struct CpuUse {
    own: Duration,
    /// `None` if there is no server on this machine.
    server: Option<Duration>,
    /// `None` if there is nothing between clients and server.
    proxy: Option<Duration>,
    /// Of our processes beside the workloads; `None` if that is not known.
    beside: Option<Duration>,
    window: Duration,
}

fn device_of(machine: &Figures, group: &Figures, used: &CpuUse, cores: usize) -> Device {
    let window = used.window.as_secs_f64();
    let cpu_time = window * cores as f64;
    // The clocks are not read at the same moment, so a full machine may come out a little above 1.
    let share = |time: Duration| (cpu_time > 0.0).then(|| (time.as_secs_f64() / cpu_time).min(1.0));
    let all = used.own + used.server.unwrap_or_default() + used.proxy.unwrap_or_default();
    let devices = &machine.devices;
    Device {
        cpu_busy: share(all),
        cpu_busy_clients: used.server.and_then(|_| share(used.own)),
        cpu_busy_proxy: used.proxy.and_then(share),
        busy_cores_others: devices.busy_cores.zip(used.beside).map(|(busy, beside)| {
            let ours = (all + beside).as_secs_f64() / window;
            (busy - ours).max(0.0)
        }),
        stolen: machine.stolen,
        mhz: machine.mhz,
        io_busy: devices.io_busy,
        read_mb_s: devices.read.mb_s,
        write_mb_s: devices.write.mb_s,
        reads_per_s: devices.read.per_s,
        writes_per_s: devices.write.per_s,
        read_ms: devices.read.ms,
        write_ms: devices.write.ms,
        dram_read_gb_s: None,
        pressure: machine.pressure,
        cache: machine.cache,
        group: group.group,
        group_pressure: group.pressure,
        group_cache: group.cache,
        // Filled in from the database.
        freshness: None,
        learning: None,
        cache_switches: None,
        columns: None,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use plimsoll_machine::host::Host;
    use plimsoll_machine::process_tree::TreeSample;

    use super::*;

    fn lap(meter: &mut DeviceMeter) -> Device {
        meter.lap(&mut Reasons::default())
    }

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
        let mut meter = DeviceMeter::start(&Instruments::of(Host::real()), &processes(process));
        let began = TreeSample::read(&Host::real(), &[process]).expect("it runs");
        while began.again().since(&began).run < Duration::from_millis(30) {
            std::thread::yield_now();
        }
        lap(&mut meter)
    }

    #[test]
    fn a_proxy_is_told_apart_and_belongs_to_us() {
        let device =
            lap_beside_a_busy_process(|proxy| ServerProcesses { proxy: Some(proxy), ..ServerProcesses::default() });
        let (all, proxy) = (device.cpu_busy.expect("known"), device.cpu_busy_proxy.expect("there is one"));
        assert!(all >= proxy && proxy > 0.0, "{all} {proxy}");
        assert_eq!(device.cpu_busy_clients, None, "there is no server");
        assert_eq!(device.group, None, "no database is on this machine");
    }

    #[test]
    fn the_server_s_part_is_told_apart() {
        let own = std::process::id().cast_signed();
        let device = lap_beside_a_busy_process(|server| ServerProcesses {
            server: vec![server, own],
            ..ServerProcesses::default()
        });
        let (all, clients) = (device.cpu_busy.expect("known"), device.cpu_busy_clients.expect("there is a server"));
        assert!(all > clients && clients > 0.0, "{all} {clients}");
        let mut alone = DeviceMeter::start(&Instruments::of(Host::real()), &ServerProcesses::default());
        assert_eq!(lap(&mut alone).cpu_busy_clients, None, "without a server all is this process's");
    }

    /// Cores that others kept busy, if the machine had 1.9 busy and this process half a core; `beside` is the CPU time
    /// of a hog.
    fn others(busy: Option<f64>, beside: Option<Duration>) -> Option<f64> {
        let mut machine = Figures::default();
        machine.devices.busy_cores = busy;
        let window = Duration::from_secs(2);
        let used = CpuUse { own: Duration::from_secs(1), server: None, proxy: None, beside, window };
        let device = device_of(&machine, &Figures::default(), &used, 2);
        assert_eq!(device.cpu_busy, Some(0.25), "a hog's time is not the workloads'");
        device.busy_cores_others.map(|cores| (cores * 100.0).round() / 100.0)
    }

    #[test]
    fn a_hog_of_ours_is_none_of_the_others() {
        assert_eq!(others(Some(1.9), Some(Duration::ZERO)), Some(1.4));
        assert_eq!(others(Some(1.9), Some(Duration::from_secs(2))), Some(0.4), "true disturbance is seen beside it");
        assert_eq!(others(Some(1.4), Some(Duration::from_secs(2))), Some(0.0), "clocks are not read at one moment");
        assert_eq!(others(Some(1.9), None), None, "what a hog took is not known");
        assert_eq!(others(None, Some(Duration::ZERO)), None);
    }

    #[test]
    fn what_runs_beside_the_workloads_is_watched() {
        let device =
            lap_beside_a_busy_process(|hog| ServerProcesses { beside: vec![hog], ..ServerProcesses::default() });
        assert!(device.cpu_busy_clients.is_none() && device.group.is_none(), "it is no server: {device:?}");
        assert!(device.busy_cores_others.is_some(), "{device:?}");
        // A process that has ended can no longer be distinguished from others.
        let mut ended = Command::new("true").spawn().expect("there is one");
        ended.wait().expect("it ends");
        let beside = vec![ended.id().cast_signed()];
        let processes = ServerProcesses { beside, ..ServerProcesses::default() };
        let mut meter = DeviceMeter::start(&Instruments::of(Host::real()), &processes);
        let mut reasons = Reasons::default();
        assert_eq!(meter.lap(&mut reasons).busy_cores_others, None);
        assert!(reasons.unmeasured.keys().any(|sensor| sensor.ends_with(BESIDE)), "{:?}", reasons.unmeasured);
    }

    /// A sensor has either a figure or a reason.
    #[test]
    fn figures_of_this_machine_are_there_or_explained() {
        let own = ServerProcesses { server: vec![std::process::id().cast_signed()], ..ServerProcesses::default() };
        let mut meter = DeviceMeter::start(&Instruments::of(Host::real()), &own);
        std::thread::sleep(Duration::from_millis(30));
        let mut reasons = Reasons::default();
        let device = meter.lap(&mut reasons);
        let check = |sensor: &str, is_there: bool| {
            let why = reasons.unmeasured.get(sensor);
            assert!(is_there || why.is_some_and(|why| !why.reason.is_empty()), "{sensor}: {device:?}");
        };
        check("pressure", device.pressure.is_some());
        check("frequency", device.mhz.is_some());
        check("steal", device.stolen.is_some());
        check("devices", device.io_busy.is_some());
        check("resctrl monitoring", device.cache.is_some());
        check("control groups of the group", device.group.is_some());
        check("pressure of the group", device.group_pressure.is_some());
        check("resctrl monitoring of the group", device.group_cache.is_some());
        let used = reasons.warnings;
        assert_eq!(used.iter().any(|warning| warning.starts_with("no disk figures")), device.io_busy.is_none());
    }
}
