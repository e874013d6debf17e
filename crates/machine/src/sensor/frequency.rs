//! Whether the speed of cores can be seen.

use crate::availability::Availability;
use crate::frequency::Frequencies;
use crate::host::Host;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor};

#[derive(Debug)]
pub(super) struct CoreFrequencies;

impl Sensor for CoreFrequencies {
    fn name(&self) -> &'static str {
        "frequency"
    }

    fn figures(&self) -> &'static str {
        "of cores (MHz), governor, boost"
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

    fn open(&self, instruments: &Instruments, _: &Observed) -> Result<Box<dyn Reading>, Availability> {
        Frequencies::read(instruments.host())?;
        Ok(Box::new(Watching { host: instruments.host().clone(), seen: Vec::new() }))
    }
}

/// Speeds are of moments, so that those of each second are kept.
struct Watching {
    host: Host,
    /// MHz, on average over cores.
    seen: Vec<f64>,
}

impl Watching {
    fn look(&mut self) {
        self.seen.extend(Frequencies::read(&self.host).ok().map(|speeds| speeds.mean_mhz()));
    }
}

impl Reading for Watching {
    fn second(&mut self) {
        self.look();
    }

    fn read(&mut self, figures: &mut Figures) {
        let is_first = self.seen.is_empty();
        self.look();
        if !is_first && let Some(last) = self.seen.last().copied() {
            figures.mhz = Some(self.seen.iter().sum::<f64>() / self.seen.len() as f64);
            // Where the next window begins.
            self.seen = vec![last];
        }
    }
}
