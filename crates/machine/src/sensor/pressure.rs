//! Whether the kernel keeps pressure stall information.

use std::hint::black_box;

use crate::availability::Availability;
use crate::host::Host;
use crate::pressure::PressureSample;
use crate::sensor::{Reader, Scope, Sensor};

/// Time in which somebody, or everybody, waited for a resource.
#[derive(Debug)]
pub(super) struct PressureStalls;

impl Sensor for PressureStalls {
    fn name(&self) -> &'static str {
        "pressure"
    }

    fn figures(&self) -> &'static str {
        "some or all tasks stalled for CPU, memory or I/O (share of time)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::ControlGroup, Scope::Machine]
    }

    fn probe(&self, host: &Host) -> Availability {
        if PressureSample::read(host).is_some() {
            return Availability::yes("/proc/pressure; of groups, *.pressure of cgroup version 2");
        }
        match host.exists("/proc/pressure") {
            true => Availability::no("/proc/pressure is there and cannot be read", Some("boot with psi=1")),
            false => Availability::no(
                "the kernel has no /proc/pressure: pressure stall information is off",
                Some("boot with psi=1 (a kernel with CONFIG_PSI, 4.20 or later)"),
            ),
        }
    }

    fn reader(&self, host: &Host) -> Reader {
        let host = host.clone();
        Box::new(move || {
            black_box(PressureSample::read(&host));
        })
    }
}
