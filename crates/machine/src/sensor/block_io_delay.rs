//! Whether the kernel measures how long threads wait for block I/O.

use std::hint::black_box;

use crate::availability::Availability;
use crate::cpu_time::current_thread_id;
use crate::host::Host;
use crate::process_tree::DelayAccounting;
use crate::process_tree::stat::Stat;
use crate::sensor::{Reader, Scope, Sensor};

/// Waiting for block I/O, by the kernel's delay accounting.
#[derive(Debug)]
pub(super) struct BlockIoDelay;

impl Sensor for BlockIoDelay {
    fn name(&self) -> &'static str {
        "block I/O delay"
    }

    fn figures(&self) -> &'static str {
        "waiting for block I/O (ticks of 10 ms)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Thread, Scope::ProcessTree]
    }

    fn probe(&self, host: &Host) -> Availability {
        DelayAccounting::read(host).availability()
    }

    fn reader(&self, host: &Host) -> Reader {
        let host = host.clone();
        Box::new(move || {
            black_box(Stat::read(&host, format!("/proc/self/task/{}/stat", current_thread_id())));
        })
    }
}
