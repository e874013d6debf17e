//! Cache occupancy and memory traffic of groups, and whether the processor reports them.

use crate::availability::Availability;
use crate::groups::resctrl::{CacheSample, Resctrl, absent};
use crate::host::Host;
use crate::sensor::lap::Lap;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor};

/// Cache occupancy and memory traffic by resctrl groups.
#[derive(Debug)]
pub(super) struct ResctrlMonitoring;

/// The kernel's names for what the processor can count: cache occupancy, all memory traffic, that of the own socket.
const FLAGS: [&str; 3] = ["cqm_occup_llc", "cqm_mbm_total", "cqm_mbm_local"];

impl Sensor for ResctrlMonitoring {
    fn name(&self) -> &'static str {
        "resctrl monitoring"
    }

    fn figures(&self) -> &'static str {
        "last-level cache held (MiB), memory traffic (MB/s)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::ControlGroup, Scope::Machine]
    }

    fn probe(&self, host: &Host) -> Availability {
        let resctrl = match Resctrl::open(host) {
            Ok(resctrl) => resctrl,
            Err(absent) => return absent,
        };
        let Some(monitoring) = &resctrl.capabilities().monitoring else {
            let otherwise = "resctrl is mounted and counts nothing (no info/L3_MON)";
            return absent::missing(host, &FLAGS, "cmt", otherwise);
        };
        let counted = [
            (monitoring.occupancy, "cache occupancy"),
            (monitoring.total_bytes, "all memory traffic"),
            (monitoring.local_bytes, "traffic of the own domain"),
        ];
        let counted: Vec<&str> = counted.iter().filter(|(is_counted, _)| *is_counted).map(|(_, name)| *name).collect();
        match counted.as_slice() {
            [] => Availability::no("resctrl is mounted and counts nothing that is known here", None),
            counted => Availability::yes(format!("{} of {} groups", counted.join(", "), monitoring.groups_max)),
        }
    }

    fn open(&self, instruments: &Instruments, observed: &Observed) -> Result<Box<dyn Reading>, Availability> {
        self.probe(instruments.host()).required()?;
        let resctrl = Resctrl::open(instruments.host())?;
        let group = match observed {
            Observed::ControlGroup(process) => {
                let gone = || Availability::no("the process is in no group of resctrl", None);
                Some(resctrl.group_of(*process).ok_or_else(gone)?)
            }
            _ => None,
        };
        let mut lap = Lap::new();
        Ok(Box::new(move |figures: &mut Figures| {
            let sample = match &group {
                Some(group) => CacheSample::read(std::slice::from_ref(group)),
                None => CacheSample::read(&resctrl.groups()),
            };
            figures.cache = lap.next(sample, CacheSample::since);
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn all_groups_of_the_machine_and_the_one_of_a_process() {
        let fake = FakeHost::new(&[
            ("/proc/self/mountinfo", "50 31 0:44 / /sys/fs/resctrl rw - resctrl resctrl rw\n"),
            ("/sys/fs/resctrl/info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\n"),
            ("/sys/fs/resctrl/info/L3_MON/num_rmids", "8\n"),
            ("/sys/fs/resctrl/tasks", "1\n"),
            ("/sys/fs/resctrl/plimsoll-1/tasks", "7\n"),
        ]);
        let write = |group: &str, held: u64, moved: &str| {
            let folder = format!("/sys/fs/resctrl/{group}mon_data/mon_L3_00");
            fake.write(&format!("{folder}/llc_occupancy"), &format!("{}\n", held << 20));
            fake.write(&format!("{folder}/mbm_total_bytes"), moved);
        };
        write("", 4, "1000\n");
        write("plimsoll-1/", 2, "500\n");
        let instruments = Instruments::of(fake.host());
        let open = |observed| ResctrlMonitoring.open(&instruments, &observed).expect("it is mounted");
        let (mut all, mut one) = (open(Observed::Machine), open(Observed::ControlGroup(7)));
        let read = |reading: &mut Box<dyn Reading>| {
            let mut figures = Figures::default();
            reading.read(&mut figures);
            figures.cache
        };
        assert_eq!((read(&mut all), read(&mut one)), (None, None), "nothing is before the first");
        write("plimsoll-1/", 3, "2500\n");
        let (all_used, one_used) = (read(&mut all).expect("known"), read(&mut one).expect("known"));
        assert_eq!((all_used.held_mib, one_used.held_mib), (Some(7.0), Some(3.0)));
        assert!(all_used.memory_mb_s > Some(0.0) && one_used.memory_mb_s > Some(0.0));
        // A group that the processor does not track at the moment is unknown.
        write("", 4, "Unavailable\n");
        assert_eq!(read(&mut all).expect("known").memory_mb_s, None);
        assert!(ResctrlMonitoring.open(&instruments, &Observed::ControlGroup(99)).is_err_and(|why| !why.available));
    }
}
