//! Hardware counters, by `perf_event_open`; also the top-down breakdown, which is computed from the counts.

use crate::availability::Availability;
use crate::counters::{CounterReading, CounterSet, CountersUnavailable, Event, Watched, probe};
use crate::groups::Cgroups;
use crate::host::Host;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor};

/// Cycles, instructions and misses of threads, and where the slots of their cores went.
#[derive(Debug)]
pub(super) struct HardwareCounters;

const NAME: &str = "hardware counters";

impl Sensor for HardwareCounters {
    fn name(&self) -> &'static str {
        NAME
    }

    fn figures(&self) -> &'static str {
        "cycles, instructions, cache misses, branch misses (events); top-down (shares)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Thread, Scope::ProcessTree, Scope::ControlGroup]
    }

    fn probe(&self, host: &Host) -> Availability {
        if !host.is_real() {
            return Availability::no("only the machine this process runs on can be asked for its counters", None);
        }
        judge(&probe())
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn open(&self, instruments: &Instruments, observed: &Observed) -> Result<Box<dyn Reading>, Availability> {
        let plan = instruments.counters()?;
        let watched = match observed {
            Observed::Threads(threads) => vec![Watched::Threads(threads.clone())],
            Observed::Processes(processes) => processes.iter().copied().map(Watched::ProcessTree).collect(),
            Observed::ControlGroup(process) => {
                let groups = Cgroups::of_process(instruments.host(), &process.to_string());
                let folder = groups.version_1_folder("perf_event").or(groups.version_2_folder());
                let none = || Availability::no("no control group that counters know is mounted", None);
                vec![Watched::ControlGroup(folder.ok_or_else(none)?.to_owned())]
            }
            Observed::Machine => return Err(Availability::no("counters are of threads, processes and groups", None)),
        };
        let sets = watched.iter().map(|watched| CounterSet::open(plan, watched)).collect::<Result<_, _>>();
        Ok(Box::new(Counting { sets: sets.map_err(|why| unavailable(&why))?, is_counting: false }))
    }
}

struct Counting {
    sets: Vec<CounterSet>,
    is_counting: bool,
}

impl Reading for Counting {
    fn second(&mut self) {
        self.sets.iter_mut().for_each(CounterSet::rotate);
    }

    fn read(&mut self, figures: &mut Figures) {
        if self.is_counting {
            figures.counters = self.sets.iter_mut().map(CounterSet::read).reduce(|sum, more| sum + more);
            return;
        }
        self.is_counting = true;
        if let Err(why) = self.sets.iter_mut().try_for_each(CounterSet::enable) {
            self.sets.clear();
            figures.miss(NAME, unavailable(&why));
        }
    }
}

/// Why there are no counters, with the remedy.
pub(super) fn unavailable(why: &CountersUnavailable) -> Availability {
    Availability::no(why.to_string(), why.remedy().as_deref())
}

/// Opening counters proves little: virtual ones may open and stand still, so the test is that cycles were counted.
fn judge(counted: &Result<CounterReading, CountersUnavailable>) -> Availability {
    match counted {
        Ok(reading) if reading.figure(Event::Cycles).is_some() => {
            let covered = format!("they count; coverage {:.0} %", reading.coverage() * 100.0);
            let top_down = match reading.top_down() {
                Ok(split) if split.approximate => {
                    format!("; top-down: {} by {}, approximate", split.family, split.method)
                }
                Ok(split) => format!("; top-down: {} by {}", split.family, split.method),
                Err(why) => format!("; no top-down: {why}"),
            };
            let notes = reading.notes.iter().map(|note| format!("; {note}"));
            Availability::yes([covered, top_down].into_iter().chain(notes).collect::<String>())
        }
        Ok(reading) => Availability::no(reading.notes.join("; "), Some("stop other profilers, or run on bare metal")),
        Err(why) => unavailable(why),
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
        assert_eq!(counting, Availability::yes("they count; coverage 50 %; no top-down: the processor is not known"));
        let none = judge(&Err(CountersUnavailable::NoThreads(1)));
        assert!(!none.available && none.reason.contains("none of the 1 threads"), "{none:?}");
    }
}
