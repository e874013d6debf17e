//! The time of a process and its descendants, and whether it can be measured.

use crate::availability::Availability;
use crate::host::Host;
use crate::process_tree::TreeSample;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor, thread_times};

/// CPU time of processes and everything they start.
#[derive(Debug)]
pub(super) struct ProcessTreeTime;

impl Sensor for ProcessTreeTime {
    fn name(&self) -> &'static str {
        "process tree time"
    }

    fn figures(&self) -> &'static str {
        "on a core (ns)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::ProcessTree]
    }

    fn probe(&self, host: &Host) -> Availability {
        let own = host.text("/proc/self/stat").and_then(|text| text.split_whitespace().next()?.parse().ok());
        match own.and_then(|own| TreeSample::read(host, &[own])) {
            None => Availability::no(
                "/proc shows no processes",
                Some("mount proc on /proc, without hidepid for the user of the processes to watch"),
            ),
            Some(tree) if !tree.keeps_times() => {
                Availability::no("the kernel keeps no /proc/PID/task/TID/schedstat", Some(thread_times::REMEDY))
            }
            Some(_) => Availability::yes("schedstat of every thread, CPU of ended ones from their processes"),
        }
    }

    fn open(&self, instruments: &Instruments, observed: &Observed) -> Result<Box<dyn Reading>, Availability> {
        let Observed::Processes(processes) = observed else {
            return Err(Availability::no("this time is of processes", None));
        };
        let gone = || Availability::no("none of the processes is there", None);
        // The tree at the last look, so that processes whose parent ended stay in it.
        let mut tree = TreeSample::read(instruments.host(), processes).ok_or_else(gone)?;
        let mut has_begun = false;
        Ok(Box::new(move |figures: &mut Figures| {
            let now = tree.again();
            if std::mem::replace(&mut has_begun, true) {
                let used = now.since(&tree);
                figures.cpu_time = Some(used.run + used.run_ended);
                figures.notes.extend(used.notes);
            }
            tree = now;
        }))
    }
}
