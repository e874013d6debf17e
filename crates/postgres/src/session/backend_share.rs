//! The CPU share of a session's process on the server: its nice value, and that of its autogroup if there are
//! autogroups, because each process of a server is one.

use std::sync::Arc;

use parking_lot::Mutex;
use plimsoll_machine::host::Host;
use plimsoll_machine::process_share::ProcessFacts;
use plimsoll_policy::{CpuScheduler, Priority};

/// Warnings about unavailable controls and facts, each reported once.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds a warning that was not reported before.
    pub fn tell(&self, warning: String) {
        let mut told = self.0.lock();
        if !told.contains(&warning) {
            told.push(warning);
        }
    }

    /// All of them.
    pub fn told(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// Applies the decisions of a CPU scheduler to one process of the server. Workers of a parallel query are other
/// processes and keep their original share.
#[derive(Debug)]
pub(super) struct BackendShare {
    scheduler: &'static dyn CpuScheduler,
    process: Option<i32>,
    host: Host,
    /// The original share; the scheduler's nice values are added to it. `None` if the share is never changed.
    born: Option<ProcessFacts>,
    now: i32,
    warnings: Warnings,
}

impl BackendShare {
    pub(super) fn new(scheduler: &'static dyn CpuScheduler, process: Option<i32>, warnings: Warnings) -> Self {
        let mut levels = (0..=u8::MAX).filter_map(Priority::of_level);
        let is_flat = levels.all(|level| scheduler.nice(level) == scheduler.nice(Priority::LOW));
        let host = Host::real();
        let born = process.filter(|_| !is_flat).and_then(|process| ProcessFacts::of(&host, process));
        if !is_flat && born.is_none() {
            let name = scheduler.name();
            warnings.tell(format!("cpu_policy={name} does nothing: the server's processes are not of this machine"));
        }
        let now = born.as_ref().map_or(0, |born| born.share.nice);
        BackendShare { scheduler, process, host, born, now, warnings }
    }

    /// The process, if it is one of this machine.
    pub(super) fn process(&self) -> Option<i32> {
        self.process
    }

    /// From now on it works for that priority.
    pub(super) fn set(&mut self, priority: Priority) {
        let Some(born) = &self.born else { return };
        let wanted = (born.share.nice + self.scheduler.nice(priority)).clamp(-20, 19);
        if wanted == self.now {
            return;
        }
        match born.share.with_nice(wanted).give(&self.host, born.identity) {
            Ok(()) => self.now = wanted,
            Err(error) => {
                let name = self.scheduler.name();
                self.warnings.tell(format!(
                    "cpu_policy={name}: a process of the server cannot be given nice {wanted} ({error}); run as root or with \
                     CAP_SYS_NICE"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, getpriority_process};

    use super::*;

    #[test]
    fn a_process_gets_the_nice_value_of_its_priority() {
        let scheduler = plimsoll_policy::cpu_scheduler("cpu-prio").unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let process = child.id().cast_signed();
        let nice = || getpriority_process(Pid::from_raw(process)).unwrap();
        let (warnings, base) = (Warnings::default(), nice());
        let mut share = BackendShare::new(scheduler, Some(process), warnings.clone());
        share.set(Priority::LOW);
        assert_eq!(nice(), (base + scheduler.nice(Priority::LOW)).min(19));
        share.set(Priority::HIGH);
        // Only a privileged process can lower a nice value again.
        assert!(nice() == base || warnings.told().len() == 1, "{:?}", warnings.told());
        child.kill().unwrap();
        child.wait().unwrap();

        let warnings = Warnings::default();
        for _ in 0..2 {
            BackendShare::new(scheduler, None, warnings.clone()).set(Priority::LOW);
        }
        assert_eq!(warnings.told().len(), 1, "told once");
        let none = plimsoll_policy::cpu_scheduler("none").unwrap();
        BackendShare::new(none, None, warnings.clone());
        assert_eq!(warnings.told().len(), 1, "who asks for nothing misses nothing");
    }
}
