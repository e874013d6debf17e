//! Whether the time of a process and its descendants can be told apart.

use std::hint::black_box;

use crate::availability::Availability;
use crate::host::Host;
use crate::process_tree::TreeSample;
use crate::sensor::{Reader, Scope, Sensor, thread_times};

/// Running, waiting and sleeping of all threads of a process and its descendants.
#[derive(Debug)]
pub(super) struct ProcessTreeTimes;

impl Sensor for ProcessTreeTimes {
    fn name(&self) -> &'static str {
        "process tree time"
    }

    fn figures(&self) -> &'static str {
        "on a core, waiting for one, the rest (ns)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::ProcessTree]
    }

    fn probe(&self, host: &Host) -> Availability {
        match own_tree(host) {
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

    fn reader(&self, host: &Host) -> Reader {
        let host = host.clone();
        Box::new(move || {
            black_box(own_tree(&host));
        })
    }
}

/// The tree of this process.
fn own_tree(host: &Host) -> Option<TreeSample> {
    let own = host.text("/proc/self/stat")?.split_whitespace().next()?.parse().ok()?;
    TreeSample::read(host, own)
}
