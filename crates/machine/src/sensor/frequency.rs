//! Whether the speed of cores can be seen.

use std::hint::black_box;

use crate::availability::Availability;
use crate::frequency::Frequencies;
use crate::host::Host;
use crate::sensor::{Reader, Scope, Sensor};

/// How fast cores run.
#[derive(Debug)]
pub(super) struct CoreFrequencies;

impl Sensor for CoreFrequencies {
    fn name(&self) -> &'static str {
        "frequency"
    }

    fn figures(&self) -> &'static str {
        "of each core (MHz), governor, boost"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Machine]
    }

    fn probe(&self, host: &Host) -> Availability {
        match Frequencies::read(host) {
            Ok(frequencies) => Availability::yes(frequencies.to_string()),
            Err(unavailable) => unavailable,
        }
    }

    fn reader(&self, host: &Host) -> Reader {
        let host = host.clone();
        Box::new(move || {
            black_box(Frequencies::read(&host).is_ok());
        })
    }
}
