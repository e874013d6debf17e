//! Whether the kernel measures how long threads wait for block I/O, and how long that is.

use crate::availability::Availability;
use crate::block_io_delay::{DelayAccounting, DelaySample};
use crate::host::Host;
use crate::sensor::lap::Lap;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor};

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
        &[Scope::Thread]
    }

    fn probe(&self, host: &Host) -> Availability {
        DelayAccounting::read(host).availability()
    }

    fn open(&self, instruments: &Instruments, observed: &Observed) -> Result<Box<dyn Reading>, Availability> {
        let Observed::Threads(threads) = observed else {
            return Err(Availability::no("these times are of threads", None));
        };
        self.probe(instruments.host()).required()?;
        let (host, threads, mut lap) = (instruments.host().clone(), threads.clone(), Lap::new());
        Ok(Box::new(move |figures: &mut Figures| {
            let sample = DelaySample::read(&host, &threads);
            match lap.next(sample, |now, earlier, _| now.since(earlier)) {
                None => {}
                Some(Ok(waited)) => figures.block_io = Some(waited),
                Some(Err(why)) => figures.miss(BlockIoDelay.name(), why),
            }
        }))
    }
}
