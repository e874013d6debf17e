//! The time of all processors since boot, in clock ticks: busy, idle, or stolen by the host of a guest.

use crate::host::Host;

/// Clock ticks summed over all cores, from `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorTicks {
    /// Not idle and not waiting for I/O, stolen time included, because a process of this guest wanted the core.
    pub busy: u64,
    /// Stolen by the host of this guest while a process here wanted the core; `None` if the kernel has no such figure.
    pub stolen: Option<u64>,
    /// All ticks.
    pub all: u64,
    /// Cores that are online.
    pub cores: usize,
}

/// A host that takes more than this share of the cores' time disturbs measurements: differences of a few per cent, as
/// experiments measure, may then come from the host.
const STOLEN_NOTE_MIN: f64 = 0.02;

impl ProcessorTicks {
    /// Reads the ticks. `None` if the file cannot be parsed.
    pub fn read(host: &Host) -> Option<ProcessorTicks> {
        let text = host.text("/proc/stat")?;
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        // user nice system idle iowait irq softirq steal guest guest_nice; the guest times are within user and nice.
        let [_, _, _, idle, rest @ ..] = ticks.as_slice() else { return None };
        let all: u64 = ticks.iter().take(8).sum();
        let idle = idle + rest.first().copied().unwrap_or(0);
        let is_core =
            |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        Some(ProcessorTicks {
            busy: all.saturating_sub(idle),
            stolen: ticks.get(7).copied(),
            all,
            cores: text.lines().filter(is_core).count(),
        })
    }

    /// The ticks added since `earlier`. The kernel's sums may decrease a little when cores go online and offline.
    pub fn since(&self, earlier: &ProcessorTicks) -> ProcessorTicks {
        ProcessorTicks {
            busy: self.busy.saturating_sub(earlier.busy),
            stolen: self.stolen.zip(earlier.stolen).map(|(now, then)| now.saturating_sub(then)),
            all: self.all.saturating_sub(earlier.all),
            cores: self.cores,
        }
    }

    /// Share of the cores' time that was stolen, 0 to 1.
    pub(crate) fn stolen_share(&self) -> Option<f64> {
        share(self.stolen? as f64, self.all as f64)
    }

    /// Share of the cores' time in which they were busy, 0 to 1.
    pub fn busy_share(&self) -> Option<f64> {
        share(self.busy as f64, self.all as f64)
    }
}

/// The note on a share of stolen time; `None` if it is too small to report.
pub(crate) fn stolen_note(share: f64) -> Option<String> {
    (share > STOLEN_NOTE_MIN).then(|| {
        format!(
            "the host of this guest took {:.1} % of the cores' time for others, which is noise in every figure; ask for \
             dedicated cores",
            share * 100.0
        )
    })
}

/// `part / whole`, at most 1: the two may come from clocks of different grain. `None` if there is no whole.
pub(crate) fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| (part / whole).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    fn ticks(line: &str) -> Option<ProcessorTicks> {
        ProcessorTicks::read(&FakeHost::new(&[("/proc/stat", line)]).host())
    }

    #[test]
    fn old_and_new_kernels() {
        let check = |stat: &str, expect: Option<(u64, Option<u64>, u64)>| {
            assert_eq!(ticks(stat).map(|ticks| (ticks.busy, ticks.stolen, ticks.all)), expect, "{stat}");
        };
        check("cpu  1 2 3 4\ncpu0 1 2 3 4\n", Some((6, None, 10)));
        check("cpu  10 0 10 60 10 2 3 5 9 9\ncpu0 1\ncpu1 1\n", Some((30, Some(5), 100)));
        check("cpu  10 0 10\n", None);
        check("cpu  10 x 10 1\n", None);
        check("intr 1\n", None);
    }

    #[test]
    fn a_host_that_takes_time_is_told_of() {
        let earlier = ticks("cpu  10 0 10 60 10 2 3 5 9 9\n").expect("a line of ticks");
        let later = ticks("cpu  40 0 20 100 20 2 3 15 9 9\n").expect("a line of ticks");
        let share = later.since(&earlier).stolen_share().expect("a column of stolen time");
        assert!((share - 0.1).abs() < 1e-12, "{share}");
        assert!(stolen_note(share).is_some_and(|note| note.contains("10.0 %")));
        assert_eq!(stolen_note(0.02), None);
        assert_eq!(later.since(&later).stolen_share(), None, "no time has passed");
    }
}
