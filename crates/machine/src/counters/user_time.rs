//! The user-mode share of threads' time on cores. Counters count in user mode only, while the time that the kernel
//! reports with their counts covers both modes. For a share of time, divide counts by the user-mode part.

use std::collections::BTreeMap;

use crate::host::Host;
use crate::process_identity::ProcessIdentity;
use crate::process_tree::stat::{Stat, thread_folder};

/// The kernel reports user and system time in ticks of 10 ms, and most kernels sample the mode: from this many ticks
/// on, the share is accurate to a few per cent.
const TICKS_MIN: u64 = 20;

/// The CPU time that threads had used up to one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct ModeTimes {
    /// User ticks and all ticks, by thread.
    threads: BTreeMap<ProcessIdentity, (u64, u64)>,
}

impl ModeTimes {
    /// Reads the times of those threads that exist.
    pub(super) fn read(host: &Host, threads: &[i32]) -> ModeTimes {
        let thread = |id: &i32| {
            let stat = Stat::read(host, format!("{}/stat", thread_folder(host, *id)))?;
            Some((ProcessIdentity { id: *id, began: stat.began }, (stat.user_ticks, stat.cpu_ticks)))
        };
        ModeTimes { threads: threads.iter().filter_map(thread).collect() }
    }

    /// The share of time on cores since `earlier` in which they were in user mode, over the threads that still exist;
    /// `None` if these ran too briefly to tell.
    pub(super) fn user_share_since(&self, earlier: &ModeTimes) -> Option<f64> {
        let (mut user, mut all) = (0, 0);
        for (thread, now) in &self.threads {
            let Some(then) = earlier.threads.get(thread) else { continue };
            user += now.0.saturating_sub(then.0);
            all += now.1.saturating_sub(then.1);
        }
        (all >= TICKS_MIN).then(|| user as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn threads_that_stay_say_how_much_of_it_was_user_mode() {
        let fake = FakeHost::new(&[]);
        let write = |id: i32, began: u64, user: u64, system: u64| {
            let rest = "0 ".repeat(30);
            let line = format!("{id} (x) S 1 1 1 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 1 0 {began} {rest}\n");
            fake.write(&format!("/proc/{id}/task/{id}/stat"), &line);
        };
        write(7, 5, 100, 100);
        write(8, 5, 0, 0);
        let earlier = ModeTimes::read(&fake.host(), &[7, 8, 9]);
        let later = || ModeTimes::read(&fake.host(), &[7, 8, 9]).user_share_since(&earlier);
        assert_eq!(later(), None, "nobody ran");
        write(7, 5, 130, 110);
        assert_eq!(later(), Some(0.75));
        // Another thread has the id now.
        write(8, 900, 0, 1000);
        assert_eq!(later(), Some(0.75));
    }
}
