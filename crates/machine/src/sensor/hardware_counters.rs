//! Whether hardware counters count.

use std::hint::black_box;

use crate::availability::Availability;
use crate::counters::{CounterReading, CounterSet, CountersUnavailable, Event, Plan, Watched, probe};
use crate::cpu_time::current_thread_id;
use crate::host::Host;
use crate::sensor::{Reader, Scope, Sensor};

/// Cycles, instructions and misses of threads, by `perf_event_open`.
#[derive(Debug)]
pub(super) struct HardwareCounters;

impl Sensor for HardwareCounters {
    fn name(&self) -> &'static str {
        "hardware counters"
    }

    fn figures(&self) -> &'static str {
        "cycles, instructions, cache misses, branch misses (events)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Thread, Scope::ProcessTree, Scope::ControlGroup]
    }

    fn probe(&self, host: &Host) -> Availability {
        counting(host)
    }

    fn reader(&self, _host: &Host) -> Reader {
        let watched = Watched::Threads(vec![current_thread_id()]);
        let counters = Plan::of_machine().and_then(|plan| CounterSet::open(&plan, &watched));
        let mut counters = counters.and_then(|mut counters| counters.enable().map(|()| counters)).ok();
        Box::new(move || {
            black_box(counters.as_mut().map(CounterSet::read));
        })
    }
}

/// Whether a little work was seen by the counters of this machine. Of another one nothing is known.
pub(super) fn counting(host: &Host) -> Availability {
    if !host.is_real() {
        return Availability::no("only the machine this process runs on can be asked for its counters", None);
    }
    judge(&probe())
}

/// Opening counters says little: virtual ones may open and stand still, so what counts is that cycles were counted.
fn judge(counted: &Result<CounterReading, CountersUnavailable>) -> Availability {
    match counted {
        Ok(reading) if reading.figure(Event::Cycles).is_some() => {
            let covered = format!("they count; coverage {:.0} %", reading.coverage() * 100.0);
            let notes = reading.notes.iter().map(|note| format!("; {note}"));
            Availability::yes(std::iter::once(covered).chain(notes).collect::<String>())
        }
        Ok(reading) => Availability::no(reading.notes.join("; "), Some("stop other profilers, or run on bare metal")),
        Err(unavailable) => Availability::no(unavailable.to_string(), unavailable.remedy().as_deref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::reading::tests::reading_of;

    #[test]
    fn counters_that_stand_still_are_not_available() {
        let note = "the counters open but stand still".to_owned();
        let still = judge(&Ok(CounterReading { notes: vec![note], ..CounterReading::default() }));
        assert!(!still.available && still.reason.contains("stand still"), "{still:?}");
        let counting = judge(&Ok(reading_of(&[(50, 50, &[("cycles", 5)]), (50, 50, &[])])));
        assert_eq!(counting, Availability::yes("they count; coverage 50 %"));
        let none = judge(&Err(CountersUnavailable::NoThreads { asked: 1 }));
        assert!(!none.available && none.reason.contains("none of the 1 threads"), "{none:?}");
    }
}
